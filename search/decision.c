/* Decides one bucket: runs the search until another sample is not worth its time, then proves the
 * search's candidate against the default in fresh pairs. */
#include "decision.h"

#include "distribution.h"

#include <math.h>

const char *const decision_words[] = { "adopted", "likely", "default", "incumbent",
                                       "alone",   "static", NULL };

static const double harm_limit = 0.01;
/* A candidate must beat the default by more; otherwise plans would alternate between buckets for
 * nothing. */
static const double no_better_share = 0.001;
/* Plans that differ by less are as good: of them the one nearest to the default is chosen. */
static const double as_good_share = 0.005;
/* SAMPLES_LEAST: of the default where it is published.  Its time is a claim, and a single sample
 * may be an outlier. */
enum { PATIENCE = 40, SAMPLES_LEAST = 2 };
enum { CANDIDATE, DEFAULT };

void decision_open(struct decision *d, const struct decision_setup *setup)
{
    struct decision_setup s = *setup;

    s.usable = NULL;
    s.harm = s.harm > 0 ? s.harm : harm_limit;
    s.patience = s.patience ? s.patience : PATIENCE;
    *d = (struct decision){ .setup = s, .winner = -1 };
    search_begin(s.search, s.capacity, setup->usable, s.alone);
}

/* The default plan's arm, if it can run here. */
static int default_arm_of(const struct decision *d)
{
    int default_arm = d->setup.default_arm;

    return default_arm >= 0 && d->setup.search->usable[default_arm] ? default_arm : -1;
}

/* ---- the choice */

/* Chooses by the belief alone.  The belief may be wrong, because the candidate still has to prove
 * itself. */
static int best_expected(const struct decision *d, int winner)
{
    struct search *s = d->setup.search;
    int incumbent = d->setup.incumbent, default_arm = default_arm_of(d), best = winner;

    for (int arm = 0; d->setup.distance && arm < (int)s->setup.arm_count; arm++)
        if (s->usable[arm] && s->count[arm] &&
            search_compare(s, arm, winner).mean < log1p(as_good_share) &&
            (d->setup.distance[arm] < d->setup.distance[best] ||
             (d->setup.distance[arm] == d->setup.distance[best] &&
              search_compare(s, arm, best).mean < 0)))
            best = arm;
    if (default_arm >= 0 && !(search_compare(s, best, default_arm).mean <= log1p(-no_better_share)))
        best = default_arm;
    if (incumbent < 0 || !s->usable[incumbent] ||
        search_compare(s, best, incumbent).mean < log1p(-d->setup.margin))
        return best;
    return incumbent;
}

/* The belief about log(arm / default).  It is never surer than the samples of both plans in this
 * bucket, however sure the model is. */
static struct normal belief_in_bucket(const struct decision *d, int arm)
{
    struct search *s = d->setup.search;
    int default_arm = default_arm_of(d);
    struct normal belief = search_compare(s, arm, default_arm);
    double repeats, noise = search_noise(s, &repeats), variance;

    variance = noise * (1 / (double)s->count[arm] + 1 / (double)s->count[default_arm]);
    if (!s->count[arm] || !s->count[default_arm] || repeats < 1)
        variance = INFINITY;
    return (struct normal){ belief.mean, fmax(belief.sd, sqrt(variance)) };
}

bool decision_is_safe(const struct decision *d, int arm)
{
    int default_arm = default_arm_of(d);
    struct normal over;

    if (default_arm < 0 || arm == default_arm)
        return true;
    over = belief_in_bucket(d, arm);
    return isfinite(over.sd) &&
           normal_tail((over.mean - log1p(pairs_harmless)) / fmax(over.sd, 1e-9)) <= d->setup.harm;
}

static void add_proof(struct decision *d, int arm)
{
    int default_arm = default_arm_of(d);

    if (arm < 0 || arm == default_arm || default_arm < 0 || !d->setup.search->usable[arm])
        return;
    for (int i = 0; i < d->proof_count; i++)
        if (d->proofs[i].arm == arm)
            return;
    d->proofs[d->proof_count++] =
        (struct paired_proof){ .arm = arm, .belief = belief_in_bucket(d, arm) };
}

/* Ends the search and sets up the proofs.  The plan in force comes second: it may be proven where
 * the new plan is not. */
