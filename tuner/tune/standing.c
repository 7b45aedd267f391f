/* Runs the rounds of a layer's table: prepares its measured buckets, runs the rounds over several
 * launches of the ranks, and writes entries by their verdicts. */
#include "standing.h"

#include "array.h"
#include "bucket.h"
#include "host.h"
#include "launch_decision.h"
#include "pairs.h"
#include "plan.h"
#include "random.h"
#include "rounds.h"
#include "standings.h"
#include "status.h"
#include "text.h"
#include "traffic.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The rounds of one table number their samples from a multiple of this on; none has so many. */
enum { SERIES_STRIDE = 1024 };
/* A smaller widening of intervals is not reported, because two digits do not show it. */
static const double kappa_noticed = 1.005;
_Static_assert((int)ROUNDS_STATICS_MAX <= (int)STANDING_RIVALS_MAX,
               "plans that have no room in a row");
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

/* A measured bucket in the rounds. */
struct standing_bucket {
    struct bucket bucket; /* with its entry */
    int published;        /* the arm of its entry before the rounds */
    int arm;              /* the candidate, which the rounds have to prove */
    struct pairs first;   /* of the candidate and the default, since the candidate was chosen */
    struct normal belief; /* of their log ratio, when the candidate was chosen */
    double weight;
    double rounds_weight; /* for the rounds, which average logarithms of times */
    bool confirmed;       /* by earlier rounds or a verification */
    bool usable[SEARCH_ARMS_MAX];
};

/* A list of entries; its user frees `list`. */
struct entries {
    struct entry_row *list;
    size_t count;
};

/* The rounds of one layer's table; standing_run_rounds() fills and frees it. */
struct final_rounds {
    struct sweep *sweep;
    struct standing_bucket *buckets;
    int bucket_count;
    uint32_t first, last; /* the first and the last measured bucket of the table */
    bool leaves_out;      /* the sweep was not asked for some measured buckets */
    bool other_effort;    /* some buckets were measured with another effort */
    bool again;           /* earlier rounds have ended, and their undecided buckets continue */
    int rivals[ROUNDS_STATICS_MAX], rival_count; /* static plans */
    struct standing_row row;
    int64_t confirmed_until;  /* entries of runs up to this one are confirmed; 0: none */
    struct calibration found; /* of this cluster's claims */
    struct rounds *rounds;
    struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]; /* by bucket, after the rounds */
    int launch; /* the present launch of the ranks, as the rounds number them; 0: any */

    /* For trainers that cannot switch some axes: a "launch" here is a set of values of these fixed
     * axes, by its number. */
    struct fixed_row fixed; /* as the store has it */
    bool changed;           /* this request fixes other axes than the table */
    bool reweighted;        /* this request weights buckets by other traffic than the table */
    char asked[sizeof(((struct fixed_row *)0)->asked)]; /* a hash of this request's weights */
    uint32_t launch_of[SEARCH_ARMS_MAX], launch_count;  /* by arm */
    int chosen_launch, default_launch;                  /* default_launch -1: no default plan */
};

static const struct layer_plans *plans_of(const struct final_rounds *s)
{
    return s->sweep->plans;
}

/* Whether the rounds have only a part of the table, so that their gain is not the table's.  With
 * recorded traffic the buckets that trainers asked for are the whole table. */
static bool is_part(const struct final_rounds *s)
{
    return s->leaves_out && !s->sweep->asked;
}

/* Whether the table is decided as a whole: all entries get the chosen launch, or all the default's.
 */
static bool is_whole(const struct final_rounds *s)
{
    return s->sweep->request->fixed && s->chosen_launch != s->default_launch;
}

/* Whether earlier rounds of the same table were cut off. */
static bool is_cut_off(const struct final_rounds *s)
{
    return !s->changed && !s->reweighted && s->row.cluster && !s->row.decided_s &&
           !s->sweep->result.measured;
}

/* Reads the rivals of rounds that were cut off.  False: this layer lacks one of these plans. */
static bool read_rivals(struct final_rounds *s)
{
    char text[sizeof(s->row.rivals)], *rest = text, *word;
    struct moe_plan plan;

    memcpy(text, s->row.rivals, sizeof(text));
    for (s->rival_count = 0; (word = strsep(&rest, ";")) && *word; s->rival_count++) {
        if (s->rival_count == ROUNDS_STATICS_MAX || plan_parse(word, &plan) ||
            (s->rivals[s->rival_count] = layer_plans_arm(plans_of(s), &plan)) < 0)
            return false;
    }
    return s->rival_count > 0;
}

/* Whether the undecided buckets of earlier rounds continue.  They do if this run has the same table
 * and plans, and launches its ranks in the same way. */
static bool continues(struct final_rounds *s)
{
    bool launches = s->row.launches > 1;

    return s->row.more_s > 0 && !s->sweep->misses && !s->leaves_out && !s->other_effort &&
           launches == !s->sweep->campaign->world && read_rivals(s);
}

/* ---- buckets */

