/* Step times with noise, drift and disturbance, from a counter-based random generator. */
#include "noise.h"

#include "random.h"

#include <math.h>

static const double two_pi = 6.283185307179586;

double uniform_draw(uint64_t key, uint64_t index)
{
    return (double)(random_bits(key, index) >> 11) * 0x1p-53;
}

double normal_draw(uint64_t key, uint64_t index)
{
    double u = uniform_draw(key, 2 * index) + 0x1p-54, v = uniform_draw(key, 2 * index + 1);

    return sqrt(-2 * log(u)) * cos(two_pi * v);
}

/* The numbers of a step's draws: first those of normal_draw(), then those of uniform_draw(). */
enum {
    DRAW_NOISE,
    DRAW_WALK,
    DRAW_LEVEL,
    DRAW_LEVEL_CHANGES = 100,
    DRAW_OUTLIER,
    DRAW_STRETCH,
    DRAW_FACTOR
};
/* The numbers of the draws that a series makes once. */
enum { DRAW_PERIOD = 1 << 30, DRAW_FIRST_STRETCH };

struct noise noise_make(uint64_t seed, double sigma, double outliers, bool drifts)
{
    return (struct noise){ .sigma = sigma,
                           .outliers = outliers,
                           .drifts = drifts,
                           .seed = seed,
                           .period = 150 * pow(10, uniform_draw(seed, DRAW_PERIOD)) };
}

/* Returns the drift of this step.  The random walk returns to 0, with a deviation of 2 %; levels
 * change in 0.3 % of steps, by 4 %; the sine has 4 %. */
static double next_drift(struct noise *noise, uint64_t key)
{
    static const double walk_kept = 0.98; /* of the walk, from step to step */

    noise->wander = walk_kept * noise->wander +
                    0.02 * sqrt(1 - walk_kept * walk_kept) * normal_draw(key, DRAW_WALK);
    if (uniform_draw(key, DRAW_LEVEL_CHANGES) < 0.003)
        noise->level = 0.04 * normal_draw(key, DRAW_LEVEL);
    return 0.04 * sin(two_pi * (double)noise->step / noise->period) + noise->wander + noise->level;
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
static double number_within(const double *range, double share)
{
    return range[0] + (range[1] - range[0]) * share;
}

void noise_set_turns(struct noise *noise, enum noise_turns kind)
{
    double share = uniform_draw(noise->seed, DRAW_FIRST_STRETCH);

    noise->turns = kind;
    if (kind)
        noise->stretch_left = (uint64_t)(number_within(turns[kind].calm, 0.5) * share);
}

/* Returns the disturbance of this step; where a stretch ends, begins the next one. */
static double next_burst(struct noise *noise, uint64_t key)
{
    bool slow_ends = noise->burst > 0;
    const double *length = slow_ends ? turns[noise->turns].calm : turns[noise->turns].slow;

    if (noise->stretch_left--)
        return noise->burst;
    noise->burst =
        slow_ends ? 0
                  : log(number_within(turns[noise->turns].factor, uniform_draw(key, DRAW_FACTOR)));
    noise->stretch_left = (uint64_t)number_within(length, uniform_draw(key, DRAW_STRETCH));
    return noise->burst;
}

int64_t noise_sample(struct noise *noise, double true_ns)
{
    uint64_t key = random_bits(noise->seed, noise->step++);
    double log_ns = log(true_ns) + noise->sigma * normal_draw(key, DRAW_NOISE);

    if (noise->drifts)
        log_ns += next_drift(noise, key);
    if (noise->turns)
        log_ns += next_burst(noise, key);
    if (uniform_draw(key, DRAW_OUTLIER) < noise->outliers)
        log_ns += log(3);
    return (int64_t)exp(log_ns);
}
