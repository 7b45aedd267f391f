/* Loads what is known of one entry, lets its plan meet the default and a challenger, and judges. */
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

/* Two questions to the same rounds: is the default faster than the plan, and is the challenger? */
struct question {
    int arms[2]; /* in the contest's order */
    int count;   /* 0: not asked */
    struct contest contest;
};

struct verified_bucket {
    struct campaign *campaign;
    const struct verify_terms *terms;
    struct verify_result *verdict;
    struct moe_plan arms[PLANS_MAX]; /* the claimed one first */
    int default_arm, challenger;     /* challenger -1: none */
    struct dictionary dictionary;
    struct bucket bucket;
    struct question over_default, over_claim;
};

static struct attempt *attempt_of(const struct verified_bucket *h, int arm)
{
    return &h->bucket.attempts[arm];
}

static bool is_usable(const struct verified_bucket *h, int arm)
{
    return arm >= 0 && attempt_of(h, arm)->usable;
}

/* ---- who meets whom */

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

static void name_plans(struct verified_bucket *h)
{
    const struct entry_row *e = &h->verdict->claim;
    const struct moe_shape *shape = &h->verdict->shape;
    const struct moe_plan *challenger = verify_challenger(e, shape);
    int count = 1;

    h->arms[CLAIMED] = plan_canonical(e->plan, shape);
    h->default_arm = plan_is_default(&h->arms[CLAIMED], shape) ? CLAIMED : count++;
    h->arms[h->default_arm] = plan_default(shape);
    h->challenger = challenger ? count++ : -1;
    if (challenger)
        h->arms[h->challenger] = plan_canonical(*challenger, shape);
    h->dictionary = (struct dictionary){ .store = h->campaign->store,
                                         .cluster = e->cluster,
                                         .shape = e->shape,
                                         .run = h->campaign->run.row.id,
                                         .first_run = h->terms->first_run,
                                         .buckets = buckets_of(shape, e->window),
                                         .arms = h->arms,
                                         .arm_count = (size_t)count,
                                         .default_arm = h->default_arm };
    memcpy(h->dictionary.load, h->verdict->load, sizeof(h->dictionary.load));
    bucket_init(&h->bucket, &h->dictionary, e->bucket);
    h->bucket.capacity = e->capacity; /* a table from elsewhere may have another idea */
}

/* ---- what is known */

/* Rules out a plan that this layer does not know, or for which there is not enough memory. */
static int rule_out(struct verified_bucket *h)
{
    struct attempt *claimed = attempt_of(h, CLAIMED);
    int64_t limit = h->terms->memory_limit_bytes;

    if (!h->arms[CLAIMED].struct_size || !plan_legal(&h->arms[CLAIMED], &h->verdict->shape)) {
        claimed->usable = false;
        claimed->trial.state = TRIAL_FAILED;
        snprintf(claimed->trial.message, sizeof(claimed->trial.message),
                 "it is no plan of this layer");
    }
    for (int arm = 0; arm < (int)h->dictionary.arm_count; arm++) {
        int64_t bytes;

        if (!is_usable(h, arm))
            continue;
        bytes = account_alone(&h->verdict->shape, &h->terms->machine, &h->arms[arm],
                              h->bucket.capacity);
        if (bytes > limit)
            TRY(attempt_rule_out(h->campaign, attempt_of(h, arm), bytes, limit));
    }
    return OK;
}

/* An earlier verification's samples give way to this one's, unless this one goes on with it. */
static int load_samples(struct verified_bucket *h)
{
    const struct bucket_key *k = &h->bucket.key;
    bool resumed = false;

    TRY(bucket_load(&h->bucket));
    for (int arm = 0; arm < (int)h->dictionary.arm_count; arm++) {
        const struct trial_row *t = &attempt_of(h, arm)->trial;

        resumed |= t->id && t->run >= h->terms->first_run;
    }
    if (!resumed) {
        TRY(store_forget(h->campaign->store, k->cluster, k->shape, k->window, k->bucket,
                         SAMPLE_VERIFY, SAMPLE_VERIFY));
        h->bucket.sample_count = 0;
    }
    for (int arm = 0; arm < (int)h->dictionary.arm_count; arm++)
        attempt_of(h, arm)->throttled = 0;
    /* What is said will rest on a verification's samples alone. */
    for (uint32_t i = 0; i < h->bucket.sample_count; i++)
        if (h->bucket.samples[i].kind == SAMPLE_VERIFY)
            attempt_of(h, h->bucket.samples[i].arm)->throttled += h->bucket.samples[i].disturbed;
    return rule_out(h);
}

/* ---- the contests */

static void question_tell(struct question *q, int arm, int64_t ns)
{
    for (int i = 0; i < q->count; i++)
        if (q->arms[i] == arm)
            contest_tell(&q->contest, i, ns);
}

/* `holder`: the index of the plan that is to be beaten; `in_force`: the first one stays in doubt.
 */
