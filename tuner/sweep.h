/* One layer's sweep: bucket by bucket, search, contest with the default plan, entry; then the
 * buckets between.  Everything is remembered as it is learnt, and what is known is not measured
 * again. */
#ifndef SWEEP_H
#define SWEEP_H

#include "crew.h"
#include "progress.h"
#include "search.h"
#include "space.h"
#include "store.h"

#include <signal.h>

struct sweep_setup {
    struct store *store; /* all borrowed */
    struct crew *crew;
    int64_t cluster; /* its id in the store */
    const struct search_ops *strategy;
    const struct effort *effort;
    struct search_machine machine;
    double margin;
    uint64_t seed;
    uint32_t repeats; /* of paper and exhaustive */
    int64_t keep_bytes;
    bool retune;
    int64_t deadline_ns; /* on the host clock; 0 = none */
    const volatile sig_atomic_t *stop;
    struct progress *progress;
    struct run_row *run;
};

/* What a sweep adds up to. */
struct sweep_result {
    uint32_t measured, inferred, known; /* buckets: now, between, from earlier runs */
    uint32_t failed_trials, ruled_out;
    double gain;        /* mean over buckets of 1 - time / default */
    double static_gain; /* likewise against the best single plan; NAN = cannot be told */
    struct moe_plan static_plan;
};

/* ERR_CUT when the deadline or an interrupt came first; the table is usable all the same. */
int sweep_layer(const struct sweep_setup *setup, struct space *space, struct sweep_result *out);

#endif
