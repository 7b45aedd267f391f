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

/* The arms: the plan of the entry, then the default plan if it is another one, then the challenger.
 */
enum { ENTRY_ARM, PLANS_MAX = 3 };

/* One of two contests that share their samples: the plan against the default plan, and the
 * challenger against the plan. */
struct plan_contest {
    int arms[2]; /* in the contest's order */
    int count;   /* of plans that can run; the contest needs 2 to compare */
    struct contest contest;
};

/* One entry while it is verified.  Its pointers are borrowed. */
struct verified_bucket {
    struct campaign *campaign;
    const struct verify_terms *terms;
    struct verify_result *result;
    struct moe_plan arms[PLANS_MAX]; /* the first one is the entry's */
    int default_arm, challenger;     /* arms; challenger -1: none */
    struct dictionary dictionary;
    struct bucket bucket;
    struct plan_contest over_default, over_entry;
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
    const struct entry_row *e = &vb->result->entry_before;
    const struct moe_shape *shape = &vb->result->shape;
    const struct moe_plan *challenger = verify_challenger(e, shape);
    int count = 1;

    vb->arms[ENTRY_ARM] = plan_canonical(e->plan, shape);
    vb->default_arm = plan_is_default(&vb->arms[ENTRY_ARM], shape) ? ENTRY_ARM : count++;
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
    memcpy(vb->dictionary.load, vb->result->load, sizeof(vb->dictionary.load));
    bucket_init(&vb->bucket, &vb->dictionary, e->bucket);
    vb->bucket.capacity = e->capacity; /* an imported table may have another capacity */
}

/* ---- what is known */

