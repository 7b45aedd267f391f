/* Runs the steps that the decision of one bucket asks for. */
#include "visit.h"

#include "bucket.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int rule_out_by_memory(struct sweep *sweep, struct bucket *b)
{
    const struct space *space = sweep->space;

    for (int arm = 0; arm < (int)space->arm_count; arm++) {
        struct attempt *a = &b->attempts[arm];
        int64_t bytes = a->usable ? space_bytes(space, arm, b->key.bucket) : 0;

        if (bytes <= space->memory_limit_bytes)
            continue;
        TRY(attempt_rule_out(sweep->campaign, a, bytes, space->memory_limit_bytes));
        sweep->result.ruled_out++;
    }
    return OK;
}

int visit_step(struct sweep *sweep, struct attempt *attempt, enum sample_kind kind, uint32_t round,
               struct step *out)
{
    struct campaign *c = sweep->campaign;

    if (campaign_over(c))
        return ERR_CUT;
    if (!sweep->told)
        TRY(campaign_layer(c, &sweep->space->shape, sweep->space->load,
                           sweep->request->memory_limit_bytes));
    sweep->told = true;
    return attempt_step(c, attempt, kind, round, out);
}

/* Only where somebody is about to be told: it costs as much as a decision. */
static void show_leader(struct sweep *sweep)
{
    struct progress *progress = &sweep->campaign->progress;
    struct search *search = sweep->dictionary.search;
    int leader, default_arm = sweep->space->default_arm;
    double gain = 0;

    if (!progress_wants_leader(progress))
        return;
    leader = search_result(search).winner;
    if (leader < 0)
        return;
    if (default_arm >= 0)
        gain = 0 - expm1(search_compare(search, leader, default_arm).mean);
    snprintf(progress->leader, sizeof(progress->leader), "%s leads",
             PLAN_TEXT(&sweep->space->arms[leader]));
    if (gain > 0)
        snprintf(progress->leader + strlen(progress->leader),
                 sizeof(progress->leader) - strlen(progress->leader), " by %.1f %%", gain * 100);
}

/* Brings the decision to where the last run left it; to its end if `measure`. */
static int decide(struct sweep *sweep, struct bucket *b, bool measure)
{
    enum decision_purpose purpose;
    int arm;

    TRY(bucket_load(b));
    TRY(rule_out_by_memory(sweep, b));
    bucket_open(b, false);
    *sweep->campaign->progress.leader = 0;
    sweep->campaign->progress.leader_ns = 0; /* the first step has one */
    while (measure && (arm = bucket_next(b, &purpose)) != DECISION_DONE) {
        struct attempt *a = &b->attempts[arm];
        struct step step;

        TRY(visit_step(sweep, a, bucket_sample_kind(purpose), bucket_count(b, arm), &step));
        if (!step.ns)
            decision_drop(&b->decision, arm);
        else if (step.counts)
            TRY(bucket_tell(b, purpose, arm, step.ns));
        show_leader(sweep);
        sweep->result.failed_trials += !a->usable;
    }
    *sweep->campaign->progress.leader = 0;
    return OK;
}

/* `arm`: the one to publish, or -1.  `out` NULL: nobody asks for an entry. */
static int visit(struct sweep *sweep, uint32_t bucket, bool measure, int arm, struct entry_row *out)
{
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = decide(sweep, &b, measure);
    if (!rc && out)
        rc = bucket_entry(&b, arm, out);
    bucket_forget(&b);
    return rc;
}

int visit_measure(struct sweep *sweep, uint32_t bucket, struct entry_row *out)
{
    return visit(sweep, bucket, true, -1, out);
}

int visit_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out)
{
    return visit(sweep, bucket, false, arm, out);
}

int visit_candidate(struct sweep *sweep, uint32_t bucket, int *arm, struct pairs *pairs,
                    struct normal *belief)
{
    const struct trial_of *trial;
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = decide(sweep, &b, false);
    trial = decision_trial(&b.decision);
    *arm = -1;
    if (trial) {
        *arm = trial->arm;
        *pairs = trial_pairs(trial);
        *belief = trial->belief;
    }
    bucket_forget(&b);
    return rc;
}

int visit_recall(struct sweep *sweep, uint32_t bucket)
{
    return visit(sweep, bucket, false, -1, NULL);
}