/* Adds a measured bucket to s->buckets; counts it only while s->buckets is not allocated yet. */
static int add_bucket(void *self, const struct entry_row *e)
{
    struct final_rounds *s = self;
    const struct layer_plans *plans = plans_of(s);
    int arm = layer_plans_arm(plans, &e->plan);
    bool asked_for = arm >= 0 && e->bucket >= plans->first && e->bucket <= plans->last;

    if (e->window != plans->window || e->inferred ||
        dictionary_pin(&s->sweep->dictionary, e->bucket))
        return OK;
    s->leaves_out |= !asked_for;
    s->other_effort |= strcmp(e->effort, s->sweep->request->effort->name) != 0;
    s->first = e->bucket < s->first ? e->bucket : s->first;
    s->last = e->bucket > s->last ? e->bucket : s->last;
    if (!asked_for || entry_is(e, ENTRY_STALE | ENTRY_REFUTED | ENTRY_IMPORTED | ENTRY_UNSOUND))
        return OK;
    if (s->buckets) {
        struct standing_bucket *at = &s->buckets[s->bucket_count];

        bucket_init(&at->bucket, &s->sweep->dictionary, e->bucket);
        at->bucket.capacity = e->capacity;
        at->published = at->arm = arm;
    }
    s->bucket_count++;
    return OK;
}

static int open_buckets(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;

    int count;

    TRY(store_entries(d->store, d->cluster, d->shape, add_bucket, s));
    s->buckets = calloc((size_t)s->bucket_count + 1, sizeof(*s->buckets));
    if (!s->buckets)
        return fail(ERR_NOMEM, "%d buckets", s->bucket_count);
    s->bucket_count = 0;
    TRY(store_entries(d->store, d->cluster, d->shape, add_bucket, s));
    count = s->bucket_count;
    if (count <= ROUNDS_BUCKETS_MAX)
        return OK;
    /* With too many buckets a round would take too long, so only every n-th takes part. */
    for (int i = 0; i < ROUNDS_BUCKETS_MAX; i++)
        s->buckets[i] = s->buckets[(size_t)i * (size_t)count / ROUNDS_BUCKETS_MAX];
    s->bucket_count = ROUNDS_BUCKETS_MAX;
    return OK;
}

/* The border between bucket i - 1 and bucket i, as log c: the middle, or an edge of the table. */
static double border_below(const struct final_rounds *s, int i)
{
    const struct layer_plans *plans = plans_of(s);

    if (i == s->bucket_count)
        return log((double)(plans->last + 1) * plans->window);
    if (i == 0)
        return log(fmax(plans->first, 0.5) * plans->window);
    return (log((double)s->buckets[i - 1].bucket.capacity) +
            log((double)s->buckets[i].bucket.capacity)) /
           2;
}

/* The index of the measured bucket that is nearest to a bucket. */
static int nearest_bucket(const struct final_rounds *s, uint32_t bucket)
{
    double at = log((double)layer_plans_capacity(plans_of(s), bucket));
    int nearest = 0;

    while (nearest + 1 < s->bucket_count && border_below(s, nearest + 1) <= at)
        nearest++;
    return nearest;
}

/* The median of the default's samples in a bucket, or of all samples, without those of rounds. */
static double default_ns(const struct final_rounds *s, const struct standing_bucket *at)
{
    double values[256], all[256];
    size_t count = 0, others = 0;

    for (uint32_t k = 0; k < at->bucket.sample_count; k++) {
        const struct counted_sample *sample = &at->bucket.samples[k];

        if (sample->kind == SAMPLE_ROUNDS)
            continue;
        if (sample->arm == plans_of(s)->default_arm && count < 256)
            values[count++] = (double)sample->ns;
        if (others < 256)
            all[others++] = (double)sample->ns;
    }
    return count ? median_of(values, count) : others ? median_of(all, others) : 1;
}

/* Sets the weights of buckets.  Each look-up of trainers counts for the nearest measured bucket.
 * Without recorded look-ups every factor of c has the same weight. */
static int set_weights(struct final_rounds *s)
{
    const struct tune_request *request = s->sweep->request;
    const struct traffic_layer *traffic = s->sweep->asked;
    size_t buckets = (size_t)plans_of(s)->last + 1;
    double asked = 0, *weights;
    int rc = OK;

    for (size_t i = 0; traffic && i < traffic->bucket_count; i++) {
        double count = (double)traffic_unpinned(&traffic->buckets[i]);

        s->buckets[nearest_bucket(s, traffic->buckets[i].bucket)].weight += count;
        asked += count;
    }
    if (request->weights.count) {
        weights = calloc(buckets, sizeof(*weights));
        if (!weights)
            return fail(ERR_NOMEM, "%zu buckets", buckets);
        asked = 1;
        rc = traffic_weights(&request->weights, &plans_of(s)->shape, plans_of(s)->window, weights,
                             buckets);
        for (uint32_t b = 0; b < buckets && !rc; b++)
            s->buckets[nearest_bucket(s, b)].weight += weights[b];
        free(weights);
    }
    for (int i = 0; i < s->bucket_count && !(asked > 0); i++)
        s->buckets[i].weight = border_below(s, i + 1) - border_below(s, i);
    /* With fixed axes the total time of all steps counts, so weights are times. */
    for (int i = 0; i < s->bucket_count; i++)
        s->buckets[i].rounds_weight = request->fixed
                                          ? s->buckets[i].weight * default_ns(s, &s->buckets[i])
                                          : s->buckets[i].weight;
    return rc;
}

/* Reads what `moetune verify` found of this cluster's claimed gains, of all layers. */
static int find_calibration(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct row_list rows;

    TRY(store_verifications(d->store, d->cluster, &rows));
    EACH_ROW (verification_row, row, rows)
        calibration_add(&s->found, &row->claim, row->kappa, &row->found);
    free(rows.rows);
    return OK;
}

/* The last run before this command whose rounds ended; 0: none.  If rounds were cut off, the row
 * names the run before them; without any it names their own run, which is not complete. */
