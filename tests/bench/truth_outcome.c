/* Judges a claim of a table, and reads and writes the result as a line of a CSV file. */
#include "truth_outcome.h"

#include "status.h"
#include "text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double deviations = 1.96;

double claim_z(const struct gain *claim, const struct interval *measured)
{
    double off = claim->value - measured->value;
    double own = off > 0 ? claim->value - claim->low : claim->high - claim->value;
    double half = hypot(isfinite(own) ? own : 0, (measured->high - measured->low) / 2);

    return off ? deviations * off / half : 0;
}

bool claim_covers(double z)
{
    return fabs(z) <= deviations;
}

#define AT(field) offsetof(struct outcome, field)
static const struct column {
    const char *name;
    size_t offset; /* of a double */
} columns[] = {
    { "plans", AT(plans) },
    { "buckets", AT(buckets) },
    { "launches", AT(launches) },
    { "seconds", AT(seconds) },
    { "tuning_steps", AT(tuning_steps) },
    { "over_default", AT(over_default.value) },
    { "over_default_low", AT(over_default.low) },
    { "over_default_high", AT(over_default.high) },
    { "over_static", AT(over_static.value) },
    { "over_static_low", AT(over_static.low) },
    { "over_static_high", AT(over_static.high) },
    { "over_best", AT(over_best.value) },
    { "over_best_low", AT(over_best.low) },
    { "over_best_high", AT(over_best.high) },
    { "regret", AT(regret.value) },
    { "regret_low", AT(regret.low) },
    { "regret_high", AT(regret.high) },
    { "worst", AT(worst.value) },
    { "worst_low", AT(worst.low) },
    { "worst_high", AT(worst.high) },
    { "worst_bucket", AT(worst_bucket) },
    { "bad_buckets", AT(bad_buckets) },
    { "claims", AT(claims) },
    { "claims_covered", AT(claims_covered) },
    { "claims_squares", AT(claims_squares) },
    { "claimed_half", AT(claimed_half) },
    { "measured_half", AT(measured_half) },
    { "gain", AT(gain) },
    { "gain_there", AT(gain_there) },
    { "expected", AT(expected.value) },
    { "expected_low", AT(expected.low) },
    { "expected_high", AT(expected.high) },
    { "expected_static", AT(expected_static.value) },
    { "expected_static_low", AT(expected_static.low) },
    { "expected_static_high", AT(expected_static.high) },
};
#undef AT
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static double *cell(struct outcome *o, size_t column)
{
    return (double *)(void *)((char *)o + columns[column].offset);
}

static void write_header(FILE *out)
{
    fprintf(out, "setting");
    for (size_t i = 0; i < COLUMNS; i++)
        fprintf(out, ",%s", columns[i].name);
    fprintf(out, "\n");
}

int outcome_write(const char *path, struct outcome *o)
{
    FILE *out = fopen(path, "a");
    bool failed;

    if (!out)
        return fail(ERR_IO, "%s cannot be written", path);
    if (ftell(out) == 0)
        write_header(out);
    fprintf(out, "%s", o->name);
    for (size_t i = 0; i < COLUMNS; i++)
        fprintf(out, ",%.6g", *cell(o, i));
    fprintf(out, "\n");
    failed = ferror(out);
    return fclose(out) || failed ? fail(ERR_IO, "%s was not written", path) : OK;
}

bool outcome_read(char *line, struct outcome *o)
{
    char *at = strchr(line, ','), *end;

    if (!at)
        return false;
    text_put(o->name, sizeof(o->name), "%.*s", (int)(at - line), line);
    for (size_t i = 0; i < COLUMNS; i++, at = end) {
        if (*at != ',')
            return false;
        *cell(o, i) = strtod(at + 1, &end);
        if (end == at + 1)
            return false;
    }
    return true;
}
