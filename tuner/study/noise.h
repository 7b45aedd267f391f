/* Adds noise to true step times, for searches and tables that are judged where the true times are
 * known.  The same seed gives the same noise. */
#ifndef NOISE_H
#define NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Disturbance by other work that comes and goes. */
enum noise_turns {
    NOISE_STEADY, /* no such work */
    NOISE_BURSTS, /* a fifth of the time, 20 to 200 steps long; steps are 1.3 to 2 times as long */
    NOISE_SWITCHES, /* on or off for 10 to 40 steps; steps are 1.25 to 1.6 times as long */
};

/* Noise of one series of steps: a plain value that noise_sample() changes.  Every part is added to
 * the logarithm of a step's time. */
struct noise {
    double sigma;    /* of normal noise */
    double outliers; /* share of steps that take 3 times as long */
    bool drifts;     /* adds a slow sine, a random walk, and level changes */
    enum noise_turns turns;
    uint64_t seed;
    uint64_t step;         /* number of the next step */
    double period;         /* of the sine, in steps */
    double wander;         /* the random walk now */
    double level;          /* since the last level change */
    uint64_t stretch_left; /* steps until a burst begins or ends */
    double burst;          /* log of how much slower a step is now; 0: no burst */
};

/* Makes noise without turns. */
struct noise noise_make(uint64_t seed, double sigma, double outliers, bool drifts);
/* Adds turns; call it before the first sample. */
void noise_set_turns(struct noise *noise, enum noise_turns turns);
/* Returns the time in ns of the next step, which truly takes true_ns. */
int64_t noise_sample(struct noise *noise, double true_ns);

/* Return a random number that depends on key and index alone: of the normal distribution with
 * deviation 1; evenly from [0, 1). */
double normal_draw(uint64_t key, uint64_t index);
double uniform_draw(uint64_t key, uint64_t index);

#endif