static int64_t confirmed_run(const struct final_rounds *s, const struct row_list *runs)
{
    if (s->row.run >= s->sweep->dictionary.pairs_since)
        return 0;
    EACH_ROW (run_row, run, *runs)
        if (run->id == s->row.run)
            return s->row.decided_s || run->state == RUN_COMPLETE ? run->id : 0;
    return 0;
}

/* Marks the buckets whose entries earlier rounds have proven or `moetune verify` has confirmed.
 * Nothing is confirmed if verifications have found that the table's claims are too sure. */
static int find_confirmed(struct final_rounds *s)
{
    struct row_list runs;

    for (int i = 0; i < s->bucket_count && s->again; i++)
        s->buckets[i].confirmed = s->buckets[i].arm == s->buckets[i].published;
    if (s->again || (!is_cut_off(s) && calibration_is_too_sure(&s->found, s->row.kappa)))
        return OK;
    TRY(store_runs(s->sweep->campaign->store, &runs));
    s->confirmed_until = confirmed_run(s, &runs);
    for (int i = 0; i < s->bucket_count && s->confirmed_until; i++) {
        struct standing_bucket *at = &s->buckets[i];
        int64_t decided = at->bucket.entry.run;

        at->confirmed = decided <= s->confirmed_until;
        EACH_ROW (run_row, run, runs)
            at->confirmed = at->confirmed || (run->id == decided && !strcmp(run->search, "verify"));
    }
    free(runs.rows);
    return OK;
}

/* Finds the candidate of each bucket: the plan that the search chose.  Its entry may still have the
 * default plan, because the candidate was not proven; the rounds may prove it. */
static int find_candidates(struct final_rounds *s)
{
    const struct layer_plans *plans = plans_of(s);

    for (int i = 0; i < s->bucket_count; i++) {
        struct standing_bucket *at = &s->buckets[i];
        struct bucket *b = &at->bucket;
        int arm, favoured = -1;

        TRY(bucket_load(b));
        for (int k = 0; k < (int)plans->arm_count; k++)
            at->usable[k] = b->attempts[k].usable && layer_plans_fits(plans, k, b->key.bucket);
        if (s->again) { /* its pairs are among the rounds' samples */
            arm = b->entry.likely.struct_size ? layer_plans_arm(plans, &b->entry.likely) : -1;
            at->arm = arm >= 0 && at->usable[arm] ? arm : at->published;
            continue;
        }
        TRY(sweep_candidate(s->sweep, b->key.bucket, &arm, &at->first, &at->belief));
        if (b->entry.search_winner.struct_size)
            favoured = layer_plans_arm(plans, &b->entry.search_winner);
        /* An entry of an earlier command keeps the default.  Otherwise the plan that the search
         * favoured is the candidate, even if further samples have changed the search's choice. */
        if (at->published == plans->default_arm &&
            b->entry.run >= s->sweep->dictionary.pairs_since) {
            if (arm < 0)
                arm = favoured;
            if (arm >= 0 && at->usable[arm])
                at->arm = arm;
        }
        if (arm != at->arm)
            at->first.count = 0;
    }
    return OK;
}

/* ---- one launch for all buckets */

/* Writes the launch of a plan for people: the values of the fixed axes, or the plan if all are
 * fixed. */
static void launch_words(const struct final_rounds *s, const struct moe_plan *plan,
                         char words[PLAN_TEXT_BYTES])
{
    uint32_t fixed = s->sweep->request->fixed;

    *words = 0;
    if (!(~fixed & ((1u << plan_axis_count) - 1))) {
        plan_words(plan, words);
        return;
    }
    for (size_t axis = 0; axis < plan_axis_count; axis++) {
        uint32_t value = plan_value(plan, axis);

        if (!(fixed >> axis & 1))
            continue;
        text_add(words, PLAN_TEXT_BYTES, "%s%s=", *words ? " " : "", plan_axes[axis].name);
        if (plan_axes[axis].words)
            text_add(words, PLAN_TEXT_BYTES, "%s", plan_axes[axis].words[value]);
        else
            text_add(words, PLAN_TEXT_BYTES, "%" PRIu32, value);
    }
}

static uint32_t fixed_distance(const struct final_rounds *s, int a, int b)
{
    uint32_t apart = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        apart += s->sweep->request->fixed >> axis & 1 &&
                 plan_value(&plans_of(s)->arms[a], axis) != plan_value(&plans_of(s)->arms[b], axis);
    return apart;
}

/* Numbers the launches: the different values of the fixed axes. */
static void find_launches(struct final_rounds *s)
{
    const struct layer_plans *plans = plans_of(s);
    int first[SEARCH_ARMS_MAX];

    s->launch_count = 0;
    for (int arm = 0; arm < (int)plans->arm_count; arm++) {
        uint32_t launch = 0;

        while (launch < s->launch_count && fixed_distance(s, first[launch], arm))
            launch++;
        if (launch == s->launch_count)
            first[s->launch_count++] = arm;
        s->launch_of[arm] = launch;
    }
    s->default_launch = plans->default_arm < 0 ? -1 : (int)s->launch_of[plans->default_arm];
}

/* The layer's search, brought to bucket i with all of its samples. */
static struct search *search_at(struct final_rounds *s, int i)
{
    struct standing_bucket *at = &s->buckets[i];

    for (int arm = 0; arm < (int)plans_of(s)->arm_count; arm++)
        at->bucket.attempts[arm].usable = at->usable[arm];
    bucket_open(&at->bucket, false);
    return s->sweep->dictionary.search;
}

/* Excludes launches without a plan that fits into memory in some bucket where another launch has
 * one.  Buckets between measured ones count, too. */
