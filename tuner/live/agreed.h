/* What ranks know of each bucket's plan without an exchange, and at which step they exchange again.
 * Both are the same on all ranks.
 *
 * The step of the next exchange does not depend on capacities.  So ranks that ask for different
 * capacities still reach it together, and learn there what is wrong.  If a rank exchanged when its
 * own capacity needs it, it could wait for the others for ever. */
#ifndef AGREED_H
#define AGREED_H

#include "live.h"
#include "moetune.h"

#include <stdbool.h>

/* What rank 0 decides for all ranks, as a plain value.  As bytes it is a moetune_order: 32 bytes,
 * little-endian, with a checksum. */
struct agreement {
    struct moe_plan plan; /* without its default_us */
    uint32_t key;         /* a capacity, a bucket, or a checksum of capacities; the caller knows */
    uint32_t next; /* steps until the next exchange, below 2048; 0: this order does not say */
    uint32_t more; /* how many orders for other buckets follow this one, below 16 */
    bool holds;    /* from now on the plan holds in its bucket */
};

/* Writes an order as bytes. */
void order_write(const struct agreement *order, struct moetune_order *out);
/* Reads an order.  ERR_FORMAT: it is damaged, or its plan is not legal for the layer. */
int order_read(const struct moetune_order *order, const struct moe_shape *shape,
               struct agreement *out);

/* The plan that all ranks know in one bucket. */
struct agreed_plan {
    uint32_t bucket;
    struct moe_plan plan;
    bool known;         /* an exchange named the plan; else it is the default plan */
    uint32_t last_step; /* number of its last step */
    uint32_t gap;       /* steps between its last two steps */
    bool regular;       /* the gap before was as long */
};

/* The plans of all buckets on one rank.  Its owner sets default_plan, and frees it by
 * agreed_free(). */
struct agreed {
    struct moe_plan default_plan;
    struct agreed_plan *items;
    uint32_t count, room;
    uint32_t last;         /* index of the item that was looked up last */
    uint32_t steps;        /* counted so far */
    uint32_t wait_steps;   /* before the next exchange; 0: the next step exchanges */
    uint32_t ask_checksum; /* of the capacities since the last exchange */
};

enum { AGREED_NEWS = 8 }; /* an exchange may change the plans of so many other buckets */

void agreed_free(struct agreed *agreed);

/* Counts a step of this capacity. */
void agreed_count_step(struct agreed *agreed, uint32_t capacity);
/* Returns the plan of a bucket: the default plan if no exchange named one. */
struct moe_plan agreed_plan(struct agreed *agreed, uint32_t bucket);
/* Writes the plan for a step before the next exchange, and waits one step less for it. */
void agreed_take_step(struct agreed *agreed, uint32_t bucket, struct moe_plan *plan);
/* Applies the orders of an exchange.  orders[0] is for `bucket`; the key of every other
 * order is its bucket.  ERR_NOMEM. */
int agreed_apply(struct agreed *agreed, const struct agreement *orders, uint32_t count,
                 uint32_t bucket);

/* On rank 0: completes out[0], whose plan runs at this step, and adds orders for other buckets
 * whose plan has changed.  An exchange takes exchange_us.  Returns the number of orders: at most
 * `orders_max`, which is at most 1 + AGREED_NEWS. */
uint32_t agreed_make_orders(struct agreed *agreed, struct live *live, uint32_t capacity,
                            double exchange_us, uint32_t orders_max, struct agreement *out);

#endif