static void question_open(struct verified_bucket *h, struct question *q, int count, int holder,
                          bool in_force)
{
    struct contest_settings settings = { .margin = h->terms->margin,
                                         .seed = h->campaign->setup->seed ^ h->bucket.key.bucket };

    q->count = count;
    if (count)
        contest_open(&q->contest, &settings, count, holder, in_force);
    for (uint32_t i = 0; i < h->bucket.sample_count; i++)
        if (h->bucket.samples[i].kind == SAMPLE_VERIFY)
            question_tell(q, h->bucket.samples[i].arm, h->bucket.samples[i].ns);
}

/* The entry's plan is winner and incumbent in one: it stays unless the default beats it.  Where it
 * cannot run the default is timed alone: it is what a trainer will be told. */
static void open_questions(struct verified_bucket *h)
{
    struct question *q = &h->over_default;
    int count = 0, holder = -1;

    if (is_usable(h, CLAIMED))
        q->arms[count++] = CLAIMED;
    if (is_usable(h, h->default_arm)) {
        holder = h->default_arm == CLAIMED ? 0 : count;
        q->arms[holder] = h->default_arm;
        count += h->default_arm != CLAIMED;
    }
    question_open(h, q, count, holder, is_usable(h, CLAIMED));
    q = &h->over_claim;
    q->arms[0] = h->challenger;
    q->arms[1] = CLAIMED;
    question_open(h, q, is_usable(h, CLAIMED) && is_usable(h, h->challenger) ? 2 : 0, 1, false);
}

static bool question_says(const struct question *q, enum contest_decision how)
{
    return q->count == 2 && contest_verdict(&q->contest).decision == how;
}

/* The plan to sample next; the question that is behind comes first, so that rounds stay together.
 */
static int next_arm(const struct verified_bucket *h)
{
    const struct question *a = &h->over_default, *b = &h->over_claim;
    int i = a->count ? contest_next(&a->contest) : CONTEST_DONE;
    int k = b->count ? contest_next(&b->contest) : CONTEST_DONE;

    if (i == CONTEST_DONE && question_says(a, CONTEST_DEFAULT))
        return -1;
    if (k != CONTEST_DONE && (i == CONTEST_DONE || contest_verdict(&b->contest).rounds <
                                                       contest_verdict(&a->contest).rounds))
        return b->arms[k];
    return i == CONTEST_DONE ? -1 : a->arms[i];
}

static void question_drop(struct question *q, int arm)
{
    for (int i = 0; i < q->count; i++)
        if (q->arms[i] == arm)
            contest_drop(&q->contest, i);
}

static int run_contests(struct verified_bucket *h)
{
    struct campaign_step step;
    int arm;

    open_questions(h);
    while ((arm = next_arm(h)) >= 0) {
        struct attempt *a = attempt_of(h, arm);

        if (campaign_over(h->campaign))
            return ERR_CUT;
        TRY(attempt_step(h->campaign, a, SAMPLE_VERIFY, bucket_count(&h->bucket, arm), &step));
        if (!step.ns) {
            question_drop(&h->over_default, arm);
            question_drop(&h->over_claim, arm);
        } else if (step.counts) {
            TRY(bucket_remember(&h->bucket, arm, SAMPLE_VERIFY, step.ns));
            question_tell(&h->over_default, arm, step.ns);
            question_tell(&h->over_claim, arm, step.ns);
        }
    }
    return OK;
}

/* ---- the judgement */

static bool is_outrun(const struct verified_bucket *h)
{
    return question_says(&h->over_claim, CONTEST_ADOPTED);
}

static void explain_failure(const struct attempt *a, struct verify_result *v)
{
    const struct trial_row *t = &a->trial;

    text_put(v->why, sizeof(v->why), "%s%s%s", trial_state_words[t->state], *t->message ? ": " : "",
             t->message);
}