static void choose_candidate(struct decision *d)
{
    d->chosen = true;
    d->winner = search_result(d->setup.search).winner;
    d->proof_count = 0;
    if (d->winner < 0)
        return;
    d->winner = best_expected(d, d->winner);
    add_proof(d, d->winner);
    add_proof(d, d->setup.incumbent);
}

/* ---- what pairs prove */

static uint32_t pair_count(const struct paired_proof *proof)
{
    return proof->taken[CANDIDATE] < proof->taken[DEFAULT] ? proof->taken[CANDIDATE]
                                                           : proof->taken[DEFAULT];
}

struct pairs proof_pairs(const struct paired_proof *proof)
{
    struct pairs pairs = { 0 };

    for (uint32_t i = 0; i < pair_count(proof); i++)
        pairs_add(&pairs, proof->log_ns[CANDIDATE][i] - proof->log_ns[DEFAULT][i], 0);
    return pairs;
}

/* A few pairs cannot tell their own noise, so the noise of the search's repeated samples counts,
 * too.  It counts like six pairs at most, because those samples were taken at other times. */
static struct mean mean_of(const struct decision *d, const struct paired_proof *proof)
{
    struct pairs pairs = proof_pairs(proof);
    struct scatter scatter;
    struct mean mean;
    double freedom, noise = search_noise(d->setup.search, &freedom);

    scatter_of(&pairs, 1, &scatter);
    scatter_know_within(&scatter, 2 * noise, fmin(6, freedom));
    mean = pairs_mean(&pairs, &scatter);
    if (d->setup.launched) /* a further launch differs as much as a further pair */
        mean.further = mean.steps * mean.count;
    return mean;
}

/* What further pairs may show, by the pairs so far and the belief when the candidate was chosen. */
static struct prospect prospect_of(const struct paired_proof *proof, const struct mean *mean,
                                   double most_pairs)
{
    struct mean with_belief =
        mean_with_belief(mean, proof->belief.mean, proof->belief.sd * proof->belief.sd);

    return mean_prospect(&with_belief, (struct normal){ 0, INFINITY }, 0, most_pairs);
}

/* Whether a candidate gets more pairs than the patience allows.  It does if no rounds follow and
 * the pairs are expected to save more than they cost. */
static bool may_continue(const struct decision *d, const struct paired_proof *proof,
                         const struct mean *mean)
{
    uint32_t most_pairs = PAIRS_LONGER * d->setup.patience / 2;
    struct prospect prospect;

    most_pairs = most_pairs < PROOF_PAIRS_MAX ? most_pairs : PROOF_PAIRS_MAX;
    if (!d->setup.launched || pair_count(proof) >= most_pairs)
        return false;
    prospect = prospect_of(proof, mean, PAIRS_RESERVE * most_pairs - pair_count(proof));
    return prospect_worth(&prospect, d->setup.search->setup.worth) > 0;
}

enum outcome { OPEN, FAILED, PROVEN };

static enum outcome outcome_of(const struct decision *d, const struct paired_proof *proof)
{
    uint32_t count = pair_count(proof);
    double chance = d->setup.launched ? d->setup.harm / PAIRS_LOOKS : d->setup.harm;
    struct mean mean, both;

    if (!d->setup.search->usable[proof->arm])
        return FAILED;
    if (default_arm_of(d) < 0)
        return PROVEN; /* there is no default to compare it with */
    if (count < PAIRS_LEAST)
        return count < d->setup.patience / 2 ? OPEN : FAILED;
    mean = mean_of(d, proof);
    both = mean_with_belief(&mean, proof->belief.mean, proof->belief.sd * proof->belief.sd);
    if (mean_proof(&mean, proof->belief.mean, proof->belief.sd * proof->belief.sd, chance))
        return d->setup.distance && proof->arm != d->setup.incumbent &&
                       both.mean > log1p(-as_good_share)
                   ? FAILED
                   : PROVEN;
    if (proof->taken[CANDIDATE] == PROOF_PAIRS_MAX ||
        mean_chance_above(&mean, 0) >= 1 - d->setup.harm ||
        (count >= d->setup.patience / 2 && !may_continue(d, proof, &mean)))
        return FAILED;
    return OPEN;
}

/* The first proof that has not failed, and its outcome; NULL: the default is published. */
static const struct paired_proof *open_proof(const struct decision *d, enum outcome *outcome)
{
    for (int i = 0; i < d->proof_count; i++) {
        *outcome = outcome_of(d, &d->proofs[i]);
        if (*outcome != FAILED)
            return &d->proofs[i];
    }
    return NULL;
}