/* Rules out a plan that is not legal for this layer, or needs too much memory. */
static int rule_out(struct verified_bucket *vb)
{
    struct attempt *claimed = attempt_of(vb, ENTRY_ARM);
    int64_t limit = vb->terms->memory_limit_bytes;

    if (!vb->arms[ENTRY_ARM].struct_size || !plan_legal(&vb->arms[ENTRY_ARM], &vb->result->shape)) {
        claimed->usable = false;
        claimed->trial.state = TRIAL_FAILED;
        snprintf(claimed->trial.message, sizeof(claimed->trial.message),
                 "it is no plan of this layer");
    }
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++) {
        int64_t bytes;

        if (!is_usable(vb, arm))
            continue;
        bytes = account_alone(&vb->result->shape, &vb->terms->machine, &vb->arms[arm],
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
    const struct bucket_key *key = &vb->bucket.key;
    bool is_continued = false;

    TRY(bucket_load(&vb->bucket));
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++) {
        const struct trial_row *trial = &attempt_of(vb, arm)->trial;

        is_continued |= trial->id && trial->run >= vb->terms->first_run;
    }
    if (!is_continued) {
        TRY(store_forget(vb->campaign->store, key->cluster, key->shape, key->window, key->bucket,
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
static void plan_contest_tell(struct plan_contest *q, int arm, int64_t ns)
{
    for (int i = 0; i < q->count; i++)
        if (q->arms[i] == arm)
            contest_tell(&q->contest, i, ns);
}

/* Opens a contest of `count` plans with all samples so far.  `holder` is the index of the plan that
 * must be beaten.  `in_force`: in doubt the first plan stays. */
static void plan_contest_open(struct verified_bucket *vb, struct plan_contest *q, int count,
                              int holder, bool in_force)
{
    struct contest_settings settings = { .margin = vb->terms->margin,
                                         .seed =
                                             vb->campaign->setup->seed ^ vb->bucket.key.bucket };

    q->count = count;
    if (count)
        contest_open(&q->contest, &settings, count, holder, in_force);
    for (uint32_t i = 0; i < vb->bucket.sample_count; i++)
        if (vb->bucket.samples[i].kind == SAMPLE_VERIFY)
            plan_contest_tell(q, vb->bucket.samples[i].arm, vb->bucket.samples[i].ns);
}

/* Opens both contests.  The entry's plan stays unless the default plan beats it.  If it cannot run,
 * the default plan is timed alone, because it becomes the entry. */
static void open_contests(struct verified_bucket *vb)
{
    struct plan_contest *over_default = &vb->over_default, *over_entry = &vb->over_entry;
    bool entry_runs = is_usable(vb, ENTRY_ARM);
    int count = 0, holder = -1, plans;

    if (entry_runs)
        over_default->arms[count++] = ENTRY_ARM;
    if (is_usable(vb, vb->default_arm) && vb->default_arm == ENTRY_ARM) {
        holder = 0;
    } else if (is_usable(vb, vb->default_arm)) {
        holder = count++;
        over_default->arms[holder] = vb->default_arm;
    }
    plan_contest_open(vb, over_default, count, holder, entry_runs);
    /* The entry's plan, at index 1, is the holder that the challenger must beat. */
    over_entry->arms[0] = vb->challenger;
    over_entry->arms[1] = ENTRY_ARM;
    plans = entry_runs && is_usable(vb, vb->challenger) ? 2 : 0;
    plan_contest_open(vb, over_entry, plans, 1, false);
}

/* Returns whether the contest has two plans and came to this decision. */
static bool plan_contest_has(const struct plan_contest *q, enum contest_decision how)
{
    return q->count == 2 && contest_verdict(&q->contest).decision == how;
}

/* Returns the plan to sample next; -1: both contests are over.  The contest with fewer rounds comes
 * first, so that their rounds stay close in time. */
static int next_arm(const struct verified_bucket *vb)
{
    const struct plan_contest *over_default = &vb->over_default, *over_entry = &vb->over_entry;
    int default_next = over_default->count ? contest_next(&over_default->contest) : CONTEST_DONE;
    int entry_next = over_entry->count ? contest_next(&over_entry->contest) : CONTEST_DONE;

    if (default_next == CONTEST_DONE && plan_contest_has(over_default, CONTEST_DEFAULT))
        return -1;
    if (entry_next != CONTEST_DONE &&
        (default_next == CONTEST_DONE || contest_verdict(&over_entry->contest).rounds <
                                             contest_verdict(&over_default->contest).rounds))
        return over_entry->arms[entry_next];
    return default_next == CONTEST_DONE ? -1 : over_default->arms[default_next];
}

/* Removes a plan that cannot run. */
static void plan_contest_drop(struct plan_contest *q, int arm)
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

    open_contests(vb);
    while ((arm = next_arm(vb)) >= 0) {
        struct attempt *attempt = attempt_of(vb, arm);

        if (campaign_over(vb->campaign))
            return ERR_CUT;
        TRY(attempt_step(vb->campaign, attempt, SAMPLE_VERIFY, bucket_count(&vb->bucket, arm),
                         &step));
        if (!step.ns) {
            plan_contest_drop(&vb->over_default, arm);
            plan_contest_drop(&vb->over_entry, arm);
        } else if (step.counts) {
            TRY(bucket_remember(&vb->bucket, arm, SAMPLE_VERIFY, step.ns));
            plan_contest_tell(&vb->over_default, arm, step.ns);
            plan_contest_tell(&vb->over_entry, arm, step.ns);
        }
    }
    return OK;
}

/* ---- the judgement */

/* Returns whether the challenger has beaten the entry's plan. */
static bool is_outrun(const struct verified_bucket *vb)
{
    return plan_contest_has(&vb->over_entry, CONTEST_ADOPTED);
}

static void explain_failure(const struct attempt *attempt, struct verify_result *result)
{
    const struct trial_row *trial = &attempt->trial;

    text_put(result->why, sizeof(result->why), "%s%s%s", trial_state_words[trial->state],
             *trial->message ? ": " : "", trial->message);
}

/* Sets the kind of the result, and its reason. */
static void set_kind(const struct verified_bucket *vb, const struct contest_verdict *verdict)
{
    struct verify_result *result = vb->result;
    struct gain challenger_gain;

    result->rounds = verdict->rounds;
    result->kind = VERIFY_REFUTED;
    if (!is_usable(vb, ENTRY_ARM)) {
        explain_failure(attempt_of(vb, ENTRY_ARM), result);
        return;
    }
    result->now = verdict->challenge;
    if (is_outrun(vb)) {
        challenger_gain = contest_verdict(&vb->over_entry.contest).challenge;
        text_put(result->why, sizeof(result->why), "%s is %.1f %% faster%s",
                 PLAN_TEXT(&vb->arms[vb->challenger]), 100 * challenger_gain.value,
                 INTERVAL_TEXT("%.1f %%", 100 * challenger_gain.low, 100 * challenger_gain.high));
        return;
    }
    switch (verdict->decision) {
    case CONTEST_ADOPTED:
        result->kind = VERIFY_BEATS;
        if (!is_usable(vb, vb->default_arm)) {
            result->kind = VERIFY_ALONE;
            explain_failure(attempt_of(vb, vb->default_arm), result);
        }
        break;
    case CONTEST_DEFAULT:
        if (vb->default_arm == ENTRY_ARM)
            result->kind = VERIFY_DEFAULT;
        else
            text_put(result->why, sizeof(result->why), "%.1f %% slower than the default%s",
                     -100 * result->now.value,
                     INTERVAL_TEXT("%.1f %%", -100 * result->now.high, -100 * result->now.low));
        break;
    case CONTEST_TIE:
    case CONTEST_INCUMBENT: result->kind = VERIFY_TIE;
    }
}

/* Refutes the entry.  A plan that only a challenger has beaten stays until the bucket is measured.
 */
static int refute_entry(struct verified_bucket *vb, struct entry_row *e)
{
    char why[64];

    text_put(why, sizeof(why), is_outrun(vb) ? "verify: %s" : "verify", vb->result->why);
    return ledger_refute(vb->campaign->store, e,
                         is_outrun(vb) ? e->plan : vb->arms[vb->default_arm], why);
}

/* Writes the gain that the rounds claimed beside the gain found now, which calibrates later rounds.
 * Entries that did not come from this table's rounds do not count. */
static int remember_outcome(const struct verified_bucket *vb)
{
    const struct entry_row *e = &vb->result->entry_before;
    struct standing_row standing;
    struct verification_row row = { .cluster = e->cluster,
                                    .shape = e->shape,
                                    .run = vb->campaign->run.row.id,
                                    .window = e->window,
                                    .bucket = e->bucket,
                                    .claim = e->gain,
                                    .found = vb->result->now,
                                    .decided_s = time(NULL) };
    int rc = store_standing_get(vb->campaign->store, e->cluster, e->shape, e->window, &standing);

    if (rc)
        return rc < 0 ? rc : OK;
    if (!e->run || e->run != standing.run || !standing.decided_s ||
        entry_is(e, ENTRY_INFERRED | ENTRY_STALE | ENTRY_UNSOUND) || vb->default_arm == ENTRY_ARM ||
        strcmp(e->load, vb->result->load) != 0 || isnan(row.found.value) ||
        !isfinite(e->gain.low) || !isfinite(e->gain.high))
        return OK;
    row.kappa = standing.kappa;
    return store_verification(vb->campaign->store, &row);
}

/* What the table saves as a whole stays confirmed if the entry keeps its plan, under the load that
 * it was tuned under. */
static int update_standing(const struct verified_bucket *vb, const struct entry_row *entry)
{
    const struct verify_result *result = vb->result;
    struct store *store = vb->campaign->store;
    struct standing_row standing;
    bool current, keeps_gain = result->kind != VERIFY_REFUTED && result->kind != VERIFY_ALONE &&
                               !entry_is(&result->entry_before, ENTRY_OPEN & ~ENTRY_INFERRED) &&
                               !strcmp(result->entry_before.load, entry->load) &&
                               plan_equal(&result->entry_before.plan, &entry->plan);
    int rc = store_standing_get(store, entry->cluster, entry->shape, entry->window, &standing);

    if (rc || !standing.run) /* a new entry ends an imported one */
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(store, &standing, &current));
    if (!current || keeps_gain == (standing.decided_s >= entry->decided_s))
        return OK;
    /* An entry that was decided later than the gain of the whole table ends it. */
    standing.decided_s = keeps_gain ? entry->decided_s : entry->decided_s - 1;
    return store_standing(store, &standing);
}

/* Returns the factor for the times of this verification.  If all steps are slow today, verified
 * entries must not look slower than their neighbours, which keep their times.  So the default plan
 * takes as long as the table says, unless the entry is stale or has another load. */
static double scale_of(struct verify_result *result, const struct contest_verdict *verdict)
{
    const struct entry_row *e = &result->entry_before;
    double ratio = verdict->default_ns * 1e-3 / e->default_us;

    if (entry_is(e, ENTRY_STALE) || strcmp(e->load, result->load) != 0 ||
        !(ratio > 0 && isfinite(ratio)))
        return 1;
    result->default_over_table = ratio;
    return 1 / ratio;
}

/* Writes the entry, or refutes it. */
static int write_outcome(struct verified_bucket *vb)
{
    struct contest_verdict verdict = contest_verdict(&vb->over_default.contest);
    struct verify_result *result = vb->result;
    struct entry_row entry = result->entry_before;
    double scale = scale_of(result, &verdict), other_us;

    set_kind(vb, &verdict);
    entry.time_us = verdict.median_ns * 1e-3 * scale;
    entry.low_us = verdict.low_ns * 1e-3 * scale;
    entry.high_us = verdict.high_ns * 1e-3 * scale;
    entry.default_us = verdict.default_ns * 1e-3 * scale;
    entry.gain = verdict.gain;
    /* The other plan stays as much slower than this one as it was. */
    other_us = entry.other_us * entry.time_us / result->entry_before.time_us;
    entry.other_us = other_us > 0 && isfinite(other_us) ? other_us : 0;
    if (!(entry.other_us > 0))
        entry.other = (struct moe_plan){ 0 };
    result->throttled = entry.throttled = 0;
    for (int arm = 0; arm < (int)vb->dictionary.arm_count; arm++)
        result->throttled += attempt_of(vb, arm)->throttled;
    entry.samples = verdict.rounds * (uint32_t)vb->over_default.count;
    for (int i = 0; i < vb->over_default.count; i++)
        entry.throttled += attempt_of(vb, vb->over_default.arms[i])->throttled;
    memcpy(entry.load, result->load, sizeof(entry.load));
    entry.run = vb->campaign->run.row.id;
    entry.decided_s = time(NULL);
    if (result->kind != VERIFY_REFUTED || is_outrun(vb))
        ledger_weigh(&result->shape, &result->entry_before, &entry);
    if (!*result->why && !plan_equal(&entry.plan, &result->entry_before.plan))
        snprintf(result->why, sizeof(result->why), "nor faster: the default plan takes its place");
    TRY(remember_outcome(vb));
    TRY(update_standing(vb, &entry));
    return result->kind == VERIFY_REFUTED ? refute_entry(vb, &entry)
                                          : ledger_confirm(vb->campaign->store, &entry);
}

int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *result)
{
    struct verified_bucket vb = { .campaign = campaign, .terms = terms, .result = result };
    int rc;

    list_plans(&vb);
    rc = load_samples(&vb);
    if (!rc) {
        bool entry_plan_ran = is_usable(&vb, ENTRY_ARM);

        rc = run_contests(&vb);
        if (!rc && entry_plan_ran &&
            !is_usable(&vb, ENTRY_ARM)) /* it failed meanwhile: time the default alone */
            rc = run_contests(&vb);
        /* A failure is a result even if time is up. */
        if (rc == ERR_CUT && !is_usable(&vb, ENTRY_ARM))
            rc = OK;
    }
    if (!rc)
        rc = write_outcome(&vb);
    bucket_forget(&vb.bucket);
    return rc;
}
