/* Gathers the steps of a launch into samples, and writes down each of them at once: a launch is
 * dear. */
#include "launch_bucket.h"

#include "plan.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int launch_bucket_open(struct launch_bucket *r, const struct dictionary *shared, uint32_t bucket,
                       const struct search_setup *search)
{
    *r = (struct launch_bucket){
        .dictionary = *shared, .wanted = DECISION_DONE, .arm = -1, .place = -1
    };
    r->watched.bucket = bucket;
    r->dictionary.launched = true;
    r->shown = calloc(shared->arm_count, sizeof(*r->shown));
    if (!r->shown)
        return fail(ERR_NOMEM, "plans of a range");
    TRY(search_open(search_find("blind"), search, &r->dictionary.search));
    bucket_init(&r->bucket, &r->dictionary, bucket);
    TRY(bucket_load(&r->bucket));
    /* An older moetune wrote an entry when its time was up.  Such an entry is provisional: the
     * range counts as open, and the entry's samples are replayed.  A stale entry answers until the
     * range is decided. */
    r->cut = r->bucket.known && entry_is(&r->bucket.entry, ENTRY_CUT) &&
             !entry_is(&r->bucket.entry, ENTRY_STALE);
    r->bucket.known &= !r->cut;
    return OK;
}

void launch_bucket_close(struct launch_bucket *r)
{
    bucket_forget(&r->bucket);
    search_close(r->dictionary.search);
    free(r->shown);
}

/* What the choice wants of the launch under way. */
static void ask_choice(struct launch_bucket *r)
{
    bool needed = false;

    r->wanted = launch_decision_next_arm(r->choice, r->place, &needed);
    r->on_occasion = !needed;
}

void launch_bucket_reset(struct launch_bucket *r, const struct launch_under_way *launch,
                         enum decision_purpose purpose)
{
    r->arm = -1;
    r->failing = false;
    watched_reset(&r->watched);
    if (r->place >= 0)
        r->bucket.process = launch->number + (r->choice ? 0 : LAUNCHES_AFTER_CHOICE);
    if (!r->choice)
        return;
    r->purpose = purpose;
    ask_choice(r);
}

bool launch_bucket_pin(struct launch_bucket *r)
{
    const struct buckets buckets = r->dictionary.buckets;
    uint32_t bucket = r->bucket.key.bucket;
    const struct override_row *pin = dictionary_pin(&r->dictionary, bucket);

    if (!pin)
        return false;
    r->watched.state = BUCKET_PINNED;
    r->pinned = dictionary_arm(&r->dictionary, &pin->plan);
    note("%s %s is left alone: %s is pinned (%s)", buckets_key_name(buckets),
         BUCKETS_TEXT(buckets, bucket, bucket), PLAN_WORDS(&pin->plan), UTF8_LINE(pin->why));
    return true;
}

/* ---- the decision */

/* Ends the provisional entry that an older moetune wrote when its time was up. */
static int drop_cut(struct launch_bucket *r, const char *why)
{
    if (!r->cut)
        return OK;
    r->cut = false;
    return store_entry_end(r->dictionary.store, &r->bucket.entry, why);
}

/* Has the decision say what it wants next; where that is nothing the entry is written. */
static int advance(struct launch_bucket *r)
{
    struct entry_row entry;
    int rc;

    if (r->choice) {
        ask_choice(r);
        return OK;
    }
    r->wanted = decision_next(&r->bucket.decision, &r->purpose);
    r->on_occasion = false;
    if (r->wanted != DECISION_DONE)
        return OK;
    r->watched.state = BUCKET_DECIDED;
    rc = bucket_entry(&r->bucket, -1, &entry);
    if (rc == UNSUPPORTED) /* no plan runs here: the trials say why */
        return drop_cut(r, "no plan runs");
    TRY(rc);
    r->cut = false;
    TRY(store_entry_put(r->dictionary.store, &entry, "measured in launches"));
    r->bucket.entry = entry;
    r->bucket.known = true;
    return store_publish(r->dictionary.store);
}

int launch_bucket_begin(struct launch_bucket *r)
{
    const struct entry_row *e = &r->bucket.entry;
    int arm = r->bucket.known ? dictionary_arm(&r->dictionary, &e->plan) : -1;
    /* What earlier runs decided with no less effort holds, if its plan can still run. */
    bool decided =
        arm >= 0 && r->bucket.attempts[arm].usable && dictionary_holds(&r->dictionary, e, false);

    r->watched.state = !r->demand ? BUCKET_LEFT_OUT : decided ? BUCKET_DECIDED : BUCKET_OPEN;
    if (r->watched.state != BUCKET_OPEN)
        return OK;
    bucket_open(&r->bucket, false);
    return advance(r);
}