static void exclude_launches(const struct final_rounds *s, double *totals)
{
    const struct layer_plans *plans = plans_of(s);

    for (uint32_t b = plans->first; b <= plans->last; b++) {
        bool fits[SEARCH_ARMS_MAX] = { false }, any = false;

        for (int arm = 0; arm < (int)plans->arm_count; arm++) {
            fits[s->launch_of[arm]] = fits[s->launch_of[arm]] || layer_plans_fits(plans, arm, b);
            any = any || fits[s->launch_of[arm]];
        }
        for (uint32_t l = 0; l < s->launch_count && any; l++)
            totals[l] = fits[l] ? totals[l] : (double)NAN;
    }
}

/* Chooses the launch with the least weighted time over all buckets, and its best plan in each. */
static int choose_launch(struct final_rounds *s)
{
    uint32_t apart[SEARCH_ARMS_MAX] = { 0 };
    double totals[SEARCH_ARMS_MAX] = { 0 };
    int *live = calloc((size_t)s->launch_count * (size_t)s->bucket_count, sizeof(*live));

    if (!live)
        return fail(ERR_NOMEM, "launches of %d buckets", s->bucket_count);
    for (int i = 0; i < s->bucket_count; i++) {
        struct search *visit = search_at(s, i);

        for (uint32_t l = 0; l < s->launch_count; l++) {
            int arm = launch_live_arm(visit, s->launch_of, (int)l);

            live[(size_t)l * (size_t)s->bucket_count + (size_t)i] = arm;
            totals[l] +=
                arm < 0 ? (double)NAN : s->buckets[i].weight * exp(search_level(visit, arm).mean);
        }
    }
    exclude_launches(s, totals);
    for (int arm = 0; arm < (int)plans_of(s)->arm_count && s->default_launch >= 0; arm++)
        apart[s->launch_of[arm]] = fixed_distance(s, arm, plans_of(s)->default_arm);
    s->chosen_launch = launch_choose(totals, apart, s->launch_count, s->default_launch);
    if (s->chosen_launch < 0) {
        note("no values of the fixed axes have a plan that runs in every bucket: the table has the "
             "default plan's values, and other ones where these cannot run");
        s->chosen_launch = s->default_launch;
    }
    for (int i = 0; i < s->bucket_count && s->chosen_launch >= 0; i++) {
        int arm = live[(size_t)s->chosen_launch * (size_t)s->bucket_count + (size_t)i];

        if (arm != s->buckets[i].arm)
            s->buckets[i].first.count = 0;
        s->buckets[i].arm = arm >= 0 ? arm : s->buckets[i].published;
    }
    free(live);
    return OK;
}

/* Reads the candidates of rounds that were cut off.  False: this layer lacks one of these plans. */
static bool read_plans(struct final_rounds *s)
{
    char text[sizeof(s->fixed.plans)], *rest = text, *word;
    int arms[ROUNDS_BUCKETS_MAX], count = 0;
    struct moe_plan plan;

    memcpy(text, s->fixed.plans, sizeof(text));
    for (; (word = strsep(&rest, ";")) && *word; count++)
        if (count == s->bucket_count || plan_parse(word, &plan) ||
            (arms[count] = layer_plans_arm(plans_of(s), &plan)) < 0)
            return false;
    for (int i = 0; i < count; i++) {
        if (arms[i] != s->buckets[i].arm)
            s->buckets[i].first.count = 0;
        s->buckets[i].arm = arms[i];
        s->chosen_launch = (int)s->launch_of[arms[i]];
    }
    return count > 0 && count == s->bucket_count;
}

/* With fixed axes: makes all candidates plans of one launch.  If that is the default's launch, only
 * its plans take part in the rounds, and they may differ between buckets. */
static int fix_launch(struct final_rounds *s, bool continues)
{
    if (!s->sweep->request->fixed)
        return OK;
    if (!continues) {
        TRY(choose_launch(s));
        s->fixed.cluster = s->sweep->dictionary.cluster;
        s->fixed.shape = s->sweep->dictionary.shape;
        s->fixed.window = plans_of(s)->window;
        tune_fixed_text(s->sweep->request, s->fixed.axes);
        memcpy(s->fixed.asked, s->asked, sizeof(s->fixed.asked));
        s->fixed.price = (struct gain)GAIN_UNKNOWN;
        *s->fixed.plans = 0;
        launch_words(s, &plans_of(s)->arms[s->buckets[0].arm], s->fixed.launch);
        for (int i = 0; i < s->bucket_count; i++)
            text_add(s->fixed.plans, sizeof(s->fixed.plans), "%s%s", i ? ";" : "",
                     PLAN_TEXT(&plans_of(s)->arms[s->buckets[i].arm]));
        TRY(store_fixed_put(s->sweep->campaign->store, &s->fixed));
    }
    for (int i = 0; i < s->bucket_count; i++) {
        s->buckets[i].confirmed = false;
        for (int arm = 0; arm < (int)plans_of(s)->arm_count && !is_whole(s); arm++)
            s->buckets[i].usable[arm] &= (int)s->launch_of[arm] == s->default_launch;
    }
    return OK;
}

