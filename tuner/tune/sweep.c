/* The sweep of a layer: measures its anchors, infers or measures the buckets between, and has the
 * rounds compare the whole table. */
#include "sweep.h"

#include "between.h"
#include "bucket.h"
#include "pairs.h"
#include "plan.h"
#include "rounds.h"
#include "shape.h"
#include "standing.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one bucket */

int sweep_step(struct sweep *sweep, struct attempt *attempt, enum sample_kind kind, uint32_t round,
               struct campaign_step *out)
{
    struct campaign *c = sweep->campaign;

    if (campaign_over(c))
        return ERR_CUT;
    if (!sweep->ranks_know)
        TRY(campaign_layer(c, &sweep->plans->shape, sweep->plans->load,
                           sweep->request->memory_limit_bytes));
    sweep->ranks_know = true;
    return attempt_step(c, attempt, kind, round, out);
}

/* Shows on the progress line which plan leads.  It does so seldom, because it costs as much as a
 * decision. */
static void show_leader(struct sweep *sweep)
{
    struct progress *progress = &sweep->campaign->progress;
    struct search *search = sweep->dictionary.search;
    int leader, default_arm = sweep->plans->default_arm;
    double gain = 0;

    if (!progress_wants_leader(progress))
        return;
    leader = search_result(search).winner;
    if (leader < 0)
        return;
    if (default_arm >= 0)
        gain = 0 - expm1(search_compare(search, leader, default_arm).mean);
    snprintf(progress->leader, sizeof(progress->leader), "%s leads",
             PLAN_TEXT(&sweep->plans->arms[leader]));
    if (gain > 0)
        snprintf(progress->leader + strlen(progress->leader),
                 sizeof(progress->leader) - strlen(progress->leader), " by %.1f %%", gain * 100);
}

/* How far a decision goes: WITH_KNOWN_SAMPLES to where the last run left it, MEASURE to its end. */
enum decide_mode { WITH_KNOWN_SAMPLES, MEASURE };

