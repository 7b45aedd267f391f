/* What the buckets of a table are buckets of: of the capacity, all as wide, or of the key that a
 * declared space has, perhaps for each of its classes.  A bucket is one number: its range times the
 * classes, and the class.  Two words that are passed by value; a declaration is never freed. */
#ifndef BUCKETS_H
#define BUCKETS_H

#include "declaration.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stdint.h>

struct buckets {
    const struct declaration *declared; /* that has the edges; NULL: capacities */
    uint32_t window;                    /* capacities of a bucket; 1 where edges are declared */
};

/* Those of a layer, of that width. */
struct buckets buckets_of(const struct moe_shape *shape, uint32_t window);

/* "capacities", or the name of the key. */
const char *buckets_key(struct buckets buckets);

/* How many classes each range has; 1 without any. */
static inline uint32_t buckets_classes(struct buckets r)
{
    return r.declared ? declaration_classes(r.declared) : 1;
}

/* All buckets lie below it. */
uint64_t buckets_end(struct buckets buckets);

/* The bucket of a key and class; without classes the latter is ignored.  False: that is negative or
 * no number. */
bool buckets_find(struct buckets buckets, uint64_t key, double class, uint32_t *bucket);

/* Whether a key lies in a bucket, whatever its class. */
bool buckets_hold(struct buckets buckets, uint32_t bucket, uint64_t key);

/* Its lowest key and its highest one; UINT64_MAX: there is none. */
uint64_t buckets_from(struct buckets buckets, uint32_t bucket);
uint64_t buckets_to(struct buckets buckets, uint32_t bucket);

/* The key that stands for a bucket: its highest, or one that lies in the open last range.  And the
 * class; 0 without classes. */
uint64_t buckets_capacity(struct buckets buckets, uint32_t bucket);
double buckets_class(struct buckets buckets, uint32_t bucket);

/* "992-2079", the capacities of buckets; "65-256 skew <=1.25" of a declared space, over several
 * classes perhaps "<=64 skew >2 to 65-256 skew <=1".  It lasts as long as the block around it. */
enum { BUCKETS_TEXT_BYTES = 128 };
#define BUCKETS_TEXT(buckets, first, last)                                                         \
    buckets_text(buckets, first, last, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *buckets_text(struct buckets buckets, uint32_t first, uint32_t last,
                         char room[BUCKETS_TEXT_BYTES]);

/* "bucket 9 of width 64", "bucket 3 (tokens 65-256 skew >1.25)"; lasts as long. */
#define BUCKET_NAME(buckets, bucket) bucket_name(buckets, bucket, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *bucket_name(struct buckets buckets, uint32_t bucket, char room[BUCKETS_TEXT_BYTES]);

#endif