/* Estimates what trainers would save if they could switch the fixed axes, too, from all samples. */
static int find_price(struct final_rounds *s)
{
    struct launch_part *parts = calloc((size_t)s->bucket_count, sizeof(*parts));
    struct entry_row anew;
    int rc = parts ? OK : fail(ERR_NOMEM, "%d buckets", s->bucket_count);

    for (int i = 0; i < s->bucket_count && rc >= 0; i++) {
        rc = sweep_redecide(s->sweep, s->buckets[i].bucket.key.bucket, s->verdicts[i].arm, &anew);
        if (rc == OK)
            parts[i] = launch_part_of(s->sweep->dictionary.search, s->verdicts[i].arm,
                                      s->buckets[i].weight);
    }
    if (rc >= 0)
        s->fixed.price = launch_price(parts, (size_t)s->bucket_count);
    free(parts);
    return rc < 0 ? rc : OK;
}

static bool is_included(const struct final_rounds *s, uint32_t bucket)
{
    for (int i = 0; i < s->bucket_count; i++)
        if (s->buckets[i].bucket.key.bucket == bucket)
            return true;
    return false;
}

/* Gives a bucket that is not in the rounds the plan `arm`, or the best plan of the same launch that
 * fits there.  If none fits the entry ends. */
static int replace_entry(struct final_rounds *s, const struct entry_row *e, int arm,
                         const char *why)
{
    const struct layer_plans *plans = plans_of(s);
    bool inferred = entry_is(e, ENTRY_OPEN | ENTRY_IMPORTED | ENTRY_UNSOUND);
    struct entry_row anew;
    int rc = UNSUPPORTED, best = arm;

    if (arm >= 0 && !layer_plans_fits(plans, arm, e->bucket))
        for (int other = best = -1; ++other < (int)plans->arm_count;)
            if (s->launch_of[other] == s->launch_of[arm] &&
                layer_plans_fits(plans, other, e->bucket) &&
                (best < 0 || dictionary_expected_us(&s->sweep->dictionary, e->bucket, other) <
                                 dictionary_expected_us(&s->sweep->dictionary, e->bucket, best)))
                best = other;
    if (best >= 0)
        rc = sweep_place(s->sweep, e->bucket, best, inferred, &anew);
    if (rc < 0)
        return rc;
    if (rc)
        return store_entry_end(s->sweep->campaign->store, e, why);
    if (!inferred) {
        memcpy(anew.effort, e->effort, sizeof(anew.effort));
        memcpy(anew.search, e->search, sizeof(anew.search));
    }
    return store_entry_put(s->sweep->campaign->store, &anew, why);
}

static int list_entry(void *self, const struct entry_row *e)
{
    struct entries *all = self;

    ARRAY_APPEND(all->list, all->count, *e);
    return OK;
}

/* Changes the entries that are not in the rounds, so that the whole table has one launch.  `reset`:
 * all entries get the default plan until new rounds decide. */
static int replace_others(struct final_rounds *s, bool reset)
{
    const struct dictionary *d = &s->sweep->dictionary;
    const struct layer_plans *plans = plans_of(s);
    int default_arm = plans->default_arm;
    struct entries all = { NULL, 0 };
    int rc = store_entries(d->store, d->cluster, d->shape, list_entry, &all);

    for (size_t i = 0; i < all.count && !rc; i++) {
        const struct entry_row *e = &all.list[i];
        int now = layer_plans_arm(plans, &e->plan), arm = default_arm;

        if (e->window != plans->window || dictionary_pin(d, e->bucket) ||
            (!reset && is_included(s, e->bucket)))
            continue;
        if (!reset && s->fixed.whole)
            arm = s->verdicts[nearest_bucket(s, e->bucket)].arm;
        else if (!reset && now >= 0 && (int)s->launch_of[now] == s->default_launch)
            continue;
        /* Where the default cannot run, the present plan stays until a launch is chosen. */
        if (reset &&
            (arm < 0 || !layer_plans_fits(plans, arm, e->bucket) || !strcmp(e->decision, "alone")))
            continue;
        if (now != arm)
            rc = replace_entry(s, e, arm, reset ? "other axes are fixed" : "one launch for all");
    }
    free(all.list);
    return rc;
}

/* If this request fixes other axes than the table, all entries become the default plan and the
 * rounds begin again. */
static int change_axes(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct standing_row row;
    int rc;

    if (!s->changed)
        return OK;
    rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &row);
    if (rc < 0)
        return rc;
    TRY(replace_others(s, true));
    if (rc == OK) {
        row.decided_s = 0;
        *row.rivals = 0;
        TRY(store_standing(d->store, &row));
    }
    if (!s->fixed.cluster)
        return OK;
    *s->fixed.axes = 0; /* a run that fixes some writes them when its rounds begin */
    return store_fixed_put(d->store, &s->fixed);
}

/* ---- the rounds */

static void describe_buckets(const struct final_rounds *s, struct rounds_bucket *out)
{
    for (int i = 0; i < s->bucket_count; i++) {
        const struct standing_bucket *at = &s->buckets[i];

        out[i] = (struct rounds_bucket){ at->rounds_weight,
                                         at->bucket.capacity,
                                         at->arm,
                                         at->usable,
                                         at->first.count ? &at->first : NULL,
                                         at->belief,
                                         at->confirmed };
    }
}

/* Begins new rounds, or continues rounds that were cut off if the table has not changed.  Continued
 * rounds keep their rivals: their samples would now suggest other ones. */
