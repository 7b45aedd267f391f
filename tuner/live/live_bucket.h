/* One bucket as a running trainer sees it: the answer, and how it is known. */
#ifndef LIVE_BUCKET_H
#define LIVE_BUCKET_H

#include "bucket.h"
#include "drift.h"

enum { LEVEL_STEPS = 15 };

/* The last few steps under the best plan, as if at the bucket's capacity: the one that was run
 * first there, and that its entry is of; trainers mostly run the same ones. */
struct level {
    double ns[LEVEL_STEPS];
    uint32_t count; /* steps added so far */
};

void level_add(struct level *level, double ns);
double level_ns(const struct level *level); /* the median; NAN: none yet */

/* How steps under the best plan follow capacity within the bucket, beyond what the model says: few
 * buckets teach the model little, and a bucket's own edges may be far apart.  Least squares of log
 * time over log capacity, drawn towards 0. */
struct slope {
    double count, x, y, xx, xy; /* means, and sums about them */
};

void slope_add(struct slope *slope, double log_c, double log_ns);
double slope_of(const struct slope *slope);
double slope_doubt(const struct slope *slope); /* twice its standard deviation */

enum live_bucket_state {
    LIVE_OPEN,    /* to be decided */
    LIVE_SETTLED, /* its entry answers */
    LIVE_FIXED    /* pinned by a person, not to be measured, or no plan runs here */
};

struct live_bucket {
    struct bucket bucket;
    enum live_bucket_state state;
    struct moe_plan answer;
    int best;           /* the answer's arm; -1: it is no arm of ours */
    uint32_t guessed;   /* what was known elsewhere when the answer was guessed */
    uint64_t last_step; /* when it was last asked for */
    struct level level;
    struct slope slope;
    bool rematch; /* open because its entry is stale */
    bool watched; /* its times are compared with the entry's */
    struct drift drift;
};

/* All buckets, sorted by bucket; pointers to them stay valid. */
struct live_buckets {
    struct live_bucket **items;
    uint32_t count, room;
};

/* What is known of a bucket; *fresh: nothing was, and it is made now.  NULL: out of memory. */
struct live_bucket *live_buckets_at(struct live_buckets *buckets,
                                    const struct dictionary *dictionary, uint32_t bucket,
                                    bool *fresh);
void live_buckets_free(struct live_buckets *buckets);

/* The nearest ones on both sides where the best plan was measured, or NULL; `settled`: by a
 * decision. */
struct live_bucket_pair {
    const struct live_bucket *below, *above;
};
struct live_bucket_pair live_buckets_around(const struct live_buckets *buckets, uint32_t bucket,
                                            bool settled);

#endif
