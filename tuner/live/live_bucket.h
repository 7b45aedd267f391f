/* One bucket as a running trainer sees it: its answer, and how that is known. */
#ifndef LIVE_BUCKET_H
#define LIVE_BUCKET_H

#include "bucket.h"
#include "drift.h"

enum { LEVEL_STEPS = 15 };

/* The last steps under the best plan, converted to the bucket's capacity.  That is the capacity of
 * its entry, or of the first step there; trainers mostly repeat a few capacities. */
struct level {
    double ns[LEVEL_STEPS];
    uint32_t count; /* steps added so far */
};

/* Adds a step, in place of the oldest one if there are enough. */
void level_add(struct level *level, double ns);
/* Returns the median of the steps; NAN: there are none. */
double level_ns(const struct level *level);

/* How the time of the best plan follows capacity within the bucket, beyond the model.  Few buckets
 * teach the model little, and the edges of a bucket may be far apart.  It is a least-squares line
 * of log time over log capacity, drawn towards 0. */
struct slope {
    double count, x, y, xx, xy; /* means, and sums about them */
};

/* Adds a step: its log capacity, and the log of its time over the model's. */
void slope_add(struct slope *slope, double log_c, double log_ns);
/* Returns the slope. */
double slope_of(const struct slope *slope);
/* Returns twice the standard error of the slope. */
double slope_error(const struct slope *slope);

enum live_bucket_state {
    LIVE_OPEN,    /* to be decided */
    LIVE_DECIDED, /* its entry answers */
    LIVE_FIXED    /* pinned by a person, not to be measured, or no plan runs here */
};

/* live_buckets owns it. */
struct live_bucket {
    struct bucket bucket;
    enum live_bucket_state state;
    struct moe_plan answer;
    int best;           /* arm of the answer; -1: the answer is none of our plans */
    uint32_t guessed;   /* value of live.insights when the answer was guessed */
    uint64_t last_step; /* value of live.asks at the last ask for it */
    struct level level;
    struct slope slope;
    bool rematch; /* open because its entry is stale: only a few plans are measured again */
    bool watched; /* its times are compared with the entry's */
    struct drift drift;
};

/* All buckets, sorted by number.  Pointers to them stay valid until live_buckets_free(). */
struct live_buckets {
    struct live_bucket **items;
    uint32_t count, room;
};

/* Finds a bucket, or adds it; *fresh: it was added.  NULL: out of memory. */
struct live_bucket *live_buckets_at(struct live_buckets *buckets,
                                    const struct dictionary *dictionary, uint32_t bucket,
                                    bool *fresh);
void live_buckets_free(struct live_buckets *buckets);

/* The nearest bucket on each side whose best plan was measured, or NULL. */
struct live_bucket_pair {
    const struct live_bucket *below, *above;
};
/* How their plans must have been measured: a decision chose them, or any samples are enough. */
enum measured_how { BY_DECISION, BY_ANY_SAMPLES };
/* Finds them. */
struct live_bucket_pair live_buckets_around(const struct live_buckets *buckets, uint32_t bucket,
                                            enum measured_how how);

#endif
