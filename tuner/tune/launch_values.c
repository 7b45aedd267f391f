/* Launch values, the values of the axes that need a restart: a table for trainers that cannot
 * switch these axes has one set of them.  This file chooses the set before the rounds, and gives
 * all entries plans with it after the rounds. */
#include "final_rounds.h"

#include "array.h"
#include "launch_decision.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "text.h"
#include "traffic.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list of entries; its user frees `list`. */
struct entries {
    struct entry_row *list;
    size_t count;
};

bool launch_values_differ(const struct final_rounds *s)
{
    return s->sweep->request->fixed && s->chosen_values != s->default_values;
}

/* Writes the launch values of a plan for people, or the whole plan if all axes are fixed. */
static void write_launch_values(const struct final_rounds *s, const struct moe_plan *plan,
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

/* The number of fixed axes in which the plans of two arms differ. */
static uint32_t count_differing_axes(const struct final_rounds *s, int arm, int other_arm)
{
    const struct moe_plan *plan = &plans_of(s)->arms[arm];
    const struct moe_plan *other = &plans_of(s)->arms[other_arm];
    uint32_t differing = 0;

    for (size_t axis = 0; axis < plan_axis_count; axis++)
        if (s->sweep->request->fixed >> axis & 1)
            differing += plan_value(plan, axis) != plan_value(other, axis);
    return differing;
}

/* Numbers the sets of launch values, in the order of the arms that have them. */
static void number_launch_values(struct final_rounds *s)
{
    const struct layer_plans *plans = plans_of(s);
    int first_arm[SEARCH_ARMS_MAX]; /* by launch values: the first arm that has them */

    s->values_count = 0;
    for (int arm = 0; arm < (int)plans->arm_count; arm++) {
        uint32_t values = 0;

        while (values < s->values_count && count_differing_axes(s, first_arm[values], arm))
            values++;
        if (values == s->values_count)
            first_arm[s->values_count++] = arm;
        s->values_of[arm] = values;
    }
    s->default_values = plans->default_arm < 0 ? -1 : (int)s->values_of[plans->default_arm];
}

/* The layer's search, brought to bucket i with all of its samples. */
static struct search *search_in_bucket(struct final_rounds *s, int i)
{
    struct standing_bucket *measured = &s->buckets[i];

    for (int arm = 0; arm < (int)plans_of(s)->arm_count; arm++)
        measured->bucket.attempts[arm].usable = measured->usable[arm];
    bucket_open(&measured->bucket, false);
    return s->sweep->dictionary.search;
}

/* Marks launch values as impossible (their total becomes NAN) if they have no plan that fits into
 * memory in some bucket where others have one.  Buckets between measured ones count, too. */
static void exclude_values_without_plan(const struct final_rounds *s, double *totals)
{
    const struct layer_plans *plans = plans_of(s);

    for (uint32_t b = plans->first; b <= plans->last; b++) {
        bool fits[SEARCH_ARMS_MAX] = { false }; /* by launch values: one of their plans fits */
        bool any_fits = false;

        for (int arm = 0; arm < (int)plans->arm_count; arm++) {
            if (!layer_plans_fits(plans, arm, b))
                continue;
            fits[s->values_of[arm]] = true;
            any_fits = true;
        }
        for (uint32_t values = 0; values < s->values_count && any_fits; values++)
            if (!fits[values])
                totals[values] = (double)NAN;
    }
}

/* Chooses the launch values with the least weighted time over all buckets, and their best plan in
 * each bucket. */
static int choose_launch_values(struct final_rounds *s)
{
    uint32_t distance[SEARCH_ARMS_MAX] = { 0 }; /* by launch values, from the default's */
    double totals[SEARCH_ARMS_MAX] = { 0 }; /* by launch values: weighted times of all buckets */
    size_t buckets = (size_t)s->bucket_count;
    int *best_arms = calloc(s->values_count * buckets, sizeof(*best_arms));

    if (!best_arms)
        return fail(ERR_NOMEM, "launches of %d buckets", s->bucket_count);
    for (size_t i = 0; i < buckets; i++) {
        struct search *search = search_in_bucket(s, (int)i);

        for (uint32_t values = 0; values < s->values_count; values++) {
            int arm = launch_live_arm(search, s->values_of, (int)values);

            best_arms[values * buckets + i] = arm;
            totals[values] +=
                arm < 0 ? (double)NAN : s->buckets[i].weight * exp(search_level(search, arm).mean);
        }
    }
    exclude_values_without_plan(s, totals);
    for (int arm = 0; arm < (int)plans_of(s)->arm_count && s->default_values >= 0; arm++)
        distance[s->values_of[arm]] = count_differing_axes(s, arm, plans_of(s)->default_arm);
    s->chosen_values = launch_choose(totals, distance, s->values_count, s->default_values);
    if (s->chosen_values < 0) {
        note("no values of the fixed axes have a plan that runs in every bucket: the table has the "
             "default plan's values, and other ones where these cannot run");
        s->chosen_values = s->default_values;
    }
    for (size_t i = 0; i < buckets && s->chosen_values >= 0; i++) {
        int arm = best_arms[(size_t)s->chosen_values * buckets + i];

        if (arm != s->buckets[i].arm)
            forget_pairs(&s->buckets[i]);
        s->buckets[i].arm = arm >= 0 ? arm : s->buckets[i].published;
    }
    free(best_arms);
    return OK;
}

bool launch_values_read_candidates(struct final_rounds *s)
{
    char text[sizeof(s->fixed.plans)], *rest = text, *word;
    int arms[ROUNDS_BUCKETS_MAX], count = 0;
    struct moe_plan plan;

    memcpy(text, s->fixed.plans, sizeof(text));
    for (; (word = strsep(&rest, ";")) && *word; count++) {
        if (count == s->bucket_count || plan_parse(word, &plan) ||
            (arms[count] = layer_plans_arm(plans_of(s), &plan)) < 0)
            return false;
    }
    for (int i = 0; i < count; i++) {
        if (arms[i] != s->buckets[i].arm)
            forget_pairs(&s->buckets[i]);
        s->buckets[i].arm = arms[i];
        s->chosen_values = (int)s->values_of[arms[i]];
    }
    return count > 0 && count == s->bucket_count;
}

int launch_values_begin(struct final_rounds *s)
{
    if (!s->sweep->request->fixed)
        return OK;
    TRY(choose_launch_values(s));
    s->fixed.cluster = s->sweep->dictionary.cluster;
    s->fixed.shape = s->sweep->dictionary.shape;
    s->fixed.window = plans_of(s)->window;
    tune_fixed_text(s->sweep->request, s->fixed.axes);
    memcpy(s->fixed.asked, s->weights_hash, sizeof(s->fixed.asked));
    s->fixed.price = (struct gain)GAIN_UNKNOWN;
    *s->fixed.plans = 0;
    write_launch_values(s, &plans_of(s)->arms[s->buckets[0].arm], s->fixed.launch);
    for (int i = 0; i < s->bucket_count; i++)
        text_add(s->fixed.plans, sizeof(s->fixed.plans), "%s%s", i ? ";" : "",
                 PLAN_TEXT(&plans_of(s)->arms[s->buckets[i].arm]));
    return store_fixed_put(s->sweep->campaign->store, &s->fixed);
}

void launch_values_restrict(struct final_rounds *s)
{
    if (!s->sweep->request->fixed)
        return;
    for (int i = 0; i < s->bucket_count; i++) {
        s->buckets[i].confirmed = false;
        for (int arm = 0; arm < (int)plans_of(s)->arm_count && !launch_values_differ(s); arm++)
            s->buckets[i].usable[arm] &= (int)s->values_of[arm] == s->default_values;
    }
}

/* Estimates what trainers would save if they could switch the fixed axes, too, from all samples. */
static int estimate_price(struct final_rounds *s)
{
    struct launch_part *parts = calloc((size_t)s->bucket_count, sizeof(*parts));
    struct entry_row redecided;
    int rc = parts ? OK : fail(ERR_NOMEM, "%d buckets", s->bucket_count);

    for (int i = 0; i < s->bucket_count && rc >= 0; i++) {
        int arm = s->verdicts[i].arm;

        /* It also brings the search to this bucket. */
        rc = sweep_redecide(s->sweep, s->buckets[i].bucket.key.bucket, arm, &redecided);
        if (rc == OK)
            parts[i] = launch_part_of(s->sweep->dictionary.search, arm, s->buckets[i].weight);
    }
    if (rc >= 0)
        s->fixed.price = launch_price(parts, (size_t)s->bucket_count);
    free(parts);
    return rc < 0 ? rc : OK;
}

static bool is_in_rounds(const struct final_rounds *s, uint32_t bucket)
{
    for (int i = 0; i < s->bucket_count; i++)
        if (s->buckets[i].bucket.key.bucket == bucket)
            return true;
    return false;
}

/* The plan with the same launch values as `arm` that fits into memory in a bucket and should be the
 * fastest there; -1: none fits. */
static int fastest_that_fits(const struct final_rounds *s, int arm, uint32_t bucket)
{
    const struct layer_plans *plans = plans_of(s);
    double least_us = 0;
    int best = -1;

    for (int other = 0; other < (int)plans->arm_count; other++) {
        double us;

        if (s->values_of[other] != s->values_of[arm] || !layer_plans_fits(plans, other, bucket))
            continue;
        us = dictionary_expected_us(&s->sweep->dictionary, bucket, other);
        if (best >= 0 && !(us < least_us))
            continue;
        best = other;
        least_us = us;
    }
    return best;
}

/* Gives a bucket that is not in the rounds the plan `arm`, or the best plan with the same launch
 * values that fits there.  If none fits the entry ends. */
static int replace_entry(struct final_rounds *s, const struct entry_row *e, int arm,
                         const char *why)
{
    bool inferred = entry_is(e, ENTRY_OPEN | ENTRY_IMPORTED | ENTRY_UNSOUND);
    struct entry_row replacement;
    int rc = UNSUPPORTED; /* no plan can run there */

    if (arm >= 0 && !layer_plans_fits(plans_of(s), arm, e->bucket))
        arm = fastest_that_fits(s, arm, e->bucket);
    if (arm >= 0)
        rc = sweep_place(s->sweep, e->bucket, arm, inferred, &replacement);
    if (rc < 0)
        return rc;
    if (rc == UNSUPPORTED)
        return store_entry_end(s->sweep->campaign->store, e, why);
    if (!inferred) {
        memcpy(replacement.effort, e->effort, sizeof(replacement.effort));
        memcpy(replacement.search, e->search, sizeof(replacement.search));
    }
    return store_entry_put(s->sweep->campaign->store, &replacement, why);
}

static int list_entry(void *self, const struct entry_row *e)
{
    struct entries *all = self;

    ARRAY_APPEND(all->list, all->count, *e);
    return OK;
}

/* Whether an entry is of this table and no person has pinned its bucket. */
static bool may_replace(const struct final_rounds *s, const struct entry_row *e)
{
    return e->window == plans_of(s)->window && !dictionary_pin(&s->sweep->dictionary, e->bucket);
}

/* Gives all entries the default plan until new rounds decide.  Where the default cannot run, the
 * present plan stays until launch values are chosen. */
static int reset_entry(struct final_rounds *s, const struct entry_row *e)
{
    const struct layer_plans *plans = plans_of(s);
    int default_arm = plans->default_arm;

    if (default_arm < 0 || !layer_plans_fits(plans, default_arm, e->bucket) ||
        !strcmp(e->decision, "alone") || layer_plans_arm(plans, &e->plan) == default_arm)
        return OK;
    return replace_entry(s, e, default_arm, "other axes are fixed");
}

/* Gives an entry that is not in the rounds a plan with the table's launch values. */
static int follow_rounds(struct final_rounds *s, const struct entry_row *e)
{
    const struct layer_plans *plans = plans_of(s);
    int present = layer_plans_arm(plans, &e->plan), arm = plans->default_arm;

    if (is_in_rounds(s, e->bucket))
        return OK;
    if (s->fixed.whole)
        arm = s->verdicts[final_rounds_nearest(s, e->bucket)].arm;
    else if (present >= 0 && (int)s->values_of[present] == s->default_values)
        return OK;
    return present == arm ? OK : replace_entry(s, e, arm, "one launch for all");
}

static int replace_entries(struct final_rounds *s,
                           int (*replace)(struct final_rounds *s, const struct entry_row *e))
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct entries all = { NULL, 0 };
    int rc = store_entries(d->store, d->cluster, d->shape, list_entry, &all);

    for (size_t i = 0; i < all.count && !rc; i++)
        if (may_replace(s, &all.list[i]))
            rc = replace(s, &all.list[i]);
    free(all.list);
    return rc;
}