static int begin_rounds(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    uint32_t next = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;
    double kappa = calibration_kappa(&s->found);
    size_t used = 0;

    s->row.goes += s->again;
    if (s->again ||
        (is_cut_off(s) && read_rivals(s) && (!s->sweep->request->fixed || read_plans(s))))
        return fix_launch(s, true);
    TRY(fix_launch(s, false));
    if (kappa >= kappa_noticed)
        note("moetune verify measured %u claimed gains again, and their intervals were too narrow: "
             "those of this table are %.2f times as wide as its own samples make them",
             s->found.count, kappa);
    s->row = (struct standing_row){ .cluster = d->cluster,
                                    .shape = d->shape,
                                    .run = s->confirmed_until ? s->confirmed_until : d->run,
                                    .window = plans_of(s)->window,
                                    .gain = GAIN_UNKNOWN,
                                    .static_gain = GAIN_UNKNOWN,
                                    .first_round = next,
                                    .kappa = kappa };
    describe_buckets(s, buckets);
    s->rival_count =
        rounds_statics(d->search, buckets, s->bucket_count, plans_of(s)->default_arm, s->rivals);
    if (s->sweep->request->fixed && !is_whole(s)) { /* only rivals of the default's launch */
        int count = 0;

        for (int i = 0; i < s->rival_count; i++)
            if ((int)s->launch_of[s->rivals[i]] == s->default_launch)
                s->rivals[count++] = s->rivals[i];
        s->rival_count = count;
    }
    for (int i = 0; i < s->rival_count; i++)
        used += (size_t)snprintf(s->row.rivals + used, sizeof(s->row.rivals) - used, "%s%s",
                                 i ? ";" : "", PLAN_TEXT(&plans_of(s)->arms[s->rivals[i]]));
    return store_standing(d->store, &s->row);
}

/* Opens the rounds and hands over the samples that they already have. */
static int open_rounds(struct final_rounds *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    const struct effort *effort = s->sweep->request->effort;
    uint32_t first = s->row.first_round;
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->bucket_count,
                                  .default_arm = plans_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = 1, /* plus the number of the search's samples */
                                  .worth = effort->worth,
                                  .whole_harm = is_whole(s) ? s->sweep->request->options->harm : 0,
                                  .reruns = s->row.goes,
                                  .seed = s->sweep->campaign->setup->seed ^ first,
                                  .kappa = s->row.kappa };

    for (int i = 0; i < s->bucket_count; i++)
        for (uint32_t k = 0; k < s->buckets[i].bucket.sample_count; k++)
            setup.steps_max += s->buckets[i].bucket.samples[k].kind == SAMPLE_SEARCH;
    /* Ranks under a launcher cannot be launched again, so the gains are for this launch. */
    if (!s->sweep->campaign->world) {
        setup.launch_cycles = effort->launch_cycles;
        setup.launches = effort->launches - 1;
    }
    describe_buckets(s, buckets);
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    /* The samples are stored by bucket, but the rounds need them round by round.  Earlier rounds
     * have other numbers. */
    for (uint32_t round = first; round - first < SERIES_STRIDE; round++)
        for (int i = 0; i < s->bucket_count; i++) {
            const struct bucket *b = &s->buckets[i].bucket;

            for (uint32_t k = 0; k < b->sample_count; k++)
                if (b->samples[k].kind != SAMPLE_ROUNDS || b->samples[k].round != round)
                    continue;
                else if (s->again)
                    rounds_recall(s->rounds, i, b->samples[k].arm, round - first, b->samples[k].ns);
                else
                    rounds_tell(s->rounds, i, b->samples[k].arm, b->samples[k].ns);
        }
    if (s->again)
        rounds_continue(s->rounds);
    return OK;
}

static int run_rounds(struct final_rounds *s)
{
    static const int64_t unnoticed_ns = 500000000;
    struct campaign *c = s->sweep->campaign;
    double before = c->progress.compared;
    uint32_t known = s->again ? s->rounds->steps : 0;
    struct campaign_step step;
    int at, arm, rc;

    while (rounds_next(s->rounds, &at, &arm)) {
        int launch = rounds_launch(s->rounds);

        if (launch && launch != s->launch) {
            int64_t ns = crew_launch_ns(c->crew);

            /* If a launch takes long, the rounds end after one launch, or before launches for
             * undecided buckets alone. */
            if (!s->again && (s->launch == 1 || (s->launch && s->rounds->extended)) &&
                ns > unnoticed_ns && ns * 10 > host_clock_ns() - c->begun_ns) {
                if (s->launch == 1)
                    note("starting the ranks takes %.1f s, more than a tenth of the time so far: "
                         "gains rest on two launches only",
                         (double)ns * 1e-9);
                break;
            }
            TRY(crew_relaunch(c->crew, s->row.first_round + (uint32_t)launch));
            s->launch = launch;
        }
        rc = sweep_step(s->sweep, &s->buckets[at].bucket.attempts[arm], SAMPLE_ROUNDS,
                        s->row.first_round + s->rounds->round, &step);
        /* All plans have been compared by now, so a budget that ends is no reason to lose it. */
        if (rc == ERR_CUT && s->rounds->extended && c->deadline_ns &&
            host_clock_ns() >= c->deadline_ns)
            break;
        TRY(rc);
        if (!step.ns)
            rounds_drop(s->rounds, at, arm);
        else if (step.counts)
            rounds_tell(s->rounds, at, arm, step.ns);
        c->progress.compared =
            before + (c->progress.done - before) *
                         fmin(1, (double)(s->rounds->steps - known) / s->rounds->setup.steps_max);
    }
    return OK;
}

/* ---- the entries */

/* The word that an entry gets for its decision. */
static const char *decision_word(const struct final_rounds *s, int i, bool alone)
{
    const struct standing_bucket *at = &s->buckets[i];
    const struct rounds_verdict *verdict = &s->verdicts[i];

    if (alone)
        return "alone";
    if (verdict->arm == plans_of(s)->default_arm)
        return "default";
    if (verdict->as == VERDICT_STATIC)
        return "static";
    if (verdict->arm == at->published && !strcmp(at->bucket.entry.decision, "incumbent"))
        return "incumbent";
    return verdict->finding.proof == PROOF_FASTER ? "adopted" : "likely";
}

