/* What `tune` can try for one layer: its plans, its buckets, which buckets are measured first
 * (anchors), and the memory of each plan.  It measures nothing. */
#ifndef LAYER_PLANS_H
#define LAYER_PLANS_H

#include "account.h"
#include "arms.h"
#include "load.h"
#include "moelookup.h"
#include "search.h"

/* One layer with its plans and buckets.  layer_plans_open() allocates arms and anchors;
 * layer_plans_close() frees them and `load`. */
struct layer_plans {
    struct moe_shape shape;
    struct load *load;            /* the expert load to measure; NULL: tokens choose at random */
    uint32_t window, first, last; /* the width R; the first and the last bucket */
    struct moe_plan *arms;        /* the plans */
    size_t arm_count;
    int default_arm;   /* -1: the default plan is not among them */
    uint32_t *anchors; /* the buckets to measure, in this order */
    size_t anchor_count;
    int64_t memory_limit_bytes; /* per rank */
    struct account_machine machine;
};

/* How to list them; a plain value. */
struct layer_plans_setup {
    uint32_t window;
    const char
        *buckets;      /* "LO:HI"; NULL: the buckets that capacity factors 1 to max_factor reach */
    double max_factor; /* 0: as many rows as the fullest expert needs */
    uint64_t needed;   /* the rows of the fullest expert, by the load; 0: unknown */
    struct arms_setup arms;
    int64_t memory_limit_bytes;
    struct account_machine machine;
    const struct effort *effort;
};

/* Lists plans and buckets.  ERR_ARGUMENT or ERR_NOMEM after a message. */
int layer_plans_open(const struct moe_shape *shape, const struct layer_plans_setup *setup,
                     struct layer_plans *out);
void layer_plans_close(struct layer_plans *plans);

/* Reads "LO:HI", or one bucket.  ERR_ARGUMENT after a message. */
int layer_plans_buckets(const char *text, uint32_t *first, uint32_t *last);

/* The capacity at which a bucket is measured: its upper edge. */
uint64_t layer_plans_capacity(const struct layer_plans *plans, uint32_t bucket);

/* The bytes that a rank needs for a plan in a bucket: account_alone(). */
int64_t layer_plans_bytes(const struct layer_plans *plans, int arm, uint32_t bucket);

/* Whether that is within the memory limit. */
bool layer_plans_fits(const struct layer_plans *plans, int arm, uint32_t bucket);

/* The least bytes per rank that any plan needs in any anchor. */
int64_t layer_plans_least_bytes(const struct layer_plans *plans);

/* How many trials the paper's search takes for all buckets. */
uint64_t layer_plans_paper_trials(const struct layer_plans *plans);

/* The index of a plan in arms[], or -1. */
int layer_plans_arm(const struct layer_plans *plans, const struct moe_plan *plan);

#endif