bool launch_bucket_runs(const struct launch_bucket *r)
{
    for (size_t arm = 0; arm < r->dictionary.arm_count; arm++)
        if (r->bucket.attempts[arm].usable)
            return true;
    return false;
}

static void visit(struct launch_bucket *r)
{
    bool usable[SEARCH_ARMS_MAX] = { false };

    for (size_t arm = 0; arm < r->dictionary.arm_count; arm++)
        usable[arm] = r->bucket.attempts[arm].usable;
    search_begin(r->dictionary.search, r->bucket.capacity, usable, false);
}

int launch_bucket_join(struct launch_bucket *r, struct launch_decision *choice, double weight)
{
    r->watched.state = r->demand ? BUCKET_OPEN : BUCKET_LEFT_OUT;
    r->choice = r->demand ? choice : NULL;
    visit(r);
    r->place = launch_decision_add(choice, r->dictionary.search, r->demand ? weight : 0);
    return r->place < 0 ? r->place : OK;
}

int launch_bucket_part(struct launch_bucket *r, const uint32_t *launch_of, uint32_t launch)
{
    r->choice = NULL;
    for (size_t arm = 0; arm < r->dictionary.arm_count; arm++)
        r->bucket.attempts[arm].usable &= launch_of[arm] == launch;
    return r->watched.state == BUCKET_OPEN || r->watched.state == BUCKET_NEW
               ? launch_bucket_begin(r)
               : OK;
}

int launch_bucket_follow(struct launch_bucket *r, const struct launch_decision *choice,
                         const uint32_t *launch_of, int launch)
{
    struct dictionary *d = &r->dictionary;
    const struct entry_row *known = &r->bucket.entry;
    int arm = launch_decision_live_arm(choice, launch, r->place);
    int told = r->bucket.known ? dictionary_arm(d, &known->plan) : -1;
    struct normal level;
    struct gain gain;
    struct entry_row e;

    r->watched.state = r->watched.state == BUCKET_OPEN ? BUCKET_DECIDED : r->watched.state;
    r->choice = NULL;
    for (size_t i = 0; i < d->arm_count; i++)
        r->bucket.attempts[i].usable &= (int)launch_of[i] == launch;
    /* In the default launch only what is proven takes the default plan's place. */
    if (arm < 0 || !bucket_count(&r->bucket, arm) || (int)launch_of[d->default_arm] == launch) {
        if (!r->bucket.known || (told >= 0 && (int)launch_of[told] == launch))
            return OK;
        r->bucket.known = false;
        return store_entry_end(d->store, known, "the table has another launch");
    }
    if (told == arm && dictionary_holds(d, known, false))
        return OK;
    level = launch_decision_level(choice, r->place, arm);
    gain = launch_decision_gain(choice, r->place);
    dictionary_begin_entry(d, r->bucket.key.bucket, &e);
    e.capacity = r->bucket.capacity;
    e.plan = d->arms[arm];
    e.time_us = exp(level.mean) * 1e-3;
    e.low_us = exp(level.mean - 1.96 * level.sd) * 1e-3;
    e.high_us = exp(level.mean + 1.96 * level.sd) * 1e-3;
    /* What is proven is proven of the launch, with all its buckets.  Where this one loses by it
     * that is no claim: the launch's rows say it. */
    e.default_us = gain.value > 0 ? e.time_us / (1 - gain.value) : NAN;
    e.gain = gain.value > 0 ? gain : (struct gain)GAIN_UNKNOWN;
    e.bound = NAN;
    e.samples = bucket_count(&r->bucket, arm);
    text_put(e.reason, sizeof(e.reason), "%s", search_reason_words[SEARCH_CERTAIN]);
    text_put(e.decision, sizeof(e.decision), "%s", decision_words[DECISION_STATIC]);
    r->cut = false;
    TRY(store_entry_put(d->store, &e, "measured in launches"));
    r->bucket.entry = e;
    r->bucket.known = true;
    return OK;
}

/* ---- what a launch shows */

/* Whether a plan may be run again and again, because it cannot end the program. */
static bool is_harmless(const struct launch_bucket *r, int arm)
{
    const struct attempt *a = &r->bucket.attempts[arm];

    return a->usable || a->trial.state == TRIAL_FAILED || a->trial.state == TRIAL_NO_MEMORY;
}