/* Writes the entry of a bucket by its verdict.  Times come from all samples, the gain from fresh
 * pairs alone.  The entry keeps the effort and the search of the run that searched it. */
static int write_entry(struct final_rounds *s, int i)
{
    struct standing_bucket *at = &s->buckets[i];
    const struct rounds_verdict *verdict = &s->verdicts[i];
    struct entry_row *e = &at->bucket.entry, anew;
    int default_arm = plans_of(s)->default_arm;
    bool alone =
        default_arm < 0 || !at->usable[default_arm] || !at->bucket.attempts[default_arm].usable;
    int rc;

    if (verdict->as == VERDICT_CONFIRMED)
        return OK;
    rc = sweep_redecide(s->sweep, e->bucket, verdict->arm, &anew);
    if (rc)
        return rc < 0 ? rc : OK;
    snprintf(anew.decision, sizeof(anew.decision), "%s", decision_word(s, i, alone));
    memcpy(anew.effort, e->effort, sizeof(anew.effort));
    memcpy(anew.search, e->search, sizeof(anew.search));
    if (!alone && verdict->arm != default_arm && isfinite(verdict->finding.gain.value)) {
        double ratio = anew.default_us * (1 - verdict->finding.gain.value) / anew.time_us;

        anew.gain = verdict->finding.gain; /* the times follow it */
        anew.time_us = anew.default_us * (1 - anew.gain.value);
        anew.low_us *= ratio;
        anew.high_us *= ratio;
        anew.other_us *= ratio;
    }
    dictionary_doubt(&s->sweep->dictionary, &verdict->doubt, &anew);
    if (s->fixed.whole)
        sweep_claim_nothing(s->sweep, &anew);
    *e = anew;
    return store_entry_put(s->sweep->campaign->store, e,
                           verdict->arm == at->published ? NULL
                           : s->fixed.whole              ? "one launch for all"
                           : verdict->as == VERDICT_SHARED
                               ? "rounds: the plan on both sides is as good"
                               : "rounds");
}

/* Estimates how long it would take to decide the undecided buckets. */
static double seconds_to_decide(const struct final_rounds *s)
{
    double verdicts = rounds_cycles_left(s->rounds), of_launch = rounds_launch_cycles(s->rounds);
    const struct run_row *run = &s->sweep->campaign->run.row;
    double timed = (double)(run->samples_search + run->samples_default), seconds = 0, most = 0;

    for (int i = 0; i < s->bucket_count; i++) {
        const struct doubt *doubt = &s->verdicts[i].doubt;
        double cycles =
            doubt->arm >= 0 && isfinite(doubt->pairs) ? fmin(doubt->pairs, verdicts) : 0;

        seconds += cycles * s->buckets[i].bucket.entry.default_us * (2 - doubt->gain) * 1e-6;
        most = fmax(most, cycles);
    }
    if (timed > 0) /* warm-up steps take as long as timed ones */
        seconds *= 1 + (double)run->samples_warm / timed;
    if (of_launch > 0)
        seconds += ceil(most / of_launch) * 1e-9 * (double)crew_launch_ns(s->sweep->campaign->crew);
    return seconds;
}

/* Whether some bucket has the static plan. */
static bool takes_static(const struct final_rounds *s)
{
    bool takes = false;

    for (int i = 0; i < s->bucket_count; i++)
        takes |= s->verdicts[i].as == VERDICT_STATIC ||
                 !strcmp(s->buckets[i].bucket.entry.decision, "static");
    return takes;
}

/* ---- the whole */

static int run_all(struct final_rounds *s)
{
    const struct tune_options *o = s->sweep->request->options;
    int default_arm = plans_of(s)->default_arm;
    bool lost, was_tuned = false, is_tuned = false;
    struct rounds_result v;

    TRY(find_candidates(s));
    TRY(find_confirmed(s));
    TRY(set_weights(s));
    TRY(begin_rounds(s));
    TRY(open_rounds(s));
    TRY(run_rounds(s));
    if (is_whole(s)) {
        lost = rounds_result(s->rounds).over_default.high < 0;
        s->fixed.whole = rounds_decide_whole(s->rounds, s->verdicts);
    } else {
        lost = rounds_decide(s->rounds, o->margin, o->harm, s->verdicts);
        s->fixed.whole = false;
    }
    for (int i = 0; i < s->bucket_count; i++) {
        was_tuned = was_tuned || s->buckets[i].published != default_arm;
        is_tuned = is_tuned || s->verdicts[i].arm != default_arm;
    }
    s->row.given_up = lost && was_tuned && !is_tuned;
    for (int i = 0; i < s->bucket_count; i++)
        TRY(write_entry(s, i));
    if (s->sweep->request->fixed) {
        TRY(replace_others(s, false));
        TRY(find_price(s));
        launch_words(s, &plans_of(s)->arms[s->verdicts[0].arm], s->fixed.launch);
        TRY(store_fixed_put(s->sweep->campaign->store, &s->fixed));
    }
    v = rounds_result(s->rounds);
    s->row.run = s->sweep->dictionary.run;
    s->row.gain = v.over_default;
    s->row.static_gain = v.over_static;
    if (v.static_arm >= 0)
        s->row.static_plan = plans_of(s)->arms[v.static_arm];
    /* The default is a static plan, too, and may be better than the rivals. */
    if (default_arm >= 0 && !takes_static(s) && v.over_default.value < v.over_static.value) {
        s->row.static_gain = v.over_default;
        s->row.static_plan = plans_of(s)->arms[default_arm];
    }
    s->row.rounds = v.rounds;
    s->row.launches = (uint32_t)v.launches;
    /* With --from-misses, or one launch for the whole table, no undecided buckets continue. */
    s->row.more_s = s->sweep->misses || is_whole(s) ? 0 : seconds_to_decide(s);
    s->row.decided_s = time(NULL);
    if (is_part(s)) {
        s->row.gain = s->row.static_gain = (struct gain)GAIN_UNKNOWN;
        s->row.static_plan = (struct moe_plan){ 0 };
        s->row.rounds = 0;
        s->row.more_s = 0;
    }
    return store_standing(s->sweep->campaign->store, &s->row);
}

