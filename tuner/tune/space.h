/* What there is to try for one layer: plans, buckets, the buckets that are measured, and the memory
 * each plan needs.  Measures nothing. */
#ifndef SPACE_H
#define SPACE_H

#include "account.h"
#include "arms.h"
#include "load.h"
#include "moelookup.h"
#include "search.h"

struct space {
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

struct space_setup {
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
int space_open(const struct moe_shape *shape, const struct space_setup *setup, struct space *out);
void space_close(struct space *space);

/* "LO:HI", or one bucket.  ERR_ARGUMENT after a message. */
int space_buckets(const char *text, uint32_t *first, uint32_t *last);

/* The capacity that stands for a bucket: its upper edge. */
uint64_t space_capacity(const struct space *space, uint32_t bucket);

/* Bytes one rank needs for an arm at a bucket: account_alone(). */
int64_t space_bytes(const struct space *space, int arm, uint32_t bucket);

/* Whether that is allowed. */
bool space_fits(const struct space *space, int arm, uint32_t bucket);

/* What the arm needs that needs least, at the measured bucket where it needs least. */
int64_t space_least_bytes(const struct space *space);

/* Every bucket's trials by the paper's count. */
uint64_t space_paper_trials(const struct space *space);

/* The index of a plan, or -1. */
int space_arm(const struct space *space, const struct moe_plan *plan);

#endif
