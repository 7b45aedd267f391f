/* Writes a block for each bucket, a row for each of its plans whose phases are known. */
#include "phase_bars.h"

#include "plan.h"
#include "series.h"

#include <stdlib.h>

static bool is_known(const struct trial_facts *trial)
{
    return trial->phases[PHASE_TOTAL].ns > 0;
}

/* Trials lie by bucket: those of the one that begins at trials[i]. */
static size_t end_of_bucket(const struct layer_facts *layer, size_t i, size_t *known)
{
    uint32_t bucket = layer->trials[i].row.key.bucket;

    for (*known = 0; i < layer->trial_count && layer->trials[i].row.key.bucket == bucket; i++)
        *known += is_known(&layer->trials[i]);
    return i;
}

/* Where the trials of the bucket begin that is drawn. */
static size_t drawn(const struct layer_facts *layer)
{
    size_t best = 0, most = 0, known;

    for (size_t i = 0, end; i < layer->trial_count; i = end) {
        end = end_of_bucket(layer, i, &known);
        if (known && known >= most) {
            best = i;
            most = known;
        }
    }
    return best;
}

uint32_t phase_bars_capacity(const struct layer_facts *layer)
{
    return layer->trial_count ? (uint32_t)layer->trials[drawn(layer)].row.capacity : 0;
}

static int order_totals(const void *left, const void *right)
{
    const struct trial_facts *const *a = left, *const *b = right;
    int64_t x = (*a)->phases[PHASE_TOTAL].ns, y = (*b)->phases[PHASE_TOTAL].ns;

    return (x > y) - (x < y);
}

/* The fastest one lies on top. */
static void write_row(struct series *s, size_t place, const struct trial_facts *trial)
{
    const struct phase_time *of = trial->phases;

    fprintf(s->to, "%zu", place);
    for (int i = PHASE_TOTAL + 1; i < PHASE_COUNT; i++)
        fprintf(s->to, " %.6g", (double)of[i].ns * 1e-6);
    fprintf(s->to, " %.6g %.6g %.6g \"%s\"\n", (double)of[PHASE_TOTAL].ns * 1e-6,
            (double)of[PHASE_TOTAL].low_ns * 1e-6, (double)of[PHASE_TOTAL].high_ns * 1e-6,
            PLAN_WORDS(&trial->row.key.plan));
}

static size_t write_bucket(struct series *s, size_t first)
{
    size_t known, end = end_of_bucket(s->layer, first, &known), count = 0;
    const struct trial_facts **trials = calloc(known + 1, sizeof(*trials));
    char name[32];

    for (size_t i = first; trials && i < end; i++)
        if (is_known(&s->layer->trials[i]))
            trials[count++] = &s->layer->trials[i];
    if (count) {
        qsort(trials, count, sizeof(*trials), order_totals);
        snprintf(name, sizeof(name), "c = %u", (uint32_t)trials[0]->row.capacity);
        series_block(s, name);
    }
    for (size_t i = 0; i < count; i++)
        write_row(s, count - i, trials[i]);
    free(trials);
    s->extent.rows += (uint32_t)count;
    return end;
}

void series_phases(struct series *s)
{
    size_t first = drawn(s->layer);

    if (s->layer->trial_count)
        write_bucket(s, first);
    for (size_t i = 0, known; i < s->layer->trial_count;)
        i = i == first ? end_of_bucket(s->layer, i, &known) : write_bucket(s, i);
}
