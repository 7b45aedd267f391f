/* --from-misses: which buckets trainers asked for without finding an entry, the most frequent
 * first. */
#ifndef MISSES_H
#define MISSES_H

#include "store.h"
#include "tune_options.h"

/* One bucket without a good entry. */
struct miss {
    size_t space; /* index into the request's spaces: its layer */
    uint32_t bucket;
    uint64_t asked;  /* number of look-ups */
    double share;    /* of all look-ups of its layer */
    const char *why; /* "missing", "stale", "inferred", ... */
};

/* misses_list() allocates it, misses_free() frees it. */
struct misses {
    struct miss *list;
    size_t count;
};

/* Adds the layers, widths and buckets of the files to a request, for tune_request_make().  It adds
 * the layers of the request's declared space, or those without a space, and with --shape only those
 * that match it.  A message names how many others, or layers on other ranks, are skipped.
 * UNSUPPORTED after a message if none is left. */
int misses_add_layers(struct tune_request *request);

/* Lists the buckets that trainers asked for and for which the store has no good entry now.  An
 * inferred entry counts as missing if it answers at least MISSES_OFTEN of its layer's look-ups. The
 * anchors of the request's layers become these buckets.  store NULL: all buckets are missing. */
#define MISSES_OFTEN 0.01
int misses_list(struct tune_request *request, struct store *store, const struct cluster *here,
                struct misses *out);
void misses_free(struct misses *misses);

#endif
