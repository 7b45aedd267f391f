/* The machine's mood is what makes every plan slower or faster for a while.  Within a visit it
 * wanders a little from step to step, and turns now and then: a burst of somebody else's work
 * begins or ends.  The steps between two turns are called a stretch. */
#ifndef MOOD_H
#define MOOD_H

#include <stdbool.h>
#include <stddef.h>

/* When a step was taken: its number in the visit, and its stretch; the first stretch is 0. */
struct moment {
    int step, stretch;
};

/* The covariance of the moods at two moments, beyond what the whole visit shares. */
double mood_covariance(struct moment a, struct moment b);

/* A step against what was expected of it: log time above, and that expectation's variance, noise
 * included.  `first`: of its plan, so that it rests on a model alone. */
struct surprise {
    double above, variance;
    bool first;
};

/* Which of these successive steps of one stretch was the first after a turn; -1: none was. */
int mood_turn(const struct surprise *steps, size_t count);

#endif
