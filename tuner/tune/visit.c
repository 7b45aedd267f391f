/* Runs the steps that the decision of one bucket asks for. */
#include "visit.h"

#include "attempt.h"
#include "bucket.h"
#include "status.h"

static int rule_out_by_memory(struct sweep *sweep, struct bucket *b)
{
    const struct space *space = sweep->space;

    for (int arm = 0; arm < (int)space->arm_count; arm++) {
        struct attempt *a = &b->attempts[arm];
        int64_t bytes = a->usable ? space_bytes(space, arm, b->key.bucket) : 0;

        if (bytes <= space->memory_limit_bytes)
            continue;
        TRY(attempt_rule_out(sweep->setup->campaign, a, bytes, space->memory_limit_bytes));
        sweep->result.ruled_out++;
    }
    return OK;
}

/* Brings the decision to where the last run left it. */
static int replay(struct sweep *sweep, struct bucket *b)
{
    TRY(bucket_load(b));
    TRY(rule_out_by_memory(sweep, b));
    bucket_open(b, false);
    return OK;
}

/* The ranks hear of the layer when it is first needed: many a bucket is decided by what is known.
 */
static int tell_ranks(struct sweep *sweep)
{
    if (!sweep->told)
        TRY(campaign_layer(sweep->setup->campaign, &sweep->space->shape,
                           sweep->setup->limit_bytes));
    sweep->told = true;
    return OK;
}

static int take_step(struct sweep *sweep, struct bucket *b, enum decision_purpose purpose, int arm)
{
    struct campaign *c = sweep->setup->campaign;
    struct attempt *a = &b->attempts[arm];
    struct step step;

    TRY(tell_ranks(sweep));
    TRY(attempt_step(c, a, bucket_sample_kind(purpose), bucket_count(b, arm), &step));
    if (!step.ns)
        decision_drop(&b->decision, arm);
    else if (step.counts)
        TRY(bucket_tell(b, purpose, arm, step.ns));
    sweep->result.failed_trials += !a->usable;
    attempt_show(c, a, step.ns);
    return OK;
}

static int decide(struct sweep *sweep, struct bucket *b)
{
    enum decision_purpose purpose;
    int arm;

    while ((arm = decision_next(&b->decision, &purpose)) != DECISION_DONE) {
        if (campaign_over(sweep->setup->campaign))
            return ERR_CUT;
        TRY(take_step(sweep, b, purpose, arm));
    }
    return OK;
}

/* `arm`: the one to publish, or -1.  `out` NULL: nobody asks for an entry. */
static int visit(struct sweep *sweep, uint32_t bucket, bool measure, int arm, struct entry_row *out)
{
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = replay(sweep, &b);
    if (!rc && measure)
        rc = decide(sweep, &b);
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

int visit_recall(struct sweep *sweep, uint32_t bucket)
{
    return visit(sweep, bucket, false, -1, NULL);
}
