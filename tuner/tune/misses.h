/* Which buckets trainers asked for and did not find, the most wanted first: --from-misses. */
#ifndef MISSES_H
#define MISSES_H

#include "store.h"
#include "tune_options.h"

/* One bucket of one of the request's layers. */
struct miss {
    size_t space; /* its number */
    uint32_t bucket;
    uint64_t asked;  /* how often */
    double share;    /* of all look-ups of its layer */
    const char *why; /* missing, stale, inferred */
};

struct misses {
    struct miss *list;
    size_t count;
};

/* The request's layers, windows and buckets from the files; for tune_request_make.  Those are the
 * layers of the declared space that it has, or those without one, if --shape was given those that
 * it fits.  Others, and layers on other ranks, are passed over with a note; UNSUPPORTED after a
 * message if no other is there. */
int misses_spaces(struct tune_request *request);

/* Of what was asked, what the store does not hold now for this cluster: a trainer's record may be
 * older.  Inferred entries count as missing where they answer at least MISSES_OFTEN of their
 * layer's look-ups.  The anchors of the request's spaces become these buckets.  store NULL: nothing
 * is known. */
#define MISSES_OFTEN 0.01
int misses_list(struct tune_request *request, struct store *store, const struct cluster *here,
                struct misses *out);
void misses_free(struct misses *misses);

#endif
