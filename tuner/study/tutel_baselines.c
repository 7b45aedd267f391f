/* What Tutel is compared with: dense encoding, the rigid layout, naive aggregation.  Tables 5 and
 * 9, Figures 11 and 15, appendix A.2. */
#include "account.h"
#include "baseline.h"
#include "shape.h"
#include "status.h"
#include "tutel_rows.h"

#include <math.h>

static double gib_of(uint32_t tokens, uint32_t baseline)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 4096,
                               .hidden_dim = 4096,
                               .ranks = 1,
                               .ranks_per_node = 1,
                               .tokens = tokens,
                               .dtype = MOE_F16,
                               .pass = MOE_TRAIN,
                               .activation = MOE_RELU };
    struct account_machine machine = { .baseline = baseline };
    struct moe_plan plan = tutel_way(0);

    return (double)account_alone(&shape, &machine, &plan,
                                 moe_capacity(1, 2, shape.experts, tokens, 0)) *
           0x1p-30;
}

int tutel_table5(const struct cluster *machine, struct study_table *table)
{
    static const struct {
        uint32_t tokens;
        double tutel, fairseq;
    } published[] = {
        { 4096, 2.9, 3.7 }, { 8192, 3.2, 6.2 }, { 16384, 4.0, 16.3 }, { 32768, 5.7, 57.9 }
    };
    enum { SIZES = sizeof(published) / sizeof(published[0]) };
    double libraries = 0;

    (void)machine;
    for (int i = 0; i < SIZES; i++)
        libraries += (published[i].tutel - gib_of(published[i].tokens, 0)) / SIZES;
    for (int i = 0; i < SIZES; i++) {
        double sparse = gib_of(published[i].tokens, 0);
        double dense = gib_of(published[i].tokens, BASELINE_DENSE);
        char row[24];

        snprintf(row, sizeof(row), "%u tokens", published[i].tokens);
        TRY(tutel_put(table, row, "Tutel", sparse + libraries, published[i].tutel, STUDY_FITTED));
        TRY(tutel_put(table, row, "Fairseq", dense + libraries, published[i].fairseq,
                      STUDY_FITTED));
        TRY(tutel_put(table, row, "ratio", (dense + libraries) / (sparse + libraries),
                      published[i].fairseq / published[i].tutel, STUDY_FITTED));
        TRY(tutel_put(table, row, "dense adds", dense - sparse,
                      published[i].fairseq - published[i].tutel, STUDY_PREDICTED));
        TRY(tutel_put(table, row, "sparse alone", sparse, NAN, STUDY_UNPUBLISHED));
    }
    return tutel_put(table, "libraries", "Tutel", libraries, NAN, STUDY_UNPUBLISHED);
}

/* Operations of the experts of one GPU in a training step: 2 products, each with 2 backward. */
static double operations(const struct tutel_layer *l)
{
    return 3 * 2 * 2.0 * l->factor * l->top_k * l->tokens * l->model_dim * l->hidden_dim;
}

int tutel_figure11(const struct cluster *machine, struct study_table *table)
{
    for (uint32_t ranks = 8; ranks <= 2048; ranks *= 4) {
        struct tutel_layer layer = { ranks, 2 * ranks, 2, 2048, 2048, 16384, 1 };
        struct moe_plan plan = tutel_way(0);
        struct modelled_step flexible, rigid;
        char row[24];

        TRY(tutel_step(machine, &layer, &plan, &flexible));
        TRY(tutel_baseline(machine, &layer, &plan, BASELINE_RIGID, &rigid));
        snprintf(row, sizeof(row), "%u GPUs", ranks);
        TRY(tutel_put(table, row, "flexible",
                      operations(&layer) * 1e-3 / flexible.phase_ns[PHASE_EXPERTS], NAN,
                      STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "rigid",
                      operations(&layer) * 1e-3 / rigid.phase_ns[PHASE_EXPERTS], NAN,
                      STUDY_UNPUBLISHED));
    }
    return OK;
}

int tutel_figure15(const struct cluster *machine, struct study_table *table)
{
    for (uint32_t tokens = 2048; tokens <= 32768; tokens *= 2) {
        struct tutel_layer layer = { 16, 32, 2, 2048, 2048, tokens, 1 };
        struct moe_plan plan = tutel_way(0);
        struct modelled_step sparse, dense;
        char row[24];

        TRY(tutel_step(machine, &layer, &plan, &sparse));
        TRY(tutel_baseline(machine, &layer, &plan, BASELINE_DENSE, &dense));
        snprintf(row, sizeof(row), "%u tokens", tokens);
        TRY(tutel_put(table, row, "sparse, ms", sparse.phase_ns[PHASE_ENCODE] * 1e-6, NAN,
                      STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "dense, ms", dense.phase_ns[PHASE_ENCODE] * 1e-6, NAN,
                      STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "experts, ms", sparse.phase_ns[PHASE_EXPERTS] * 1e-6, NAN,
                      STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "computation", dense.compute_ns / sparse.compute_ns, NAN,
                      STUDY_UNPUBLISHED));
    }
    return OK;
}

int tutel_appendix_a2(const struct cluster *machine, struct study_table *table)
{
    static const uint64_t bytes = 128 << 20;

    for (uint32_t ranks = 8; ranks <= 2048; ranks *= 2) {
        double naive, aligned;
        char row[24];

        if (ranks == 8) { /* one node: there is nothing to align */
            TRY(modelled_a2a_ns(machine, ranks, MOE_A2A_LINEAR, bytes, &naive));
            aligned = naive;
        } else {
            TRY(modelled_aggregation_ns(machine, ranks, true, bytes, &naive));
            TRY(modelled_aggregation_ns(machine, ranks, false, bytes, &aligned));
        }
        snprintf(row, sizeof(row), "%u GPUs", ranks);
        TRY(tutel_put(table, row, "naive", naive * 1e-6,
                      ranks == 8      ? 0.6
                      : ranks == 2048 ? 5
                                      : NAN,
                      ranks == 8 || ranks == 2048 ? STUDY_FITTED : STUDY_UNPUBLISHED));
        TRY(tutel_put(table, row, "aligned", aligned * 1e-6, NAN, STUDY_UNPUBLISHED));
    }
    return OK;
}
