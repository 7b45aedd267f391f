/* What the buckets of a table are ranges of: of the capacity, all as wide, or of the key that a
 * declared space has, perhaps for each of its classes.  A bucket is one number: its range times the
 * classes, and the class.  Two words that are passed by value; a declaration is never freed. */
#ifndef RANGES_H
#define RANGES_H

#include "declaration.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stdint.h>

struct ranges {
    const struct declaration *declared; /* that has the edges; NULL: capacities */
    uint32_t window;                    /* capacities of a bucket; 1 where edges are declared */
};

/* Those of a layer, of that width. */
struct ranges ranges_of(const struct moe_shape *shape, uint32_t window);

/* "capacities", or the name of the key. */
const char *ranges_key(struct ranges ranges);

/* How many classes each range has; 1 without any. */
static inline uint32_t ranges_classes(struct ranges r)
{
    return r.declared ? declaration_classes(r.declared) : 1;
}

/* All buckets lie below it. */
uint64_t ranges_end(struct ranges ranges);

/* The bucket of a key and class; without classes the latter is ignored.  False: that is negative or
 * no number. */
bool ranges_find(struct ranges ranges, uint64_t key, double class, uint32_t *bucket);

/* Whether a key lies in a bucket, whatever its class. */
bool ranges_hold(struct ranges ranges, uint32_t bucket, uint64_t key);

/* Its lowest key and its highest one; UINT64_MAX: there is none. */
uint64_t ranges_from(struct ranges ranges, uint32_t bucket);
uint64_t ranges_to(struct ranges ranges, uint32_t bucket);

/* The key that stands for a bucket: its highest, or one that lies in the open last range.  And the
 * class; 0 without classes. */
uint64_t ranges_capacity(struct ranges ranges, uint32_t bucket);
double ranges_class(struct ranges ranges, uint32_t bucket);

/* "992-2079", the capacities of buckets; "65-256 skew <=1.25" of a declared space, over several
 * classes perhaps "<=64 skew >2 to 65-256 skew <=1".  It lasts as long as the block around it. */
enum { RANGE_TEXT_BYTES = 128 };
#define RANGE_TEXT(ranges, first, last)                                                            \
    ranges_text(ranges, first, last, (char[RANGE_TEXT_BYTES]){ 0 })
const char *ranges_text(struct ranges ranges, uint32_t first, uint32_t last,
                        char room[RANGE_TEXT_BYTES]);

/* "bucket 9 of width 64", "bucket 3 (tokens 65-256 skew >1.25)"; lasts as long. */
#define BUCKET_TEXT(ranges, bucket) ranges_bucket(ranges, bucket, (char[RANGE_TEXT_BYTES]){ 0 })
const char *ranges_bucket(struct ranges ranges, uint32_t bucket, char room[RANGE_TEXT_BYTES]);

#endif
