/* Loads what the store knows of a bucket, tells it to the decision, writes down each new step, and
 * makes the entry. */
#include "bucket.h"

#include "buckets.h"
#include "plan.h"
#include "stats.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bucket_init(struct bucket *b, const struct dictionary *d, uint32_t bucket)
{
    *b = (struct bucket){ .dictionary = d,
                          .key = { d->cluster, d->shape, d->buckets.window, bucket },
                          .capacity = buckets_capacity(d->buckets, bucket) };
}

/* ---- what is known */

static int load_trial(void *self, const struct trial_row *trial)
{
    struct bucket *b = self;
    int arm = dictionary_arm(b->dictionary, &trial->key.plan);
    struct attempt *a;

    if (arm < 0)
        return OK;
    a = &b->attempts[arm];
    if (trial->run >= b->dictionary->first_run)
        return ledger_recall(b->dictionary->store, a, trial);
    /* What failed then may run now: conditions may have changed. */
    a->trial = *trial;
    a->trial.state = TRIAL_RUNNING;
    a->trial.attempts = 0;
    a->trial.message[0] = 0;
    return OK;
}

static int remember(struct bucket *b, struct counted_sample told)
{
    if (b->sample_count == b->sample_room) {
        uint32_t room = 2 * b->sample_room + 32;
        struct counted_sample *more = realloc(b->samples, room * sizeof(*more));

        if (!more)
            return fail(ERR_NOMEM, "samples of a bucket");
        b->samples = more;
        b->sample_room = room;
    }
    b->samples[b->sample_count++] = told;
    return OK;
}

int bucket_remember(struct bucket *b, int arm, enum sample_kind kind, int64_t ns)
{
    return remember(b, (struct counted_sample){ arm, kind, bucket_count(b, arm), b->dictionary->run,
                                                ns, false });
}

static int load_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct bucket *b = self;
    int arm = dictionary_arm(b->dictionary, &trial->key.plan);

    if (arm < 0 || strcmp(sample->load, b->dictionary->load) != 0 ||
        !ledger_counts(&b->attempts[arm], sample))
        return OK;
    return remember(b, (struct counted_sample){ arm, sample->kind, sample->round, sample->run,
                                                sample->ns,
                                                sample->gpu.throttled == SAMPLE_DISTURBED });
}

static int load_apart(struct bucket *b)
{
    const struct dictionary *d = b->dictionary;
    const struct declaration *space =
        d->default_arm < 0 ? NULL : declaration_find(d->arms[d->default_arm].space);

    if (!space)
        return OK;
    b->apart = calloc(d->arm_count, sizeof(*b->apart));
    if (!b->apart)
        return fail(ERR_NOMEM, "plans of a bucket");
    for (size_t arm = 0; arm < d->arm_count; arm++)
        b->apart[arm] = declaration_apart(space, d->arms[arm].choice);
    return OK;
}

int bucket_load(struct bucket *b)
{
    const struct dictionary *d = b->dictionary;
    const struct bucket_key *k = &b->key;
    int rc;

    if (b->attempts)
        return OK;
    b->attempts = calloc(d->arm_count, sizeof(*b->attempts));
    if (!b->attempts)
        return fail(ERR_NOMEM, "plans of a bucket");
    for (int arm = 0; arm < (int)d->arm_count; arm++)
        b->attempts[arm] = (struct attempt){ .trial = { .key = { k->cluster, k->shape, k->window,
                                                                 k->bucket, d->arms[arm] },
                                                        .capacity = b->capacity },
                                             .usable = true };
    TRY(load_apart(b));
    rc = dictionary_entry(d, k->bucket, &b->entry);
    if (rc < 0)
        return rc;
    b->known = rc == OK;
    TRY(store_trials(d->store, k->cluster, k->shape, k->window, k->bucket, load_trial, b));
    return store_samples(d->store, k->cluster, k->shape, k->window, k->bucket, load_sample, b);
}

void bucket_forget(struct bucket *b)
{
    free(b->attempts);
    free(b->apart);
    free(b->samples);
    b->attempts = NULL;
    b->apart = NULL;
    b->samples = NULL;
    b->sample_count = b->sample_room = 0;
}

uint32_t bucket_count(const struct bucket *b, int arm)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->sample_count; i++)
        n += b->samples[i].arm == arm;
    return n;
}

double bucket_median_ns(const struct bucket *b, int arm)
{
    double values[64];
    size_t n = 0;

    for (uint32_t i = b->sample_count; i-- > 0 && n < sizeof(values) / sizeof(values[0]);)
        if (b->samples[i].arm == arm)
            values[n++] = (double)b->samples[i].ns;
    return median_of(values, n);
}

/* ---- the decision */

