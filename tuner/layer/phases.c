/* The table of kernels' phases, and sums over marks. */
#include "phases.h"

#include "status.h"

#include <stdlib.h>

static const enum phase phases[MARK_WORKS] = {
    [KERNEL_gemm] = PHASE_EXPERTS,
    [KERNEL_gemm_rows] = PHASE_EXPERTS,
    [KERNEL_route] = PHASE_GATE,
    [KERNEL_route_backward] = PHASE_GATE,
    [KERNEL_slots] = PHASE_GATE,
    [KERNEL_unit_rows] = PHASE_GATE,
    [KERNEL_unit_rows_backward] = PHASE_GATE,
    [KERNEL_keep_losses] = PHASE_GATE,
    [KERNEL_balance] = PHASE_GATE,
    [KERNEL_balance_backward] = PHASE_GATE,
    [KERNEL_encode] = PHASE_ENCODE,
    [KERNEL_encode_backward] = PHASE_ENCODE,
    [KERNEL_decode] = PHASE_ENCODE,
    [KERNEL_decode_backward] = PHASE_ENCODE,
    [KERNEL_one_hot] = PHASE_ENCODE,
    [KERNEL_one_hot_backward] = PHASE_ENCODE,
    [KERNEL_nonzero] = PHASE_ENCODE,
    [KERNEL_move] = PHASE_ENCODE,
    [KERNEL_move_rows] = PHASE_ENCODE,
    [KERNEL_activate] = PHASE_EXPERTS,
    [KERNEL_activate_backward] = PHASE_EXPERTS,
    [KERNEL_add_bias] = PHASE_EXPERTS,
    [KERNEL_sum_rows] = PHASE_EXPERTS,
    [KERNEL_fill] = PHASE_OTHER,
    [KERNEL_pack_choices] = PHASE_ENCODE,
    [KERNEL_recount] = PHASE_ENCODE,
    [KERNEL_reindex] = PHASE_ENCODE,
    [KERNEL_list_nodes] = PHASE_ENCODE,
    [KERNEL_label_rows] = PHASE_ENCODE,
    [KERNEL_collect_gates] = PHASE_ENCODE,
    [KERNEL_esmm] = PHASE_EXPERTS,
    [KERNEL_estmm] = PHASE_EXPERTS,
    [KERNEL_ess] = PHASE_EXPERTS,
    [KERNEL_esfk] = PHASE_EXPERTS,
    [MARK_INSIDE] = PHASE_INSIDE,
    [MARK_BETWEEN] = PHASE_BETWEEN,
};

enum phase phase_of(const struct mark *mark)
{
    return mark->purpose ? (enum phase)mark->purpose : phases[mark->work];
}

void phases_add(const struct marks *marks, struct phase_times *times)
{
    for (size_t i = 1; i <= marks->count; i++) {
        int64_t ns = marks_ns(marks, i);

        times->ns[phase_of(&marks->list[i])] += ns;
        times->ns[PHASE_TOTAL] += ns;
    }
}

static int64_t exchanges_ppm(const struct phase_times *t)
{
    int64_t total = t->ns[PHASE_TOTAL];

    return total ? (t->ns[PHASE_BETWEEN] + t->ns[PHASE_INSIDE]) * 1000000 / total : 0;
}

int phases_spread(const struct phase_times *samples, size_t count, struct phase_spreads *out)
{
    int64_t *column = calloc(count, sizeof(*column));

    if (!column)
        return fail(ERR_NOMEM, "%zu samples of phases", count);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (size_t i = 0; i < count; i++)
            column[i] = samples[i].ns[phase];
        out->of[phase] = spread_of(column, count);
    }
    for (size_t i = 0; i < count; i++)
        column[i] = exchanges_ppm(&samples[i]);
    out->exchanges_ppm = spread_of(column, count);
    free(column);
    return OK;
}
