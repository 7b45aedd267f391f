/* Verifies one entry: runs its plan against the default plan and a challenger, and writes the
 * result.
 */
#include "bucket.h"
#include "plan.h"
#include "standings.h"
#include "status.h"
#include "text.h"
#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CLAIMED, PLANS_MAX = 3 };

/* One of two contests that share their samples: the plan against the default plan, and the
 * challenger against the plan. */
struct question {
    int arms[2]; /* in the contest's order */
    int count;   /* of plans that can run; the contest needs 2 to compare */
    struct contest contest;
};

/* One entry while it is verified.  Its pointers are borrowed. */
struct verified_bucket {
    struct campaign *campaign;
    const struct verify_terms *terms;
    struct verify_result *verdict;
    struct moe_plan arms[PLANS_MAX]; /* the first one is the entry's */
    int default_arm, challenger;     /* arms; challenger -1: none */
    struct dictionary dictionary;
    struct bucket bucket;
    struct question over_default, over_claim;
};

static struct attempt *attempt_of(const struct verified_bucket *vb, int arm)
{
    return &vb->bucket.attempts[arm];
}

static bool is_usable(const struct verified_bucket *vb, int arm)
{
    return arm >= 0 && attempt_of(vb, arm)->usable;
}

/* ---- the plans */

/* Returns whether a plan can be a challenger: it is legal, and neither the entry's nor the default.
 */
static bool may_challenge(const struct entry_row *e, const struct moe_shape *shape,
                          const struct moe_plan *plan)
{
    return plan->struct_size && plan_legal(plan, shape) && !plan_equal(plan, &e->plan) &&
           !plan_is_default(plan, shape);
}

const struct moe_plan *verify_challenger(const struct entry_row *e, const struct moe_shape *shape)
{
    if (strcmp(e->decision, "likely") != 0 && strcmp(e->decision, "tie") != 0 &&
        strcmp(e->decision, "default") != 0)
        return NULL;
    if (may_challenge(e, shape, &e->search_winner))
        return &e->search_winner;
    return may_challenge(e, shape, &e->runner_up) ? &e->runner_up : NULL;
}

/* Lists the plans, and prepares the bucket. */
static void list_plans(struct verified_bucket *vb)
{
    const struct entry_row *e = &vb->verdict->claim;
    const struct moe_shape *shape = &vb->verdict->shape;
    const struct moe_plan *challenger = verify_challenger(e, shape);
    int count = 1;

    vb->arms[CLAIMED] = plan_canonical(e->plan, shape);
    vb->default_arm = plan_is_default(&vb->arms[CLAIMED], shape) ? CLAIMED : count++;
    vb->arms[vb->default_arm] = plan_default(shape);
    vb->challenger = challenger ? count++ : -1;
    if (challenger)
        vb->arms[vb->challenger] = plan_canonical(*challenger, shape);
    vb->dictionary = (struct dictionary){ .store = vb->campaign->store,
                                          .cluster = e->cluster,
                                          .shape = e->shape,
                                          .run = vb->campaign->run.row.id,
                                          .first_run = vb->terms->first_run,
                                          .buckets = buckets_of(shape, e->window),
                                          .arms = vb->arms,
                                          .arm_count = (size_t)count,
                                          .default_arm = vb->default_arm };
    memcpy(vb->dictionary.load, vb->verdict->load, sizeof(vb->dictionary.load));
    bucket_init(&vb->bucket, &vb->dictionary, e->bucket);
    vb->bucket.capacity = e->capacity; /* an imported table may have another capacity */
}

/* ---- what is known */

/* Rules out a plan that is not legal for this layer, or needs too much memory. */
static int rule_out(struct verified_bucket *vb)
{
    struct attempt *claimed = attempt_of(vb, CLAIMED);
    int64_t limit = vb->terms->memory_limit_bytes;

    if (!vb->arms[CLAIMED].struct_size || !plan_legal(&vb->arms[CLAIMED], &vb->verdict->shape)) {
        claimed->usable = false;
        claimed->trial.state = TRIAL_FAILED;
        snprintf(claimed->trial.message, sizeof(claimed->trial.message),
                 "it is no plan of this layer");
    }
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++) {
        int64_t bytes;

        if (!is_usable(vb, arm))
            continue;
        bytes = account_alone(&vb->verdict->shape, &vb->terms->machine, &vb->arms[arm],
                              vb->bucket.capacity);
        if (bytes > limit)
            TRY(attempt_rule_out(vb->campaign, attempt_of(vb, arm), bytes, limit));
    }
    return OK;
}