/* Brings the decision of a bucket to that point. */
static int decide_to(struct sweep *sweep, struct bucket *b, enum decide_mode mode)
{
    const struct layer_plans *plans = sweep->plans;
    enum decision_purpose purpose;
    int arm;

    TRY(bucket_load(b));
    for (arm = 0; arm < (int)plans->arm_count; arm++) {
        struct attempt *a = &b->attempts[arm];
        int64_t bytes = a->usable ? layer_plans_bytes(plans, arm, b->key.bucket) : 0;

        if (bytes <= plans->memory_limit_bytes)
            continue;
        TRY(attempt_rule_out(sweep->campaign, a, bytes, plans->memory_limit_bytes));
        sweep->result.ruled_out++;
    }
    bucket_open(b, false);
    *sweep->campaign->progress.leader = 0;
    sweep->campaign->progress.leader_ns = 0; /* the first step has one */
    while (mode == MEASURE && (arm = bucket_next(b, &purpose)) != DECISION_DONE) {
        struct attempt *a = &b->attempts[arm];
        struct campaign_step step;

        TRY(sweep_step(sweep, a, bucket_sample_kind(purpose), bucket_count(b, arm), &step));
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

/* Decides a bucket and makes its entry.  `arm`: the plan to publish; -1: the decided one.  `out`
 * NULL: no entry is made. */
static int decide_bucket(struct sweep *sweep, uint32_t bucket, enum decide_mode mode, int arm,
                         struct entry_row *out)
{
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = decide_to(sweep, &b, mode);
    if (!rc && out)
        rc = bucket_entry(&b, arm, out);
    bucket_forget(&b);
    return rc;
}

int sweep_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out)
{
    return decide_bucket(sweep, bucket, WITH_KNOWN_SAMPLES, arm, out);
}

void sweep_claim_nothing(const struct sweep *sweep, struct entry_row *e)
{
    if (!entry_fault(e, &sweep->plans->shape, NULL))
        return;
    e->default_us = NAN;
    e->gain = (struct gain)GAIN_UNKNOWN;
}

/* Decides a bucket and makes the entry of `arm`; `mode` as for decide_to().  UNSUPPORTED: the plan
 * cannot run there. */
static int decide_plan(struct sweep *sweep, uint32_t bucket, int arm, enum decide_mode mode,
                       struct entry_row *out)
{
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = decide_to(sweep, &b, mode);
    if (!rc)
        rc = arm >= 0 && b.attempts[arm].usable ? bucket_entry(&b, arm, out) : UNSUPPORTED;
    if (!rc && arm == sweep->plans->default_arm)
        snprintf(out->decision, sizeof(out->decision), "%s", decision_words[DECISION_DEFAULT]);
    if (!rc)
        sweep_claim_nothing(sweep, out);
    bucket_forget(&b);
    return rc;
}

int sweep_place(struct sweep *sweep, uint32_t bucket, int arm, bool inferred, struct entry_row *out)
{
    if (arm < 0 || !layer_plans_fits(sweep->plans, arm, bucket))
        return UNSUPPORTED;
    if (!inferred)
        return decide_plan(sweep, bucket, arm, WITH_KNOWN_SAMPLES, out);
    dictionary_infer(&sweep->dictionary, bucket, arm, NULL, out);
    sweep_claim_nothing(sweep, out);
    return OK;
}

int sweep_candidate(struct sweep *sweep, uint32_t bucket, int *arm, struct pairs *pairs,
                    struct normal *belief)
{
    const struct paired_proof *proof;
    struct bucket b;
    int rc;

    bucket_init(&b, &sweep->dictionary, bucket);
    rc = decide_to(sweep, &b, WITH_KNOWN_SAMPLES);
    proof = decision_proof(&b.decision);
    *arm = -1;
    if (proof) {
        *arm = proof->arm;
        *pairs = proof_pairs(proof);
        *belief = proof->belief;
    }
    bucket_forget(&b);
    return rc;
}

/* ---- measured buckets */

static int measure_bucket(struct sweep *sweep, uint32_t bucket)
{
    struct campaign *c = sweep->campaign;
    int arm = sweep->plans->default_arm, rc = UNSUPPORTED;
    struct entry_row entry, old;

    /* With fixed axes no bucket changes its plan until launch values are chosen for the
     * whole table. */
    if (sweep->request->fixed) {
        rc = dictionary_entry(&sweep->dictionary, bucket, &old);
        if (rc == OK && sweep->has_chosen_values)
            arm = layer_plans_arm(sweep->plans, &old.plan);
        rc = rc < 0 ? rc : decide_plan(sweep, bucket, arm, MEASURE, &entry);
    }
    if (rc == UNSUPPORTED)
        rc = decide_bucket(sweep, bucket, MEASURE, -1, &entry);
    if (rc == UNSUPPORTED) {
        note("bucket %u: no plan can run there; `moetune show --trials` says why", bucket);
        return OK;
    }
    TRY(rc);
    TRY(store_entry_put(c->store, &entry, "measured"));
    sweep->result.measured++;
    c->progress.fresh++;
    return campaign_publish(c, false);
}

/* Measures a bucket unless it is pinned or known. */
static int sweep_bucket(struct sweep *sweep, uint32_t bucket)
{
    struct entry_row e;
    int rc = dictionary_entry(&sweep->dictionary, bucket, &e);

    if (rc < 0)
        return rc;
    if (dictionary_pin(&sweep->dictionary, bucket))
        sweep->result.pinned++;
    else if (rc == OK && dictionary_holds(&sweep->dictionary, &e, false)) {
        sweep->result.known++;
        /* So the search has its samples. */
        TRY(decide_bucket(sweep, bucket, WITH_KNOWN_SAMPLES, -1, NULL));
    } else {
        TRY(measure_bucket(sweep, bucket));
    }
    sweep->campaign->progress.done++;
    sweep->campaign->run.row.buckets_done++;
    return OK;
}

/* Sweeps a bucket that is not among the anchors. */
static int sweep_extra_bucket(struct sweep *sweep, uint32_t bucket)
{
    sweep->campaign->progress.buckets++;
    sweep->campaign->run.row.buckets_planned++;
    return sweep_bucket(sweep, bucket);
}

/* ---- buckets between */

static int store_inferred(struct sweep *sweep, const struct entry_row *entry)
{
    struct entry_row old;
    int rc = dictionary_entry(&sweep->dictionary, entry->bucket, &old);
    bool same;

    if (rc < 0)
        return rc;
    if (dictionary_pin(&sweep->dictionary, entry->bucket))
        return OK;
    sweep->result.inferred++;
    /* A measured entry of this cluster is better than an inferred one, even at lower effort.  An
     * entry inferred by a whole sweep is better than one inferred from a few buckets. */
    if (rc == OK &&
        !entry_is(&old, ENTRY_STALE | ENTRY_UNSOUND | (sweep->from_misses ? 0u : ENTRY_INFERRED)))
        return OK;
    same = rc == OK && plan_equal(&old.plan, &entry->plan) &&
           !entry_is(&old, ENTRY_STALE | ENTRY_UNSOUND);
    if (same && fabs(old.bound - entry->bound) < 1e-4)
        return OK;
    return store_entry_put(sweep->campaign->store, entry, same ? NULL : "inferred");
}

/* The entry that the rounds will probably make of a default entry: that of the plan which the
 * search favours, if it saves more than 1 %. */
static int expect_rounds(struct sweep *sweep, const struct entry_row *e, struct entry_row *out)
{
    static const double least_gain = 0.01;
    const struct layer_plans *plans = sweep->plans;
    struct entry_row favoured;
    int arm = e->search_winner.struct_size ? layer_plans_arm(plans, &e->search_winner) : -1, rc;

    *out = *e;
    if (e->run < sweep->first_run) /* rounds have judged it */
        return OK;
    if (arm < 0 || arm == plans->default_arm ||
        layer_plans_arm(plans, &e->plan) != plans->default_arm)
        return OK;
    rc = sweep_redecide(sweep, e->bucket, arm, &favoured);
    if (rc == OK && favoured.gain.value > least_gain)
        *out = favoured;
    return rc < 0 ? rc : OK;
}

/* Finds a bucket between these two that should be measured before the rounds; UNSUPPORTED: none. */
static int find_doubtful(struct sweep *sweep, const struct entry_row *low,
                         const struct entry_row *high, uint32_t *doubtful)
{
    struct entry_row sides[2];
    uint32_t first_high;

    if (sweep->from_misses || sweep->rounds_begun || campaign_over(sweep->campaign))
        return UNSUPPORTED;
    TRY(expect_rounds(sweep, low, &sides[0]));
    TRY(expect_rounds(sweep, high, &sides[1]));
    TRY(between_find_switch(sweep, &sides[0], &sides[1], &first_high));
    return between_doubtful(sweep, &sides[0], &sides[1], first_high, doubtful) &&
                   !dictionary_pin(&sweep->dictionary, *doubtful)
               ? OK
               : UNSUPPORTED;
}

static int infer_between(struct sweep *sweep, const struct entry_row *low,
                         const struct entry_row *high)
{
    struct entry_row entry;
    uint32_t doubtful, first_high;
    int rc = find_doubtful(sweep, low, high, &doubtful);

    if (rc < 0)
        return rc;
    if (!rc) {
        rc = sweep_extra_bucket(sweep, doubtful);
        if (!rc)
            rc = dictionary_entry(&sweep->dictionary, doubtful, &entry);
        if (!rc) {
            TRY(infer_between(sweep, low, &entry));
            return infer_between(sweep, &entry, high);
        }
        /* If time is up, or no plan can run there, the bucket is inferred, too. */
        if (rc < 0 && rc != ERR_CUT)
            return rc;
    }
    TRY(between_find_switch(sweep, low, high, &first_high));
    for (uint32_t b = low->bucket + 1; b < high->bucket; b++)
        if (between_infer(sweep, low, high, first_high, b, &entry))
            TRY(store_inferred(sweep, &entry));
    return OK;
}

static bool is_anchor(const struct layer_plans *plans, uint32_t bucket)
{
    for (size_t i = 0; i < plans->anchor_count; i++)
        if (plans->anchors[i] == bucket)
            return true;
    return false;
}

/* Whether an entry was measured by an earlier sweep that this one does not continue. */
static bool is_older(const struct sweep *sweep, const struct entry_row *entry)
{
    return !entry->inferred && entry->run < sweep->first_run &&
           !is_anchor(sweep->plans, entry->bucket);
}

/* Infers, or measures, the buckets between each measured bucket and the next one.  Before the
 * rounds it uses anchors and older entries only, not buckets that were measured as doubtful.  So a
 * sweep that continues finds the same doubtful buckets as the first time. */
static int infer_all(struct sweep *sweep)
{
    struct entry_row low = { 0 }, entry;
    bool have_low = false;

    for (uint32_t b = sweep->plans->first; b <= sweep->plans->last; b++) {
        int rc = dictionary_entry(&sweep->dictionary, b, &entry);

        if (rc < 0)
            return rc;
        if (rc != OK || entry.inferred || entry_is(&entry, ENTRY_UNSOUND) ||
            strcmp(entry.load, sweep->dictionary.load) != 0)
            continue;
        if (!sweep->rounds_begun && !sweep->from_misses && !is_older(sweep, &entry) &&
            !is_anchor(sweep->plans, b))
            continue;
        if (have_low && low.bucket + 1 < b)
            TRY(infer_between(sweep, &low, &entry));
        low = entry;
        have_low = true;
    }
    return OK;
}

/* ---- buckets so wide that one plan is not good at both of their ends, by the search's model */

/* A check of one bucket at its two ends. */
struct edge_check {
    struct search *search;
    uint64_t lower_end;           /* a capacity */
    bool usable[SEARCH_ARMS_MAX]; /* fits into memory at the upper edge, and never failed */
};

/* The plans that failed in some bucket of the layer: they would not run with another width either.
 */
struct failures {
    const struct layer_plans *plans;
    bool failed[SEARCH_ARMS_MAX];
};

static int note_failure(void *self, const struct trial_row *trial)
{
    struct failures *f = self;
    int arm = layer_plans_arm(f->plans, &trial->key.plan);

    /* Plans are ruled out by memory for each bucket on its own. */
    if (arm >= 0 && trial->state > TRIAL_OK && trial->state != TRIAL_RULED_OUT)
        f->failed[arm] = true;
    return OK;
}

/* The best arm at a capacity; -1: there is no model. */
static int best_at(const struct edge_check *check, uint64_t capacity)
{
    struct search_result verdict;

    return search_infer(check->search, capacity, check->usable, &verdict) ? verdict.winner : -1;
}

/* What an arm loses against the best one at a capacity, as a share; 0 without a model. */
static double loss_of(const struct edge_check *check, uint64_t capacity, int arm)
{
    int best = best_at(check, capacity);
    double loss;

    if (arm < 0 || best < 0)
        return 0;
    loss = search_estimate(check->search, capacity, arm) /
           search_estimate(check->search, capacity, best);
    return isnan(loss) ? 0 : loss - 1;
}

/* Counts the buckets whose plan is expected to lose more than TOO_WIDE_LOSS at their lower end
 * against the best plan there, and finds the width that would help.  A loss at the upper edge, too,
 * is subtracted: the width does not cause it.  It measures nothing; without a model (search.h) it
 * finds no such bucket. */
static int find_too_wide(struct sweep *sweep, struct too_wide *out)
{
    const struct dictionary *d = &sweep->dictionary;
    const struct layer_plans *plans = sweep->plans;
    const struct moe_shape *s = &plans->shape;
    uint64_t factor_1_capacity = moe_capacity(1, s->top_k, s->experts, s->tokens, 0);
    uint32_t usual_window = shape_window(s);
    struct failures failures = { .plans = plans };
    struct too_wide found = { 0 };

    TRY(store_trials(d->store, d->cluster, d->shape, plans->window, UINT32_MAX, note_failure,
                     &failures));
    for (uint32_t b = plans->first; b <= plans->last && plans->window > 1; b++) {
        struct edge_check check = { .search = d->search, .lower_end = (uint64_t)b * plans->window };
        uint32_t window = plans->window / 2;
        struct entry_row entry;
        int rc = dictionary_entry(&sweep->dictionary, b, &entry), arm;

        if (rc < 0)
            return rc;
        if (rc)
            continue;
        /* Bucket 0 begins at capacity 0.  Its lower end is the capacity of factor 1, or one row. */
        if (!b)
            check.lower_end =
                factor_1_capacity && factor_1_capacity < plans->window ? factor_1_capacity : 1;
        for (int i = 0; i < (int)plans->arm_count; i++)
            check.usable[i] = !failures.failed[i] && layer_plans_fits(plans, i, b);
        arm = layer_plans_arm(plans, &entry.plan);
        if (loss_of(&check, check.lower_end, arm) - loss_of(&check, entry.capacity, arm) <=
            TOO_WIDE_LOSS)
            continue;
        /* Halves the width until the lower end does not lose. */
        while (window > 1 && loss_of(&check, check.lower_end,
                                     best_at(&check, (check.lower_end / window + 1) * window - 1)) >
                                 TOO_WIDE_LOSS)
            window /= 2;
        /* The layer's usual width is narrow enough, even if the model says otherwise. */
        window = window < usual_window ? window : usual_window;
        found.buckets++;
        if (!found.window || window < found.window)
            found.window = window;
    }
    *out = found;
    return OK;
}

/* ---- the sweep */

static int decide_all_buckets(struct sweep *sweep)
{
    const struct layer_plans *plans = sweep->plans;
    struct entry_row entry;

    for (size_t i = 0; i < plans->anchor_count; i++) {
        if (campaign_over(sweep->campaign))
            return ERR_CUT;
        TRY(sweep_bucket(sweep, plans->anchors[i]));
    }
    /* A bucket whose entry `moetune verify` has refuted is measured, not inferred. */
    for (uint32_t b = plans->first; b <= plans->last; b++) {
        int rc = dictionary_entry(&sweep->dictionary, b, &entry);

        if (rc == OK && entry_is(&entry, ENTRY_REFUTED) && !dictionary_pin(&sweep->dictionary, b))
            rc = campaign_over(sweep->campaign) ? ERR_CUT : sweep_extra_bucket(sweep, b);
        if (rc && rc != UNSUPPORTED)
            return rc;
    }
    /* Samples of earlier sweeps between the anchors help the search, too. */
    for (uint32_t b = plans->first; b <= plans->last; b++) {
        int rc = dictionary_entry(&sweep->dictionary, b, &entry);

        if (rc == OK && is_older(sweep, &entry) && !entry_is(&entry, ENTRY_STALE))
            rc = decide_bucket(sweep, b, WITH_KNOWN_SAMPLES, -1, NULL);
        if (rc < 0)
            return rc;
    }
    return OK;
}

/* Infers the buckets between, runs the rounds, and publishes.  `cut`: ERR_CUT if the sweep was cut
 * off before; it is returned then. */
static int conclude_sweep(struct sweep *sweep, int cut)
{
    int rc;

    search_cut(sweep->dictionary.search); /* an unfinished bucket must not count as finished */
    TRY(standing_begun(sweep, &sweep->rounds_begun));
    TRY(infer_all(sweep));
    sweep->rounds_begun = true;
    rc = cut ? standing_skip(sweep, &sweep->result.standing)
             : standing_run_rounds(sweep, &sweep->result.standing);
    if (rc && rc != ERR_CUT)
        return rc;
    TRY(standing_has_chosen_values(sweep, &sweep->has_chosen_values));
    sweep->campaign->progress.compared = sweep->campaign->progress.done;
    sweep->result.inferred = 0;
    TRY(infer_all(sweep)); /* from entries that the rounds may have changed */
    TRY(find_too_wide(sweep, &sweep->result.too_wide));
    TRY(campaign_publish(sweep->campaign, true));
    return cut ? cut : rc;
}

/* --retune: makes all entries stale, so that they are measured again; pinned buckets are left out.
 */
static int make_all_stale(struct sweep *sweep)
{
    const struct dictionary *d = &sweep->dictionary;

    for (uint32_t b = sweep->plans->first, end; b <= sweep->plans->last; b = end + 1) {
        for (end = b; end <= sweep->plans->last && !dictionary_pin(d, end);)
            end++;
        if (end > b)
            TRY(store_expire(d->store, d->cluster, d->shape, d->buckets.window, b, end - 1,
                             "to be measured again"));
    }
    return OK;
}

static int sweep_buckets(struct sweep *sweep)
{
    const struct dictionary *d = &sweep->dictionary;
    const struct layer_plans *plans = sweep->plans;
    int rc;

    TRY(standing_has_chosen_values(sweep, &sweep->has_chosen_values));
    if (sweep->request->options->retune)
        TRY(make_all_stale(sweep));
    TRY(store_expire_loads(d->store, d->cluster, d->shape, plans->window, plans->first, plans->last,
                           d->load));
    rc = decide_all_buckets(sweep);
    return rc && rc != ERR_CUT ? rc : conclude_sweep(sweep, rc);
}

static int open_sweep(struct campaign *c, const struct tune_request *request, size_t number,
                      struct sweep *out)
{
    const struct tune_options *o = request->options;
    struct layer_plans *plans = &request->spaces[number];
    /* Two pairs per bucket are enough, because the rounds prove what is published; with a budget,
     * which may end before the rounds, it takes as many as a proof needs. */
    uint32_t pairs = c->deadline_ns ? PAIRS_LEAST : PAIRS_BEFORE_ROUNDS;
    int rc;
    struct dictionary d = { .store = c->store,
                            .cluster = c->cluster_id,
                            .run = c->run.row.id,
                            .buckets = buckets_of(&plans->shape, plans->window),
                            .arms = plans->arms,
                            .arm_count = plans->arm_count,
                            .default_arm = plans->default_arm,
                            .effort = request->effort,
                            .patience = 2 * pairs,
                            .harm = o->harm,
                            .margin = o->margin };
    struct search_setup search = { .shape = plans->shape,
                                   .kept = load_kept,
                                   .load = load_counts(plans->load),
                                   .arms = plans->arms,
                                   .arm_count = plans->arm_count,
                                   .machine = request->machine,
                                   .worth = request->effort->worth,
                                   .repeats = o->repeats,
                                   .seed = c->setup->seed };

    load_name(plans->load, d.load);
    rc = dictionary_open(&d, &plans->shape);
    if (!rc)
        rc = campaign_first_run(c, &d.pairs_since);
    if (!rc)
        rc = search_open(request->strategy, &search, &d.search);
    if (rc) {
        dictionary_close(&d);
        return rc;
    }
    *out = (struct sweep){ .campaign = c,
                           .request = request,
                           .plans = plans,
                           .asked = request->asked[number],
                           .first_run = d.pairs_since,
                           .dictionary = d };
    return OK;
}

int sweep_layer(struct campaign *campaign, const struct tune_request *request, size_t number,
                struct sweep_result *out)
{
    struct sweep sweep;
    int rc;

    TRY(open_sweep(campaign, request, number, &sweep));
    rc = sweep_buckets(&sweep);
    dictionary_close(&sweep.dictionary);
    *out = sweep.result;
    return rc;
}

/* ---- misses */

static int run_misses(struct sweep *sweeps, size_t count, const struct misses *misses)
{
    struct sweep *last = NULL;
    int rc = OK;

    for (size_t i = 0; i < misses->count && !rc; i++) {
        struct sweep *sweep = &sweeps[misses->list[i].space];

        if (last && last != sweep)
            last->ranks_know = false; /* the ranks have one layer at a time */
        last = sweep;
        rc = campaign_over(sweep->campaign) ? ERR_CUT : sweep_bucket(sweep, misses->list[i].bucket);
    }
    if (rc && rc != ERR_CUT)
        return rc;
    for (size_t i = 0; i < count; i++) {
        sweeps[i].ranks_know = false;
        rc = conclude_sweep(&sweeps[i], rc);
        if (rc && rc != ERR_CUT)
            return rc;
    }
    return rc;
}

int sweep_misses(struct campaign *campaign, const struct tune_request *request,
                 const struct misses *misses, struct sweep_result *results)
{
    size_t space_count = request->space_count;
    struct sweep *sweeps = calloc(space_count, sizeof(*sweeps));
    int rc = sweeps ? OK : fail(ERR_NOMEM, "%zu layers", space_count);

    for (size_t i = 0; i < space_count && !rc; i++) {
        rc = open_sweep(campaign, request, i, &sweeps[i]);
        sweeps[i].from_misses = true;
    }
    if (!rc)
        rc = run_misses(sweeps, space_count, misses);
    for (size_t i = 0; sweeps && i < space_count; i++) {
        dictionary_close(&sweeps[i].dictionary);
        results[i] = sweeps[i].result;
    }
    free(sweeps);
    return rc;
}
