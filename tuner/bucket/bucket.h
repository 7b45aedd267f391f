/* One bucket from what the store knows of it to its entry.  Who runs the steps, and what they may
 * cost, is the caller's:
 *
 *     bucket_init(&b, dictionary, bucket);
 *     bucket_load(&b);                                   what earlier runs left
 *     bucket_open(&b, false);                            the decision, at the point they left it
 *     while ((arm = bucket_next(&b, &purpose)) != DECISION_DONE)
 *         bucket_learn(&b, purpose, arm, ns);            or bucket_fail(&b, arm, state, why);
 *                                                        bucket_tell() where the row is written
 *     bucket_entry(&b, -1, &entry);
 *     bucket_forget(&b);
 *
 * All that was sampled in the bucket, by whomever, is told in the order it was taken. */
#ifndef BUCKET_H
#define BUCKET_H

#include "decision.h"
#include "dictionary.h"
#include "ledger.h"
#include "shape.h"

/* A sample that counts. */
struct counted_sample {
    int arm;
    enum sample_kind kind;
    uint32_t round; /* of the sample's row, as its run */
    int64_t run, ns;
    bool disturbed;
};

struct bucket {
    const struct dictionary *dictionary;
    struct bucket_key key;
    uint64_t capacity; /* of its steps: the upper edge, unless the caller puts another one here */
    uint32_t process;  /* that its samples are of, where one process shows several buckets; the
                        * round of their rows.  0: rounds count those of a plan */
    bool known;        /* there is an entry */
    struct entry_row entry;
    struct attempt *attempts;       /* by arm; NULL: not loaded */
    uint32_t *apart;                /* by arm: from the default, in a declared space; else NULL */
    struct counted_sample *samples; /* in the order they were taken */
    uint32_t sample_count, sample_room;
    struct decision decision;
};

void bucket_init(struct bucket *b, const struct dictionary *dictionary, uint32_t bucket);

/* Entry, attempts and samples.  Whoever knows of more that cannot run here makes those attempts
 * unusable before the decision is opened. */
int bucket_load(struct bucket *b);
void bucket_forget(struct bucket *b); /* attempts and samples; the entry stays */

/* A rematch is among the entry's plan, its runner-up and the default alone, and what other buckets
 * say does not count: the machine has changed. */
void bucket_open(struct bucket *b, bool rematch);

/* decision_next(), and then what else is to be sampled: where the best plan has r >= 1, how long
 * the best one with r = 0 takes, to which it is compared where experts' capacities differ. */
int bucket_next(struct bucket *b, enum decision_purpose *purpose);

/* Before an arm's first step; `harmless` as for ledger_begin(). */
int bucket_begin(struct bucket *b, int arm, bool harmless);
/* A step that took `ns`: its row, and what follows from it.  A decision hears it that is open. */
int bucket_learn(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns);
/* The same where the row is written already. */
int bucket_tell(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns);
/* The same where nothing is decided. */
int bucket_remember(struct bucket *b, int arm, enum sample_kind kind, int64_t ns);
/* Never again in this bucket. */
int bucket_fail(struct bucket *b, int arm, enum trial_state state, const char *why);

enum sample_kind bucket_sample_kind(enum decision_purpose purpose);
uint32_t bucket_count(const struct bucket *b, int arm);   /* samples */
double bucket_median_ns(const struct bucket *b, int arm); /* of the last ones; NAN: none */

/* What would be published now; of `arm`, if it is not -1, as the static plan.  UNSUPPORTED: no plan
 * can run here; the trials say why. */
int bucket_entry(const struct bucket *b, int arm, struct entry_row *out);

#endif
