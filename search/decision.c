/* Lets the search go on until another sample is not worth its time, then makes sure that its winner
 * is not slower than the default. */
#include "decision.h"

#include <math.h>

const char *const decision_words[] = { "adopted", "likely", "default", "incumbent",
                                       "alone",   "static", NULL };

/* Slower than the default by more than this does harm. */
static const double harmless = 0.01;
static const double harm_limit = 0.01;
/* Plans that differ by less would change places from bucket to bucket for nothing. */
static const double no_better = 0.001;
/* How many samples the winner and the default must have: what they take is a claim, and one sample
 * may be an outlier. */
enum { PATIENCE = 40, SAMPLES_LEAST = 2 };

void decision_open(struct decision *d, const struct decision_setup *setup)
{
    struct decision_setup s = *setup;

    s.usable = NULL;
    s.harm = s.harm > 0 ? s.harm : harm_limit;
    s.patience = s.patience ? s.patience : PATIENCE;
    *d = (struct decision){ .setup = s };
    search_visit(s.search, s.capacity, setup->usable, s.alone);
}

/* ---- the rule */

/* The default plan's arm, if it can run here. */
static int default_arm_of(const struct decision *d)
{
    int default_arm = d->setup.default_arm;

    return default_arm >= 0 && d->setup.search->usable[default_arm] ? default_arm : -1;
}

static double harm_of(const struct decision *d, int arm)
{
    int default_arm = default_arm_of(d);

    return default_arm < 0 || arm == default_arm
               ? 0
               : search_chance_slower(d->setup.search, arm, default_arm, harmless);
}

static bool is_safe(const struct decision *d, int arm)
{
    return harm_of(d, arm) <= d->setup.harm;
}

bool decision_is_safe(const struct decision *d, int arm)
{
    return is_safe(d, arm);
}

/* The arm of least expected time among those that may be published; the default is one of them. */
static int best_safe(const struct decision *d)
{
    const struct search *s = d->setup.search;
    int best = default_arm_of(d);

    for (int i = 0; i < (int)s->setup.arm_count; i++) {
        double above;

        if (!s->usable[i] || !s->count[i])
            continue;
        above = best < 0 ? 0 : search_compare(d->setup.search, i, best).mean;
        if ((best < 0 || above < 0) && is_safe(d, i))
            best = i;
    }
    return best;
}

/* Whether an arm is so near the default that choosing it gains nothing. */
static bool is_no_better(const struct decision *d, int arm)
{
    int default_arm = default_arm_of(d);

    return default_arm >= 0 &&
           search_compare(d->setup.search, arm, default_arm).mean > log1p(-no_better);
}

/* The search's winner, unless it may do harm. */
static int published(const struct decision *d, const struct search_result *found)
{
    int incumbent = d->setup.incumbent;
    int best = is_safe(d, found->winner) ? found->winner : best_safe(d);

    if (is_no_better(d, best))
        best = default_arm_of(d);
    if (incumbent < 0 || incumbent == best || !d->setup.search->usable[incumbent] ||
        !is_safe(d, incumbent))
        return best;
    return search_compare(d->setup.search, best, incumbent).mean < log1p(-d->setup.margin)
               ? best
               : incumbent;
}

/* ---- what to sample */

/* What it takes is a claim, too, and is made of samples, of which one may be an outlier. */
static bool is_new(const struct decision *d, int arm)
{
    const struct search *s = d->setup.search;
    uint32_t least = s->ops->least > SAMPLES_LEAST ? s->ops->least : SAMPLES_LEAST;

    return arm >= 0 && s->usable[arm] && s->count[arm] < least;
}

int decision_next(struct decision *d, enum decision_purpose *purpose)
{
    struct search *s = d->setup.search;
    int next = search_next(s), winner, default_arm = default_arm_of(d);

    *purpose = DECISION_SEARCH;
    if (next != SEARCH_DONE)
        return next;
    *purpose = DECISION_SAFETY;
    winner = search_result(s).winner;
    if (s->cut || winner < 0 || d->safety_samples >= d->setup.patience)
        return DECISION_DONE;
    if (is_new(d, d->setup.incumbent))
        return d->setup.incumbent;
    if (is_new(d, winner))
        return winner;
    if (default_arm < 0 || is_new(d, default_arm))
        return default_arm < 0 ? DECISION_DONE : default_arm;
    if (is_safe(d, winner))
        return DECISION_DONE;
    return s->count[winner] <= s->count[default_arm] ? winner : default_arm;
}

