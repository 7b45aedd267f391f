/* What there is to try for one layer: plans, buckets, the buckets that are measured, and the memory
 * each plan needs.  Measures nothing. */
#ifndef LAYER_PLANS_H
#define LAYER_PLANS_H

#include "account.h"
#include "arms.h"
#include "load.h"
#include "moelookup.h"
#include "search.h"

struct layer_plans {
    struct moe_shape shape;
    struct load *load;            /* that is measured; NULL: tokens choose at random */
    uint32_t window, first, last; /* R; buckets, both included */
    struct moe_plan *arms;
    size_t arm_count;
    int default_arm;
    uint32_t *anchors; /* the buckets to measure, in the order they are */
    size_t anchor_count;
    int64_t memory_limit_bytes; /* per rank */
    struct account_machine machine;
};

struct layer_plans_setup {
    uint32_t window;
    const char *buckets; /* "LO:HI", or NULL: what capacity factors 1 to max_factor reach */
    double max_factor;   /* 0: as many rows as any expert needs */
    uint64_t needed;     /* these, by the load; 0: nobody says */
    struct arms_setup arms;
    int64_t memory_limit_bytes;
    struct account_machine machine;
    const struct effort *effort;
};

/* ERR_ARGUMENT after a message. */
int layer_plans_open(const struct moe_shape *shape, const struct layer_plans_setup *setup,
                     struct layer_plans *out);
void layer_plans_close(struct layer_plans *space);

/* "LO:HI", or one bucket.  ERR_ARGUMENT after a message. */
int layer_plans_buckets(const char *text, uint32_t *first, uint32_t *last);

/* The capacity that stands for a bucket: its upper edge. */
uint64_t layer_plans_capacity(const struct layer_plans *space, uint32_t bucket);

/* Bytes one rank needs for an arm at a bucket: account_alone(). */
int64_t layer_plans_bytes(const struct layer_plans *space, int arm, uint32_t bucket);

/* Whether that is allowed. */
bool layer_plans_fits(const struct layer_plans *space, int arm, uint32_t bucket);

/* What the arm needs that needs least, at the measured bucket where it needs least. */
int64_t layer_plans_least_bytes(const struct layer_plans *space);

/* Every bucket's trials by the paper's count. */
uint64_t layer_plans_paper_trials(const struct layer_plans *space);

/* The index of a plan, or -1. */
int layer_plans_arm(const struct layer_plans *space, const struct moe_plan *plan);

#endif
