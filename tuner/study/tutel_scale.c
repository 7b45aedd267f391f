/* From 16 to 2,048 GPUs: Table 2, Figures 14 and 18. */
#include "baseline.h"
#include "status.h"
#include "tutel_rows.h"

#include <math.h>

int tutel_table2(const struct cluster *machine, struct study_table *table)
{
    static const struct {
        uint32_t ranks;
        double step, compute, comm, ideal;
    } published[] = { { 16, 560.9, 371.8, 189.1, 1.51 },
                      { 64, 698.9, 375.1, 323.8, 1.86 },
                      { 256, 866.4, 386.3, 491.3, 1.76 } };

    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        struct tutel_layer layer = {
            published[i].ranks, 2 * published[i].ranks, 2, 4096, 4096, 65536, 1
        };
        struct moe_plan plan = tutel_way(0);
        struct modelled_step step;
        double ns[TUTEL_WAYS];
        char row[24];
        int best;

        snprintf(row, sizeof(row), "%u GPUs", layer.ranks);
        TRY(tutel_step(machine, &layer, &plan, &step));
        TRY(tutel_ways(machine, &layer, ns, &best));
        TRY(tutel_put(table, row, "step", step.ns * 1e-6, published[i].step, STUDY_FITTED));
        TRY(tutel_put(table, row, "computation", step.compute_ns * 1e-6, published[i].compute,
                      STUDY_FITTED));
        TRY(tutel_put(table, row, "all-to-all", step.comm_ns * 1e-6, published[i].comm,
                      STUDY_FITTED));
        TRY(tutel_put(table, row, "ideal", step.ns / fmax(step.compute_ns, step.comm_ns),
                      published[i].ideal, STUDY_FITTED));
        TRY(tutel_put(table, row, "best", best < 0 ? NAN : step.ns / ns[best], NAN,
                      STUDY_UNPUBLISHED));
    }
    return OK;
}

static double least_of(const double *ns, int count)
{
    double least = INFINITY;

    for (int i = 0; i < count; i++)
        least = fmin(least, ns[i]);
    return least;
}

static int put_gain(struct study_table *table, const char *row, const char *column, double value,
                    double published)
{
    return tutel_put(table, row, column, value, published,
                     isnan(published) ? STUDY_UNPUBLISHED : STUDY_PREDICTED);
}

/* What the baselines of figure 14 lose against plans: with linear dense encoding, with 2dh the
 * rigid layout; and both at once, as Fairseq has them, against the fastest plan. */
static int put_baselines(const struct cluster *machine, const struct tutel_layer *layer,
                         const char *row, const double ns[TUTEL_WAYS], struct study_table *table)
{
    static const struct {
        uint32_t ranks;
        double dense, rigid, all;
    } published[] = { { 16, 3.52, NAN, 4.96 },
                      { 128, NAN, NAN, 3.11 },
                      { 2048, 1.04, 1.24, 5.75 } };
    struct moe_plan linear = tutel_way(0), staged = tutel_way(TUTEL_DEGREES);
    struct modelled_step dense, rigid, both;
    double gains[3] = { NAN, NAN, NAN };

    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (published[i].ranks == layer->ranks) {
            gains[0] = published[i].dense;
            gains[1] = published[i].rigid;
            gains[2] = published[i].all;
        }
    TRY(tutel_baseline(machine, layer, &linear, BASELINE_DENSE, &dense));
    TRY(tutel_baseline(machine, layer, &staged, BASELINE_RIGID, &rigid));
    TRY(tutel_baseline(machine, layer, &linear, BASELINE_DENSE | BASELINE_RIGID, &both));
    TRY(put_gain(table, row, "sparse", dense.ns / ns[0], gains[0]));
    TRY(put_gain(table, row, "flexible", rigid.ns / ns[TUTEL_DEGREES], gains[1]));
    return put_gain(table, row, "all", both.ns / least_of(ns, TUTEL_WAYS), gains[2]);
}

int tutel_figure14(const struct cluster *machine, struct study_table *table)
{
    for (uint32_t ranks = 16; ranks <= 2048; ranks *= 2) {
        struct tutel_layer layer = { ranks, 2 * ranks, 2, 2048, 2048, 16384, 1 };
        double ns[TUTEL_WAYS], linear, staged;
        char row[24];
        int best;

        TRY(tutel_ways(machine, &layer, ns, &best));
        linear = ns[0];
        staged = ns[TUTEL_DEGREES];
        snprintf(row, sizeof(row), "%u GPUs", ranks);
        TRY(tutel_put(table, row, "linear, ms", linear * 1e-6, NAN, STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "2dh, ms", staged * 1e-6, NAN, STUDY_UNPUBLISHED));
        TRY(put_gain(table, row, "2dh", linear / staged, ranks == 2048 ? 4.25 : NAN));
        TRY(put_gain(table, row, "d", fmin(linear, staged) / least_of(ns, TUTEL_WAYS),
                     ranks == 16     ? 1.43
                     : ranks == 2048 ? 1.04
                                     : NAN));
        TRY(put_baselines(machine, &layer, row, ns, table));
    }
    return OK;
}

int tutel_figure18(const struct cluster *machine, struct study_table *table)
{
    static const uint32_t sizes[] = { 1, 32, 256 };

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (uint32_t ranks = 64; ranks <= 2048; ranks *= 2) {
            uint64_t bytes = (uint64_t)sizes[s] << 20;
            double linear, staged;
            char row[40];

            TRY(modelled_a2a_ns(machine, ranks, MOE_A2A_LINEAR, bytes, &linear));
            TRY(modelled_a2a_ns(machine, ranks, MOE_A2A_2DH, bytes, &staged));
            snprintf(row, sizeof(row), "%u MiB, %u GPUs", sizes[s], ranks);
            TRY(tutel_put(table, row, "linear, ms", linear * 1e-6, NAN, STUDY_UNPUBLISHED));
            TRY(tutel_put(table, row, "2dh, ms", staged * 1e-6, NAN, STUDY_UNPUBLISHED));
            TRY(tutel_put(table, row, "linear, GB/s", (double)bytes / linear, NAN,
                          STUDY_UNPUBLISHED));
            TRY(tutel_put(table, row, "2dh, GB/s", (double)bytes / staged, NAN, STUDY_UNPUBLISHED));
        }
    return OK;
}
