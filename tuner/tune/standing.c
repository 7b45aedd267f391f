/* Chooses the rounds' contestants from the measured buckets, runs the rounds over several launches
 * of the ranks, and obeys what they say: bucket by bucket, then for the table as a whole. */
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

/* A series of rounds numbers its samples from here on; none has so many. */
enum { SERIES_STRIDE = 1024 };
/* Claims that are wider by less are not said to be: two digits do not show it. */
static const double kappa_noticed = 1.005;
_Static_assert((int)ROUNDS_STATICS_MAX <= (int)STANDING_RIVALS_MAX,
               "plans that have no room in a row");
_Static_assert(ROUNDS_CYCLES_MAX *(ROUNDS_BUCKETS_MAX / 12 + 1) <= SERIES_STRIDE, "overlap");

struct standing_bucket {
    struct bucket bucket; /* with its entry */
    int published;        /* the arm it held before the rounds */
    int arm;              /* that was chosen there, and has to prove itself */
    struct pairs first;   /* of that and the default, since it was chosen */
    struct normal belief; /* what was believed of them */
    double weight;
    double played; /* the same for the rounds, which take means of logarithms */
    bool settled;  /* by an earlier series, or a verification */
    bool usable[SEARCH_ARMS_MAX];
};

struct entries {
    struct entry_row *list;
    size_t count;
};

struct settling {
    struct sweep *sweep;
    struct standing_bucket *buckets;
    int bucket_count;
    uint32_t first, last; /* of the measured buckets, whichever the sweep was asked for */
    bool leaves_out;      /* some of them have are left out: the sweep was not asked for them */
    bool other_effort;    /* some were measured with another effort than this tuning's */
    bool again;           /* the series has ended, and its undecided buckets go on */
    int rivals[ROUNDS_STATICS_MAX], rival_count;
    struct standing_row row;
    int64_t settled; /* the last run whose decisions stay unless they are shown to be slower; 0 */
    struct calibration found; /* of this cluster's claims */
    struct rounds *rounds;
    struct rounds_verdict left[ROUNDS_BUCKETS_MAX]; /* in each bucket, once the rounds decide */
    int launch; /* of the ranks that run now, as the rounds number them; 0: no matter which */

    /* Where trainers cannot switch some axes; plans of equal values of these are one `launch`. */
    struct fixed_row fixed;
    bool changed; /* the table is of other fixed axes than this request */
    bool weighed; /* or of other look-ups by which its buckets are weighed */
    char asked[sizeof(((struct fixed_row *)0)->asked)]; /* of this request */
    uint32_t launch_of[SEARCH_ARMS_MAX], launch_count;
    int chosen, usual; /* launches; the default plan's, or -1 */
};

static const struct layer_plans *space_of(const struct settling *s)
{
    return s->sweep->space;
}

/* What the rounds say is not said of the table: they meet a part of it.  Where trainers asked, it
 * is what they asked for that counts. */
static bool is_part(const struct settling *s)
{
    return s->leaves_out && !s->sweep->asked;
}

/* Entries are all of one launch or all the default's: not bucket by bucket. */
static bool is_whole(const struct settling *s)
{
    return s->sweep->request->fixed && s->chosen != s->usual;
}

static bool is_cut_off(const struct settling *s)
{
    return !s->changed && !s->weighed && s->row.cluster && !s->row.decided_s &&
           !s->sweep->result.measured;
}

/* Takes the rivals of a series that was cut off.  False if this space has not all of them. */
static bool read_rivals(struct settling *s)
{
    char text[sizeof(s->row.rivals)], *rest = text, *word;
    struct moe_plan plan;

    memcpy(text, s->row.rivals, sizeof(text));
    for (s->rival_count = 0; (word = strsep(&rest, ";")) && *word; s->rival_count++) {
        if (s->rival_count == ROUNDS_STATICS_MAX || plan_parse(word, &plan) ||
            (s->rivals[s->rival_count] = layer_plans_arm(space_of(s), &plan)) < 0)
            return false;
    }
    return s->rival_count > 0;
}

/* Whether the series goes on where it ended, for the buckets that it left undecided: this tuning is
 * about the same table and plans, and launches ranks as that one did. */
static bool goes_on(struct settling *s)
{
    bool launches = s->row.launches > 1;

    return s->row.more_s > 0 && !s->sweep->misses && !s->leaves_out && !s->other_effort &&
           launches == !s->sweep->campaign->world && read_rivals(s);
}

/* ---- buckets */

/* A bucket for each bucket that was measured.  While there is no room for buckets it counts them.
 */
