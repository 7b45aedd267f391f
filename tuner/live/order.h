/* What rank 0 decided, as 32 bytes for everybody; little-endian, checked. */
#ifndef ORDER_H
#define ORDER_H

#include "moetune.h"

#include <stdbool.h>

struct order {
    struct moe_plan plan; /* its default_us is not carried */
    uint32_t key;         /* what it is for: a capacity, a bucket, or a checksum of capacities */
    uint32_t next;        /* steps until ranks exchange again, below 2048; 0: it does not say */
    uint32_t more;        /* so many orders come after it, below 16: what stands in other buckets */
    bool stands;          /* the plan holds in its bucket from now on */
};

void order_write(const struct order *order, struct moetune_order *out);
/* ERR_FORMAT: damaged, or not legal for the layer. */
int order_read(const struct moetune_order *order, const struct moe_shape *shape, struct order *out);

#endif
