/* One plan at one bucket in the store: its row says what became of it before the next step is
 * taken, and before a step may take this process with it. */
#ifndef LEDGER_H
#define LEDGER_H

#include "store.h"

struct attempt {
    struct trial_row trial; /* key and capacity are the caller's; id 0: never begun */
    bool begun;             /* by this process */
    bool usable;            /* not ruled out, nor failed */
    uint32_t held_back;     /* disturbed steps in a row */
    uint32_t throttled;     /* disturbed steps that counted all the same */
    uint32_t kills;         /* how often its ranks died under it, in this run */
};

/* Takes over what an earlier run left.  One that was cut off too often counts as one that kills its
 * ranks; one that was ruled out by memory is usable again, for the limit may be another. */
int ledger_recall(struct store *store, struct attempt *attempt, const struct trial_row *known);

/* Before an attempt's first step, once.  Durable on return, unless `harmless`: the plan is known to
 * take nobody with it. */
int ledger_begin(struct store *store, int64_t run, struct attempt *attempt, bool harmless);

/* Whether its ranks died for the first time: something else may have killed them, and the step is
 * to be taken once more, on fresh ones.  To be asked once for every failure. */
bool ledger_forgives(struct attempt *attempt, enum trial_state state);

/* It was cut off by something that says nothing of the plan: that was no attempt. */
int ledger_spare(struct store *store, struct attempt *attempt);

/* What a step of it needed; its row keeps the most. */
int ledger_memory(struct store *store, struct attempt *attempt, int64_t bytes);

/* What became of it, if that is news.  Anything but TRIAL_OK makes it unusable; `message` says why.
 */
int ledger_end(struct store *store, struct attempt *attempt, enum trial_state state,
               const char *message);

/* A step of it, as the database's next sample; then whether it counts; NULL: it does. */
int ledger_sample(struct store *store, struct attempt *attempt, const struct sample_row *sample,
                  bool *counts);

/* What a verification leaves of an entry that it did not refute.  The row says already what was
 * measured; its times follow the gain.  Where the plan did not gain, that counts together with what
 * was claimed, each as far as it is sure; where it does not gain by both the default plan takes its
 * place.  `claim`: the entry as it was. */
void ledger_weigh(const struct moe_shape *shape, const struct entry_row *claim,
                  struct entry_row *entry);

/* It is kept, and is no longer stale. */
int ledger_confirm(struct store *store, struct entry_row *entry);

/* Or it is refuted: `left` is in force until the bucket is tuned again, and what was sampled there
 * is forgotten, for it would lead to the same winner; a verification's own samples stay. */
int ledger_refute(struct store *store, struct entry_row *entry, struct moe_plan left,
                  const char *why);

/* Whether it counts; to be asked once for every sample, for the attempt counts disturbed ones. */
bool ledger_counts(struct attempt *attempt, const struct sample_row *sample);

#endif
