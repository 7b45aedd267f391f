/* From 16 to 2,048 GPUs: Table 2, Figures 14, 16 and 18. */
#include "baseline.h"
#include "status.h"
#include "study_cells.h"
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

/* Features are added one by one, as the paper adds them: each over all those before it.  In the end
 * the fastest of both all-to-alls and all degrees. */
enum { BASE, SPARSE, STAGED, FLEXIBLE, DEGREE, ADDED };
static const char *const added_names[ADDED] = { "all", "sparse", "2dh", "flexible", "d" };

static int time_added(const struct cluster *machine, const struct tutel_layer *layer,
                      const double ways[TUTEL_WAYS], double ns[ADDED])
{
    struct moe_plan linear = tutel_way(0), staged = tutel_way(TUTEL_DEGREES);
    struct modelled_step step;

    TRY(tutel_baseline(machine, layer, &linear, BASELINE_DENSE | BASELINE_RIGID, &step));
    ns[BASE] = step.ns;
    TRY(tutel_baseline(machine, layer, &linear, BASELINE_RIGID, &step));
    ns[SPARSE] = step.ns;
    TRY(tutel_baseline(machine, layer, &staged, BASELINE_RIGID, &step));
    ns[STAGED] = step.ns;
    ns[FLEXIBLE] = ways[TUTEL_DEGREES];
    ns[DEGREE] = least_of(ways, TUTEL_WAYS);
    return OK;
}

static const double *published_gains(uint32_t ranks)
{
    static const double none[ADDED] = { NAN, NAN, NAN, NAN, NAN },
                        at_16[ADDED] = { 4.96, 3.52, NAN, NAN, 1.43 },
                        at_128[ADDED] = { 3.11, NAN, NAN, NAN, NAN },
                        at_2048[ADDED] = { 5.75, 1.04, 4.25, 1.24, 1.04 };

    return ranks == 16 ? at_16 : ranks == 128 ? at_128 : ranks == 2048 ? at_2048 : none;
}

int tutel_figure14(const struct cluster *machine, struct study_table *table)
{
    for (uint32_t ranks = 16; ranks <= 2048; ranks *= 2) {
        struct tutel_layer layer = { ranks, 2 * ranks, 2, 2048, 2048, 16384, 1 };
        const double *published = published_gains(ranks);
        double ways[TUTEL_WAYS], ns[ADDED];
        char row[24];
        int best;

        TRY(tutel_ways(machine, &layer, ways, &best));
        TRY(time_added(machine, &layer, ways, ns));
        snprintf(row, sizeof(row), "%u GPUs", ranks);
        TRY(put_value(table, row, "base, ms", ns[BASE] * 1e-6));
        for (int i = SPARSE; i < ADDED; i++)
            TRY(put_predicted(table, row, added_names[i], ns[i - 1] / ns[i], published[i]));
        TRY(put_predicted(table, row, added_names[BASE], ns[BASE] / ns[DEGREE], published[BASE]));
        TRY(put_value(table, row, "2dh over linear", ways[0] / ways[TUTEL_DEGREES]));
    }
    return OK;
}

int tutel_figure16(const struct cluster *machine, struct study_table *table)
{
    for (uint64_t mib = 1; mib <= 1024; mib *= 4)
        for (uint32_t ranks = 64; ranks <= 2048; ranks *= 2) {
            double ns;
            char row[24], column[24];

            TRY(modelled_a2a_ns(machine, ranks, MOE_A2A_LINEAR, mib << 20, &ns));
            snprintf(row, sizeof(row), "%u MiB", (unsigned)mib);
            snprintf(column, sizeof(column), "%u GPUs", ranks);
            TRY(put_value(table, row, column, (double)(mib << 20) * (ranks - 1) / ranks / ns));
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
