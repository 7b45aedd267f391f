/* One plan at one bucket on its way through the ranks: its row in the store says what became of it
 * before the next step is taken. */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include "campaign.h"
#include "contest.h"

struct attempt {
    struct trial_row trial; /* key and capacity are the caller's; id 0: never begun */
    bool begun;             /* by this campaign */
    bool usable;            /* not ruled out, nor failed */
};

/* Takes over what an earlier run left.  One that was cut off too often counts as one that kills its
 * ranks; one that was ruled out by memory is usable again, for the limit may be another. */
int attempt_recall(struct campaign *campaign, struct attempt *attempt,
                   const struct trial_row *known);

/* Needs `bytes` per rank where `limit_bytes` are allowed: never runs. */
int attempt_rule_out(struct campaign *campaign, struct attempt *attempt, int64_t bytes,
                     int64_t limit_bytes);

/* One timed step, kept as a sample.  *ns is 0 when it failed; the row says how, and that is no
 * error. */
int attempt_step(struct campaign *campaign, struct attempt *attempt, enum sample_kind kind,
                 uint32_t round, int64_t *ns);

/* What is under way, for the progress line and `moetune status`. */
void attempt_show(struct campaign *campaign, const struct attempt *attempt, int64_t ns);

/* Rounds until the contest is decided.  `contestants` are in its order; one that fails is dropped
 * and no longer usable.  ERR_CUT when time is up. */
int attempt_contest(struct campaign *campaign, struct contest *contest,
                    struct attempt *const *contestants, enum sample_kind kind);

/* Times and gain of what a contest adopted. */
void attempt_fill(const struct contest_verdict *verdict, struct entry_row *out);

#endif
