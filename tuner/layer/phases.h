/* Where a step's time goes: each kernel and exchange belongs to a phase, whose time is what its
 * work takes while the other stream is muted. */
#ifndef PHASES_H
#define PHASES_H

#include "device.h"
#include "phase.h"
#include "stats.h"

/* Samples of which the least and the most enclose the median with 95 %. */
enum { PHASE_SAMPLES_LEAST = 6 };

struct phase_times {
    int64_t ns[PHASE_COUNT];
};

struct phase_spreads {
    struct spread of[PHASE_COUNT];
    struct spread exchanges_ppm; /* the all-to-all share: both kinds of exchanges, of the total */
};

/* A stream's purpose says it, as a phase; 0: its kernel does. */
enum phase phase_of(const struct mark *mark);

/* Adds what was marked; after a sync. */
void phases_add(const struct marks *marks, struct phase_times *times);

/* Agreed times of `count` steps, count > 0.  ERR_NOMEM. */
int phases_spread(const struct phase_times *samples, size_t count, struct phase_spreads *out);

#endif
