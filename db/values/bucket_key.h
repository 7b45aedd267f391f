/* Which bucket of which layer on which machine. */
#ifndef BUCKET_KEY_H
#define BUCKET_KEY_H

#include <stdint.h>

struct bucket_key {
    int64_t cluster, shape; /* ids in the store */
    uint32_t window, bucket;
};

/* The capacity that stands for a bucket: its upper edge. */
static inline uint64_t bucket_capacity(uint32_t window, uint32_t bucket)
{
    return ((uint64_t)bucket + 1) * window - 1;
}

#endif
