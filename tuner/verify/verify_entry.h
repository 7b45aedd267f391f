/* One entry of the dictionary put to the test again: its plan and the default run in the rounds of
 * a contest, and what comes out is written down.
 *
 * Who is not slower keeps the entry, with fresh times, and the entry is no longer stale.  Who is
 * slower, or fails, is refuted: the entry holds the default plan from then on, says "refuted", and
 * is stale, so that the next `moetune tune` measures the bucket again; what was sampled there
 * before is forgotten, for it would lead to the same winner.  The verification's own samples stay.
 *
 * An entry that its search could not tell from another plan, or that holds the default, also meets
 * that plan.  If it is outrun it is refuted, too, but keeps its plan, which is not slower than the
 * default, until the bucket is measured. */
#ifndef VERIFY_ENTRY_H
#define VERIFY_ENTRY_H

#include "account.h"
#include "campaign.h"
#include "contest.h"

enum verify_kind {
    VERIFY_PENDING, /* not reached yet */
    VERIFY_EARLIER, /* reached by a run that was cut off and is gone on with */
    VERIFY_DEFAULT, /* the default plan, against which there is nothing to compare it */
    VERIFY_BEATS,   /* faster than the default by more than the margin */
    VERIFY_TIE,     /* no difference could be shown */
    VERIFY_ALONE,   /* it runs, and the default failed */
    VERIFY_REFUTED  /* slower than the default, or a challenger, by more than the margin; or failed
                     */
};

struct verify_terms {
    double margin; /* a share of the time; smaller differences do not count */
    int64_t memory_limit_bytes;
    struct account_machine machine;
    int64_t first_run; /* what this run and those it goes on with have measured counts */
};

struct verify_result {
    struct entry_row claim; /* the entry as it was found */
    struct moe_shape shape;
    char load[LOAD_NAME_BYTES]; /* it is put to the test under */
    enum verify_kind kind;
    struct gain now;            /* of the plan over the default; NAN: not compared */
    uint32_t rounds, throttled; /* the latter: samples of both plans that count although
                                 * something held them back */
    char why[240];              /* how it was refuted, or the default failed */
};

/* Of an entry that could not be told from another plan, or holds the default: the plan that was or
 * came nearest to its search's winner.  NULL: there is none to be asked about. */
const struct moe_plan *verify_challenger(const struct entry_row *entry,
                                         const struct moe_shape *shape);

/* Settles a pending one.  ERR_CUT when time is up before that: what was sampled is kept, and used
 * by the run that goes on. */
int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *verdict);

#endif
