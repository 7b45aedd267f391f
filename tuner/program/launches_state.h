/* What launches.c and launch_blame.c share. */
#ifndef LAUNCHES_STATE_H
#define LAUNCHES_STATE_H

#include "launch_cost.h"
#include "launch_range.h"
#include "launch_ways.h"
#include "launches.h"

struct launches {
    struct session *session;
    const struct live_setup *setup;
    const struct declaration *space;
    struct search_setup search;
    struct dictionary dictionary; /* that of each range, but for its search */
    struct moe_plan arms[SEARCH_ARMS_MAX];
    uint32_t way_of[SEARCH_ARMS_MAX]; /* of each arm */
    struct way *ways;
    size_t way_count;
    struct row_list pins;         /* a person's word: what they cover is left alone */
    struct launch_range **ranges; /* in the order in which they were asked for */
    size_t range_count;
    struct run_row run;
    const struct tune_options *options;
    struct launch_under_way now;
    struct launch_cost cost;
    uint32_t silent, barren; /* launches in a row that asked nothing; that failed between steps */
    char silent_end[sizeof(((struct launch_end *)0)->how)]; /* of a first launch without a word */
    double alive_s;
    uint64_t told, tried;

    /* Of the launch under way. */
    struct launch_watch watch;
    struct launch_range *range; /* that it asked for last, the plan it was told, and whether the */
    int arm;                    /* decision wanted it */
    bool sampled;
};

/* A launch ended: who is to blame if it failed; what it did not show is counted. */
int launches_judge_end(struct launches *launches, const struct launch_end *end);

#endif
