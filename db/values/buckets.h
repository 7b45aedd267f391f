/* How a table divides its keys into buckets. A layer's buckets are equally wide ranges of
 * capacities. A declared space has ranges of its own key, and perhaps several classes in each
 * range. A bucket is one number: range * classes + class. */
#ifndef BUCKETS_H
#define BUCKETS_H

#include "declaration.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stdint.h>

/* The division of one table: a plain value that is passed by value. It borrows the declaration,
 * which is never freed. */
struct buckets {
    const struct declaration *declared; /* has the edges of the ranges; NULL: the key is the
                                         * capacity */
    uint32_t window;                    /* capacities in a bucket (R); 1 where a space declares the
                                         * edges */
};

/* Returns the division of a layer with that width, or of the space that the layer names. */
struct buckets buckets_of(const struct moe_shape *shape, uint32_t window);

/* Returns the name of the key: "capacities", or the name that the space gives it. */
const char *buckets_key_name(struct buckets buckets);

/* Returns how many classes each range has: 1 where the space has no class. */
static inline uint32_t buckets_classes(struct buckets r)
{
    return r.declared ? declaration_classes(r.declared) : 1;
}

/* Returns the first number that is no bucket any more: every bucket is below it. */
uint64_t buckets_end(struct buckets buckets);

/* Finds the bucket of a key and a class. Without classes the class is ignored. Returns false where
 * a class is needed and is negative or no number. */
bool buckets_find(struct buckets buckets, uint64_t key, double class, uint32_t *bucket);

/* Returns whether a key lies in the range of a bucket, whatever the bucket's class is. */
bool buckets_contain(struct buckets buckets, uint32_t bucket, uint64_t key);

/* Return the lowest and the highest key of a bucket. The highest is UINT64_MAX where the range has
 * no end. */
uint64_t buckets_lowest(struct buckets buckets, uint32_t bucket);
uint64_t buckets_highest(struct buckets buckets, uint32_t bucket);

/* Return the key and the class that stand for a bucket. The key is the highest one, or a key inside
 * the last, open range. The class is 0 where there are no classes. */
uint64_t buckets_key_of(struct buckets buckets, uint32_t bucket);
double buckets_class_of(struct buckets buckets, uint32_t bucket);

/* Writes the keys of the buckets `first` to `last`: "992-2079" for capacities, "65-256 skew <=1.25"
 * for a declared space. Over several classes the text is "<=64 skew >2 to 65-256 skew <=1". The
 * macro's text lasts as long as the block around it. */
enum { BUCKETS_TEXT_BYTES = 128 };
#define BUCKETS_TEXT(buckets, first, last)                                                         \
    buckets_text(buckets, first, last, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *buckets_text(struct buckets buckets, uint32_t first, uint32_t last,
                         char room[BUCKETS_TEXT_BYTES]);

/* Writes the name of a bucket for messages: "bucket 9 of width 64", "bucket 3 (tokens 65-256 skew
 * >1.25)". The macro's text lasts as long as the block around it. */
#define BUCKET_NAME(buckets, bucket) bucket_name(buckets, bucket, (char[BUCKETS_TEXT_BYTES]){ 0 })
const char *bucket_name(struct buckets buckets, uint32_t bucket, char room[BUCKETS_TEXT_BYTES]);

#endif