/* Where a bucket is decided anew the pairs of earlier runs are about their choice, not about the
 * one to come. */
static enum decision_purpose purpose_of(const struct bucket *b, const struct counted_sample *told)
{
    bool decided = b->known && dictionary_holds(b->dictionary, &b->entry, false);
    bool fresh = !b->known || decided || told->run >= b->dictionary->pairs_since;

    if (told->kind == SAMPLE_SEARCH)
        return DECISION_SEARCH;
    return told->kind == SAMPLE_CONTEST && fresh ? DECISION_SAFETY : DECISION_OTHER;
}

enum sample_kind bucket_sample_kind(enum decision_purpose purpose)
{
    return purpose == DECISION_SEARCH ? SAMPLE_SEARCH : SAMPLE_CONTEST;
}

void bucket_open(struct bucket *b, bool rematch)
{
    const struct dictionary *d = b->dictionary;
    /* A refuted entry and an old table's tie hold a plan that nobody chose, an unsound one a plan
     * that does not gain. */
    bool chosen = b->known &&
                  !entry_is(&b->entry, ENTRY_INFERRED | ENTRY_TIE | ENTRY_REFUTED | ENTRY_UNSOUND);
    bool usable[SEARCH_ARMS_MAX] = { false };
    struct decision_setup setup = { .search = d->search,
                                    .capacity = b->capacity,
                                    .usable = usable,
                                    .default_arm = d->default_arm,
                                    .incumbent = chosen ? dictionary_arm(d, &b->entry.plan) : -1,
                                    .alone = rematch,
                                    .again = b->known,
                                    .harm = d->harm,
                                    .margin = d->margin,
                                    .distance = b->apart,
                                    .launched = d->launched,
                                    .patience = d->patience ? d->patience : d->effort->patience };

    /* Where trainers have another plan than the default they keep one that is proven. */
    if (setup.incumbent >= 0 && setup.incumbent != d->default_arm &&
        setup.patience < 2 * PAIRS_LEAST)
        setup.patience = 2 * PAIRS_LEAST;
    for (int arm = 0; arm < (int)d->arm_count; arm++)
        usable[arm] = b->attempts[arm].usable && (!rematch || arm == d->default_arm ||
                                                  arm == dictionary_arm(d, &b->entry.plan) ||
                                                  arm == dictionary_arm(d, &b->entry.runner_up));
    decision_open(&b->decision, &setup);
    for (uint32_t i = 0; i < b->sample_count; i++)
        decision_recall(&b->decision, purpose_of(b, &b->samples[i]), b->samples[i].arm,
                        b->samples[i].ns);
}

/* ---- the other kind: plans with r = 0 where the best one has r >= 1, or the other way round */

/* Where experts' capacities differ, plans of both kinds are compared, each at an equal capacity of
 * its own; so an entry says what the best plan of either kind takes. */
struct other_kind {
    bool any;    /* some can run here */
    int arm;     /* the best one of those whose time is known; -1: none */
    double over; /* the logarithm of its time minus that of the plan it is compared to */
    int unknown; /* one that may be better, if it has r = 0; -1: none */
};

/* All rows may be one rank's, or one expert's: so many times the even share.  A plan with r = 0
 * that takes longer by more than this is slower wherever it is compared: its step grows with the
 * capacity, and that of the other kind at most in proportion to it. */
static bool is_hopeless(const struct search *s, const struct normal *over)
{
    uint32_t experts = s->setup.shape.experts, ranks = s->setup.shape.ranks;

    return over->mean - 2 * over->sd > log((double)(experts < ranks ? experts : ranks));
}

/* Once it is sampled here, or nearly as well known from elsewhere: also when later samples make the
 * belief a little wider, so that what an entry knows is not lost again. */
static bool is_known(const struct search *s, int arm, const struct normal *over)
{
    static const double wide_sd = 0.1;

    return isfinite(over->mean) &&
           (s->count[arm] > 0 || over->sd <= wide_sd || is_hopeless(s, over));
}

/* Three samples are enough: two kinds differ by far, or it does not matter much which one answers.
 * Of plans with r >= 1 none are wanted: where one with r = 0 is best, it is so at any smaller
 * capacity that it may have beside this one. */
static bool wants_samples(const struct search *s, int arm, const struct normal *over)
{
    enum { ENOUGH = 3 };
    static const double narrow_sd = 0.05;

    return !s->setup.arms[arm].r && s->count[arm] < ENOUGH && !(over->sd <= narrow_sd) &&
           !is_hopeless(s, over);
}

static bool has_kinds(const struct search *s)
{
    return !s->setup.shape.space && s->setup.shape.layout == MOE_LAYOUT_EXPERTS && s->setup.arms;
}

/* Of the plans that the default plan is one of only those that may be published: whoever is told
 * one must not be worse off. */