/* ---- what to sample */

static bool lacks_samples(const struct search *s, int arm)
{
    uint32_t least = s->ops->least > SAMPLES_LEAST ? s->ops->least : SAMPLES_LEAST;

    return arm >= 0 && s->usable[arm] && s->count[arm] < least;
}

int decision_next(struct decision *d, enum decision_purpose *purpose)
{
    struct search *s = d->setup.search;
    const struct paired_proof *proof;
    enum outcome outcome = OPEN;
    int next = d->chosen && !d->setup.again ? SEARCH_DONE : search_next(s);

    *purpose = DECISION_SEARCH;
    if (next != SEARCH_DONE)
        return next;
    *purpose = DECISION_SAFETY;
    if (s->cut)
        return DECISION_DONE;
    if (!d->chosen)
        choose_candidate(d);
    d->setup.again = false;
    proof = open_proof(d, &outcome);
    if (!proof) {
        int published = default_arm_of(d) >= 0 ? default_arm_of(d) : d->winner;

        return lacks_samples(s, published) ? published : DECISION_DONE;
    }
    if (outcome == PROVEN)
        return DECISION_DONE;
    /* In the order A B, B A: if steps get slower one after the other, neither plan profits. */
    if (proof->taken[CANDIDATE] != proof->taken[DEFAULT])
        return proof->taken[CANDIDATE] < proof->taken[DEFAULT] ? proof->arm : default_arm_of(d);
    return proof->taken[CANDIDATE] % 2 ? default_arm_of(d) : proof->arm;
}

/* One plan of a proof may run ahead of the other, as far as both will be needed. */
int decision_next_among(struct decision *d, const bool *among, enum decision_purpose *purpose)
{
    const struct paired_proof *proof;
    enum outcome outcome = OPEN;
    int next = decision_next(d, purpose), default_arm = default_arm_of(d);
    uint32_t needed;

    if (next == DECISION_DONE)
        return next;
    if (*purpose == DECISION_SEARCH)
        return search_next_among(d->setup.search, among);
    proof = open_proof(d, &outcome);
    needed = proof && pair_count(proof) + 1 > PAIRS_LEAST ? pair_count(proof) + 1 : PAIRS_LEAST;
    if (proof && among[proof->arm] && proof->taken[CANDIDATE] < needed)
        return proof->arm;
    if (default_arm >= 0 && among[default_arm] &&
        (proof ? proof->taken[DEFAULT] < needed : lacks_samples(d->setup.search, default_arm)))
        return default_arm;
    return DECISION_DONE;
}

/* Adds a sample to the open proof.  A sample of the default belongs to its candidate, too. */
static void add_to_proof(struct decision *d, int arm, int64_t ns)
{
    enum outcome outcome = OPEN;
    const struct paired_proof *unfailed = open_proof(d, &outcome);
    int side = unfailed && arm == unfailed->arm ? CANDIDATE : DEFAULT;
    struct paired_proof *proof = unfailed ? &d->proofs[unfailed - d->proofs] : NULL;

    if (!proof || (side == DEFAULT && arm != default_arm_of(d)) ||
        proof->taken[side] == PROOF_PAIRS_MAX)
        return;
    proof->log_ns[side][proof->taken[side]++] = log((double)(ns > 0 ? ns : 1));
}

void decision_tell(struct decision *d, enum decision_purpose purpose, int arm, int64_t ns)
{
    if (purpose == DECISION_SEARCH) {
        /* The search continues, so the earlier candidate no longer counts, and its pairs are not
         * fresh any more. */
        d->chosen = false;
        d->proof_count = 0;
        search_tell(d->setup.search, arm, ns);
        return;
    }
    if (purpose == DECISION_SAFETY && !d->chosen)
        choose_candidate(d);
    if (purpose == DECISION_SAFETY)
        add_to_proof(d, arm, ns);
    search_tell_unasked(d->setup.search, arm, ns);
}

void decision_recall(struct decision *d, enum decision_purpose purpose, int arm, int64_t ns)
{
    if (purpose == DECISION_SEARCH)
        search_next(d->setup.search); /* the recorded run asked here, too; its answer is known */
    decision_tell(d, purpose, arm, ns);
}

/* If the candidate or the default is dropped, the choice is made again. */
static void drop_arm(struct decision *d, int arm, bool failed)
{
    search_drop(d->setup.search, arm, failed);
    if (arm == d->winner || arm == d->setup.default_arm) {
        d->chosen = false;
        d->proof_count = 0;
    }
}

