/* Parallelism, volumes and memory: Tables 4 and 5, Figures 1, 3 and 12. */
#include "account.h"
#include "capacity_trace.h"
#include "shape.h"
#include "status.h"
#include "study_cells.h"
#include "text.h"
#include "tutel_rows.h"

#include <math.h>

static struct moe_plan by_r(uint32_t r)
{
    struct moe_plan plan = tutel_way(0);

    plan.r = r;
    return plan;
}

int tutel_table4(const struct cluster *machine, struct study_table *table)
{
    struct tutel_layer l = { 64, 16, 2, 2048, 2048, 4096, 1 };
    double elements = sizeof(float) * 1e-6, w = l.ranks, s = l.ranks / l.experts;
    double p = l.experts * (2.0 * l.model_dim + 1) * l.hidden_dim * elements; /* W1, b1, W2 */
    double c = 2.0 * l.tokens * l.model_dim * elements;                       /* k T rows */

    for (uint32_t r = 0; r <= s; r = r ? 2 * r : 1) {
        struct moe_plan plan = by_r(r);
        struct modelled_step step;
        double formula =
            r ? 4 * c * r * (w - 1) / w + 2 * p / l.experts / r * (1 - r / s) : 2 * p * (w - 1) / w;
        char row[24];

        snprintf(row, sizeof(row), "r=%u", r);
        TRY(tutel_step(machine, &l, &plan, &step));
        TRY(put_value(table, row, "sent", step.sent_bytes * 1e-6));
        TRY(put_value(table, row, "formula", formula));
        TRY(tutel_put(table, row, "step, ms", step.ns * 1e-6, NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}

/* Four GPUs for each expert. */
static const uint32_t degrees[] = { 0, 1, 2, 4 };
enum { DEGREES = 4, WAYS_OF_ALL = 1 + 3 * TUTEL_WAYS };

/* The paper gives both numbers: one node, and 64 GPUs that share 16 experts.  Four GPUs have an
 * expert either way. */
static const uint32_t scales[] = { 64, 8 };
enum { SCALES = sizeof(scales) / sizeof(scales[0]) };

static int put_ratios(const struct cluster *machine, uint32_t ranks, struct study_table *table)
{
    double most = NAN;
    char row[32], column[24];

    for (uint32_t k = 1; k <= 2; k++)
        for (int f = 1; f <= 8; f *= 2) {
            struct tutel_layer layer = { ranks, ranks / 4, k, 2048, 16384, 2048, f };
            struct moe_plan sliced = by_r(4), gathered = by_r(1);
            struct modelled_step with, without;

            TRY(tutel_step(machine, &layer, &sliced, &with));
            TRY(tutel_step(machine, &layer, &gathered, &without));
            snprintf(row, sizeof(row), "%u GPUs, k=%u", ranks, k);
            snprintf(column, sizeof(column), "f=%d", f);
            TRY(put_value(table, row, column, without.ns / with.ns));
            most = fmax(most, fmax(with.ns, without.ns) / fmin(with.ns, without.ns) - 1);
        }
    snprintf(row, sizeof(row), "%u GPUs, most, %%", ranks);
    return put_predicted(table, row, "gap", 100 * most, 27.76);
}

int tutel_figure3(const struct cluster *machine, struct study_table *table)
{
    for (int i = 0; i < SCALES; i++)
        TRY(put_ratios(machine, scales[i], table));
    return OK;
}

static int put_shares(const struct cluster *machine, const char *name,
                      const struct tutel_layer *layer, struct study_table *table)
{
    double ns[DEGREES], least = INFINITY;
    char row[32], column[24];

    for (int i = 0; i < DEGREES; i++) {
        struct moe_plan plan = by_r(degrees[i]);
        struct modelled_step step;

        TRY(tutel_step(machine, layer, &plan, &step));
        ns[i] = step.ns;
        least = fmin(least, ns[i]);
    }
    text_put(row, sizeof(row), "%s, %u GPUs, f=%g", name, layer->ranks, layer->factor);
    for (int i = 0; i < DEGREES; i++) {
        snprintf(column, sizeof(column), "r=%u", degrees[i]);
        TRY(tutel_put(table, row, column, least / ns[i], NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}

int tutel_figure12(const struct cluster *machine, struct study_table *table)
{
    for (int large = 0; large <= 1; large++)
        for (int i = 0; i < SCALES; i++)
            for (int f = 1; f <= 8; f *= 2) {
                struct tutel_layer layer = { scales[i], scales[i] / 4,        2,
                                             2048,      large ? 32768 : 2048, large ? 1024 : 4096,
                                             f };

                TRY(put_shares(machine, large ? "Large" : "Base", &layer, table));
            }
    return OK;
}

/* r=0, then each way with r=1, 2, 4. */
static struct moe_plan of_all(int i)
{
    struct moe_plan plan = i ? tutel_way((i - 1) % TUTEL_WAYS) : by_r(0);

    plan.r = i ? degrees[1 + (i - 1) / TUTEL_WAYS] : 0;
    return plan;
}

int tutel_figure1(const struct cluster *machine, struct study_table *table)
{
    enum { STEPS = 64 };
    double sums[WAYS_OF_ALL] = { 0 }, oracle = 0, least = NAN;
    double highest = 0, lowest = INFINITY;

    for (int t = 0; t < STEPS; t++) {
        struct tutel_layer layer = { 64, 16, 2, 2048, 2048, 512, swing_factor(t, STEPS) };
        double best = NAN;

        highest = fmax(highest, layer.factor);
        lowest = fmin(lowest, layer.factor);
        for (int i = 0; i < WAYS_OF_ALL; i++) {
            struct moe_plan plan = of_all(i);
            struct modelled_step step;

            TRY(tutel_step(machine, &layer, &plan, &step));
            sums[i] += step.ns * 1e-6;
            best = fmin(best, step.ns * 1e-6);
        }
        oracle += best;
    }
    for (int i = 0; i < WAYS_OF_ALL; i++)
        least = fmin(least, sums[i]);
    TRY(put_value(table, "swing, times", "all steps", highest / lowest));
    TRY(tutel_put(table, "r=1 d=1 a=linear", "all steps", sums[1], NAN, STUDY_UNPUBLISHED));
    TRY(tutel_put(table, "best static plan", "all steps", least, NAN, STUDY_UNPUBLISHED));
    return tutel_put(table, "best plan of each step", "all steps", oracle, NAN, STUDY_UNPUBLISHED);
}