static int add_bucket(void *self, const struct entry_row *e)
{
    struct settling *s = self;
    const struct layer_plans *space = space_of(s);
    int arm = layer_plans_arm(space, &e->plan);
    bool asked_for = arm >= 0 && e->bucket >= space->first && e->bucket <= space->last;

    if (e->window != space->window || e->inferred ||
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

static int open_buckets(struct settling *s)
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
    /* Of too many buckets only every n-th takes part, because a round would not end. */
    for (int i = 0; i < ROUNDS_BUCKETS_MAX; i++)
        s->buckets[i] = s->buckets[(size_t)i * (size_t)count / ROUNDS_BUCKETS_MAX];
    s->bucket_count = ROUNDS_BUCKETS_MAX;
    return OK;
}

/* The middle between two buckets, and the edges of the range, on a scale of log c. */
static double border_below(const struct settling *s, int i)
{
    const struct layer_plans *space = space_of(s);

    if (i == s->bucket_count)
        return log((double)(space->last + 1) * space->window);
    if (i == 0)
        return log(fmax(space->first, 0.5) * space->window);
    return (log((double)s->buckets[i - 1].bucket.capacity) +
            log((double)s->buckets[i].bucket.capacity)) /
           2;
}

/* The bucket that stands for a bucket. */
static int nearest_bucket(const struct settling *s, uint32_t bucket)
{
    double at = log((double)layer_plans_capacity(space_of(s), bucket));
    int nearest = 0;

    while (nearest + 1 < s->bucket_count && border_below(s, nearest + 1) <= at)
        nearest++;
    return nearest;
}

/* The median of the default's samples in a bucket, or of all, before any rounds. */
static double usual_ns(const struct settling *s, const struct standing_bucket *at)
{
    double values[256], all[256];
    size_t count = 0, others = 0;

    for (uint32_t k = 0; k < at->bucket.sample_count; k++) {
        const struct counted_sample *told = &at->bucket.samples[k];

        if (told->kind == SAMPLE_ROUNDS)
            continue;
        if (told->arm == space_of(s)->default_arm && count < 256)
            values[count++] = (double)told->ns;
        if (others < 256)
            all[others++] = (double)told->ns;
    }
    return count ? median_of(values, count) : others ? median_of(all, others) : 1;
}

/* What trainers asked for counts in the nearest bucket; where nobody knows, every factor of c
 * counts alike. */
static int weigh(struct settling *s)
{
    const struct tune_request *request = s->sweep->request;
    const struct traffic_layer *traffic = s->sweep->asked;
    size_t buckets = (size_t)space_of(s)->last + 1;
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
        rc = traffic_weights(&request->weights, &space_of(s)->shape, space_of(s)->window, weights,
                             buckets);
        for (uint32_t b = 0; b < buckets && !rc; b++)
            s->buckets[nearest_bucket(s, b)].weight += weights[b];
        free(weights);
    }
    for (int i = 0; i < s->bucket_count && !(asked > 0); i++)
        s->buckets[i].weight = border_below(s, i + 1) - border_below(s, i);
    /* A launch is judged by the time of all steps together, a free table by each bucket's. */
    for (int i = 0; i < s->bucket_count; i++)
        s->buckets[i].played = request->fixed ? s->buckets[i].weight * usual_ns(s, &s->buckets[i])
                                              : s->buckets[i].weight;
    return rc;
}

/* What `moetune verify` found of this cluster's claims, whichever layers they are of. */
static int find_calibration(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct row_list rows;

    TRY(store_verifications(d->store, d->cluster, &rows));
    EACH_ROW (verification_row, row, rows)
        calibration_add(&s->found, &row->claim, row->kappa, &row->found);
    free(rows.rows);
    return OK;
}

/* The last run before this tuning whose series of rounds came to its end; 0: there is none.  The
 * row of a series that was cut off names the one before it or, without any, its own, which is not
 * complete. */
static int64_t settled_run(const struct settling *s, const struct row_list *runs)
{
    if (s->row.run >= s->sweep->dictionary.pairs_since)
        return 0;
    EACH_ROW (run_row, run, *runs)
        if (run->id == s->row.run)
            return s->row.decided_s || run->state == RUN_COMPLETE ? run->id : 0;
    return 0;
}

/* What an earlier series left, or `moetune verify` has confirmed since, has proven itself, and
 * stays where further buckets were measured; what a series decided stays where it goes on.  All of
 * it is judged anew where verifications found since that claims are too sure. */