static struct other_kind find_other(const struct bucket *b, int arm)
{
    const struct dictionary *d = b->dictionary;
    struct search *s = b->decision.setup.search;
    struct other_kind o = { .arm = -1, .over = INFINITY, .unknown = -1 };
    double least = INFINITY;

    for (int i = 0; i < (int)d->arm_count; i++) {
        const struct moe_plan *plan = &d->arms[i];
        struct normal over;

        if (!s->usable[i] || !plan_other_kind(plan, &d->arms[arm]))
            continue;
        o.any = true;
        if (plan->r && !decision_is_safe(&b->decision, i))
            continue;
        over = search_compare(s, i, arm);
        if (is_known(s, i, &over) && over.mean < o.over) {
            o.arm = i;
            o.over = over.mean;
        }
        if (wants_samples(s, i, &over) && !(over.mean >= least)) {
            o.unknown = i;
            least = over.mean;
        }
    }
    if (least > o.over)
        o.unknown = -1;
    return o;
}

int bucket_next(struct bucket *b, enum decision_purpose *purpose)
{
    struct decision_result r;
    int next = decision_next(&b->decision, purpose);

    if (next != DECISION_DONE || b->decision.setup.search->cut ||
        !has_kinds(b->decision.setup.search) || !decision_result(&b->decision, &r))
        return next;
    /* Told as what is sampled for safety's sake: the search did not ask for it. */
    *purpose = DECISION_SAFETY;
    next = find_other(b, r.arm).unknown;
    return next < 0 ? DECISION_DONE : next;
}

/* ---- steps */

int bucket_begin(struct bucket *b, int arm, bool harmless)
{
    return ledger_begin(b->dictionary->store, b->dictionary->run, &b->attempts[arm], harmless);
}

int bucket_tell(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns)
{
    TRY(bucket_remember(b, arm, bucket_sample_kind(purpose), ns));
    decision_tell(&b->decision, purpose, arm, ns);
    return OK;
}

int bucket_learn(struct bucket *b, enum decision_purpose purpose, int arm, int64_t ns)
{
    struct store *store = b->dictionary->store;
    struct attempt *a = &b->attempts[arm];
    struct sample_row sample = { .kind = bucket_sample_kind(purpose),
                                 .round = b->process ? b->process : bucket_count(b, arm),
                                 .ns = ns,
                                 .run = b->dictionary->run };

    TRY(ledger_end(store, a, TRIAL_OK, ""));
    TRY(ledger_sample(store, a, &sample, NULL)); /* it counts: nobody has said it was disturbed */
    if (!b->decision.setup.search)
        return bucket_remember(b, arm, sample.kind, ns);
    return bucket_tell(b, purpose, arm, ns);
}

int bucket_fail(struct bucket *b, int arm, enum trial_state state, const char *why)
{
    return ledger_end(b->dictionary->store, &b->attempts[arm], state, why);
}

/* ---- the entry */

int bucket_entry(const struct bucket *b, int arm, struct entry_row *out)
{
    const struct dictionary *d = b->dictionary;
    struct decision_result r;
    struct other_kind other;

    if (arm < 0 ? !decision_result(&b->decision, &r) : !decision_result_of(&b->decision, arm, &r))
        return UNSUPPORTED;
    dictionary_begin_entry(d, b->key.bucket, out);
    out->capacity = b->capacity;
    out->plan = d->arms[r.arm];
    out->search_winner = d->arms[r.found.winner];
    if (r.found.runner_up >= 0)
        out->runner_up = d->arms[r.found.runner_up];
    out->time_us = r.ns * 1e-3;
    out->low_us = r.low_ns * 1e-3;
    out->high_us = r.high_ns * 1e-3;
    out->default_us = r.default_ns * 1e-3;
    out->gain = r.gain;
    out->bound = r.bound;
    dictionary_doubt(d, &r.doubt, out);
    out->samples = r.samples;
    out->throttled = b->attempts[r.arm].throttled;
    if (d->default_arm >= 0 && d->default_arm != r.arm)
        out->throttled += b->attempts[d->default_arm].throttled;
    snprintf(out->reason, sizeof(out->reason), "%s", search_reason_words[r.found.reason]);
    snprintf(out->decision, sizeof(out->decision), "%s", decision_words[r.word]);
    /* Who decides among some plans alone has not asked what the others take. */
    if (b->decision.setup.alone || !has_kinds(b->decision.setup.search))
        return OK;
    other = find_other(b, r.arm);
    out->no_other = !other.any;
    if (other.arm >= 0 && isfinite(out->time_us)) {
        out->other = d->arms[other.arm];
        out->other_us = out->time_us * exp(other.over);
    }
    return OK;
}
