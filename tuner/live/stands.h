/* What ranks run without a word to each other, and until which step: the same on all of them.
 *
 * No capacity moves that step.  So ranks that ask for different ones come to it all the same, and
 * learn there what is wrong; a rank that exchanged when its own capacity wants it would wait for
 * the others for ever. */
#ifndef STANDS_H
#define STANDS_H

#include "live.h"
#include "order.h"

struct stand {
    uint32_t bucket;
    struct moe_plan plan;
    bool told;          /* not only taken for granted */
    uint32_t seen, gap; /* its last step, and how long after the one before */
    bool regular;       /* which was as long after another one */
};

struct stands {
    struct stand *items;
    uint32_t count, room;
    uint32_t last; /* found */
    uint32_t steps;
    uint32_t wait; /* of them before the next exchange */
    uint32_t sum;  /* of the capacities asked for since the last one */
};

enum { STANDS_NEWS = 8 }; /* of how many other buckets an exchange may bring news */

void stands_free(struct stands *stands);

/* A step: of this capacity. */
void stands_count(struct stands *stands, uint32_t capacity);
/* What stands in a bucket; the default plan where nothing was heard of it. */
struct moe_plan stands_plan(struct stands *stands, uint32_t bucket);
/* That, for a step before the next exchange. */
void stands_next(struct stands *stands, uint32_t bucket, struct moe_plan *plan);
/* ERR_NOMEM; of orders[0] the bucket is `here`, of the others their key is. */
int stands_obey(struct stands *stands, const struct order *orders, uint32_t count, uint32_t here);

/* On rank 0: out[0].plan is to run at this step.  What changed in other buckets since ranks heard
 * of them last, and when they are to come again; an exchange takes so long.  Returns how many
 * orders: at most `room`, and that at most 1 + STANDS_NEWS. */
uint32_t stands_orders(struct stands *stands, struct live *live, uint32_t capacity,
                       double exchange_us, uint32_t room, struct order *out);

#endif
