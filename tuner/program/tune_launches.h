/* Tunes a program that declares a space, by one launch after the other.
 *
 * Each launch has one set of launch values, for all buckets; within it the live axes vary.  Plans
 * are compared over several launches, because the same plan takes other times in another launch.
 * So a launch gives a bucket at most one sample of a plan, and launches of different plans take
 * turns. */
#ifndef TUNE_LAUNCHES_H
#define TUNE_LAUNCHES_H

#include "live.h"
#include "pairs.h"
#include "session.h"
#include "tune_options.h"

/* What a run of tune_launches() came to, as a plain value. */
struct launches_report {
    int64_t cluster, shape; /* in the store; 0: the store was never opened */
    uint32_t launches;      /* of this run */
    uint32_t values;        /* sets of launch values that were launched */
    uint32_t buckets, decided, given_up;
    uint32_t steps; /* least steps of a sample */
    /* The table keeps the default launch values for lack of a proof: those that are probably
     * better. doubt.arm -1: there are none. */
    struct doubt doubt;
    char doubted[DECLARATION_PLAN_BYTES]; /* those launch values as text */
};

/* Launches the program until all buckets that it asks for are decided.  ERR_CUT: time is up.  *out
 * is whole after any result. */
int tune_launches(struct session *session, const struct table_setup *setup,
                  const struct tune_options *options, struct launches_report *out);

#endif
