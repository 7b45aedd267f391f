/* Makes seeded traces of what gates choose: with drifts, noise of a real batch, bursts. */
#ifndef CAPACITY_TRACES_H
#define CAPACITY_TRACES_H

#include "check.h"
#include "made_traces.h"
#include "random.h"

#include <math.h>

static struct counts_trace trace_new(uint32_t experts, uint32_t ranks, size_t steps,
                                     uint32_t choices)
{
    struct counts_trace t = { 0 };

    CHECK(!made_trace_open(experts, ranks, steps, choices, &t));
    return t;
}

static struct counts_trace trace_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices)
{
    struct counts_trace t = { 0 };

    CHECK(!made_figure_8(seed, epoch_steps, choices, &t));
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
        made_draw(seed, step, share, 64, choices, t.counts + 64 * step);
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
        made_draw(seed, step, share, 16, choices, t.counts + 16 * step);
    }
    return t;
}

#endif
