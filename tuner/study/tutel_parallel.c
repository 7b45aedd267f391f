/* Parallelism, volumes and memory: Tables 4 and 5, Figures 1, 3 and 12. */
#include "account.h"
#include "capacity_trace.h"
#include "shape.h"
#include "status.h"
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
        TRY(tutel_put(table, row, "sent", step.sent_bytes * 1e-6, formula, STUDY_PREDICTED));
        TRY(tutel_put(table, row, "step, ms", step.ns * 1e-6, NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}

/* Four GPUs for each expert. */
static const uint32_t degrees[] = { 0, 1, 2, 4 };
enum { DEGREES = 4, WAYS_OF_ALL = 1 + 3 * TUTEL_WAYS };

int tutel_figure3(const struct cluster *machine, struct study_table *table)
{
    double most = NAN;

    for (uint32_t k = 1; k <= 2; k++)
        for (int f = 1; f <= 8; f *= 2) {
            struct tutel_layer layer = { 8, 2, k, 2048, 16384, 2048, f };
            struct moe_plan sliced = by_r(4), gathered = by_r(1);
            struct modelled_step with, without;
            char row[24], column[24];

            TRY(tutel_step(machine, &layer, &sliced, &with));
            TRY(tutel_step(machine, &layer, &gathered, &without));
            snprintf(row, sizeof(row), "k=%u", k);
            snprintf(column, sizeof(column), "f=%d", f);
            TRY(tutel_put(table, row, column, without.ns / with.ns, NAN, STUDY_UNPUBLISHED));
            most = fmax(most, fmax(with.ns, without.ns) / fmin(with.ns, without.ns) - 1);
        }
    return tutel_put(table, "largest gap, %", "f=1", 100 * most, 27.76, STUDY_PREDICTED);
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
    snprintf(row, sizeof(row), "%s, f=%g", name, layer->factor);
    for (int i = 0; i < DEGREES; i++) {
        snprintf(column, sizeof(column), "r=%u", degrees[i]);
        TRY(tutel_put(table, row, column, least / ns[i], NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}

int tutel_figure12(const struct cluster *machine, struct study_table *table)
{
    for (int f = 1; f <= 8; f *= 2) {
        struct tutel_layer base = { 8, 2, 2, 2048, 2048, 4096, f };

        TRY(put_shares(machine, "Base", &base, table));
    }
    for (int f = 1; f <= 8; f *= 2) {
        struct tutel_layer large = { 8, 2, 2, 2048, 32768, 1024, f };

        TRY(put_shares(machine, "Large", &large, table));
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
        struct tutel_layer layer = { 64, 16, 2, 2048, 2048, 4096, swing_factor(t, STEPS) };
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
    TRY(tutel_put(table, "swing, times", "all steps", highest / lowest, SWING_MOST, STUDY_FITTED));
    TRY(tutel_put(table, "r=1 d=1 a=linear", "all steps", sums[1], NAN, STUDY_UNPUBLISHED));
    TRY(tutel_put(table, "best static plan", "all steps", least, NAN, STUDY_UNPUBLISHED));
    return tutel_put(table, "best plan of each step", "all steps", oracle, NAN, STUDY_UNPUBLISHED);
}
