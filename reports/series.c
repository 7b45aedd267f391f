/* A data file: its blocks and its rows. */
#include "series.h"

#include "contrast.h"

#include <inttypes.h>
#include <math.h>

struct extent series_write(series_writer *write, const struct scope *scope, FILE *to)
{
    struct series s = { .scope = scope, .layer = &scope->layers[0], .to = to };

    write(&s);
    return s.extent;
}

void series_block(struct series *s, const char *name)
{
    fprintf(s->to, "%s\"%s\"\n", s->begun ? "\n\n" : "", name);
    s->begun = true;
}

void series_row(struct series *s, uint64_t at, const double *values, size_t count)
{
    fprintf(s->to, "%" PRIu64, at);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            fprintf(s->to, " %.6g", values[i]);
        else
            fputs(" NaN", s->to);
}

void series_row_end(struct series *s, uint64_t samples, uint64_t throttled)
{
    fprintf(s->to, " %" PRIu64 " %" PRIu64 "\n", samples, throttled);
    s->extent.rows++;
    s->extent.samples += samples;
    s->extent.throttled += throttled;
}

bool series_is_thinned(const struct layer_facts *layer)
{
    return contrast_measured_buckets(layer) > SERIES_CELLS + SERIES_CELLS / 4;
}

bool scope_has_own(const struct scope *scope)
{
    for (size_t i = 0; i < scope->count; i++)
        if (!scope->layers[i].declared)
            return true;
    return !scope->count;
}
