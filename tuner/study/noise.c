/* Step times with noise, drift and disturbance, from a counter-based random generator. */
#include "noise.h"

#include "random.h"

#include <math.h>

double uniform_draw(uint64_t key, uint64_t index)
{
    return (double)(random_bits(key, index) >> 11) * 0x1p-53;
}

double normal_draw(uint64_t key, uint64_t index)
{
    double u = uniform_draw(key, 2 * index) + 0x1p-54, v = uniform_draw(key, 2 * index + 1);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

struct noise noise_make(uint64_t seed, double sigma, double outliers, bool drifts)
{
    return (struct noise){ .sigma = sigma,
                           .outliers = outliers,
                           .drifts = drifts,
                           .seed = seed,
                           .period = 150 * pow(10, uniform_draw(seed, 1u << 30)) };
}

/* Returns the drift of this step.  The random walk returns to 0, with a deviation of 2 %; levels
 * change in 0.3 % of steps, by 4 %; the sine has 4 %. */
static double drift(struct noise *noise, uint64_t key)
{
    static const double kept = 0.98; /* of the walk, from step to step */

    noise->wander = kept * noise->wander + 0.02 * sqrt(1 - kept * kept) * normal_draw(key, 1);
    if (uniform_draw(key, 100) < 0.003)
        noise->level = 0.04 * normal_draw(key, 2);
    return 0.04 * sin(6.283185307179586 * (double)noise->step / noise->period) + noise->wander +
           noise->level;
}

/* Ranges of a turn, in which all values are equally likely: how long calm and slow stretches are,
 * in steps, and how much slower a step is. */
static const struct {
    double calm[2], slow[2];
    double factor[2];
} turns[] = {
    [NOISE_BURSTS] = { { 200, 680 }, { 20, 200 }, { 1.3, 2 } },
    [NOISE_SWITCHES] = { { 10, 40 }, { 10, 40 }, { 1.25, 1.6 } },
};

/* Returns the number at this share of the way through the range. */
static double within(const double *range, double share)
{
    return range[0] + (range[1] - range[0]) * share;
}

void noise_set_turns(struct noise *noise, enum noise_turns kind)
{
    double share = uniform_draw(noise->seed, (1u << 30) + 1);

    noise->turns = kind;
    if (kind)
        noise->stretch_left = (uint64_t)(within(turns[kind].calm, 0.5) * share);
}

/* Returns the disturbance of this step; where a stretch ends, begins the next one. */
static double burst(struct noise *noise, uint64_t key)
{
    bool slow_ends = noise->burst > 0;
    const double *length = slow_ends ? turns[noise->turns].calm : turns[noise->turns].slow;

    if (noise->stretch_left--)
        return noise->burst;
    noise->burst = slow_ends ? 0 : log(within(turns[noise->turns].factor, uniform_draw(key, 103)));
    noise->stretch_left = (uint64_t)within(length, uniform_draw(key, 102));
    return noise->burst;
}

int64_t noise_sample(struct noise *noise, double true_ns)
{
    uint64_t key = random_bits(noise->seed, noise->step++);
    double log_ns = log(true_ns) + noise->sigma * normal_draw(key, 0);

    if (noise->drifts)
        log_ns += drift(noise, key);
    if (noise->turns)
        log_ns += burst(noise, key);
    if (uniform_draw(key, 101) < noise->outliers)
        log_ns += log(3);
    return (int64_t)exp(log_ns);
}