/* Loads the samples.  Those of an earlier verification are dropped, unless this run continues it.
 */
static int load_samples(struct verified_bucket *vb)
{
    const struct bucket_key *k = &vb->bucket.key;
    bool resumed = false;

    TRY(bucket_load(&vb->bucket));
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++) {
        const struct trial_row *t = &attempt_of(vb, arm)->trial;

        resumed |= t->id && t->run >= vb->terms->first_run;
    }
    if (!resumed) {
        TRY(store_forget(vb->campaign->store, k->cluster, k->shape, k->window, k->bucket,
                         SAMPLE_VERIFY, SAMPLE_VERIFY));
        vb->bucket.sample_count = 0;
    }
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++)
        attempt_of(vb, arm)->throttled = 0;
    /* Only samples of verifications count. */
    for (uint32_t i = 0; i < vb->bucket.sample_count; i++)
        if (vb->bucket.samples[i].kind == SAMPLE_VERIFY)
            attempt_of(vb, vb->bucket.samples[i].arm)->throttled += vb->bucket.samples[i].disturbed;
    return rule_out(vb);
}

/* ---- the contests */

/* Adds a sample to the contest, if the plan takes part in it. */
static void question_tell(struct question *q, int arm, int64_t ns)
{
    for (int i = 0; i < q->count; i++)
        if (q->arms[i] == arm)
            contest_tell(&q->contest, i, ns);
}

/* Opens a contest of `count` plans with all samples so far.  `holder` is the index of the plan that
 * must be beaten.  `in_force`: in doubt the first plan stays. */
static void question_open(struct verified_bucket *vb, struct question *q, int count, int holder,
                          bool in_force)
{
    struct contest_settings settings = { .margin = vb->terms->margin,
                                         .seed =
                                             vb->campaign->setup->seed ^ vb->bucket.key.bucket };

    q->count = count;
    if (count)
        contest_open(&q->contest, &settings, count, holder, in_force);
    for (uint32_t i = 0; i < vb->bucket.sample_count; i++)
        if (vb->bucket.samples[i].kind == SAMPLE_VERIFY)
            question_tell(q, vb->bucket.samples[i].arm, vb->bucket.samples[i].ns);
}

/* Opens both contests.  The entry's plan stays unless the default plan beats it.  If it cannot run,
 * the default plan is timed alone, because it becomes the entry. */
static void open_questions(struct verified_bucket *vb)
{
    struct question *q = &vb->over_default;
    int count = 0, holder = -1;

    if (is_usable(vb, CLAIMED))
        q->arms[count++] = CLAIMED;
    if (is_usable(vb, vb->default_arm)) {
        holder = vb->default_arm == CLAIMED ? 0 : count;
        q->arms[holder] = vb->default_arm;
        count += vb->default_arm != CLAIMED;
    }
    question_open(vb, q, count, holder, is_usable(vb, CLAIMED));
    q = &vb->over_claim;
    q->arms[0] = vb->challenger;
    q->arms[1] = CLAIMED;
    question_open(vb, q, is_usable(vb, CLAIMED) && is_usable(vb, vb->challenger) ? 2 : 0, 1, false);
}

/* Returns whether the contest has two plans and came to this decision. */
static bool question_says(const struct question *q, enum contest_decision how)
{
    return q->count == 2 && contest_verdict(&q->contest).decision == how;
}

/* Returns the plan to sample next; -1: both contests are over.  The contest with fewer rounds comes
 * first, so that their rounds stay close in time. */
static int next_arm(const struct verified_bucket *vb)
{
    const struct question *a = &vb->over_default, *b = &vb->over_claim;
    int i = a->count ? contest_next(&a->contest) : CONTEST_DONE;
    int k = b->count ? contest_next(&b->contest) : CONTEST_DONE;

    if (i == CONTEST_DONE && question_says(a, CONTEST_DEFAULT))
        return -1;
    if (k != CONTEST_DONE && (i == CONTEST_DONE || contest_verdict(&b->contest).rounds <
                                                       contest_verdict(&a->contest).rounds))
        return b->arms[k];
    return i == CONTEST_DONE ? -1 : a->arms[i];
}

/* Removes a plan that cannot run. */
static void question_drop(struct question *q, int arm)
{
    for (int i = 0; i < q->count; i++)
        if (q->arms[i] == arm)
            contest_drop(&q->contest, i);
}