static int find_settled(struct settling *s)
{
    struct row_list runs;

    for (int i = 0; i < s->bucket_count && s->again; i++)
        s->buckets[i].settled = s->buckets[i].arm == s->buckets[i].published;
    if (s->again || (!is_cut_off(s) && calibration_is_too_sure(&s->found, s->row.kappa)))
        return OK;
    TRY(store_runs(s->sweep->campaign->store, &runs));
    s->settled = settled_run(s, &runs);
    for (int i = 0; i < s->bucket_count && s->settled; i++) {
        struct standing_bucket *at = &s->buckets[i];
        int64_t decided = at->bucket.entry.run;

        at->settled = decided <= s->settled;
        EACH_ROW (run_row, run, runs)
            at->settled = at->settled || (run->id == decided && !strcmp(run->search, "verify"));
    }
    free(runs.rows);
    return OK;
}

/* Of the plan that the search chose there nothing is published unless it has shown by now that it
 * is not slower than the default; the rounds may yet show it. */
static int find_candidates(struct settling *s)
{
    const struct layer_plans *space = space_of(s);

    for (int i = 0; i < s->bucket_count; i++) {
        struct standing_bucket *at = &s->buckets[i];
        struct bucket *b = &at->bucket;
        int arm, favoured = -1;

        TRY(bucket_load(b));
        for (int k = 0; k < (int)space->arm_count; k++)
            at->usable[k] = b->attempts[k].usable && layer_plans_fits(space, k, b->key.bucket);
        if (s->again) { /* its pairs are in the series */
            arm = b->entry.likely.struct_size ? layer_plans_arm(space, &b->entry.likely) : -1;
            at->arm = arm >= 0 && at->usable[arm] ? arm : at->published;
            continue;
        }
        TRY(visit_candidate(s->sweep, b->key.bucket, &arm, &at->first, &at->belief));
        if (b->entry.search_winner.struct_size)
            favoured = layer_plans_arm(space, &b->entry.search_winner);
        /* What an earlier run gave up stays so.  What the search favoured when it was there is the
         * candidate, even where it has changed its mind since. */
        if (at->published == space->default_arm &&
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

/* The launch of a plan, for people: the fixed axes' values, or the plan where all are. */
static void launch_words(const struct settling *s, const struct moe_plan *plan,
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

static uint32_t fixed_apart(const struct settling *s, int a, int b)
{
    uint32_t apart = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        apart += s->sweep->request->fixed >> axis & 1 &&
                 plan_value(&space_of(s)->arms[a], axis) != plan_value(&space_of(s)->arms[b], axis);
    return apart;
}

static void find_launches(struct settling *s)
{
    const struct layer_plans *space = space_of(s);
    int first[SEARCH_ARMS_MAX];

    s->launch_count = 0;
    for (int arm = 0; arm < (int)space->arm_count; arm++) {
        uint32_t launch = 0;

        while (launch < s->launch_count && fixed_apart(s, first[launch], arm))
            launch++;
        if (launch == s->launch_count)
            first[s->launch_count++] = arm;
        s->launch_of[arm] = launch;
    }
    s->usual = space->default_arm < 0 ? -1 : (int)s->launch_of[space->default_arm];
}

/* By what all that was sampled says, with no other bucket than the bucket's in the search's mind.
 */
static struct search *search_at(struct settling *s, int i)
{
    struct standing_bucket *at = &s->buckets[i];

    for (int arm = 0; arm < (int)space_of(s)->arm_count; arm++)
        at->bucket.attempts[arm].usable = at->usable[arm];
    bucket_open(&at->bucket, false);
    return s->sweep->dictionary.search;
}

/* Leaves launches of which some plan has room in each bucket where any has, also between buckets.
 */
static void rule_out(const struct settling *s, double *totals)
{
    const struct layer_plans *space = space_of(s);

    for (uint32_t b = space->first; b <= space->last; b++) {
        bool fits[SEARCH_ARMS_MAX] = { false }, any = false;

        for (int arm = 0; arm < (int)space->arm_count; arm++) {
            fits[s->launch_of[arm]] = fits[s->launch_of[arm]] || layer_plans_fits(space, arm, b);
            any = any || fits[s->launch_of[arm]];
        }
        for (uint32_t l = 0; l < s->launch_count && any; l++)
            totals[l] = fits[l] ? totals[l] : (double)NAN;
    }
}

/* Chooses the launch that takes least over all buckets, and in each bucket its best plan. */
static int choose_launch(struct settling *s)
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
    rule_out(s, totals);
    for (int arm = 0; arm < (int)space_of(s)->arm_count && s->usual >= 0; arm++)
        apart[s->launch_of[arm]] = fixed_apart(s, arm, space_of(s)->default_arm);
    s->chosen = launch_choose(totals, apart, s->launch_count, s->usual);
    if (s->chosen < 0) {
        note("no values of the fixed axes have a plan that runs in every bucket: where the default "
             "plan's have none another one is told");
        s->chosen = s->usual;
    }
    for (int i = 0; i < s->bucket_count && s->chosen >= 0; i++) {
        int arm = live[(size_t)s->chosen * (size_t)s->bucket_count + (size_t)i];

        if (arm != s->buckets[i].arm)
            s->buckets[i].first.count = 0;
        s->buckets[i].arm = arm >= 0 ? arm : s->buckets[i].published;
    }
    free(live);
    return OK;
}

/* Takes the plans of a series that was cut off. */
static bool read_plans(struct settling *s)
{
    char text[sizeof(s->fixed.plans)], *rest = text, *word;
    int arms[ROUNDS_BUCKETS_MAX], count = 0;
    struct moe_plan plan;

    memcpy(text, s->fixed.plans, sizeof(text));
    for (; (word = strsep(&rest, ";")) && *word; count++)
        if (count == s->bucket_count || plan_parse(word, &plan) ||
            (arms[count] = layer_plans_arm(space_of(s), &plan)) < 0)
            return false;
    for (int i = 0; i < count; i++) {
        if (arms[i] != s->buckets[i].arm)
            s->buckets[i].first.count = 0;
        s->buckets[i].arm = arms[i];
        s->chosen = (int)s->launch_of[arms[i]];
    }
    return count > 0 && count == s->bucket_count;
}

/* What the rounds hold against the default is of one launch; that of the default may change from
 * bucket to bucket, too, for the default is one of its plans. */
static int hold_launch(struct settling *s, bool goes_on)
{
    if (!s->sweep->request->fixed)
        return OK;
    if (!goes_on) {
        TRY(choose_launch(s));
        s->fixed.cluster = s->sweep->dictionary.cluster;
        s->fixed.shape = s->sweep->dictionary.shape;
        s->fixed.window = space_of(s)->window;
        tune_fixed_text(s->sweep->request, s->fixed.axes);
        memcpy(s->fixed.asked, s->asked, sizeof(s->fixed.asked));
        s->fixed.price = (struct gain)GAIN_UNKNOWN;
        *s->fixed.plans = 0;
        launch_words(s, &space_of(s)->arms[s->buckets[0].arm], s->fixed.launch);
        for (int i = 0; i < s->bucket_count; i++)
            text_add(s->fixed.plans, sizeof(s->fixed.plans), "%s%s", i ? ";" : "",
                     PLAN_TEXT(&space_of(s)->arms[s->buckets[i].arm]));
        TRY(store_fixed_put(s->sweep->campaign->store, &s->fixed));
    }
    for (int i = 0; i < s->bucket_count; i++) {
        s->buckets[i].settled = false;
        for (int arm = 0; arm < (int)space_of(s)->arm_count && !is_whole(s); arm++)
            s->buckets[i].usable[arm] &= (int)s->launch_of[arm] == s->usual;
    }
    return OK;
}

/* What trainers would save that could switch the fixed axes as well, by all samples. */
static int find_price(struct settling *s)
{
    struct launch_part *parts = calloc((size_t)s->bucket_count, sizeof(*parts));
    struct entry_row anew;
    int rc = parts ? OK : fail(ERR_NOMEM, "%d buckets", s->bucket_count);

    for (int i = 0; i < s->bucket_count && rc >= 0; i++) {
        rc = visit_redecide(s->sweep, s->buckets[i].bucket.key.bucket, s->left[i].arm, &anew);
        if (rc == OK)
            parts[i] =
                launch_part_of(s->sweep->dictionary.search, s->left[i].arm, s->buckets[i].weight);
    }
    if (rc >= 0)
        s->fixed.price = launch_price(parts, (size_t)s->bucket_count);
    free(parts);
    return rc < 0 ? rc : OK;
}

static bool is_included(const struct settling *s, uint32_t bucket)
{
    for (int i = 0; i < s->bucket_count; i++)
        if (s->buckets[i].bucket.key.bucket == bucket)
            return true;
    return false;
}

/* Gives a bucket without a bucket the plan of the bucket that stands for it, or one that runs there
 * instead; no entry where none does. */
static int place_one(struct settling *s, const struct entry_row *e, int arm, const char *why)
{
    const struct layer_plans *space = space_of(s);
    bool inferred = entry_is(e, ENTRY_OPEN | ENTRY_IMPORTED | ENTRY_UNSOUND);
    struct entry_row anew;
    int rc = UNSUPPORTED, best = arm;

    if (arm >= 0 && !layer_plans_fits(space, arm, e->bucket))
        for (int other = best = -1; ++other < (int)space->arm_count;)
            if (s->launch_of[other] == s->launch_of[arm] &&
                layer_plans_fits(space, other, e->bucket) &&
                (best < 0 || dictionary_expected_us(&s->sweep->dictionary, e->bucket, other) <
                                 dictionary_expected_us(&s->sweep->dictionary, e->bucket, best)))
                best = other;
    if (best >= 0)
        rc = visit_place(s->sweep, e->bucket, best, inferred, &anew);
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

/* No entry of the table, whoever made it, is of another launch than what the buckets are left with.
 * `reset`: they all get the default plan, buckets as well, until rounds say more. */
static int place_rest(struct settling *s, bool reset)
{
    const struct dictionary *d = &s->sweep->dictionary;
    const struct layer_plans *space = space_of(s);
    int default_arm = space->default_arm;
    struct entries all = { NULL, 0 };
    int rc = store_entries(d->store, d->cluster, d->shape, list_entry, &all);

    for (size_t i = 0; i < all.count && !rc; i++) {
        const struct entry_row *e = &all.list[i];
        int now = layer_plans_arm(space, &e->plan), arm = default_arm;

        if (e->window != space->window || dictionary_pin(d, e->bucket) ||
            (!reset && is_included(s, e->bucket)))
            continue;
        if (!reset && s->fixed.whole)
            arm = s->left[nearest_bucket(s, e->bucket)].arm;
        else if (!reset && now >= 0 && (int)s->launch_of[now] == s->usual)
            continue;
        /* Where the default cannot run another plan stays until a launch is chosen. */
        if (reset &&
            (arm < 0 || !layer_plans_fits(space, arm, e->bucket) || !strcmp(e->decision, "alone")))
            continue;
        if (now != arm)
            rc = place_one(s, e, arm, reset ? "other axes are fixed" : "one launch for all");
    }
    free(all.list);
    return rc;
}

/* Where trainers switch other axes than before, what they are told begins anew, and so do the
 * rounds. */
static int change_axes(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct standing_row row;
    int rc;

    if (!s->changed)
        return OK;
    rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &row);
    if (rc < 0)
        return rc;
    TRY(place_rest(s, true));
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

/* ---- a series of rounds */

static void describe_buckets(const struct settling *s, struct rounds_bucket *out)
{
    for (int i = 0; i < s->bucket_count; i++) {
        const struct standing_bucket *at = &s->buckets[i];

        out[i] = (struct rounds_bucket){ at->played,
                                         at->bucket.capacity,
                                         at->arm,
                                         at->usable,
                                         at->first.count ? &at->first : NULL,
                                         at->belief,
                                         at->settled };
    }
}

/* Goes on with the series that was cut off, unless the table has changed since; rivals are those of
 * then, for its samples are evidence by now and might suggest others. */
static int begin_series(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    uint32_t next = s->row.cluster ? s->row.first_round + SERIES_STRIDE : 0;
    double kappa = calibration_kappa(&s->found);
    size_t used = 0;

    s->row.goes += s->again;
    if (s->again ||
        (is_cut_off(s) && read_rivals(s) && (!s->sweep->request->fixed || read_plans(s))))
        return hold_launch(s, true);
    TRY(hold_launch(s, false));
    if (kappa >= kappa_noticed)
        note("moetune verify measured %u claimed gains again, and their intervals were too narrow: "
             "those of this table are %.2f times as wide as its own samples make them",
             s->found.count, kappa);
    s->row = (struct standing_row){ .cluster = d->cluster,
                                    .shape = d->shape,
                                    .run = s->settled ? s->settled : d->run,
                                    .window = space_of(s)->window,
                                    .gain = GAIN_UNKNOWN,
                                    .static_gain = GAIN_UNKNOWN,
                                    .first_round = next,
                                    .kappa = kappa };
    describe_buckets(s, buckets);
    s->rival_count =
        rounds_statics(d->search, buckets, s->bucket_count, space_of(s)->default_arm, s->rivals);
    if (s->sweep->request->fixed && !is_whole(s)) { /* others cannot run in its place */
        int count = 0;

        for (int i = 0; i < s->rival_count; i++)
            if ((int)s->launch_of[s->rivals[i]] == s->usual)
                s->rivals[count++] = s->rivals[i];
        s->rival_count = count;
    }
    for (int i = 0; i < s->rival_count; i++)
        used += (size_t)snprintf(s->row.rivals + used, sizeof(s->row.rivals) - used, "%s%s",
                                 i ? ";" : "", PLAN_TEXT(&space_of(s)->arms[s->rivals[i]]));
    return store_standing(d->store, &s->row);
}

/* Rounds go on where a series was cut off: they are told what was played then. */
static int open_rounds(struct settling *s)
{
    struct rounds_bucket buckets[ROUNDS_BUCKETS_MAX];
    const struct effort *effort = s->sweep->request->effort;
    uint32_t first = s->row.first_round;
    struct rounds_setup setup = { .buckets = buckets,
                                  .bucket_count = s->bucket_count,
                                  .default_arm = space_of(s)->default_arm,
                                  .statics = s->rivals,
                                  .static_count = s->rival_count,
                                  .steps_max = 1, /* and as many as the search took */
                                  .worth = effort->worth,
                                  .whole_harm = is_whole(s) ? s->sweep->request->options->harm : 0,
                                  .reruns = s->row.goes,
                                  .seed = s->sweep->campaign->setup->seed ^ first,
                                  .kappa = s->row.kappa };

    for (int i = 0; i < s->bucket_count; i++)
        for (uint32_t k = 0; k < s->buckets[i].bucket.sample_count; k++)
            setup.steps_max += s->buckets[i].bucket.samples[k].kind == SAMPLE_SEARCH;
    /* Ranks that somebody else launched cannot be launched anew: what is said is of this launch. */
    if (!s->sweep->campaign->world) {
        setup.launch_cycles = effort->launch_cycles;
        setup.launches = effort->launches - 1;
    }
    describe_buckets(s, buckets);
    s->rounds = malloc(sizeof(*s->rounds));
    if (!s->rounds)
        return fail(ERR_NOMEM, "rounds");
    rounds_open(s->rounds, &setup);
    /* Samples lie by bucket; whether enough is known was asked round by round.  Of an earlier
     * series there are none, for each has its own numbers. */
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

static int play(struct settling *s)
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

            /* One launch more than the search's is enough where a launch takes long, unless nobody
             * would notice it; and those for undecided buckets alone may be many. */
            if (!s->again && (s->launch == 1 || (s->launch && s->rounds->extended)) &&
                ns > unnoticed_ns && ns * 10 > host_clock_ns() - c->begun_ns) {
                if (s->launch == 1)
                    note("to start the ranks takes %.1f s, more than a tenth of the time so far: "
                         "gains rest on two launches of them",
                         (double)ns * 1e-9);
                break;
            }
            TRY(crew_relaunch(c->crew, s->row.first_round + (uint32_t)launch));
            s->launch = launch;
        }
        rc = visit_step(s->sweep, &s->buckets[at].bucket.attempts[arm], SAMPLE_ROUNDS,
                        s->row.first_round + s->rounds->round, &step);
        /* What all contestants have shown is known by then, and a budget is no reason to lose it.
         */
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

/* ---- what is left of the table */

/* Times are those that all samples make likely; the gain is what fresh pairs say.  What was
 * searched more thoroughly in an earlier run stays so: a few more samples take nothing away. */
static int write_entry(struct settling *s, int i)
{
    struct standing_bucket *at = &s->buckets[i];
    const struct rounds_verdict *left = &s->left[i];
    struct entry_row *e = &at->bucket.entry, anew;
    int default_arm = space_of(s)->default_arm;
    bool alone =
        default_arm < 0 || !at->usable[default_arm] || !at->bucket.attempts[default_arm].usable;
    const char *word = alone                        ? "alone"
                       : left->arm == default_arm   ? "default"
                       : left->as == VERDICT_STATIC ? "static"
                       : left->arm == at->published && !strcmp(e->decision, "incumbent")
                           ? "incumbent"
                       : left->word.proof == PROOF_FASTER ? "adopted"
                                                          : "likely";
    int rc;

    if (left->as == VERDICT_CONFIRMED)
        return OK;
    rc = visit_redecide(s->sweep, e->bucket, left->arm, &anew);
    if (rc)
        return rc < 0 ? rc : OK;
    snprintf(anew.decision, sizeof(anew.decision), "%s", word);
    memcpy(anew.effort, e->effort, sizeof(anew.effort));
    memcpy(anew.search, e->search, sizeof(anew.search));
    if (!alone && left->arm != default_arm && isfinite(left->word.gain.value)) {
        double ratio = anew.default_us * (1 - left->word.gain.value) / anew.time_us;

        anew.gain = left->word.gain; /* and the times with it */
        anew.time_us = anew.default_us * (1 - anew.gain.value);
        anew.low_us *= ratio;
        anew.high_us *= ratio;
        anew.other_us *= ratio;
    }
    dictionary_doubt(&s->sweep->dictionary, &left->doubt, &anew);
    if (s->fixed.whole)
        visit_claim_nothing(s->sweep, &anew);
    *e = anew;
    return store_entry_put(s->sweep->campaign->store, e,
                           left->arm == at->published ? NULL
                           : s->fixed.whole           ? "one launch for all"
                           : left->as == VERDICT_SHARED
                               ? "rounds: the plan on both sides is as good"
                               : "rounds");
}

/* About how long undecided buckets would take to be decided if they went on. */
static double seconds_to_decide(const struct settling *s)
{
    double left = rounds_cycles_left(s->rounds), of_launch = rounds_launch_cycles(s->rounds);
    const struct run_row *run = &s->sweep->campaign->run.row;
    double timed = (double)(run->samples_search + run->samples_default), seconds = 0, most = 0;

    for (int i = 0; i < s->bucket_count; i++) {
        const struct doubt *doubt = &s->left[i].doubt;
        double cycles = doubt->arm >= 0 && isfinite(doubt->pairs) ? fmin(doubt->pairs, left) : 0;

        seconds += cycles * s->buckets[i].bucket.entry.default_us * (2 - doubt->gain) * 1e-6;
        most = fmax(most, cycles);
    }
    if (timed > 0) /* steps that warm up take as long, and there were so many of them so far */
        seconds *= 1 + (double)run->samples_warm / timed;
    if (of_launch > 0)
        seconds += ceil(most / of_launch) * 1e-9 * (double)crew_launch_ns(s->sweep->campaign->crew);
    return seconds;
}

/* Whether some entry rests on what the static plan is worth over all buckets. */
static bool takes_static(const struct settling *s)
{
    bool takes = false;

    for (int i = 0; i < s->bucket_count; i++)
        takes |= s->left[i].as == VERDICT_STATIC ||
                 !strcmp(s->buckets[i].bucket.entry.decision, "static");
    return takes;
}

/* ---- the whole */

static int settle(struct settling *s)
{
    const struct tune_options *o = s->sweep->request->options;
    int default_arm = space_of(s)->default_arm;
    bool lost, was_tuned = false, is_tuned = false;
    struct rounds_result v;

    TRY(find_candidates(s));
    TRY(find_settled(s));
    TRY(weigh(s));
    TRY(begin_series(s));
    TRY(open_rounds(s));
    TRY(play(s));
    if (is_whole(s)) {
        lost = rounds_result(s->rounds).over_default.high < 0;
        s->fixed.whole = rounds_decide_whole(s->rounds, s->left);
    } else {
        lost = rounds_decide(s->rounds, o->margin, o->harm, s->left);
        s->fixed.whole = false;
    }
    for (int i = 0; i < s->bucket_count; i++) {
        was_tuned = was_tuned || s->buckets[i].published != default_arm;
        is_tuned = is_tuned || s->left[i].arm != default_arm;
    }
    s->row.given_up = lost && was_tuned && !is_tuned;
    for (int i = 0; i < s->bucket_count; i++)
        TRY(write_entry(s, i));
    if (s->sweep->request->fixed) {
        TRY(place_rest(s, false));
        TRY(find_price(s));
        launch_words(s, &space_of(s)->arms[s->left[0].arm], s->fixed.launch);
        TRY(store_fixed_put(s->sweep->campaign->store, &s->fixed));
    }
    v = rounds_result(s->rounds);
    s->row.run = s->sweep->dictionary.run;
    s->row.gain = v.over_default;
    s->row.static_gain = v.over_static;
    if (v.static_arm >= 0)
        s->row.static_plan = space_of(s)->arms[v.static_arm];
    /* The default is a single plan, too, and may be better than those that the search named. */
    if (default_arm >= 0 && !takes_static(s) && v.over_default.value < v.over_static.value) {
        s->row.static_gain = v.over_default;
        s->row.static_plan = space_of(s)->arms[default_arm];
    }
    s->row.rounds = v.rounds;
    s->row.launches = (uint32_t)v.launches;
    /* They alone are measured; and one launch is proven as a whole, or not. */
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

/* What the mean over buckets counts by, in one word. */
static int name_look_ups(struct settling *s)
{
    const struct tune_request *request = s->sweep->request;
    size_t buckets = (size_t)space_of(s)->last + 1;
    double *weights = request->weights.count ? calloc(buckets, sizeof(*weights)) : NULL;
    uint64_t name = 0;
    int rc = OK;

    *s->asked = 0;
    if (!request->weights.count)
        return OK;
    rc = weights ? traffic_weights(&request->weights, &space_of(s)->shape, space_of(s)->window,
                                   weights, buckets)
                 : fail(ERR_NOMEM, "%zu buckets", buckets);
    for (size_t b = 0; b < buckets && !rc; b++)
        name = random_bits(name ^ (uint64_t)weights[b], b);
    if (!rc)
        snprintf(s->asked, sizeof(s->asked), "%016" PRIx64, name);
    free(weights);
    return rc;
}

/* What the table's trainers cannot switch, and whether that is something else than it was. */
static int find_fixed(struct settling *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    char axes[FIXED_AXES_BYTES];
    int rc = store_fixed_get(d->store, d->cluster, d->shape, d->buckets.window, &s->fixed);

    if (rc < 0)
        return rc;
    if (rc == UNSUPPORTED)
        s->fixed = (struct fixed_row){ .price = GAIN_UNKNOWN };
    tune_fixed_text(s->sweep->request, axes);
    TRY(name_look_ups(s));
    s->changed = strcmp(axes, s->fixed.axes) != 0;
    s->weighed = !s->changed && strcmp(s->asked, s->fixed.asked) != 0;
    find_launches(s);
    s->chosen = s->usual;
    return OK;
}

int standing_is_one_launch(struct sweep *sweep, bool *whole)
{
    struct settling s = { .sweep = sweep };

    TRY(find_fixed(&s));
    *whole = !s.changed && s.fixed.whole;
    return OK;
}

/* *known: nothing has changed since an earlier run settled it, its claims are not found to be too
 * sure, and undecided buckets do not go on. */
static int find_standing(struct settling *s, bool *known)
{
    const struct dictionary *d = &s->sweep->dictionary;
    int rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &s->row);

    *known = false;
    TRY(find_calibration(s));
    TRY(find_fixed(s));
    if (rc || s->sweep->result.measured || s->changed || s->weighed)
        return rc < 0 ? rc : OK;
    TRY(standing_is_current(d->store, &s->row, known));
    if (!s->buckets)
        TRY(store_entries(d->store, d->cluster, d->shape, add_bucket, s));
    *known = *known && (is_part(s) || standing_is_whole(&s->row)) &&
             !calibration_is_too_sure(&s->found, s->row.kappa);
    s->again = *known && goes_on(s);
    *known = *known && !s->again;
    return OK;
}

static const char too_early[] = "the time was up before the table met the default plan";

static void say_part(const struct settling *s, struct standing *standing)
{
    if (is_part(s) && !standing_is_whole(&s->row))
        snprintf(standing->why, sizeof(standing->why),
                 "the rounds met a part of the table; with --buckets %u:%u and the axes of its "
                 "plans they meet all of it",
                 s->first, s->last);
}

int standing_begun(struct sweep *sweep, bool *begun)
{
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };

    TRY(find_standing(&s, begun));
    *begun = *begun || s.again || is_cut_off(&s) ||
             ((s.changed || s.weighed) && s.row.cluster && !sweep->result.measured);
    return OK;
}

int standing_settle(struct sweep *sweep, struct standing *standing)
{
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };
    bool known = false;
    int rc = find_fixed(&s);

    rc = rc ? rc : change_axes(&s);
    rc = rc ? rc : open_buckets(&s);

    *standing = (struct standing){ .why = "no bucket of this layer is measured" };
    if (!rc && s.bucket_count) {
        rc = find_standing(&s, &known);
        if (!rc && !known)
            rc = campaign_over(sweep->campaign) ? ERR_CUT : settle(&s);
        snprintf(standing->why, sizeof(standing->why), "%s", rc == ERR_CUT ? too_early : "");
        if (!rc)
            say_part(&s, standing);
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
    struct settling s = { .sweep = sweep, .first = UINT32_MAX };
    bool known;
    int rc = find_standing(&s, &known);

    *standing = (struct standing){ .row = s.row };
    if (known)
        say_part(&s, standing);
    else
        snprintf(standing->why, sizeof(standing->why), "%s", too_early);
    return rc;
}
