/* One bucket: loads its samples from the store, hands them to the decision, writes each new step,
 * and makes the entry. */
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
                          .capacity = buckets_key_of(d->buckets, bucket) };
}

/* ---- recorded trials and samples */

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
    /* A plan that failed in an earlier run may run now, because conditions may have changed. */
    a->trial = *trial;
    a->trial.state = TRIAL_RUNNING;
    a->trial.attempts = 0;
    a->trial.message[0] = 0;
    return OK;
}

static int add_sample(struct bucket *b, struct counted_sample sample)
{
    if (b->sample_count == b->sample_room) {
        uint32_t room = 2 * b->sample_room + 32;
        struct counted_sample *larger = realloc(b->samples, room * sizeof(*larger));

        if (!larger)
            return fail(ERR_NOMEM, "samples of a bucket");
        b->samples = larger;
        b->sample_room = room;
    }
    b->samples[b->sample_count++] = sample;
    return OK;
}

int bucket_remember(struct bucket *b, int arm, enum sample_kind kind, int64_t ns)
{
    return add_sample(b, (struct counted_sample){ arm, kind, bucket_count(b, arm),
                                                  b->dictionary->run, ns, false });
}

static int load_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct bucket *b = self;
    int arm = dictionary_arm(b->dictionary, &trial->key.plan);

    if (arm < 0 || strcmp(sample->load, b->dictionary->load) != 0 ||
        !ledger_counts(&b->attempts[arm], sample))
        return OK;
    return add_sample(b, (struct counted_sample){ arm, sample->kind, sample->round, sample->run,
                                                  sample->ns,
                                                  sample->gpu.throttled == SAMPLE_DISTURBED });
}

