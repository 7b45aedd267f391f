/* The row of a trial (one plan in one bucket) in the store.  It is written before a step that may
 * kill this process, and has the result before the next step. */
#ifndef LEDGER_H
#define LEDGER_H

#include "store.h"

/* A trial while a process runs it; a plain value. */
struct attempt {
    struct trial_row trial; /* the caller sets key and capacity; id 0: no row yet */
    bool begun;             /* by this process */
    bool usable;            /* it neither failed nor was ruled out */
    uint32_t held_back;     /* disturbed steps in a row */
    uint32_t throttled;     /* disturbed steps that counted nevertheless */
    uint32_t kills;         /* how often its ranks died, in this run */
};

/* Takes over the row of an earlier run.  A trial that was cut off too often counts as one that
 * kills its ranks.  A trial that was ruled out by memory is usable again, because the limit may
 * differ. */
int ledger_recall(struct store *store, struct attempt *attempt, const struct trial_row *known);

/* Writes the row before the first step, once per process.  The row is durable on return.  With
 * `harmless` it is not: the plan is known not to kill its process. */
int ledger_begin(struct store *store, int64_t run, struct attempt *attempt, bool harmless);

/* Whether a failed step may be repeated on fresh ranks: the ranks died for the first time, and
 * something else may have killed them.  Call it once for each failure, which it counts. */
bool ledger_may_repeat(struct attempt *attempt, enum trial_state state);

/* Takes ledger_begin() back: the trial was cut off by something that says nothing of the plan. */
int ledger_undo_begin(struct store *store, struct attempt *attempt);

/* Notes the memory that a step needed; the row has the most of all steps. */
int ledger_memory(struct store *store, struct attempt *attempt, int64_t bytes);

/* Writes the result of a trial if it has changed.  Any state but TRIAL_OK makes it unusable;
 * `message` says why. */
int ledger_end(struct store *store, struct attempt *attempt, enum trial_state state,
               const char *message);

/* Writes a step as the database's next sample.  *counts: as ledger_counts(); NULL: the sample
 * counts. */
int ledger_sample(struct store *store, struct attempt *attempt, const struct sample_row *sample,
                  bool *counts);

/* Updates an entry that a verification did not refute.  `entry` has the new measurement, `claim` is
 * the entry as it was.  If the plan did not gain now, the two gains are averaged by their
 * intervals. If it does not gain by the average either, the default plan replaces it.  The entry's
 * times follow the gain. */
void ledger_weigh(const struct moe_shape *shape, const struct entry_row *claim,
                  struct entry_row *entry);

/* Writes that an entry is confirmed; it is no longer stale. */
int ledger_confirm(struct store *store, struct entry_row *entry);

/* Writes that an entry is refuted.  The plan `left` is in force until the bucket is tuned again.
 * The bucket's samples are forgotten, because they would lead to the same winner; samples of
 * verifications stay. */
int ledger_refute(struct store *store, struct entry_row *entry, struct moe_plan left,
                  const char *why);

/* Whether a sample counts.  Call it once for each sample, because the attempt counts disturbed
 * ones. */
bool ledger_counts(struct attempt *attempt, const struct sample_row *sample);

#endif
