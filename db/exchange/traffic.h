/* What trainers asked, as libmoelookup recorded it (MOELOOKUP_RECORD, moelookup_record).
 *
 * A file is JSON Lines, one object a line, each whole in itself, so that lines of several layers,
 * processes and jobs may follow in any order and files may be joined end to end; counts of equal
 * layers and windows add up.  Empty lines mean nothing: who finds the end of a line missing,
 * perhaps because another writes it just now, begins with a line feed.  Members, all of them, in
 * any order:
 *
 *   "format": "moetune-traffic", "version": 1
 *   "layer": "E=8 k=2 T=4096 D=1024 ...", the text form of a shape; T=0: the trainer did not say
 *   "window": R, the width of a bucket
 *   "cluster": hash of the table that answered, "device": the name it has there; both null: none
 *   "lost": look-ups that found no room to be counted by bucket (thousands of far buckets)
 *   "asked": [[bucket, source, count], ...] by bucket, each once; source is one of exact,
 *            neighbour, clamped, stale, override, default, inferred, imported, unsound,
 *            and unknown launch, which no older moetune knows: it refuses the file
 *
 * A bucket is floor(capacity / R), also where it lies outside of what was tuned; of a layer with a
 * declared space R is 1, and a bucket is a range of its key and a class. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "buckets.h"
#include "moelookup.h"
#include "plan.h"

struct traffic_bucket {
    uint32_t bucket;
    uint64_t asked[PLAN_SOURCE_COUNT]; /* by enum moe_source */
};

struct traffic_layer {
    struct moe_shape shape;
    uint32_t window;
    struct traffic_bucket *buckets; /* by bucket */
    size_t bucket_count;
    uint64_t lost;
};

struct traffic {
    struct traffic_layer *layers; /* in the order they first come */
    size_t count;
    size_t strangers; /* lines of layers with a declared space that this process does not know */
};

/* Adds a file to what is there.  ERR_IO; ERR_FORMAT names file, line and field, and so does what
 * no layer can be.  On an error a part of the file may have been added. */
int traffic_read(const char *path, struct traffic *inout);
/* Does the same with a text. */
int traffic_take(const char *text, size_t length, const char *origin, struct traffic *inout);
void traffic_free(struct traffic *traffic);

/* Every look-up of a bucket; those that are not pinned; of a layer with the lost ones. */
uint64_t traffic_asked(const struct traffic_bucket *bucket);
uint64_t traffic_unpinned(const struct traffic_bucket *bucket);
uint64_t traffic_total(const struct traffic_layer *layer);

/* ---- what a mean over buckets counts by */

/* Fills weights[bucket], of so many buckets, with the look-ups of the layer, also of records that
 * did not say T.  Those of other buckets count nowhere.  ERR_ARGUMENT after a message: the traffic
 * is of other layers, or nobody asked for any of these buckets. */
int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t count);

/* Where nobody says how often: each doubling of the key alike; a range without a lower or an upper
 * end counts as one. */
void traffic_even(struct buckets buckets, double *weights, size_t count);

#endif
