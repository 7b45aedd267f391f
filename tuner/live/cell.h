/* One bucket as a running trainer sees it: the answer, and how it is known. */
#ifndef CELL_H
#define CELL_H

#include "bucket.h"
#include "drift.h"

enum { LEVEL_STEPS = 15 };

/* The last few steps under the best plan, as if at the bucket's capacity: the one that was run
 * first there, and that its entry is of; trainers mostly run the same ones. */
struct level {
    double ns[LEVEL_STEPS];
    uint32_t count; /* ever */
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

enum cell_state {
    CELL_OPEN,    /* to be decided */
    CELL_SETTLED, /* its entry answers */
    CELL_FIXED    /* pinned by a person, not to be measured, or no plan runs here */
};

struct cell {
    struct bucket bucket;
    enum cell_state state;
    struct moe_plan answer;
    int best;           /* the arm that it is; -1: none of them */
    uint32_t guessed;   /* what was known elsewhere when the answer was guessed */
    uint64_t last_step; /* when it was last asked for */
    struct level level;
    struct slope slope;
    bool rematch; /* open because its entry is stale */
    bool watched; /* its times are compared with the entry's */
    struct drift drift;
};

/* All cells, sorted by bucket; pointers to them stay valid. */
struct cells {
    struct cell **items;
    uint32_t count, room;
};

/* The bucket's cell, a new one if there is none (*fresh).  NULL: out of memory. */
struct cell *cells_at(struct cells *cells, const struct dictionary *dictionary, uint32_t bucket,
                      bool *fresh);
void cells_free(struct cells *cells);

/* The nearest ones on both sides where the best plan was measured, or NULL; `settled`: by a
 * decision. */
struct cell_pair {
    const struct cell *below, *above;
};
struct cell_pair cells_around(const struct cells *cells, uint32_t bucket, bool settled);

#endif
