/* The dictionary of one layer while it is written: what is the same for all of its buckets, and
 * entries of buckets that nobody measured. */
#ifndef DICTIONARY_H
#define DICTIONARY_H

#include "buckets.h"
#include "search.h"
#include "store.h"

struct dictionary {
    struct store *store;        /* borrowed, as all pointers */
    int64_t cluster, shape;     /* ids in the store */
    int64_t run;                /* that writes */
    int64_t first_run;          /* what failed in earlier runs than this may be tried again */
    int64_t pairs_since;        /* pairs of earlier runs prove nothing of what is decided anew */
    struct buckets buckets;     /* its buckets */
    char load[LOAD_NAME_BYTES]; /* of its samples and entries; those of others do not count */
    const struct moe_plan *arms;
    size_t arm_count;
    int default_arm;       /* the default plan's arm, or -1 */
    struct search *search; /* NULL: nothing is decided */
    const struct effort *effort;
    double harm, margin;  /* as in struct decision_setup */
    uint32_t patience;    /* likewise; 0: the effort's */
    bool launched;        /* likewise */
    bool any_effort;      /* what less effort has decided holds, too */
    struct row_list pins; /* a person's word: what they cover is left alone */
};

/* Finds the layer in the store, or adds it, and what is pinned there. */
int dictionary_open(struct dictionary *d, const struct moe_shape *shape);
void dictionary_close(struct dictionary *d); /* its search and its pins */

/* The index of a plan, or -1. */
int dictionary_arm(const struct dictionary *d, const struct moe_plan *plan);

/* The bucket's entry.  UNSUPPORTED, silently, if there is none. */
int dictionary_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out);

/* What a person pinned at a bucket, and trainers are told; NULL: nothing. */
const struct override_row *dictionary_pin(const struct dictionary *d, uint32_t bucket);

/* Whether an entry is a decision that holds under the dictionary's load: nothing is measured there.
 * Who only looks for an answer takes an inferred one, too. */
bool dictionary_holds(const struct dictionary *d, const struct entry_row *entry, bool inferred);

/* What the search expects one plan to take at a bucket; NAN if it has no model, or arm is -1. */
double dictionary_expected_us(const struct dictionary *d, uint32_t bucket, int arm);

/* An entry that holds this run's names and nothing that was found. */
void dictionary_begin_entry(const struct dictionary *d, uint32_t bucket, struct entry_row *out);

/* Which plan is likely to be better than the entry's default. */
struct doubt;
void dictionary_doubt(const struct dictionary *d, const struct doubt *doubt, struct entry_row *out);

/* Nothing is measured there: an entry for this arm by what the search has learnt elsewhere.  Times
 * and bound are NAN as far as it has learnt nothing; a gain that nobody measured is not claimed.
 * usable NULL: all arms are. */
void dictionary_infer(const struct dictionary *d, uint32_t bucket, int arm, const bool *usable,
                      struct entry_row *out);

/* The same of the other kind of plans than the entry's (struct entry_row, `other`). */
void dictionary_infer_other(const struct dictionary *d, const bool *usable,
                            struct entry_row *inout);

#endif