/* Makes a hash of the weights of this request, to compare them with the table's. */
static int name_weights(struct final_rounds *s)
{
    const struct tune_request *request = s->sweep->request;
    size_t buckets = (size_t)plans_of(s)->last + 1;
    double *weights = request->weights.count ? calloc(buckets, sizeof(*weights)) : NULL;
    uint64_t name = 0;
    int rc = OK;

    *s->asked = 0;
    if (!request->weights.count)
        return OK;
    rc = weights ? traffic_weights(&request->weights, &plans_of(s)->shape, plans_of(s)->window,
                                   weights, buckets)
                 : fail(ERR_NOMEM, "%zu buckets", buckets);
    for (size_t b = 0; b < buckets && !rc; b++)
        name = random_bits(name ^ (uint64_t)weights[b], b);
    if (!rc)
        snprintf(s->asked, sizeof(s->asked), "%016" PRIx64, name);
    free(weights);
    return rc;
}

/* Reads which axes the table fixes, and whether this request fixes or weights differently. */
static int find_fixed(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    char axes[FIXED_AXES_BYTES];
    int rc = store_fixed_get(d->store, d->cluster, d->shape, d->buckets.window, &s->fixed);

    if (rc < 0)
        return rc;
    if (rc == UNSUPPORTED)
        s->fixed = (struct fixed_row){ .price = GAIN_UNKNOWN };
    tune_fixed_text(s->sweep->request, axes);
    TRY(name_weights(s));
    s->changed = strcmp(axes, s->fixed.axes) != 0;
    s->reweighted = !s->changed && strcmp(s->asked, s->fixed.asked) != 0;
    find_launches(s);
    s->chosen_launch = s->default_launch;
    return OK;
}

int standing_is_one_launch(struct sweep *sweep, bool *whole)
{
    struct final_rounds s = { .sweep = sweep };

    TRY(find_fixed(&s));
    *whole = !s.changed && s.fixed.whole;
    return OK;
}

/* Reads the layer's standing.  *known: it is still valid.  Nothing has changed since, its claims
 * are not too sure, and no undecided buckets continue. */
static int find_standing(struct final_rounds *s, bool *known)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &s->row);

    *known = false;
    TRY(find_calibration(s));
    TRY(find_fixed(s));
    if (rc || s->sweep->result.measured || s->changed || s->reweighted)
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(d->store, &s->row, known));
    if (!s->buckets)
        TRY(store_entries(d->store, d->cluster, d->shape, add_bucket, s));
    *known = *known && (is_part(s) || standing_is_whole(&s->row)) &&
             !calibration_is_too_sure(&s->found, s->row.kappa);
    s->again = *known && continues(s);
    *known = *known && !s->again;
    return OK;
}

static const char too_early[] =
    "the time was up before the table was compared with the default plan";

static void explain_part(const struct final_rounds *s, struct standing *standing)
{
    if (is_part(s) && !standing_is_whole(&s->row))
        snprintf(
            standing->why, sizeof(standing->why),
            "the rounds compared a part of the table; with --buckets %u:%u and the axes of its "
            "plans they compare all of it",
            s->first, s->last);
}

int standing_begun(struct sweep *sweep, bool *begun)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };

    TRY(find_standing(&s, begun));
    *begun = *begun || s.again || is_cut_off(&s) ||
             ((s.changed || s.reweighted) && s.row.cluster && !sweep->result.measured);
    return OK;
}

int standing_run_rounds(struct sweep *sweep, struct standing *standing)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };
    bool known = false;
    int rc = find_fixed(&s);

    rc = rc ? rc : change_axes(&s);
    rc = rc ? rc : open_buckets(&s);

    *standing = (struct standing){ .why = "no bucket of this layer is measured" };
    if (!rc && s.bucket_count) {
        rc = find_standing(&s, &known);
        if (!rc && !known)
            rc = campaign_over(sweep->campaign) ? ERR_CUT : run_all(&s);
        snprintf(standing->why, sizeof(standing->why), "%s", rc == ERR_CUT ? too_early : "");
        if (!rc)
            explain_part(&s, standing);
    }
    standing->row = s.row;
    for (int i = 0; s.buckets && i < s.bucket_count; i++)
        bucket_forget(&s.buckets[i].bucket);
    free(s.rounds);
    free(s.buckets);
    return rc;
}

int standing_skip(struct sweep *sweep, struct standing *standing)
{
    struct final_rounds s = { .sweep = sweep, .first = UINT32_MAX };
    bool known;
    int rc = find_standing(&s, &known);

    *standing = (struct standing){ .row = s.row };
    if (known)
        explain_part(&s, standing);
    else
        snprintf(standing->why, sizeof(standing->why), "%s", too_early);
    return rc;
}
