/* Times with noise, for what is tried where the true ones are known. */
#ifndef NOISE_H
#define NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Other work that comes and goes. */
enum noise_turns {
    NOISE_STEADY,
    NOISE_BURSTS,  /* a fifth of the time, 20 to 200 steps long, all takes 1.3 to 2 times as long */
    NOISE_SWITCHES /* every 10 to 40 steps it becomes 1.25 to 1.6 times as long, or as before */
};

/* Lognormal noise, outliers of x3; drift: a slow sine, a wandering part, steps. */
struct noise {
    double sigma, outliers;
    bool drifts;
    enum noise_turns turns;
    uint64_t seed, at;
    double period, wander, level;
    uint64_t stretch_left; /* steps until a burst begins or ends */
    double burst;          /* log of how much slower; 0: none */
};

struct noise noise_make(uint64_t seed, double sigma, double outliers, bool drifts);
void noise_set_turns(struct noise *noise, enum noise_turns turns); /* before the first sample */
int64_t noise_sample(struct noise *noise, double true_ns);

double normal_draw(uint64_t key, uint64_t index);
double uniform_draw(uint64_t key, uint64_t index); /* in [0, 1) */

#endif
