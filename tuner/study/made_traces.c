/* Draws choices of a gate whose shares drift. */
#include "made_traces.h"

#include "random.h"
#include "status.h"

#include <stdlib.h>

void made_draw(uint64_t key, uint64_t step, const double *share, uint32_t experts, uint32_t choices,
               uint32_t *counts)
{
    uint16_t at[1 << 12]; /* which expert a 4096th of all choices falls on */
    double sum = 0, all = 0;
    uint32_t e = 0;

    for (uint32_t i = 0; i < experts; i++) {
        counts[i] = 0;
        all += share[i];
    }
    for (uint32_t i = 0; i < 1 << 12; i++) {
        while (e + 1 < experts && (sum + share[e]) / all * (1 << 12) <= i + .5)
            sum += share[e++];
        at[i] = (uint16_t)e;
    }
    for (uint32_t i = 0; i < choices; i += 5) {
        uint64_t bits = random_bits(key + step, i);

        for (uint32_t j = i; j < i + 5 && j < choices; j++, bits >>= 12)
            counts[at[bits & 4095]]++;
    }
}

int made_trace_open(uint32_t experts, uint32_t ranks, size_t steps, uint32_t choices,
                    struct counts_trace *out)
{
    struct counts_trace t = { .experts = experts,
                              .ranks = ranks,
                              .steps = steps,
                              .counts = calloc(steps * experts, sizeof(*t.counts)),
                              .choices = choices };

    if (!t.counts)
        return fail(ERR_NOMEM, "%zu steps of %u experts", steps, experts);
    *out = t;
    return OK;
}

int made_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices, struct counts_trace *out)
{
    static const double epoch[] = { 0, 60, 110, 150, 250, 400, 470, 500 };
    static const double factor[][8] = {
        { 1, 1, 1, 1, 1, 1, 1, 1 },
        { 1.34, 1.3, .82, 1, .87, .92, .95, .8 },
        { 1.6, 1.5, .73, .95, .82, .85, .85, .7 },
        { 1.75, 1.73, .6, .85, .75, .9, .75, .67 },
        { 1.81, 1.73, .39, .95, .75, 1.05, .82, .5 },
        { 2.05, 1.8, .19, 1, .67, 1.15, .85, .29 },
        { 2.2, 1.9, .12, 1, .58, 1.18, .83, .19 },
        { 2.2, 1.9, .12, 1, .58, 1.18, .83, .19 },
    };
    int part = 0;

    TRY(made_trace_open(8, 4, 500 * (size_t)epoch_steps, choices, out));
    for (size_t step = 0; step < out->steps; step++) {
        double now = (double)step / epoch_steps, share[8], along;

        while (now >= epoch[part + 1])
            part++;
        along = (now - epoch[part]) / (epoch[part + 1] - epoch[part]);
        for (int e = 0; e < 8; e++)
            share[e] = factor[part][e] * (1 - along) + factor[part + 1][e] * along;
        made_draw(seed, step, share, 8, choices, out->counts + 8 * step);
    }
    return OK;
}