/* Says what came of the entry, and why. */
static void judge(const struct verified_bucket *h, const struct contest_verdict *found)
{
    struct verify_result *v = h->verdict;
    struct gain by;

    v->rounds = found->rounds;
    v->kind = VERIFY_REFUTED;
    if (!is_usable(h, CLAIMED)) {
        explain_failure(attempt_of(h, CLAIMED), v);
        return;
    }
    v->now = found->challenge;
    if (is_outrun(h)) {
        by = contest_verdict(&h->over_claim.contest).challenge;
        text_put(v->why, sizeof(v->why), "%s is %.1f %% faster%s",
                 PLAN_TEXT(&h->arms[h->challenger]), 100 * by.value,
                 INTERVAL_TEXT("%.1f %%", 100 * by.low, 100 * by.high));
        return;
    }
    switch (found->decision) {
    case CONTEST_ADOPTED:
        v->kind = VERIFY_BEATS;
        if (!is_usable(h, h->default_arm)) {
            v->kind = VERIFY_ALONE;
            explain_failure(attempt_of(h, h->default_arm), v);
        }
        break;
    case CONTEST_DEFAULT:
        if (h->default_arm == CLAIMED)
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

/* Where the challenger outran its plan, that is not slower than the default, and stays in force. */
static int refute_entry(struct verified_bucket *h, struct entry_row *e)
{
    char why[64];

    text_put(why, sizeof(why), is_outrun(h) ? "verify: %s" : "verify", h->verdict->why);
    return ledger_refute(h->campaign->store, e, is_outrun(h) ? e->plan : h->arms[h->default_arm],
                         why);
}

/* Writes down whether the rounds' claim held, which calibrates later ones.  What this layer's
 * rounds did not write is no claim of theirs: a decision of one launch, a verification's gain, or
 * what lies between. */
static int remember_outcome(const struct verified_bucket *h)
{
    const struct entry_row *e = &h->verdict->claim;
    struct standing_row standing;
    struct verification_row row = { .cluster = e->cluster,
                                    .shape = e->shape,
                                    .run = h->campaign->run.row.id,
                                    .window = e->window,
                                    .bucket = e->bucket,
                                    .claim = e->gain,
                                    .found = h->verdict->now,
                                    .decided_s = time(NULL) };
    int rc = store_standing_get(h->campaign->store, e->cluster, e->shape, e->window, &standing);

    if (rc)
        return rc < 0 ? rc : OK;
    if (!e->run || e->run != standing.run || !standing.decided_s ||
        entry_is(e, ENTRY_INFERRED | ENTRY_STALE | ENTRY_UNSOUND) || h->default_arm == CLAIMED ||
        strcmp(e->load, h->verdict->load) != 0 || isnan(row.found.value) ||
        !isfinite(e->gain.low) || !isfinite(e->gain.high))
        return OK;
    row.kappa = standing.kappa;
    return store_verification(h->campaign->store, &row);
}

/* What the table saves as a whole stays said where the entry keeps its plan under the load that it
 * was tuned under. */
static int settle_standing(const struct verified_bucket *h, const struct entry_row *now)
{
    const struct verify_result *v = h->verdict;
    struct store *store = h->campaign->store;
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

/* What this hour's times are multiplied with.  Where all steps are slow for an hour the entries
 * that were verified must not look slower than their neighbours, which keep their times: the
 * default is taken to last as long as the table says, unless that is out of date, or of another
 * load. */
static double scale_of(struct verify_result *v, const struct contest_verdict *found)
{
    const struct entry_row *e = &v->claim;
    double hour = found->default_ns * 1e-3 / e->default_us;

    if (entry_is(e, ENTRY_STALE) || strcmp(e->load, v->load) != 0 || !(hour > 0 && isfinite(hour)))
        return 1;
    v->hour = hour;
    return 1 / hour;
}

static int write_outcome(struct verified_bucket *h)
{
    struct contest_verdict found = contest_verdict(&h->over_default.contest);
    struct verify_result *v = h->verdict;
    struct entry_row entry = v->claim;
    double scale = scale_of(v, &found), now;

    judge(h, &found);
    entry.time_us = found.median_ns * 1e-3 * scale;
    entry.low_us = found.low_ns * 1e-3 * scale;
    entry.high_us = found.high_ns * 1e-3 * scale;
    entry.default_us = found.default_ns * 1e-3 * scale;
    entry.gain = found.gain;
    /* Another plan is as much slower than this one as it was. */
    now = entry.other_us * entry.time_us / v->claim.time_us;
    entry.other_us = now > 0 && isfinite(now) ? now : 0;
    if (!(entry.other_us > 0))
        entry.other = (struct moe_plan){ 0 };
    v->throttled = entry.throttled = 0;
    for (int arm = 0; arm < (int)h->dictionary.arm_count; arm++)
        v->throttled += attempt_of(h, arm)->throttled;
    entry.samples = found.rounds * (uint32_t)h->over_default.count;
    for (int i = 0; i < h->over_default.count; i++)
        entry.throttled += attempt_of(h, h->over_default.arms[i])->throttled;
    memcpy(entry.load, v->load, sizeof(entry.load));
    entry.run = h->campaign->run.row.id;
    entry.decided_s = time(NULL);
    if (v->kind != VERIFY_REFUTED || is_outrun(h))
        ledger_weigh(&v->shape, &v->claim, &entry);
    if (!*v->why && !plan_equal(&entry.plan, &v->claim.plan))
        snprintf(v->why, sizeof(v->why), "nor faster: the default plan takes its place");
    TRY(remember_outcome(h));
    TRY(settle_standing(h, &entry));
    return v->kind == VERIFY_REFUTED ? refute_entry(h, &entry)
                                     : ledger_confirm(h->campaign->store, &entry);
}

int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *verdict)
{
    struct verified_bucket h = { .campaign = campaign, .terms = terms, .verdict = verdict };
    int rc;

    name_plans(&h);
    rc = load_samples(&h);
    if (!rc) {
        bool ran = is_usable(&h, CLAIMED);

        rc = run_contests(&h);
        if (!rc && ran && !is_usable(&h, CLAIMED)) /* it failed on the way: the default alone */
            rc = run_contests(&h);
        /* A failure is no less true for the time that is missing. */
        if (rc == ERR_CUT && !is_usable(&h, CLAIMED))
            rc = OK;
    }
    if (!rc)
        rc = write_outcome(&h);
    bucket_forget(&h.bucket);
    return rc;
}
