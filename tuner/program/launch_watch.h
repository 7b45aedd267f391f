/* How long a launch goes on, and what it shows of each range that its program asks for.  Pure. */
#ifndef LAUNCH_WATCH_H
#define LAUNCH_WATCH_H

#include "tune_options.h"

/* So often in a row a launch may show nothing that was wanted of it. */
enum { LAUNCH_PATIENCE = 3 };

/* The launch under way; questions are counted from 1. */
struct launch_watch {
    uint32_t steps;  /* of a sample */
    uint32_t least;  /* that a sample must have: how long it is waited for something */
    bool looking;    /* nobody knows yet what it asks for */
    uint64_t newest; /* question at which it asked for a range for the first time; 0: none */
};

/* One range. */
struct watched {
    uint64_t asked; /* for the last time, by this launch; 0: never */
    int64_t ns[TUNE_LAUNCH_STEPS_MAX];
    uint32_t steps; /* of one plan, gathered by this launch */

    /* By all launches. */
    uint32_t samples, spare; /* spare: their steps beyond the first one of each */
    double squares;          /* of the logarithms of steps, from the mean of their sample's */

    bool learnt;     /* by this launch: a sample, or that a plan fails */
    uint32_t missed; /* launches in a row that were to show something here and did not */
};

/* A launch begins. */
void watched_reset(struct watched *range);

/* A step; true after so many of them, which are a sample then. */
bool watched_step(struct watched *range, int64_t ns, uint32_t steps, int64_t *sample);

/* Of the steps that there are, one at least, the mean, to which none adds more than twice their
 * median does: a trainer pays for slow steps, too, but not for a moment of the machine's. */
int64_t watched_sample(struct watched *range);

/* A launch ended well that was to show something here: whether one more is no use. */
bool watched_in_vain(struct watched *range);

/* What several ranges learnt together. */
void watched_add(struct watched *all, const struct watched *range);

/* Whether a range that it is to show may still be asked for, one of so many; on the occasion: what
 * it shows there is no reason to wait long. */
bool watch_awaits(const struct launch_watch *watch, const struct watched *range, size_t ranges,
                  bool on_occasion, uint64_t question);
/* Whether it may show ranges that nobody knows. */
bool watch_looks(const struct launch_watch *watch, uint64_t question);

#endif