/* Takes samples until both contests are over.  ERR_CUT: time is up. */
static int run_contests(struct verified_bucket *vb)
{
    struct campaign_step step;
    int arm;

    open_questions(vb);
    while ((arm = next_arm(vb)) >= 0) {
        struct attempt *a = attempt_of(vb, arm);

        if (campaign_over(vb->campaign))
            return ERR_CUT;
        TRY(attempt_step(vb->campaign, a, SAMPLE_VERIFY, bucket_count(&vb->bucket, arm), &step));
        if (!step.ns) {
            question_drop(&vb->over_default, arm);
            question_drop(&vb->over_claim, arm);
        } else if (step.counts) {
            TRY(bucket_remember(&vb->bucket, arm, SAMPLE_VERIFY, step.ns));
            question_tell(&vb->over_default, arm, step.ns);
            question_tell(&vb->over_claim, arm, step.ns);
        }
    }
    return OK;
}

/* ---- the judgement */

/* Returns whether the challenger has beaten the entry's plan. */
static bool is_outrun(const struct verified_bucket *vb)
{
    return question_says(&vb->over_claim, CONTEST_ADOPTED);
}

static void explain_failure(const struct attempt *a, struct verify_result *v)
{
    const struct trial_row *t = &a->trial;

    text_put(v->why, sizeof(v->why), "%s%s%s", trial_state_words[t->state], *t->message ? ": " : "",
             t->message);
}

/* Sets the verdict, and its reason. */
static void judge(const struct verified_bucket *vb, const struct contest_verdict *found)
{
    struct verify_result *v = vb->verdict;
    struct gain by;

    v->rounds = found->rounds;
    v->kind = VERIFY_REFUTED;
    if (!is_usable(vb, CLAIMED)) {
        explain_failure(attempt_of(vb, CLAIMED), v);
        return;
    }
    v->now = found->challenge;
    if (is_outrun(vb)) {
        by = contest_verdict(&vb->over_claim.contest).challenge;
        text_put(v->why, sizeof(v->why), "%s is %.1f %% faster%s",
                 PLAN_TEXT(&vb->arms[vb->challenger]), 100 * by.value,
                 INTERVAL_TEXT("%.1f %%", 100 * by.low, 100 * by.high));
        return;
    }
    switch (found->decision) {
    case CONTEST_ADOPTED:
        v->kind = VERIFY_BEATS;
        if (!is_usable(vb, vb->default_arm)) {
            v->kind = VERIFY_ALONE;
            explain_failure(attempt_of(vb, vb->default_arm), v);
        }
        break;
    case CONTEST_DEFAULT:
        if (vb->default_arm == CLAIMED)
            v->kind = VERIFY_DEFAULT;
        else
            text_put(v->why, sizeof(v->why), "%.1f %% slower than the default%s",
                     -100 * v->now.value,
                     INTERVAL_TEXT("%.1f %%", -100 * v->now.high, -100 * v->now.low));
        break;
    case CONTEST_TIE:
    case CONTEST_INCUMBENT: v->kind = VERIFY_TIE;
    }
}

/* Refutes the entry.  A plan that only a challenger has beaten stays until the bucket is measured.
 */
static int refute_entry(struct verified_bucket *vb, struct entry_row *e)
{
    char why[64];

    text_put(why, sizeof(why), is_outrun(vb) ? "verify: %s" : "verify", vb->verdict->why);
    return ledger_refute(vb->campaign->store, e,
                         is_outrun(vb) ? e->plan : vb->arms[vb->default_arm], why);
}

/* Writes the gain that the rounds claimed beside the gain found now, which calibrates later rounds.
 * Entries that did not come from this table's rounds do not count. */
static int remember_outcome(const struct verified_bucket *vb)
{
    const struct entry_row *e = &vb->verdict->claim;
    struct standing_row standing;
    struct verification_row row = { .cluster = e->cluster,
                                    .shape = e->shape,
                                    .run = vb->campaign->run.row.id,
                                    .window = e->window,
                                    .bucket = e->bucket,
                                    .claim = e->gain,
                                    .found = vb->verdict->now,
                                    .decided_s = time(NULL) };
    int rc = store_standing_get(vb->campaign->store, e->cluster, e->shape, e->window, &standing);

    if (rc)
        return rc < 0 ? rc : OK;
    if (!e->run || e->run != standing.run || !standing.decided_s ||
        entry_is(e, ENTRY_INFERRED | ENTRY_STALE | ENTRY_UNSOUND) || vb->default_arm == CLAIMED ||
        strcmp(e->load, vb->verdict->load) != 0 || isnan(row.found.value) ||
        !isfinite(e->gain.low) || !isfinite(e->gain.high))
        return OK;
    row.kappa = standing.kappa;
    return store_verification(vb->campaign->store, &row);
}