void decision_drop(struct decision *d, int arm)
{
    drop_arm(d, arm, true);
}

void decision_drop_slow(struct decision *d, int arm)
{
    drop_arm(d, arm, false);
}

/* ---- the result */

/* The doubt that remains about a candidate without a proof. */
static struct doubt doubt_of(const struct decision *d)
{
    const struct paired_proof *proof = decision_proof(d);
    struct prospect p;
    struct mean mean;

    if (!proof || !d->setup.search->usable[proof->arm] || pair_count(proof) < 2)
        return (struct doubt){ .arm = -1 };
    mean = mean_of(d, proof);
    p = prospect_of(proof, &mean, PROOF_PAIRS_MAX);
    return prospect_doubt(&p, proof->arm);
}

/* Fills in the numbers of r->arm.  Times come from the belief, in which all samples count; the gain
 * comes from the pairs alone. */
static void fill_in_numbers(const struct decision *d, struct decision_result *r)
{
    static const double two_sided = 1.96;
    struct search *s = d->setup.search;
    const struct paired_proof *proof = NULL;
    struct normal level = search_level(s, r->arm);
    int default_arm = default_arm_of(d);

    r->ns = exp(level.mean);
    r->low_ns = exp(level.mean - two_sided * level.sd);
    r->high_ns = exp(level.mean + two_sided * level.sd);
    r->samples = s->count[r->arm];
    r->bound = search_bound(s, r->arm);
    r->default_ns = NAN;
    r->gain = (struct gain)GAIN_UNKNOWN;
    r->doubt = (struct doubt){ .arm = -1 };
    r->harm = 0;
    if (default_arm < 0)
        return;
    r->default_ns = exp(search_level(s, default_arm).mean);
    if (r->arm == default_arm) {
        r->gain = (struct gain){ 0, 0, 0 };
        r->doubt = doubt_of(d);
        return;
    }
    r->samples += s->count[default_arm];
    r->harm = 1;
    for (int i = 0; i < d->proof_count; i++)
        proof = d->proofs[i].arm == r->arm ? &d->proofs[i] : proof;
    if (proof && pair_count(proof) > 1) {
        struct mean mean = mean_of(d, proof);
        struct mean both =
            mean_with_belief(&mean, proof->belief.mean, proof->belief.sd * proof->belief.sd);
        struct pair_range range = mean_range(&mean, STATED);

        r->gain = range_gain(range);
        r->harm = fmin(mean_chance_above(&mean, log1p(pairs_harmless)),
                       mean_chance_above(&both, log1p(pairs_harmless)));
        r->ns = r->default_ns * exp(range.mean);
        r->low_ns = r->ns * exp(-two_sided * level.sd);
        r->high_ns = r->ns * exp(two_sided * level.sd);
    }
}

bool decision_result(const struct decision *d, struct decision_result *out)
{
    struct decision_result r = { .found = search_result(d->setup.search) };
    const struct paired_proof *proof;
    enum outcome outcome = OPEN;

    if (r.found.winner < 0)
        return false;
    proof = d->chosen ? open_proof(d, &outcome) : NULL;
    if (default_arm_of(d) < 0) {
        r.arm = best_expected(d, r.found.winner);
        r.word = DECISION_ALONE;
    } else if (!proof || outcome != PROVEN) {
        r.arm = default_arm_of(d);
        r.word = DECISION_DEFAULT;
    } else {
        struct mean mean = mean_of(d, proof);

        r.arm = proof->arm;
        r.word = DECISION_LIKELY;
        if (mean_proof(&mean, 0, INFINITY, d->setup.harm) == PROOF_FASTER)
            r.word = DECISION_ADOPTED;
        if (r.arm == d->setup.incumbent && r.arm != r.found.winner)
            r.word = DECISION_INCUMBENT;
    }
    fill_in_numbers(d, &r);
    *out = r;
    return true;
}

bool decision_result_of(const struct decision *d, int arm, struct decision_result *out)
{
    *out = (struct decision_result){ .found = search_result(d->setup.search),
                                     .arm = arm,
                                     .word = DECISION_STATIC };
    if (out->found.winner < 0)
        return false;
    fill_in_numbers(d, out);
    return true;
}

const struct paired_proof *decision_proof(const struct decision *d)
{
    return d->proof_count ? &d->proofs[0] : NULL;
}
