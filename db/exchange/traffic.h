/* Traffic: what trainers asked, as libmoelookup recorded it (MOELOOKUP_RECORD, moelookup_record).
 *
 * A file is JSON Lines.  Each line is complete in itself, so lines of several layers, processes and
 * jobs may follow in any order, and files may be concatenated.  Counts of equal layers and windows
 * add up.  Empty lines are ignored: a writer that finds the last line without an end, perhaps
 * because another process is writing it, begins with a line feed.  A line has all of these members,
 * in any order:
 *
 *   "format": "moetune-traffic", "version": 1
 *   "layer": "E=8 k=2 T=4096 D=1024 ...", the text form of a shape; T=0: the trainer did not say
 *   "window": R, the width of a bucket
 *   "cluster": hash of the table that answered, "device": its name there; both null: no table
 *   "lost": look-ups that were not counted by bucket, because there was no room (thousands of far
 *           buckets)
 *   "asked": [[bucket, source, count], ...] by bucket, each once; source is one of exact,
 *            neighbour, clamped, stale, override, default, inferred, imported, unsound, and unknown
 *            launch.  An older moetune does not know the last one and refuses the file
 *
 * A bucket is floor(capacity / R), even outside of the tuned buckets.  In a layer with a declared
 * space R is 1, and a bucket is a range of its key and a class. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "buckets.h"
#include "moelookup.h"
#include "plan.h"

/* The look-ups of one bucket. */
struct traffic_bucket {
    uint32_t bucket;
    uint64_t asked[PLAN_SOURCE_COUNT]; /* by enum moe_source */
};

/* The look-ups of one layer, at one width of buckets. */
struct traffic_layer {
    struct moe_shape shape;
    uint32_t window;
    struct traffic_bucket *buckets; /* sorted by bucket */
    size_t bucket_count;
    uint64_t lost;
};

/* All that some files recorded; traffic_free() frees it. */
struct traffic {
    struct traffic_layer *layers; /* in the order in which they first come */
    size_t count;
    size_t
        unknown_spaces; /* lines of layers with a declared space that this process does not know */
};

/* Adds a file's look-ups. ERR_IO; ERR_FORMAT after a message with file, line and field, also for a
 * layer that cannot be. After an error a part of the file may have been added. */
int traffic_read(const char *path, struct traffic *inout);
/* Does what traffic_read() does with a text. */
int traffic_parse(const char *text, size_t length, const char *origin, struct traffic *inout);
void traffic_free(struct traffic *traffic);

/* Count look-ups: all of a bucket; those of a bucket that no pin answered; all of a layer, with the
 * lost ones. */
uint64_t traffic_lookups(const struct traffic_bucket *bucket);
uint64_t traffic_unpinned(const struct traffic_bucket *bucket);
uint64_t traffic_total(const struct traffic_layer *layer);

/* ---- Weights for a mean over buckets. */

/* Fills weights[bucket] for `count` buckets with the look-ups of the layer, also from records
 * without T. Look-ups of other buckets are ignored. ERR_ARGUMENT after a message: the traffic is of
 * other layers, or has no look-up of these buckets. */
int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t count);

/* Fills the weights where no traffic is known: each doubling of the key counts the same. A range
 * without a lower or an upper end counts as one doubling. */
void traffic_even(struct buckets buckets, double *weights, size_t count);

#endif
