/* Draws the choices of a gate whose shares of tokens per expert drift from step to step. */
#include "made_traces.h"

#include "random.h"
#include "status.h"

#include <stdlib.h>

void made_draw(uint64_t key, uint64_t step, const double *share, uint32_t experts, uint32_t choices,
               uint32_t *counts)
{
    /* 12 random bits choose a slot, and the slot's expert is chosen: one draw of 64 bits is enough
     * for 5 choices. */
    enum { SLOT_BITS = 12, SLOTS = 1 << SLOT_BITS, CHOICES_PER_DRAW = 5 };
    uint16_t expert_of[SLOTS];
    double shares_before = 0, shares_sum = 0; /* shares of the experts before e, and of all */
    uint32_t e = 0;                           /* the expert of the slot */

    for (uint32_t i = 0; i < experts; i++) {
        counts[i] = 0;
        shares_sum += share[i];
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        while (e + 1 < experts && (shares_before + share[e]) / shares_sum * SLOTS <= slot + .5)
            shares_before += share[e++];
        expert_of[slot] = (uint16_t)e;
    }
    for (uint32_t i = 0; i < choices; i += CHOICES_PER_DRAW) {
        uint64_t bits = random_bits(key + step, i);

        for (uint32_t j = i; j < i + CHOICES_PER_DRAW && j < choices; j++) {
            counts[expert_of[bits & (SLOTS - 1)]]++;
            bits >>= SLOT_BITS;
        }
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
        return fail(ERR_NOMEM, "a trace of %zu steps of %u experts", steps, experts);
    *out = t;
    return OK;
}

int made_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices, struct counts_trace *out)
{
    enum { EXPERTS = 8, RANKS = 4, EPOCHS = 500 };
    /* From the authors' program: at these epochs, each expert's load over the mean load. */
    static const double epochs[] = { 0, 60, 110, 150, 250, 400, 470, EPOCHS };
    static const double loads[][EXPERTS] = {
        { 1, 1, 1, 1, 1, 1, 1, 1 },
        { 1.34, 1.3, .82, 1, .87, .92, .95, .8 },
        { 1.6, 1.5, .73, .95, .82, .85, .85, .7 },
        { 1.75, 1.73, .6, .85, .75, .9, .75, .67 },
        { 1.81, 1.73, .39, .95, .75, 1.05, .82, .5 },
        { 2.05, 1.8, .19, 1, .67, 1.15, .85, .29 },
        { 2.2, 1.9, .12, 1, .58, 1.18, .83, .19 },
        { 2.2, 1.9, .12, 1, .58, 1.18, .83, .19 },
    };
    int part = 0; /* the step lies between epochs[part] and epochs[part + 1] */

    TRY(made_trace_open(EXPERTS, RANKS, EPOCHS * (size_t)epoch_steps, choices, out));
    for (size_t step = 0; step < out->steps; step++) {
        double epoch = (double)step / epoch_steps, share[EXPERTS], part_done;

        while (epoch >= epochs[part + 1])
            part++;
        part_done = (epoch - epochs[part]) / (epochs[part + 1] - epochs[part]);
        for (int e = 0; e < EXPERTS; e++)
            share[e] = loads[part][e] * (1 - part_done) + loads[part + 1][e] * part_done;
        made_draw(seed, step, share, EXPERTS, choices, out->counts + EXPERTS * step);
    }
    return OK;
}
