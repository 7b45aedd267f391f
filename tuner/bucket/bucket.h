/* Takes one bucket from the samples in the store to its entry.  The caller runs the steps and
 * limits their cost:
 *
 *     bucket_init(&b, dictionary, bucket);
 *     bucket_load(&b);                                   trials and samples of earlier runs
 *     bucket_open(&b, false);                            the decision, where earlier runs left it
 *     while ((arm = bucket_next(&b, &purpose)) != DECISION_DONE)
 *         bucket_learn(&b, purpose, arm, ns);            or bucket_fail(&b, arm, state, why);
 *                                                        * bucket_tell() if the row exists already
 *     bucket_entry(&b, -1, &entry);
 *     bucket_forget(&b);
 *
 * The decision gets all samples of the bucket, of all verbs, in the order in which they ran. */
#ifndef BUCKET_H
#define BUCKET_H

#include "decision.h"
#include "dictionary.h"
#include "ledger.h"
#include "shape.h"

/* A sample that counts; a plain value. */
struct counted_sample {
    int arm;
    enum sample_kind kind;
    uint32_t round; /* of the sample's row, as `run` */
    int64_t run, ns;
    bool disturbed;
};

/* bucket_init() fills it, bucket_load() allocates the arrays, bucket_forget() frees them. */
struct bucket {
    const struct dictionary *dictionary; /* borrowed */
    struct bucket_key key;
    uint64_t capacity; /* of its steps: the upper edge, unless the caller sets another one */
    uint32_t process;  /* number of the process that runs several buckets, written as the round of
                        * their samples; 0: rounds number the samples of a plan */
    bool known;        /* `entry` is set */
    struct entry_row entry;
    struct attempt *attempts;       /* by arm; NULL: not loaded */
    uint32_t *distance;             /* by arm, from the default; NULL: no declared space */
    struct counted_sample *samples; /* in the order in which they ran */
    uint32_t sample_count, sample_room;
    struct decision decision;
};

void bucket_init(struct bucket *b, const struct dictionary *dictionary, uint32_t bucket);

/* Loads entry, attempts and samples.  A caller that knows of further plans that cannot run sets
 * their attempts' `usable` to false before bucket_open(). */
int bucket_load(struct bucket *b);
/* Frees attempts and samples; the entry stays. */
void bucket_forget(struct bucket *b);

/* Begins the decision with all loaded samples.  A rematch is for a machine that has changed: only
 * the entry's plan, its runner-up and the default take part, and other buckets do not count. */
void bucket_open(struct bucket *b, bool rematch);

/* The arm to sample next: decision_next(), and after it the best plan with r = 0 if the decided
 * plan has r >= 1 (struct entry_row, `other`). */
int bucket_next(struct bucket *b, enum decision_purpose *purpose);

/* Writes the trial's row before an arm's first step; `harmless` as for ledger_begin(). */
int bucket_begin(struct bucket *b, int arm, bool harmless);
/* Writes a sample's row, and hands the sample to the decision if there is one. */
int bucket_learn(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns);
/* Hands a sample to the decision; its row exists already. */
int bucket_tell(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns);
/* Appends a sample to samples[] only. */
int bucket_remember(struct bucket *b, int arm, enum sample_kind kind, int64_t ns);
/* Writes that a trial failed.  Its plan is not tried again in this bucket. */
int bucket_fail(struct bucket *b, int arm, enum trial_state state, const char *why);

/* The kind that a sample's row gets. */
enum sample_kind bucket_sample_kind(enum decision_purpose purpose);
/* The number of an arm's samples. */
uint32_t bucket_count(const struct bucket *b, int arm);
/* The median of an arm's last 64 samples; NAN without samples. */
double bucket_median_ns(const struct bucket *b, int arm);

/* Makes the entry that would be published now.  With `arm` >= 0 it is this arm's, as the static
 * plan. UNSUPPORTED: no plan can run here; the trials say why. */
int bucket_entry(const struct bucket *b, int arm, struct entry_row *out);

#endif