int launch_values_reset(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    struct standing_row row;
    int rc;

    if (s->start != START_OTHER_AXES)
        return OK;
    rc = store_standing_get(d->store, d->cluster, d->shape, d->buckets.window, &row);
    if (rc < 0)
        return rc;
    TRY(replace_entries(s, reset_entry));
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

int launch_values_publish(struct final_rounds *s)
{
    if (!s->sweep->request->fixed)
        return OK;
    TRY(replace_entries(s, follow_rounds));
    TRY(estimate_price(s));
    write_launch_values(s, &plans_of(s)->arms[s->verdicts[0].arm], s->fixed.launch);
    return store_fixed_put(s->sweep->campaign->store, &s->fixed);
}

/* Makes a hash of the weights of this request, to compare them with the table's. */
static int hash_weights(struct final_rounds *s)
{
    const struct tune_request *request = s->sweep->request;
    size_t buckets = (size_t)plans_of(s)->last + 1;
    double *weights = request->weights.count ? calloc(buckets, sizeof(*weights)) : NULL;
    uint64_t hash = 0;
    int rc = OK;

    *s->weights_hash = 0;
    if (!request->weights.count)
        return OK;
    rc = weights ? traffic_weights(&request->weights, &plans_of(s)->shape, plans_of(s)->window,
                                   weights, buckets)
                 : fail(ERR_NOMEM, "%zu buckets", buckets);
    for (size_t b = 0; b < buckets && !rc; b++)
        hash = random_bits(hash ^ (uint64_t)weights[b], b);
    if (!rc)
        snprintf(s->weights_hash, sizeof(s->weights_hash), "%016" PRIx64, hash);
    free(weights);
    return rc;
}

int launch_values_read(struct final_rounds *s)
{
    const struct dictionary *d = &s->sweep->dictionary;
    char axes[FIXED_AXES_BYTES];
    int rc = store_fixed_get(d->store, d->cluster, d->shape, d->buckets.window, &s->fixed);

    if (rc < 0)
        return rc;
    if (rc == UNSUPPORTED)
        s->fixed = (struct fixed_row){ .price = GAIN_UNKNOWN };
    tune_fixed_text(s->sweep->request, axes);
    TRY(hash_weights(s));
    if (strcmp(axes, s->fixed.axes) != 0)
        s->start = START_OTHER_AXES;
    else if (strcmp(s->weights_hash, s->fixed.asked) != 0)
        s->start = START_OTHER_WEIGHTS;
    else
        s->start = START_NEW;
    number_launch_values(s);
    s->chosen_values = s->default_values;
    return OK;
}
