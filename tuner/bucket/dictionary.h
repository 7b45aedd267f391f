/* The table of one layer while a run writes it: what all of its buckets have in common, and entries
 * for buckets that were not measured. */
#ifndef DICTIONARY_H
#define DICTIONARY_H

#include "buckets.h"
#include "search.h"
#include "store.h"

/* The caller fills it, then calls dictionary_open(); dictionary_close() frees `search` and `pins`.
 * All other pointers are borrowed. */
struct dictionary {
    struct store *store;
    int64_t cluster, shape; /* ids in the store */
    int64_t run;            /* the run that writes */
    int64_t first_run;      /* plans that failed before this run may be tried again */
    int64_t pairs_since;    /* a new decision may use pairs from this run on */
    struct buckets buckets;
    char load[LOAD_NAME_BYTES]; /* samples and entries of other loads do not count */
    const struct moe_plan *arms;
    size_t arm_count;
    int default_arm;       /* the default plan's arm, or -1 */
    struct search *search; /* NULL: nothing is decided */
    const struct effort *effort;
    double harm, margin;  /* as in struct decision_setup */
    uint32_t patience;    /* as in struct decision_setup; 0: the effort's */
    bool launched;        /* as in struct decision_setup */
    bool any_effort;      /* entries that were decided with less effort hold, too */
    struct row_list pins; /* plans that a person set; no run changes them */
};

/* Finds the layer in the store, or adds it, and loads its pins. */
int dictionary_open(struct dictionary *d, const struct moe_shape *shape);
void dictionary_close(struct dictionary *d);

/* The index of a plan in arms[], or -1. */
int dictionary_arm(const struct dictionary *d, const struct moe_plan *plan);

/* The entry of a bucket.  UNSUPPORTED, without a message: it has none. */
int dictionary_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out);

/* The pin of a bucket; NULL: it has none. */
const struct override_row *dictionary_pin(const struct dictionary *d, uint32_t bucket);

/* Whether an entry is a decision that still holds under the dictionary's load, so that the bucket
 * need not be measured.  `inferred`: inferred entries hold, too. */
bool dictionary_holds(const struct dictionary *d, const struct entry_row *entry, bool inferred);

/* The time that the search expects of a plan in a bucket; NAN if it has no model, or arm is -1. */
double dictionary_expected_us(const struct dictionary *d, uint32_t bucket, int arm);

/* An entry with this run's ids and names, but without results. */
void dictionary_begin_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out);

/* Writes into an entry which plan is likely to be better than its default plan. */
struct doubt;
void dictionary_doubt(const struct dictionary *d, const struct doubt *doubt, struct entry_row *out);

/* Makes an entry for this arm in a bucket without measurements, from what the search knows of other
 * buckets.  Times and bound are NAN if the search knows nothing.  The gain is unknown, because it
 * was not measured.  usable NULL: all arms can run. */
void dictionary_infer(const struct dictionary *d, uint32_t bucket, int arm, const bool *usable,
                      struct entry_row *out);

/* Adds the best plan of the other kind than the entry's (struct entry_row, `other`), by the
 * search's expectation. */
void dictionary_infer_other(const struct dictionary *d, const bool *usable,
                            struct entry_row *inout);

#endif
