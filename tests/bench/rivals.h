/* Times two ways to do one thing by turns in one run, because machines are noisy and ratios are
 * not. */
#ifndef RIVALS_H
#define RIVALS_H

#include "host.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>

enum { RIVAL_ROUNDS = 25 };

struct rivals {
    double ratio, low, high;   /* ours / theirs: median and its 95 % interval */
    double ours_ns, theirs_ns; /* medians */
};

typedef int64_t timed(void *self); /* runs once and returns ns */

static inline struct rivals rivals_run(timed *ours, timed *theirs, void *self)
{
    int64_t a[RIVAL_ROUNDS], b[RIVAL_ROUNDS], ratio[RIVAL_ROUNDS];
    struct spread s;
    struct rivals c;

    ours(self);
    theirs(self);
    for (int i = 0; i < RIVAL_ROUNDS; i++) {
        if (i % 2) {
            a[i] = ours(self);
            b[i] = theirs(self);
        } else {
            b[i] = theirs(self);
            a[i] = ours(self);
        }
        ratio[i] = (int64_t)(1e6 * (double)a[i] / (double)(b[i] ? b[i] : 1));
    }
    s = spread_of(ratio, RIVAL_ROUNDS);
    c.ratio = (double)s.median_ns * 1e-6;
    c.low = (double)s.low_ns * 1e-6;
    c.high = (double)s.high_ns * 1e-6;
    c.ours_ns = (double)spread_of(a, RIVAL_ROUNDS).median_ns;
    c.theirs_ns = (double)spread_of(b, RIVAL_ROUNDS).median_ns;
    return c;
}

#endif