int launch_bucket_best(const struct launch_bucket *r, const struct launch_under_way *launch,
                       int safe)
{
    int best = r->bucket.attempts[safe].usable ? safe : -1, other = -1;
    double least = best < 0 ? NAN : bucket_median_ns(&r->bucket, best);

    if (r->watched.state == BUCKET_PINNED && r->pinned >= 0 &&
        launch->values_of[r->pinned] == launch->values && is_harmless(r, r->pinned))
        return r->pinned;
    for (int arm = 0; arm < (int)r->dictionary.arm_count; arm++) {
        double ns;

        if (launch->values_of[arm] != launch->values)
            continue;
        if (is_harmless(r, arm) && (other < 0 || !r->bucket.attempts[other].usable))
            other = arm;
        ns = r->bucket.attempts[arm].usable ? bucket_median_ns(&r->bucket, arm) : NAN;
        if (ns < least || (isnan(least) && !isnan(ns))) {
            least = ns;
            best = arm;
        }
    }
    return best >= 0 ? best : other;
}

static bool can_show(const struct launch_bucket *r, const struct launch_under_way *launch, int arm)
{
    return arm >= 0 && launch->values_of[arm] == launch->values && r->shown[arm] != launch->number;
}

bool launch_bucket_wants(const struct launch_bucket *r, const struct launch_under_way *launch)
{
    return r->watched.state == BUCKET_OPEN && can_show(r, launch, r->wanted);
}

enum launch_wish launch_bucket_wish(const struct launch_bucket *r,
                                    const struct launch_under_way *launch)
{
    if (!launch_bucket_wants(r, launch))
        return WISH_NOTHING;
    return r->on_occasion ? WISH_OCCASION : WISH_SAMPLE;
}

void launch_bucket_look(struct launch_bucket *r, const struct launch_under_way *launch)
{
    bool among[SEARCH_ARMS_MAX];
    enum decision_purpose purpose;
    int arm;

    if (r->choice || r->watched.state != BUCKET_OPEN || can_show(r, launch, r->wanted))
        return;
    for (int i = 0; i < (int)r->dictionary.arm_count; i++)
        among[i] = can_show(r, launch, i);
    arm = decision_next_among(&r->bucket.decision, among, &purpose);
    if (arm == DECISION_DONE)
        return;
    r->wanted = arm;
    r->purpose = purpose;
    r->on_occasion = true;
}

/* The program is a process of its own: an attempt is written down with what came of it, for that
 * this process ended in between would say nothing of the plan. */
static int learn(struct launch_bucket *r, const struct launch_under_way *launch, int64_t sample)
{
    TRY(bucket_begin(&r->bucket, r->wanted, true));
    TRY(bucket_learn(&r->bucket, r->purpose, r->wanted, sample));
    if (r->choice)
        TRY(launch_decision_tell(r->choice, r->place, r->wanted, sample));
    r->shown[r->wanted] = launch->number;
    r->arm = -1;
    return store_commit(r->dictionary.store);
}

int launch_bucket_step(struct launch_bucket *r, const struct launch_under_way *launch, int64_t ns,
                       uint32_t steps)
{
    int64_t sample;

    if (r->arm != r->wanted)
        r->watched.steps = 0;
    r->arm = r->wanted;
    if (!watched_step(&r->watched, ns, steps, &sample))
        return OK;
    TRY(learn(r, launch, sample));
    TRY(advance(r));
    launch_bucket_look(r, launch);
    return OK;
}

int launch_bucket_end(struct launch_bucket *r, const struct launch_under_way *launch,
                      uint32_t least)
{
    return launch_bucket_wants(r, launch) && r->arm == r->wanted && r->watched.steps >= least
               ? learn(r, launch, watched_sample(&r->watched))
               : OK;
}

int launch_bucket_next(struct launch_bucket *r)
{
    return r->watched.state == BUCKET_OPEN && !r->choice ? advance(r) : OK;
}

int launch_bucket_fail(struct launch_bucket *r, int arm, enum trial_state state, const char *why)
{
    struct search *heard = r->dictionary.search;
    bool in_force = r->watched.state == BUCKET_DECIDED && r->bucket.known &&
                    dictionary_arm(&r->dictionary, &r->bucket.entry.plan) == arm;

    if (!r->bucket.attempts[arm].usable)
        return OK; /* that is known */
    TRY(bucket_begin(&r->bucket, arm, true));
    TRY(bucket_fail(&r->bucket, arm, state, why));
    r->watched.steps = 0;
    r->watched.learnt = true;
    if (r->cut && dictionary_arm(&r->dictionary, &r->bucket.entry.plan) == arm)
        TRY(drop_cut(r, "its plan fails"));
    if (in_force) { /* it is decided again, by a search that has not heard these samples yet */
        TRY(search_open(heard->ops, &heard->setup, &r->dictionary.search));
        search_close(heard);
        return launch_bucket_begin(r);
    }
    if (r->watched.state != BUCKET_OPEN)
        return OK;
    if (r->choice)
        launch_decision_drop(r->choice, r->place, arm);
    else
        decision_drop(&r->bucket.decision, arm);
    return advance(r);
}