static int load_distances(struct bucket *b)
{
    const struct dictionary *d = b->dictionary;
    const struct declaration *space =
        d->default_arm < 0 ? NULL : declaration_find(d->arms[d->default_arm].space);

    if (!space)
        return OK;
    b->distance = calloc(d->arm_count, sizeof(*b->distance));
    if (!b->distance)
        return fail(ERR_NOMEM, "plans of a bucket");
    for (size_t arm = 0; arm < d->arm_count; arm++)
        b->distance[arm] = declaration_distance(space, d->arms[arm].choice);
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
    TRY(load_distances(b));
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
    free(b->distance);
    free(b->samples);
    b->attempts = NULL;
    b->distance = NULL;
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

/* What a recorded sample is for.  If the bucket is decided again, pairs of earlier runs do not
 * prove the new candidate: they were taken for another one. */
static enum decision_purpose purpose_of(const struct bucket *b, const struct counted_sample *sample)
{
    bool decided = b->known && dictionary_holds(b->dictionary, &b->entry, false);
    bool fresh = !b->known || decided || sample->run >= b->dictionary->pairs_since;

    if (sample->kind == SAMPLE_SEARCH)
        return DECISION_SEARCH;
    return sample->kind == SAMPLE_CONTEST && fresh ? DECISION_SAFETY : DECISION_OTHER;
}

enum sample_kind bucket_sample_kind(enum decision_purpose purpose)
{
    return purpose == DECISION_SEARCH ? SAMPLE_SEARCH : SAMPLE_CONTEST;
}

void bucket_open(struct bucket *b, bool rematch)
{
    const struct dictionary *d = b->dictionary;
    /* The plan of a refuted entry, or of an old table's tie, was not chosen by a decision; that of
     * an unsound entry does not gain. */
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
                                    .distance = b->distance,
                                    .launched = d->launched,
                                    .patience = d->patience ? d->patience : d->effort->patience };

    /* If trainers use another plan than the default now, more pairs are allowed to prove it. */
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

/* Where the capacities of experts differ, a look-up compares plans of both kinds.  So an entry also
 * has the time of the best plan of the other kind.  A plain value. */
struct other_kind {
    bool any;    /* some plan of the other kind can run here */
    int arm;     /* the best one whose time is known; -1: none */
    double over; /* log(its time / the time of the plan it is compared with) */
    int unknown; /* a plan with r = 0 that may be better but needs samples; -1: none */
};

/* Whether a plan with r = 0 is slower in every comparison.  At most all rows go to one rank or one
 * expert, which is this many times the even share.  The step of the other kind grows at most in
 * proportion to the capacity. */
static bool is_hopeless(const struct search *s, const struct normal *over)
{
    uint32_t experts = s->setup.shape.experts, ranks = s->setup.shape.ranks;

    return over->mean - 2 * over->sd > log((double)(experts < ranks ? experts : ranks));
}

/* Whether a plan's time is known: it has samples here, or the belief is narrow.  wide_sd is larger
 * than the narrow_sd below, so that a time does not become unknown again when later samples widen
 * the belief a little. */
static bool is_time_known(const struct search *s, int arm, const struct normal *over)
{
    static const double wide_sd = 0.1;

    return isfinite(over->mean) &&
           (s->count[arm] > 0 || over->sd <= wide_sd || is_hopeless(s, over));
}

/* Whether a plan of the other kind needs samples.  Three are enough: either the kinds differ by
 * far, or it hardly matters which of them is chosen.  Plans with r >= 1 need none: where a plan
 * with r = 0 is best, it is also best at smaller capacities. */
static bool wants_samples(const struct search *s, int arm, const struct normal *over)
{
    enum { ENOUGH = 3 };
    static const double narrow_sd = 0.05;

    return !s->setup.arms[arm].r && s->count[arm] < ENOUGH && !(over->sd <= narrow_sd) &&
           !is_hopeless(s, over);
}

/* Whether plans differ in kind at all: only in our own layer, where each rank has whole experts. */
static bool has_two_kinds(const struct search *s)
{
    return !s->setup.shape.space && s->setup.shape.layout == MOE_LAYOUT_EXPERTS && s->setup.arms;
}

/* The best plan of the other kind than `arm`.  Plans with r >= 1 must be safe (decision_is_safe()),
 * because trainers may get them. */
static struct other_kind find_other_kind(const struct bucket *b, int arm)
{
    const struct dictionary *d = b->dictionary;
    struct search *s = b->decision.setup.search;
    struct other_kind other = { .arm = -1, .over = INFINITY, .unknown = -1 };
    double least_unknown = INFINITY;

    for (int i = 0; i < (int)d->arm_count; i++) {
        const struct moe_plan *plan = &d->arms[i];
        struct normal over;

        if (!s->usable[i] || !plan_other_kind(plan, &d->arms[arm]))
            continue;
        other.any = true;
        if (plan->r && !decision_is_safe(&b->decision, i))
            continue;
        over = search_compare(s, i, arm);
        if (is_time_known(s, i, &over) && over.mean < other.over) {
            other.arm = i;
            other.over = over.mean;
        }
        if (wants_samples(s, i, &over) && !(over.mean >= least_unknown)) {
            other.unknown = i;
            least_unknown = over.mean;
        }
    }
    if (least_unknown > other.over)
        other.unknown = -1;
    return other;
}

int bucket_next(struct bucket *b, enum decision_purpose *purpose)
{
    struct decision_result result;
    int next = decision_next(&b->decision, purpose);

    if (next != DECISION_DONE || b->decision.setup.search->cut ||
        !has_two_kinds(b->decision.setup.search) || !decision_result(&b->decision, &result))
        return next;
    /* The search did not ask for this sample. */
    *purpose = DECISION_SAFETY;
    next = find_other_kind(b, result.arm).unknown;
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
    TRY(ledger_sample(store, a, &sample, NULL)); /* it counts: disturbance is not known here */
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
    /* A rematch is among a few plans, so the others' times are not known. */
    if (b->decision.setup.alone || !has_two_kinds(b->decision.setup.search))
        return OK;
    other = find_other_kind(b, r.arm);
    out->no_other = !other.any;
    if (other.arm >= 0 && isfinite(out->time_us)) {
        out->other = d->arms[other.arm];
        out->other_us = out->time_us * exp(other.over);
    }
    return OK;
}
