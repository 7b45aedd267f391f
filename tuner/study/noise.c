/* A clock that does not read the same twice. */
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
                           .stretch_left = (uint64_t)(440 * uniform_draw(seed, (1u << 30) + 1)),
                           .seed = seed,
                           .period = 150 * pow(10, uniform_draw(seed, 1u << 30)) };
}

static double drift(struct noise *noise, uint64_t key)
{
    static const double kept = 0.98;

    noise->wander = kept * noise->wander + 0.02 * sqrt(1 - kept * kept) * normal_draw(key, 1);
    if (uniform_draw(key, 100) < 0.003)
        noise->level = 0.04 * normal_draw(key, 2);
    return 0.04 * sin(6.283185307179586 * (double)noise->at / noise->period) + noise->wander +
           noise->level;
}

/* 110 steps of a burst on average, 440 without. */
static double burst(struct noise *noise, uint64_t key)
{
    if (noise->stretch_left--)
        return noise->burst;
    if (noise->burst > 0) {
        noise->burst = 0;
        noise->stretch_left = (uint64_t)(200 + 480 * uniform_draw(key, 102));
    } else {
        noise->burst = log(1.3 + 0.7 * uniform_draw(key, 103));
        noise->stretch_left = (uint64_t)(20 + 180 * uniform_draw(key, 102));
    }
    return noise->burst;
}

int64_t noise_sample(struct noise *noise, double true_ns)
{
    uint64_t key = random_bits(noise->seed, noise->at++);
    double log_ns = log(true_ns) + noise->sigma * normal_draw(key, 0);

    if (noise->drifts)
        log_ns += drift(noise, key);
    if (noise->bursts)
        log_ns += burst(noise, key);
    if (uniform_draw(key, 101) < noise->outliers)
        log_ns += log(3);
    return (int64_t)exp(log_ns);
}
