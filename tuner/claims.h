/* What the dictionary claims about this machine: the entries to verify, and in which order. */
#ifndef CLAIMS_H
#define CLAIMS_H

#include "options.h"
#include "verdict.h"

enum claims_kind { CLAIMS_ALL, CLAIMS_STALE, CLAIMS_IMPORTED, CLAIMS_MEASURED, CLAIMS_INFERRED };
extern const char *const claims_words[];

struct claims_wanted {
    uint32_t kind;             /* enum claims_kind */
    uint32_t first, last;      /* buckets */
    struct option_list shapes; /* as text: a layer that agrees with one of them; empty: any */
    bool restart;              /* go on with no run that was cut off */
};

struct claims {
    struct verdict *verdicts; /* the most doubtful first */
    size_t count, room;
    int64_t first_run; /* the oldest run that is gone on with; INT64_MAX: none */
    uint32_t waiting;  /* refuted by an earlier verification, and not tuned again since */
};

/* After campaign_recognise() for a machine that is known; what there is nothing to say about is
 * not in there.  UNSUPPORTED after a word if nothing is left. */
int claims_find(struct campaign *campaign, const struct claims_wanted *wanted, struct claims *out);
void claims_sort(struct claims *claims); /* by layer and bucket */
void claims_free(struct claims *claims);

#endif
