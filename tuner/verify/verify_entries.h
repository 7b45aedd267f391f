/* What the dictionary claims about this machine: the entries to verify, and in which order. */
#ifndef VERIFY_ENTRIES_H
#define VERIFY_ENTRIES_H

#include "options.h"
#include "verify_entry.h"

enum verify_only { ONLY_ALL, ONLY_STALE, ONLY_IMPORTED, ONLY_MEASURED, ONLY_INFERRED };
extern const char *const verify_only_words[];

struct verify_wanted {
    uint32_t kind;             /* enum verify_only */
    uint32_t first, last;      /* buckets */
    struct option_list shapes; /* as text: a layer that agrees with one of them; empty: any */
    bool restart;              /* go on with no run that was cut off */
};

struct verify_entries {
    struct verify_result *verdicts; /* the most doubtful first */
    size_t count;
    int64_t first_run; /* the oldest run that is gone on with; INT64_MAX: none */
    uint32_t waiting;  /* refuted by an earlier verification, and not tuned again since */
};

/* After campaign_recognise() for a machine that is known; what there is nothing to say about is
 * not in there.  UNSUPPORTED after a word if nothing is left. */
int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out);

/* Says how entries of spaces that programs declare can be verified, if there are any: only the
 * programs can run their plans. */
int verify_entries_declared(struct store *store, const struct verify_wanted *wanted);

void verify_entries_sort(struct verify_entries *claims); /* by layer and bucket */
void verify_entries_free(struct verify_entries *claims);

#endif