/* What the table saves as a whole stays confirmed if the entry keeps its plan, under the load that
 * it was tuned under. */
static int update_standing(const struct verified_bucket *vb, const struct entry_row *now)
{
    const struct verify_result *v = vb->verdict;
    struct store *store = vb->campaign->store;
    struct standing_row standing;
    bool current, holds = v->kind != VERIFY_REFUTED && v->kind != VERIFY_ALONE &&
                          !entry_is(&v->claim, ENTRY_OPEN & ~ENTRY_INFERRED) &&
                          !strcmp(v->claim.load, now->load) &&
                          plan_equal(&v->claim.plan, &now->plan);
    int rc = store_standing_get(store, now->cluster, now->shape, now->window, &standing);

    if (rc || !standing.run) /* a new entry ends an imported one */
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(store, &standing, &current));
    if (!current || holds == (standing.decided_s >= now->decided_s))
        return OK;
    standing.decided_s = now->decided_s - !holds;
    return store_standing(store, &standing);
}

/* Returns the factor for the times of this verification.  If all steps are slow today, verified
 * entries must not look slower than their neighbours, which keep their times.  So the default plan
 * takes as long as the table says, unless the entry is stale or has another load. */
static double scale_of(struct verify_result *v, const struct contest_verdict *found)
{
    const struct entry_row *e = &v->claim;
    double ratio = found->default_ns * 1e-3 / e->default_us;

    if (entry_is(e, ENTRY_STALE) || strcmp(e->load, v->load) != 0 ||
        !(ratio > 0 && isfinite(ratio)))
        return 1;
    v->default_over_table = ratio;
    return 1 / ratio;
}

/* Writes the entry, or refutes it. */
static int write_outcome(struct verified_bucket *vb)
{
    struct contest_verdict found = contest_verdict(&vb->over_default.contest);
    struct verify_result *v = vb->verdict;
    struct entry_row entry = v->claim;
    double scale = scale_of(v, &found), now;

    judge(vb, &found);
    entry.time_us = found.median_ns * 1e-3 * scale;
    entry.low_us = found.low_ns * 1e-3 * scale;
    entry.high_us = found.high_ns * 1e-3 * scale;
    entry.default_us = found.default_ns * 1e-3 * scale;
    entry.gain = found.gain;
    /* The other plan stays as much slower than this one as it was. */
    now = entry.other_us * entry.time_us / v->claim.time_us;
    entry.other_us = now > 0 && isfinite(now) ? now : 0;
    if (!(entry.other_us > 0))
        entry.other = (struct moe_plan){ 0 };
    v->throttled = entry.throttled = 0;
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++)
        v->throttled += attempt_of(vb, arm)->throttled;
    entry.samples = found.rounds * (uint32_t)vb->over_default.count;
    for (int i = 0; i < vb->over_default.count; i++)
        entry.throttled += attempt_of(vb, vb->over_default.arms[i])->throttled;
    memcpy(entry.load, v->load, sizeof(entry.load));
    entry.run = vb->campaign->run.row.id;
    entry.decided_s = time(NULL);
    if (v->kind != VERIFY_REFUTED || is_outrun(vb))
        ledger_weigh(&v->shape, &v->claim, &entry);
    if (!*v->why && !plan_equal(&entry.plan, &v->claim.plan))
        snprintf(v->why, sizeof(v->why), "nor faster: the default plan takes its place");
    TRY(remember_outcome(vb));
    TRY(update_standing(vb, &entry));
    return v->kind == VERIFY_REFUTED ? refute_entry(vb, &entry)
                                     : ledger_confirm(vb->campaign->store, &entry);
}

int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *verdict)
{
    struct verified_bucket vb = { .campaign = campaign, .terms = terms, .verdict = verdict };
    int rc;

    list_plans(&vb);
    rc = load_samples(&vb);
    if (!rc) {
        bool ran = is_usable(&vb, CLAIMED);

        rc = run_contests(&vb);
        if (!rc && ran &&
            !is_usable(&vb, CLAIMED)) /* it failed meanwhile: time the default alone */
            rc = run_contests(&vb);
        /* A failure is a verdict even if time is up. */
        if (rc == ERR_CUT && !is_usable(&vb, CLAIMED))
            rc = OK;
    }
    if (!rc)
        rc = write_outcome(&vb);
    bucket_forget(&vb.bucket);
    return rc;
}