int decision_also(struct decision *d, const bool *among, enum decision_purpose *purpose)
{
    struct search *s = d->setup.search;
    int next = decision_next(d, purpose), rivals[2];

    if (next == DECISION_DONE)
        return next;
    if (*purpose == DECISION_SEARCH)
        return search_also(s, among);
    rivals[0] = search_result(s).winner;
    rivals[1] = default_arm_of(d);
    for (int i = 0; i < 2; i++)
        if (rivals[i] >= 0 && among[rivals[i]] && (is_new(d, rivals[i]) || !is_safe(d, rivals[0])))
            return rivals[i];
    return DECISION_DONE;
}

void decision_tell(struct decision *d, enum decision_purpose purpose, int arm, int64_t ns)
{
    if (purpose == DECISION_SEARCH) {
        search_tell(d->setup.search, arm, ns);
        return;
    }
    d->safety_samples += purpose == DECISION_SAFETY;
    search_add(d->setup.search, arm, ns);
}

void decision_recall(struct decision *d, enum decision_purpose purpose, int arm, int64_t ns)
{
    if (purpose == DECISION_SEARCH)
        search_next(d->setup.search); /* what it answers was done then */
    decision_tell(d, purpose, arm, ns);
}

void decision_drop(struct decision *d, int arm)
{
    search_drop(d->setup.search, arm, true);
}

void decision_shun(struct decision *d, int arm)
{
    search_drop(d->setup.search, arm, false);
}

/* ---- what came of it */

static const double two_sided = 1.96;

static void add_gain(const struct decision *d, struct decision_result *r)
{
    int default_arm = default_arm_of(d);
    struct normal over;

    r->default_ns = NAN;
    r->gain = (struct gain)GAIN_UNKNOWN;
    if (default_arm < 0)
        return;
    over = search_compare(d->setup.search, r->arm, default_arm);
    r->default_ns = exp(search_level(d->setup.search, default_arm).mean);
    r->gain = (struct gain){ 1 - exp(over.mean), 1 - exp(over.mean + two_sided * over.sd),
                             1 - exp(over.mean - two_sided * over.sd) };
    r->samples += default_arm == r->arm ? 0 : d->setup.search->count[default_arm];
}

static enum decision_word word_of(const struct decision *d, const struct decision_result *r)
{
    int default_arm = default_arm_of(d);

    if (default_arm < 0)
        return DECISION_ALONE;
    if (r->arm == default_arm)
        return DECISION_DEFAULT;
    if (r->arm == d->setup.incumbent && r->arm != r->found.winner)
        return DECISION_INCUMBENT;
    return search_chance_slower(d->setup.search, r->arm, default_arm, 0) <= d->setup.harm
               ? DECISION_ADOPTED
               : DECISION_LIKELY;
}

static void describe(const struct decision *d, struct decision_result *r)
{
    const struct search *s = d->setup.search;
    struct normal level = search_level(d->setup.search, r->arm);

    r->ns = exp(level.mean);
    r->low_ns = exp(level.mean - two_sided * level.sd);
    r->high_ns = exp(level.mean + two_sided * level.sd);
    r->samples = s->count[r->arm];
    add_gain(d, r);
    r->bound = search_bound(d->setup.search, r->arm);
    r->harm = harm_of(d, r->arm);
}

bool decision_result(const struct decision *d, struct decision_result *out)
{
    struct decision_result r = { .found = search_result(d->setup.search) };

    if (r.found.winner < 0)
        return false;
    r.arm = published(d, &r.found);
    r.word = word_of(d, &r);
    describe(d, &r);
    *out = r;
    return true;
}

bool decision_stands(const struct decision *d, const struct decision_result *r)
{
    const uint32_t *count = d->setup.search->count;

    return r->word == DECISION_ADOPTED && count[r->arm] >= SAMPLES_LEAST &&
           count[default_arm_of(d)] >= SAMPLES_LEAST;
}

bool decision_result_of(const struct decision *d, int arm, struct decision_result *out)
{
    *out = (struct decision_result){ .found = search_result(d->setup.search),
                                     .arm = arm,
                                     .word = DECISION_STATIC };
    if (out->found.winner < 0)
        return false;
    describe(d, out);
    return true;
}
