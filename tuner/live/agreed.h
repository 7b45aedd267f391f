/* What ranks run without a word to each other, and until which step: the same on all of them.
 *
 * That step does not depend on capacities.  So ranks that ask for different ones come to it all the
 * same, and learn there what is wrong; a rank that exchanged when its own capacity needs it would
 * wait for the others for ever. */
#ifndef AGREED_H
#define AGREED_H

#include "live.h"
#include "moetune.h"

#include <stdbool.h>

/* What rank 0 decided, as 32 bytes for everybody; little-endian, checked. */
struct agreement {
    struct moe_plan plan; /* its default_us is not carried */
    uint32_t key;         /* what it is for: a capacity, a bucket, or a checksum of capacities */
    uint32_t next;        /* steps until ranks exchange again, below 2048; 0: it does not say */
    uint32_t more;        /* so many orders come after it, below 16: what stands in other buckets */
    bool stands;          /* the plan holds in its bucket from now on */
};

void order_write(const struct agreement *order, struct moetune_order *out);
/* ERR_FORMAT: damaged, or not legal for the layer. */
int order_read(const struct moetune_order *order, const struct moe_shape *shape,
               struct agreement *out);

struct agreed_plan {
    uint32_t bucket;
    struct moe_plan plan;
    bool heard;         /* an exchange named it; else the default plan is taken for granted */
    uint32_t seen, gap; /* its last step, and how many steps after the one before that was */
    bool regular;       /* the gap before was as long */
};

struct agreed {
    struct moe_plan usual; /* the default plan of the layer */
    struct agreed_plan *items;
    uint32_t count, room;
    uint32_t last; /* index of the item that was looked for last */
    uint32_t steps;
    uint32_t wait; /* steps before the next exchange */
    uint32_t sum;  /* of the capacities asked for since the last one */
};

enum { AGREED_NEWS = 8 }; /* of how many other buckets an exchange may bring news */

void agreed_free(struct agreed *agreed);

/* Counts a step of this capacity. */
void agreed_count(struct agreed *agreed, uint32_t capacity);
/* What stands in a bucket; the default plan where nothing was heard of it. */
struct moe_plan agreed_plan(struct agreed *agreed, uint32_t bucket);
/* The same, for a step before the next exchange, which counts as one less to wait for. */
void agreed_next(struct agreed *agreed, uint32_t bucket, struct moe_plan *plan);
/* ERR_NOMEM; of orders[0] the bucket is `here`, of the others their key is. */
int agreed_obey(struct agreed *agreed, const struct agreement *orders, uint32_t count,
                uint32_t here);

/* On rank 0: out[0].plan is to run at this step.  What changed in other buckets since ranks heard
 * of them last, and when they are to come again; an exchange takes so long.  Returns how many
 * orders: at most `room`, and that at most 1 + AGREED_NEWS. */
uint32_t agreed_orders(struct agreed *agreed, struct live *live, uint32_t capacity,
                       double exchange_us, uint32_t room, struct agreement *out);

#endif
