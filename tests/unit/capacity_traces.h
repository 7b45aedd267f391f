/* Seeded traces of what gates choose: as drifts, noise of a real batch, bursts. */
#ifndef CAPACITY_TRACES_H
#define CAPACITY_TRACES_H

#include "counts_replay.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

/* Choices fall on experts one by one, as tokens do. */
static void trace_draw(uint64_t key, uint64_t step, const double *share, uint32_t experts,
                       uint32_t choices, uint32_t *counts)
{
    static uint16_t at[1 << 12]; /* which expert a 4096th of all choices falls on */
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

static struct counts_trace trace_new(uint32_t experts, uint32_t ranks, size_t steps,
                                     uint32_t choices)
{
    return (struct counts_trace){ .experts = experts,
                                  .ranks = ranks,
                                  .steps = steps,
                                  .counts = calloc(steps * experts, sizeof(uint32_t)),
                                  .choices = choices };
}

/* DynaMoE's Figure 8: the factors that its authors set at these epochs, whose mean is 1, with the
 * shares moving from each to the next. */
static struct counts_trace trace_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices)
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
    struct counts_trace t = trace_new(8, 4, 500 * (size_t)epoch_steps, choices);
    int part = 0;

    for (size_t step = 0; step < t.steps; step++) {
        double now = (double)step / epoch_steps, share[8], along;

        while (now >= epoch[part + 1])
            part++;
        along = (now - epoch[part]) / (epoch[part + 1] - epoch[part]);
        for (int e = 0; e < 8; e++)
            share[e] = factor[part][e] * (1 - along) + factor[part + 1][e] * along;
        trace_draw(seed, step, share, 8, choices, t.counts + 8 * step);
    }
    return t;
}

/* Shares go up and down by a factor of exp(width), each expert's at its own pace. */
static void trace_drift(uint64_t seed, size_t step, uint32_t experts, double width, double period,
                        double *share)
{
    for (uint32_t e = 0; e < experts; e++) {
        double phase = random_unit(seed, 2 * e), pace = 1 + .5 * random_unit(seed, 2 * e + 1);

        share[e] = exp(width * sin(3.14159265 * (phase + 2 * pace * (double)step / period)));
    }
}

static struct counts_trace trace_drift_64(uint64_t seed, size_t steps, uint32_t choices,
                                          double width, double period)
{
    struct counts_trace t = trace_new(64, 8, steps, choices);
    double share[64];

    for (size_t step = 0; step < steps; step++) {
        trace_drift(seed, step, 64, width, period, share);
        trace_draw(seed, step, share, 64, choices, t.counts + 64 * step);
    }
    return t;
}

/* Now and then an expert is chosen `high` times as often, for some steps. */
static struct counts_trace trace_bursts(uint64_t seed, size_t steps, uint32_t choices, double high,
                                        uint32_t every, uint32_t length)
{
    struct counts_trace t = trace_new(16, 4, steps, choices);
    double share[16];

    for (size_t step = 0; step < steps; step++) {
        uint64_t burst = step / every;
        uint32_t begin = random_below(seed ^ 1, burst, every - length);

        for (uint32_t e = 0; e < 16; e++)
            share[e] = 1;
        if (step % every >= begin && step % every < begin + length)
            share[random_below(seed ^ 2, burst, 16)] = high;
        trace_draw(seed, step, share, 16, choices, t.counts + 16 * step);
    }
    return t;
}

#endif
