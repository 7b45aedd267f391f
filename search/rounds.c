/* The rounds of `tune`: schedules samples of all buckets, and turns their pairs into proofs, gains
 * with intervals, and the plans of the final table. */
#include "rounds.h"

#include "random.h"
#include "search.h"
#include "stats.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    ROLE_TABLE,
    ROLE_DEFAULT,
    ROLE_STATIC,
    ROLE_NEIGHBOUR = ROLE_STATIC + ROUNDS_STATICS_MAX,
    ROLE_ARM = 64 /* ROLE_ARM + n: arm n, in any role */
};
enum { CYCLES_LEAST = 4, CYCLES_MOST = 30, BUCKETS_PER_ROUND = 12 };
/* In an extended bucket the chance of error is divided by this, and again for each rerun. */
enum { EXTENDED_FACTOR = 2 };
enum { RERUNS_MOST = 16 }; /* further reruns count as this many */
enum { SHARED_MOST = 3 };  /* buckets in a row that may get the plan of both neighbours */

/* ---- the arms that are compared in a bucket */

static int place_of(const struct bucket_rounds *c, int arm)
{
    for (int i = 0; i < c->arm_count; i++)
        if (c->arms[i] == arm)
            return i;
    return -1;
}

static void add_contestant(struct bucket_rounds *c, const struct rounds_bucket *b, int role,
                           int arm)
{
    int place = place_of(c, arm);

    c->role[role] = -1;
    if (arm < 0 || (b->usable && !b->usable[arm]))
        return;
    if (place < 0) {
        place = c->arm_count++;
        c->arms[place] = arm;
    }
    c->role[role] = place;
}

static bool can_run(const struct bucket_rounds *c, int place)
{
    return place >= 0 && !c->dropped[place];
}

/* The place of the arm that runs for a role: the default's if the role's own arm cannot run; -1:
 * neither can. */
static int place_in_role(const struct bucket_rounds *c, int role)
{
    if (role >= ROLE_ARM) {
        int place = place_of(c, role - ROLE_ARM);

        return can_run(c, place) ? place : -1;
    }
    if (can_run(c, c->role[role]))
        return c->role[role];
    return can_run(c, c->role[ROLE_DEFAULT]) ? c->role[ROLE_DEFAULT] : -1;
}

static int count_running_arms(const struct bucket_rounds *c)
{
    int count = 0;

    for (int i = 0; i < c->arm_count; i++)
        count += !c->dropped[i] && !c->finished[i];
    return count;
}

/* ---- the schedule */

/* The number of rounds in which every bucket has its turn once.  A round with all buckets would be
 * best, because it spreads a bucket's samples over the whole time; but with many buckets it takes
 * too long. */
static uint32_t cycle_rounds(const struct rounds *r)
{
    return (uint32_t)(r->setup.bucket_count + BUCKETS_PER_ROUND - 1) / BUCKETS_PER_ROUND;
}

/* Random numbers are drawn for three purposes. */
enum { DRAW_TURN = 1, DRAW_ARM, DRAW_BUCKET };

static uint64_t draw_number(const struct rounds *r, uint64_t purpose, uint64_t round, int bucket)
{
    return random_bits(r->setup.seed ^ purpose, round * ROUNDS_BUCKETS_MAX + (uint64_t)bucket);
}

static uint32_t cycle_of(const struct rounds *r)
{
    return r->round / cycle_rounds(r);
}

/* Whether a bucket has its turn in the present round.  Neighbouring buckets take turns in an order
 * that is drawn for each cycle, so that every round has buckets of all sizes. */
static bool is_due(const struct rounds *r, int bucket)
{
    uint32_t rounds = cycle_rounds(r), cycle = cycle_of(r), turn = 0;
    int first = bucket - bucket % (int)rounds;

    if (count_running_arms(&r->buckets[bucket]) < 2)
        return false;
    for (int b = first; b < first + (int)rounds && b < r->setup.bucket_count; b++)
        turn += draw_number(r, DRAW_TURN, cycle, b) < draw_number(r, DRAW_TURN, cycle, bucket);
    return turn == r->round % rounds;
}

/* The place of the first arm of a bucket, in the round's shuffled order, that lacks a sample; -1:
 * none does. */
static int next_place(const struct rounds *r, int bucket)
{
    const struct bucket_rounds *c = &r->buckets[bucket];
    uint64_t key = draw_number(r, DRAW_ARM, r->round, bucket), least_number = 0;
    int next = -1;

    for (int i = 0; i < c->arm_count; i++) {
        uint64_t number = random_bits(key, (uint64_t)i);

        if (c->dropped[i] || c->finished[i] || !isnan(c->log_ns[i][cycle_of(r)]))
            continue;
        if (next < 0 || number < least_number) {
            next = i;
            least_number = number;
        }
    }
    return next;
}

/* The first bucket of the round, in its shuffled order, that lacks a sample; -1: none does.  A
 * bucket that has begun stays the first until it is complete. */
static int next_bucket(const struct rounds *r)
{
    uint64_t least_number = 0;
    int next = -1;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        uint64_t number = draw_number(r, DRAW_BUCKET, r->round, b);

        if ((next < 0 || number < least_number) && is_due(r, b) && next_place(r, b) >= 0) {
            next = b;
            least_number = number;
        }
    }
    return next;
}

bool rounds_next(const struct rounds *r, int *bucket, int *arm)
{
    int next = r->done ? -1 : next_bucket(r);

    if (next < 0)
        return false;
    *bucket = next;
    *arm = r->buckets[next].arms[next_place(r, next)];
    return true;
}

/* ---- pairs of samples */

/* The most cycles and launches without a rerun. */
enum { UNASKED_CYCLES = 64, UNASKED_LAUNCHES = 16 };

static uint32_t most_cycles(const struct rounds *r)
{
    uint32_t cycles = PAIRS_LONGER * r->setup.cycles_max;

    return cycles < UNASKED_CYCLES ? cycles : UNASKED_CYCLES;
}

/* Cycles per launch for undecided buckets.  They are few: more pairs in one launch cannot average
 * out the differences between launches. */
static uint32_t extended_cycles(const struct rounds *r)
{
    static const uint32_t usual_cycles = 3;
    const struct rounds_setup *s = &r->setup;
    uint32_t launches_left = UNASKED_LAUNCHES - 1 - (s->launches ? s->launches : 1);
    uint32_t needed = (most_cycles(r) - s->cycles_max + launches_left - 1) / launches_left;

    return needed > usual_cycles ? needed : usual_cycles;
}

uint32_t rounds_launch_cycles(const struct rounds *r)
{
    return r->setup.launch_cycles ? extended_cycles(r) : 0;
}

uint32_t rounds_cycles_left(const struct rounds *r)
{
    uint32_t begun = cycle_of(r);

    return begun < ROUNDS_CYCLES_MAX ? ROUNDS_CYCLES_MAX - begun : 0;
}

/* The launch of a cycle; the search's launch is number 0. */
static int launch_of(const struct rounds *r, uint32_t cycle)
{
    const struct rounds_setup *s = &r->setup;
    uint32_t last_usual = s->launches ? s->launches : 1;

    if (!s->launch_cycles)
        return 0;
    if (cycle < s->cycles_max)
        return 1 + (int)(cycle / s->launch_cycles);
    assert(last_usual < UNASKED_LAUNCHES - 1);
    return (int)(last_usual + 1 + (cycle - s->cycles_max) / extended_cycles(r));
}

/* Complete launches of the rounds after so many cycles. */
static int launches_of(const struct rounds *r, uint32_t cycles)
{
    return r->setup.launch_cycles ? launch_of(r, cycles) - 1 : 0;
}

int rounds_launch(const struct rounds *r)
{
    return launch_of(r, cycle_of(r));
}

static bool same_plan(const struct bucket_rounds *c, int role_a, int role_b)
{
    return place_in_role(c, role_a) >= 0 && place_in_role(c, role_a) == place_in_role(c, role_b);
}

/* A bucket's pairs of two roles.  The pairs of the search's launch count as a launch of their own.
 */
static struct pairs pairs_of(const struct rounds *r, int bucket, int role_a, int role_b)
{
    const struct bucket_rounds *c = &r->buckets[bucket];
    int a = place_in_role(c, role_a), b = place_in_role(c, role_b);
    struct pairs pairs = { 0 };

    if (a < 0 || b < 0 || a == b)
        return pairs;
    if (role_b == ROLE_DEFAULT && a == c->search_place)
        pairs = c->first;
    for (uint32_t n = 0; n <= cycle_of(r) && n < ROUNDS_CYCLES_MAX; n++)
        pairs_add(&pairs, c->log_ns[a][n] - c->log_ns[b][n], launch_of(r, n)); /* NAN: none */
    return pairs;
}

/* Two roles compared, by bucket: log ratios of their times.  A plain value. */
struct comparison {
    struct pairs pairs[ROUNDS_BUCKETS_MAX]; /* winsorized */
    struct mean means[ROUNDS_BUCKETS_MAX];  /* count 0: nothing is known, as it takes two pairs */
    double share[ROUNDS_BUCKETS_MAX];       /* of the weights; 0 if one of the two cannot run */
    bool any_known;                         /* something is known of some bucket */
};

static void compare_roles(const struct rounds *r, int role_a, int role_b, struct comparison *out)
{
    struct scatter scatter;
    double weights = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        out->pairs[b] = pairs_of(r, b, role_a, role_b);
    scatter_of(out->pairs, (size_t)r->setup.bucket_count, &scatter);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        out->means[b] = (struct mean){ 0 };
        if (same_plan(&r->buckets[b], role_a, role_b)) /* equal without any sample */
            out->means[b] = (struct mean){ .count = 2, .half_count = { 1, 1 } };
        else if (out->pairs[b].count > 1)
            out->means[b] = pairs_mean(&out->pairs[b], &scatter);
        out->pairs[b] = pairs_winsorized(&out->pairs[b], &scatter);
        out->share[b] = out->means[b].count ? r->buckets[b].weight : 0;
        weights += out->share[b];
    }
    for (int b = 0; b < r->setup.bucket_count && weights > 0; b++)
        out->share[b] /= weights;
    out->any_known = weights > 0;
}

/* ---- over the buckets */

/* The weighted mean log ratio of a bucket's pairs in one launch; NAN: it has none there. */
static double mean_in_launch(const struct pairs *pairs, int launch, double weight)
{
    double sum = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < pairs->count; i++)
        if (pairs->launch[i] == launch) {
            sum += pairs->log_ratio[i];
            count++;
        }
    return count ? weight * sum / count : (double)NAN;
}

/* The variance of the mean over launches, from the weighted mean of all buckets in each launch.  A
 * launch may slow many buckets together, which variances by bucket do not show.  0: fewer than two
 * launches have every bucket. */
static double variance_of_launches(const struct comparison *t, int bucket_count, int *launches)
{
    double totals[LAUNCHES_MAX], mean = 0, squares = 0;
    int count = 0;

    for (int launch = 0; launch < LAUNCHES_MAX; launch++) {
        double total = 0; /* NAN: some bucket has no pairs in this launch */

        for (int b = 0; b < bucket_count; b++)
            if (t->share[b] > 0 && t->pairs[b].count)
                total += mean_in_launch(&t->pairs[b], launch, t->share[b]);
        if (!isnan(total))
            totals[count++] = total;
    }
    *launches = count;
    if (count < 2)
        return 0;
    for (int i = 0; i < count; i++)
        mean += totals[i] / count;
    for (int i = 0; i < count; i++)
        squares += (totals[i] - mean) * (totals[i] - mean);
    return squares / (count - 1) / count;
}

/* The weighted mean over all buckets.  Two or three launches tell little of their own scatter, so a
 * prior counts like six: launches shift all buckets together by 1 %. */
static struct total total_of(const struct rounds *r, const struct comparison *t)
{
    static const double usual_shift = 0.01, usual_freedom = 6;
    struct total total = { 0 };
    int launches;
    double variance, usual_variance, excess;
    double measured_share = 0; /* of the buckets where the two roles are different plans */

    for (int b = 0; b < r->setup.bucket_count; b++)
        if (t->share[b] > 0) {
            total_add(&total, t->share[b], &t->means[b]);
            measured_share += t->pairs[b].count ? t->share[b] : 0;
        }
    variance = variance_of_launches(t, r->setup.bucket_count, &launches);
    if (launches < 2 || !(total.steps + total.launches > 0))
        return total;
    usual_variance = total.steps + total.launches +
                     usual_shift * measured_share * (usual_shift * measured_share) / launches;
    variance = ((launches - 1) * variance + usual_freedom * usual_variance) /
               (launches - 1 + usual_freedom);
    excess = variance - total.steps - total.launches;
    if (excess > 0) {
        total.launches += excess;
        total.further += excess * launches;
        total.launch_freedom = launches - 1 + usual_freedom;
    }
    return total;
}

/* The weighted mean over all buckets in one half of the cycles: 0 the even ones, 1 the odd ones. */
static double half_mean(const struct rounds *r, const struct comparison *t, int half)
{
    double sum = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        sum += t->share[b] > 0 ? t->share[b] * t->means[b].half[half] : 0;
    return sum;
}

/* ---- against the best static plan */

struct statics {
    struct comparison means[ROUNDS_STATICS_MAX]; /* log of table / static */
};
enum { ALL_CYCLES = -1 }; /* instead of one half of them */

/* The static plan that is fastest by one half of the cycles, or by ALL_CYCLES. */
static int best_static(const struct rounds *r, const struct statics *s, int half)
{
    double best_lead = -INFINITY;
    int best = -1;

    for (int i = 0; i < r->setup.static_count; i++) {
        double lead;

        if (!s->means[i].any_known)
            continue;
        lead =
            half == ALL_CYCLES ? total_of(r, &s->means[i]).mean : half_mean(r, &s->means[i], half);

        if (lead > best_lead) {
            best_lead = lead;
            best = i;
        }
    }
    return best;
}

/* The table against the best static plan: each half of the cycles is compared with the static plan
 * that the other half chose.  If both chose the same plan, its variance must count once only. */
static struct total total_over_static(const struct rounds *r, const struct statics *s)
{
    int even = best_static(r, s, 0), odd = best_static(r, s, 1);
    struct total total = total_of(r, &s->means[even]), other;

    if (even == odd)
        return total;
    other = total_of(r, &s->means[odd]);
    total.mean = (half_mean(r, &s->means[even], 1) + half_mean(r, &s->means[odd], 0)) / 2;
    total.steps = (total.steps + other.steps) / 2;
    total.launches = (total.launches + other.launches) / 2;
    total.further = (total.further + other.further) / 2;
    total.spent = (total.spent + other.spent) / 2;
    return total;
}

/* ---- what is stated */

/* Widens an interval that moetune prints by kappa (pairs.h).  Proofs are not widened: their chance
 * of error is much smaller. */
static struct pair_range widen(const struct rounds *r, struct pair_range range)
{
    double kappa = r->setup.kappa;

    if (!(kappa > 1))
        return range;
    return (struct pair_range){ range.mean, range.mean - kappa * (range.mean - range.low),
                                range.mean + kappa * (range.high - range.mean) };
}

static struct pair_range range_of(const struct rounds *r, const struct total *total, int level)
{
    struct pair_range range = total_range(total, (enum certainty)level);

    return level == STATED ? widen(r, range) : range;
}

/* The table's log ratio to the default plan.  False: nothing is known of it. */
static bool over_default(const struct rounds *r, struct pair_range out[LEVELS])
{
    struct comparison means;
    struct total total;

    compare_roles(r, ROLE_TABLE, ROLE_DEFAULT, &means);
    total = total_of(r, &means);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(r, &total, level);
    return means.any_known;
}

/* The table's log ratio to the best static plan (*best: its index).  The upper end of the interval
 * is that of the worst comparison: a table that beats the best static plan has to beat all of them.
 * False: there is no static plan. */
static bool over_static(const struct rounds *r, struct pair_range out[LEVELS], int *best)
{
    struct statics s;
    struct total total;

    for (int i = 0; i < r->setup.static_count; i++)
        compare_roles(r, ROLE_TABLE, ROLE_STATIC + i, &s.means[i]);
    *best = best_static(r, &s, ALL_CYCLES);
    if (*best < 0)
        return false;
    total = total_over_static(r, &s);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(r, &total, level);
    for (int i = 0; i < r->setup.static_count; i++) {
        total = total_of(r, &s.means[i]);
        for (int level = 0; level < LEVELS && s.means[i].any_known; level++)
            out[level].high = fmax(out[level].high, range_of(r, &total, level).high);
    }
    return true;
}

struct rounds_result rounds_result(const struct rounds *r)
{
    struct rounds_result result = { .over_default = GAIN_UNKNOWN,
                                    .over_static = GAIN_UNKNOWN,
                                    .rounds = r->round,
                                    .steps = r->steps };
    int best; /* index of the best static plan */
    struct pair_range range[LEVELS];

    if (over_default(r, range)) {
        result.over_default = range_gain(range[STATED]);
        result.loses = range[STATED].mean > 0;
        result.may_lose = !(range[STATED].high <= 0);
    }
    if (over_static(r, range, &best))
        result.over_static = range_gain(range[STATED]);
    result.static_arm = best < 0 ? -1 : r->statics[best];
    result.launches = 1 + launches_of(r, cycle_of(r));
    return result;
}

/* Whether further cycles would not change what is known: the sign is certain, or the interval is
 * narrow. */
static bool is_precise(const struct pair_range range[LEVELS])
{
    static const double narrow = 0.005;
    const struct pair_range *stated = &range[STATED];

    return range[STRICT].low > 0 || range[STRICT].high < 0 ||
           fmax(stated->high - stated->mean, stated->mean - stated->low) < narrow;
}

/* ---- one bucket */

/* What the buckets on one side of a bucket say of its gain. */
struct side {
    double mean, variance;
};

/* A Kalman filter along log c, over the buckets from `first` up or down to `bucket`, which does not
 * count.  walk: the variance of the gain's steps.  The result is what they say of `bucket`. */
static struct side filter_towards(const struct rounds *r, const struct comparison *t, double walk,
                                  int first, int bucket)
{
    double mean = 0, variance = INFINITY, last_log_capacity = 0;
    int step = first < bucket ? 1 : -1;

    for (int b = first; b != bucket; b += step) {
        const struct mean *measured = &t->means[b];
        double log_capacity = r->buckets[b].log_capacity;
        double noise = measured->steps + measured->launches, share;

        if (!measured->count)
            continue;
        variance += walk * fabs(log_capacity - last_log_capacity);
        share = isinf(variance) ? 1 : variance / (variance + noise);
        mean += share * (measured->mean - mean);
        variance = share * noise;
        last_log_capacity = log_capacity;
    }
    variance += walk * fabs(r->buckets[bucket].log_capacity - last_log_capacity);
    return (struct side){ mean, variance };
}

/* The belief about a plan against the default in one bucket, from the other buckets.  A plan's gain
 * changes little from one capacity to the next: it is modelled as a random walk along log c.  The
 * other buckets tell the variance of its steps.  The prior, 3 % between neighbouring buckets,
 * counts like three steps, and the estimate is at least 1 %.  Fewer than two other buckets say
 * nothing. */
static struct normal belief_by_others(const struct rounds *r, int arm, int bucket)
{
    static const double least_apart = 0.01, usual_apart = 0.03, usual_count = 3;
    static const double octave_third = 0.231; /* of log c: buckets of `--effort normal` */
    struct comparison t;
    struct side below, above;
    double walk = 0, distance = 0, precision, sum;
    int count = 0, last = -1;

    compare_roles(r, ROLE_ARM + arm, ROLE_DEFAULT, &t);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct mean *mean = &t.means[b], *before = last < 0 ? NULL : &t.means[last];

        if (b == bucket || !t.pairs[b].count || mean->count < PAIRS_LEAST) {
            t.means[b].count = 0;
            continue;
        }
        if (before) {
            distance += r->buckets[b].log_capacity - r->buckets[last].log_capacity;
            walk += (mean->mean - before->mean) * (mean->mean - before->mean) -
                    (mean->steps + mean->launches + before->steps + before->launches);
        }
        last = b;
        count++;
    }
    if (count < 2)
        return (struct normal){ 0, INFINITY };
    walk = fmax(least_apart * least_apart / octave_third,
                (walk + usual_count * usual_apart * usual_apart) /
                    (distance + usual_count * octave_third));
    below = filter_towards(r, &t, walk, 0, bucket);
    above = filter_towards(r, &t, walk, r->setup.bucket_count - 1, bucket);
    precision = 1 / below.variance + 1 / above.variance;
    sum = below.mean / below.variance + above.mean / above.variance;
    return (struct normal){ sum / precision, sqrt(1 / precision) };
}

/* What the pairs of one role's plan prove in a bucket; `t` compares that role with the default. The
 * belief from other buckets may prove that the plan is harmless.  If the search did not choose the
 * plan, the belief counts only if the plan's own pairs make it likely to be faster: one of several
 * plans always looks good by chance.  *judged: the mean that was judged; may be NULL. */
static struct rounds_finding prove_bucket(const struct rounds *r, const struct comparison *t,
                                          int role, int bucket, double chance, struct mean *judged)
{
    static const double likely_slower = 0.1;
    const struct bucket_rounds *c = &r->buckets[bucket];
    const struct mean *measured = &t->means[bucket];
    int place = c->role[role];
    bool is_searched = role == ROLE_TABLE && c->search_place == place;
    double belief_mean = is_searched ? c->belief.mean : 0;
    double belief_variance = is_searched ? c->belief.sd * c->belief.sd : INFINITY;
    struct rounds_finding finding = { PROOF_NONE, GAIN_UNKNOWN };

    chance /= c->extended || r->setup.reruns ? EXTENDED_FACTOR << r->setup.reruns : 1;
    if (judged)
        *judged = mean_with_belief(measured, belief_mean, belief_variance);
    if (!can_run(c, place) || same_plan(c, role, ROLE_DEFAULT) || measured->count < PAIRS_LEAST)
        return finding;
    finding.gain = range_gain(widen(r, mean_range(measured, STATED)));
    finding.proof = mean_proof(measured, belief_mean, belief_variance, chance);
    if (!finding.proof && measured->mean < -pairs_least &&
        (place == place_of(c, c->chosen) || mean_chance_above(measured, 0) <= likely_slower)) {
        struct normal others = belief_by_others(r, c->arms[place], bucket);
        struct mean both = mean_with_belief(measured, others.mean, others.sd * others.sd);

        if (mean_proof(&both, belief_mean, belief_variance, chance))
            finding.proof = PROOF_HARMLESS;
        if (judged)
            *judged = mean_with_belief(&both, belief_mean, belief_variance);
    }
    return finding;
}

/* ---- undecided buckets */

/* The mean log ratio of a role's plans over all buckets, and how far buckets differ from it.  It
 * proves nothing; it says what further pairs may show. */
static struct normal typical_gain(const struct comparison *t, int bucket_count)
{
    double mean = 0, variance = 0, between_buckets = 0;
    int count = 0;

    for (int b = 0; b < bucket_count; b++)
        if (t->pairs[b].count && t->means[b].count) {
            mean += t->means[b].mean;
            variance += t->means[b].steps + t->means[b].launches;
            count++;
        }
    if (count < 2)
        return (struct normal){ 0, INFINITY };
    mean /= count;
    for (int b = 0; b < bucket_count; b++)
        if (t->pairs[b].count && t->means[b].count)
            between_buckets += (t->means[b].mean - mean) * (t->means[b].mean - mean);
    between_buckets = fmax(0, between_buckets / (count - 1) - variance / count);
    return (struct normal){ mean,
                            sqrt(between_buckets + (between_buckets + variance / count) / count) };
}

/* What further pairs of a bucket's plan may show. */
struct bucket_prospect {
    int place; /* DECIDED: a plan is proven; HOPELESS: no plan is worth further pairs */
    struct prospect prospect;
};
enum { DECIDED = -1, HOPELESS = -2 };

/* What further pairs are worth: the expected loss without them minus their cost.  In a rerun the
 * cost does not count, because the user asked for the pairs. */
static double worth_of(const struct rounds *r, const struct prospect *p)
{
    if (r->setup.reruns)
        return isfinite(p->pairs) ? p->lost - prospect_least : -1;
    return prospect_worth(p, r->setup.worth);
}

/* Finds in each bucket the plan whose further pairs with the default are worth most, if `limit`
 * cycles are the most.  `ignore_cost`: finds the plan with the greatest expected loss instead, even
 * if its pairs cost more. */
static void find_prospects(const struct rounds *r, uint32_t limit, bool ignore_cost,
                           struct bucket_prospect best[ROUNDS_BUCKETS_MAX])
{
    int statics_end = ROLE_STATIC + r->setup.static_count;
    double worth[ROUNDS_BUCKETS_MAX] = { 0 };
    double launch_cycles = r->setup.reruns || ignore_cost ? rounds_launch_cycles(r) : 0;
    struct comparison t;

    for (int b = 0; b < r->setup.bucket_count; b++)
        best[b] = (struct bucket_prospect){ .place = HOPELESS };
    for (int role = ROLE_TABLE; role <= ROLE_NEIGHBOUR; role++) {
        double chance =
            (role == ROLE_TABLE ? .01 : .01 / (1 + r->setup.static_count)) / PAIRS_LOOKS;
        struct normal usual;

        if (role == ROLE_DEFAULT || (role >= statics_end && role < ROLE_NEIGHBOUR))
            continue;
        compare_roles(r, role, ROLE_DEFAULT, &t);
        usual = typical_gain(&t, r->setup.bucket_count);
        for (int b = 0; b < r->setup.bucket_count; b++) {
            const struct bucket_rounds *c = &r->buckets[b];
            int place = c->role[role];
            struct bucket_prospect candidate = { .place = place };
            struct mean judged;
            double gain;

            if (!can_run(c, place) || same_plan(c, role, ROLE_DEFAULT) ||
                !can_run(c, c->role[ROLE_DEFAULT]) || c->confirmed || best[b].place == DECIDED)
                continue;
            if (prove_bucket(r, &t, role, b, chance, &judged).proof) {
                best[b].place = DECIDED;
                continue;
            }
            candidate.prospect = mean_prospect(&judged, usual, launch_cycles,
                                               PAIRS_RESERVE * (double)limit - judged.count);
            if (ignore_cost)
                gain = candidate.prospect.lost;
            else
                gain = c->finished[place] ? -1 : worth_of(r, &candidate.prospect);
            if (gain > worth[b]) {
                worth[b] = gain;
                best[b] = candidate;
            }
        }
    }
}

/* ---- the final table */

static int arm_of_table(const struct bucket_rounds *c)
{
    return c->role[ROLE_TABLE] < 0 ? c->chosen : c->arms[c->role[ROLE_TABLE]];
}

/* Gives a bucket the plan at a place, and fills in its verdict. */
static void set_verdict(struct rounds *r, int bucket, int place, enum verdict_as as,
                        const struct rounds_finding *finding, struct rounds_verdict *verdict)
{
    struct bucket_rounds *c = &r->buckets[bucket];

    c->role[ROLE_TABLE] = place;
    *verdict = (struct rounds_verdict){ .arm = c->arms[place], .as = as, .finding = *finding };
    if (place == c->role[ROLE_DEFAULT]) /* it needs no proof, and has no gain */
        verdict->finding = (struct rounds_finding){ PROOF_NONE, GAIN_UNKNOWN };
}

/* A confirmed plan stays confirmed if it still runs and is not shown to be slower.  `harm` is the
 * chance that noise alone shows this in any confirmed bucket. */
static void update_confirmed(struct rounds *r, const struct comparison *over_default, double harm)
{
    int count = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        count += r->buckets[b].confirmed;
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        const struct mean *measured = &over_default->means[b];

        c->confirmed =
            c->confirmed && can_run(c, c->role[ROLE_TABLE]) &&
            !(measured->count >= PAIRS_LEAST && mean_chance_above(measured, 0) >= 1 - harm / count);
    }
}

/* Rule 1 of rounds_decide().  Several plans of a bucket may be proven by chance, so each gets a
 * part of the allowed chance of error. */
static void replace_unproven(struct rounds *r, double harm, struct rounds_verdict *verdicts)
{
    struct rounds_finding findings[ROLE_NEIGHBOUR + 1][ROUNDS_BUCKETS_MAX] = { 0 };

    for (int role = ROLE_TABLE; role <= ROLE_NEIGHBOUR; role++) {
        double chance = role == ROLE_TABLE ? harm : harm / (1 + r->setup.static_count);
        struct comparison t;

        if (role == ROLE_DEFAULT ||
            (role >= ROLE_STATIC + r->setup.static_count && role < ROLE_NEIGHBOUR))
            continue;
        compare_roles(r, role, ROLE_DEFAULT, &t);
        for (int b = 0; b < r->setup.bucket_count; b++)
            findings[role][b] = prove_bucket(r, &t, role, b, chance, NULL);
        if (role == ROLE_TABLE)
            update_confirmed(r, &t, harm);
    }
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        int best = ROLE_TABLE;

        verdicts[b].finding = findings[ROLE_TABLE][b];
        verdicts[b].as = c->confirmed ? VERDICT_CONFIRMED : VERDICT_BY_ITSELF;
        if (c->confirmed || !can_run(c, c->role[ROLE_DEFAULT]) || findings[ROLE_TABLE][b].proof)
            continue;
        for (int role = ROLE_STATIC; role <= ROLE_NEIGHBOUR; role++)
            if (findings[role][b].proof &&
                (best == ROLE_TABLE || findings[role][b].gain.value > findings[best][b].gain.value))
                best = role;
        set_verdict(r, b, c->role[best == ROLE_TABLE ? ROLE_DEFAULT : best], VERDICT_BY_ITSELF,
                    &findings[best][b], &verdicts[b]);
    }
}

/* Whether a plan is certainly faster, and by at least 1 %. */
static bool is_clear(double log_ratio, double sd)
{
    return log_ratio < -2 * sd && log_ratio < log1p(-0.01);
}

/* Rule 2 of rounds_decide(). */
static void take_static(struct rounds *r, double harm, struct rounds_verdict *verdicts)
{
    struct rounds_result result = rounds_result(r);
    bool is_default = result.static_arm == r->setup.default_arm;
    bool table_loses = result.over_static.high < 0;
    int role = ROLE_STATIC, statics_end = ROLE_STATIC + r->setup.static_count;
    struct comparison over_default, over_table;
    struct rounds_finding findings[ROUNDS_BUCKETS_MAX];

    while (role < statics_end && r->statics[role - ROLE_STATIC] != result.static_arm)
        role++;
    if (role == statics_end)
        return;
    compare_roles(r, role, ROLE_DEFAULT, &over_default);
    compare_roles(r, role, ROLE_TABLE, &over_table);
    for (int b = 0; b < r->setup.bucket_count; b++)
        findings[b] = prove_bucket(r, &over_default, role, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct bucket_rounds *c = &r->buckets[b];
        const struct mean *to_table = &over_table.means[b];
        double sd = sqrt(to_table->steps + to_table->launches);

        if (c->confirmed || !can_run(c, c->role[role]) || c->role[role] == c->role[ROLE_TABLE] ||
            over_default.means[b].mean > 0 || !(is_default || findings[b].proof) ||
            !to_table->count || !isfinite(to_table->mean) || !isfinite(sd))
            continue;
        /* A table that is certainly slower keeps its own plans only where they are clearly
         * faster.  Any other table takes the static plan only where that is clearly faster. */
        if (table_loses ? !is_clear(-to_table->mean, sd) : is_clear(to_table->mean, sd))
            set_verdict(r, b, c->role[role], is_default ? VERDICT_BY_ITSELF : VERDICT_STATIC,
                        &findings[b], &verdicts[b]);
    }
}

/* Whether the plan of both neighbours may have a bucket: it was slower than the table's plan by at
 * most `margin`, is not shown to be slower, and is proven.  The default needs no proof, but it does
 * not replace a plan that is proven faster. */
static bool allows_neighbour(const struct rounds *r, int b, double margin, double harm,
                             const struct rounds_finding *present, struct rounds_finding *finding)
{
    static const double certain = 0.975; /* shown to be slower: one end of 95 % */
    const struct bucket_rounds *c = &r->buckets[b];
    struct comparison t;
    struct mean to_table;

    *finding = (struct rounds_finding){ PROOF_NONE, GAIN_UNKNOWN };
    if (!can_run(c, c->role[ROLE_NEIGHBOUR]))
        return false;
    compare_roles(r, ROLE_NEIGHBOUR, ROLE_TABLE, &t);
    to_table = t.means[b];
    if (to_table.count < PAIRS_LEAST || !(to_table.mean <= log1p(margin)) ||
        !(mean_chance_above(&to_table, 0) < certain))
        return false;
    if (c->role[ROLE_NEIGHBOUR] == c->role[ROLE_DEFAULT])
        return present->proof != PROOF_FASTER;
    compare_roles(r, ROLE_NEIGHBOUR, ROLE_DEFAULT, &t);
    *finding = prove_bucket(r, &t, ROLE_NEIGHBOUR, b, harm, NULL);
    return finding->proof != PROOF_NONE;
}

/* Rule 3 of rounds_decide().  It works from the first bucket to the last, because a bucket that got
 * its neighbours' plan is a neighbour itself. */
static void take_neighbours(struct rounds *r, double margin, double harm,
                            struct rounds_verdict *verdicts)
{
    int count = r->setup.bucket_count, next;

    for (int first = 1; first < count; first = next) {
        int run_arm = arm_of_table(&r->buckets[first]),
            neighbours_arm = arm_of_table(&r->buckets[first - 1]);
        struct rounds_finding findings[SHARED_MOST];
        bool all_allow = run_arm != neighbours_arm;

        for (next = first; next < count && arm_of_table(&r->buckets[next]) == run_arm; next++)
            all_allow =
                all_allow && next - first < SHARED_MOST && !r->buckets[next].confirmed &&
                r->buckets[next].role[ROLE_NEIGHBOUR] >= 0 &&
                r->buckets[next].arms[r->buckets[next].role[ROLE_NEIGHBOUR]] == neighbours_arm &&
                allows_neighbour(r, next, margin, harm, &verdicts[next].finding,
                                 &findings[next - first]);
        if (!all_allow || next == count || arm_of_table(&r->buckets[next]) != neighbours_arm)
            continue;
        for (int b = first; b < next; b++)
            set_verdict(r, b, r->buckets[b].role[ROLE_NEIGHBOUR], VERDICT_SHARED,
                        &findings[b - first], &verdicts[b]);
    }
}

/* Stronger than every proof: for fall_back(). */
static const enum proof no_proof_is_enough = (enum proof)(PROOF_FASTER + 1);

/* Gives the default to all buckets whose plan has a weaker proof than `weakest` and is not
 * confirmed. */
static void fall_back(struct rounds *r, enum proof weakest, double harm,
                      struct rounds_verdict *verdicts)
{
    struct comparison t;
    struct rounds_finding findings[ROUNDS_BUCKETS_MAX];

    compare_roles(r, ROLE_TABLE, ROLE_DEFAULT, &t);
    for (int b = 0; b < r->setup.bucket_count; b++)
        findings[b] = prove_bucket(r, &t, ROLE_TABLE, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct bucket_rounds *c = &r->buckets[b];

        if (!c->confirmed && can_run(c, c->role[ROLE_DEFAULT]) && findings[b].proof < weakest &&
            !same_plan(c, ROLE_TABLE, ROLE_DEFAULT))
            set_verdict(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &findings[b], &verdicts[b]);
    }
}

bool rounds_decide(struct rounds *r, double margin, double harm,
                   struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX])
{
    struct rounds_result before = rounds_result(r), result;
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];

    find_prospects(r, ROUNDS_CYCLES_MAX, true, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b] = (struct rounds_verdict){ .arm = arm_of_table(&r->buckets[b]) };
    replace_unproven(r, harm, verdicts);
    take_static(r, harm, verdicts);
    take_neighbours(r, margin, harm, verdicts);
    if (rounds_result(r).may_lose)
        fall_back(r, PROOF_FASTER, harm, verdicts);
    result = rounds_result(r);
    if (result.loses)
        fall_back(r, no_proof_is_enough, harm, verdicts);
    if (rounds_result(r).over_default.high < 0) { /* only confirmed plans are left, and they lose */
        for (int b = 0; b < r->setup.bucket_count; b++)
            r->buckets[b].confirmed = false;
        fall_back(r, no_proof_is_enough, harm, verdicts);
    }
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b].doubt =
            verdicts[b].arm == r->setup.default_arm && best[b].place >= 0
                ? prospect_doubt(&best[b].prospect, r->buckets[b].arms[best[b].place])
                : (struct doubt){ .arm = -1 };
    return result.loses || before.over_default.high < 0;
}

/* Whether all buckets together prove the table against the default: see rounds_decide_whole(). */
static bool is_proven_whole(const struct rounds *r, struct comparison *t)
{
    double harm = r->setup.whole_harm / (r->extended ? EXTENDED_FACTOR : 1);
    struct total total;

    compare_roles(r, ROLE_TABLE, ROLE_DEFAULT, t);
    total = total_of(r, t);
    return t->any_known && total.mean < 0 &&
           total_chance_above(&total, log1p(pairs_harmless)) <= harm;
}

bool rounds_decide_whole(struct rounds *r, struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX])
{
    struct comparison t;
    bool is_kept = is_proven_whole(r, &t), table_runs = true, default_runs = true;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        table_runs = table_runs && can_run(&r->buckets[b], r->buckets[b].role[ROLE_TABLE]);
        default_runs = default_runs && can_run(&r->buckets[b], r->buckets[b].role[ROLE_DEFAULT]);
    }
    is_kept = table_runs && (is_kept || !default_runs);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        struct rounds_finding finding = { PROOF_NONE, GAIN_UNKNOWN };

        if (is_kept && t.means[b].count > 1)
            finding.gain = range_gain(widen(r, mean_range(&t.means[b], STATED)));
        verdicts[b] = (struct rounds_verdict){ .arm = arm_of_table(c),
                                               .as = VERDICT_STATIC,
                                               .finding = finding };
        if (!is_kept && can_run(c, c->role[ROLE_DEFAULT]))
            set_verdict(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &finding, &verdicts[b]);
        verdicts[b].doubt.arm = -1;
    }
    return is_kept;
}

/* ---- when the rounds end */

static uint32_t cycle_steps(const struct rounds *r)
{
    uint32_t steps = 0;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        int count = count_running_arms(&r->buckets[b]);

        steps += count < 2 ? 0 : (uint32_t)count;
    }
    return steps;
}

/* Whether all cycles so far were equal, so that a further one would be, too. */
static bool is_without_noise(const struct rounds *r)
{
    for (int role = ROLE_DEFAULT; role < ROLE_STATIC + r->setup.static_count; role++) {
        struct comparison means;
        struct total total;

        compare_roles(r, ROLE_TABLE, role, &means);
        total = total_of(r, &means);
        if (means.any_known && total.steps + total.launches > 0)
            return false;
    }
    return true;
}

/* Whether nothing is proven in any bucket, and no proof is worth further pairs. */
static bool nothing_is_worthwhile(const struct rounds *r)
{
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];
    bool all_hopeless = true;

    find_prospects(r, r->cycles_limit, false, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        all_hopeless = all_hopeless && best[b].place == HOPELESS;
    return all_hopeless;
}

/* Whether further pairs may prove the table as a whole: it is not proven, and seems to save more
 * than 0.5 %. */
static bool may_prove_whole(const struct rounds *r)
{
    static const double little = 0.005;
    struct comparison t;

    return !is_proven_whole(r, &t) && t.any_known && total_of(r, &t).mean < log1p(-little);
}

/* Has undecided buckets continue with one plan and the default each; all other arms are finished.
 * False: no bucket continues. */
static bool continue_undecided(struct rounds *r, uint32_t cycles)
{
    const struct rounds_setup *s = &r->setup;
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];
    bool any_continues = false;

    if (!(s->worth > 0) || cycles >= r->cycles_limit)
        return false;
    if (r->extended && s->launch_cycles && launch_of(r, cycles) == launch_of(r, cycles - 1))
        return true;
    if (s->whole_harm > 0 && !may_prove_whole(r))
        return false;
    r->extended = true;
    find_prospects(r, r->cycles_limit, false, best);
    for (int b = 0; b < s->bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        int place = s->whole_harm > 0 ? c->role[ROLE_TABLE] : best[b].place;

        c->extended |= place >= 0;
        any_continues |= place >= 0;
        for (int i = 0; i < c->arm_count; i++)
            c->finished[i] |= place < 0 || (i != place && i != c->role[ROLE_DEFAULT]);
    }
    return any_continues;
}

/* Whether no further cycle of all arms is needed.  If launches matter, it is judged after whole
 * launches only. */
static bool has_enough_cycles(const struct rounds *r, uint32_t cycles)
{
    const struct rounds_setup *s = &r->setup;
    uint32_t further_steps = cycle_steps(r) * (s->launch_cycles ? s->launch_cycles : 1);
    struct pair_range range[LEVELS];
    int best;

    if (cycles >= s->cycles_max || !further_steps)
        return true;
    if (s->launch_cycles && cycles % s->launch_cycles)
        return false;
    if (cycles < s->cycles_min)
        return cycles >= 2 && (is_without_noise(r) ||
                               (s->worth > 0 && !(s->whole_harm > 0) && nothing_is_worthwhile(r)));
    if (s->steps_max && r->steps + further_steps > s->steps_max)
        return true;
    if (over_default(r, range) && !is_precise(range))
        return false;
    return !over_static(r, range, &best) || is_precise(range);
}

/* Moves to the first round that lacks a sample.  It judges after whole cycles only: before, some
 * buckets have more samples than others. */
static void move_to_next_round(struct rounds *r)
{
    uint32_t rounds = cycle_rounds(r);

    while (!r->done && next_bucket(r) < 0) {
        uint32_t cycles;

        r->done = !cycle_steps(r);
        if (r->done)
            break;
        r->round++;
        cycles = r->round / rounds;
        if (r->round % rounds == 0 && (r->extended || has_enough_cycles(r, cycles)))
            r->done = !continue_undecided(r, cycles);
    }
}

/* ---- static plans */

int rounds_statics(struct search *search, const struct rounds_bucket *buckets, int bucket_count,
                   int default_arm, int statics[ROUNDS_STATICS_MAX])
{
    static const double much_slower = 0.05;
    double ratings[SEARCH_ARMS_MAX] = { 0 }, shares[SEARCH_ARMS_MAX] = { 0 }; /* less is better */
    double weights = 0, limit = INFINITY;
    int arms = (int)search->setup.arm_count, count = 0;
    bool modelled = true, all_default = true;

    /* search_estimate() computes all arms of a capacity at once, so buckets are the outer loop. */
    for (int b = 0; b < bucket_count; b++) {
        const struct rounds_bucket *bucket = &buckets[b];

        for (int arm = 0; arm < arms; arm++) { /* where it cannot run the default does */
            int running_arm = !bucket->usable || bucket->usable[arm] ? arm : default_arm;

            ratings[arm] +=
                bucket->weight * log(search_estimate(search, bucket->capacity, running_arm));
        }
        all_default = all_default && bucket->table == default_arm;
        if (bucket->table >= 0)
            shares[bucket->table] -= bucket->weight;
        weights += bucket->weight;
    }
    for (int arm = 0; arm < arms; arm++)
        modelled = modelled && isfinite(ratings[arm]);
    if (!modelled)
        memcpy(ratings, shares, sizeof(ratings));
    while (count < ROUNDS_STATICS_MAX) {
        int best = -1;

        for (int arm = 0; arm < arms; arm++)
            if (isfinite(ratings[arm]) && (best < 0 || ratings[arm] < ratings[best]))
                best = arm;
        if (best < 0 || ratings[best] > limit)
            break;
        limit = fmin(limit, ratings[best] + much_slower * weights);
        statics[count++] = best;
        ratings[best] = NAN;
        /* If the default is in every bucket and expected to be best, no other one is needed. */
        if (count == 1 && best == default_arm && all_default)
            break;
    }
    return count;
}

/* ---- beginning and continuing */

static void open_bucket(struct bucket_rounds *c, const struct rounds_setup *s, int bucket)
{
    const struct rounds_bucket *b = &s->buckets[bucket];
    int below = bucket - 1, above = bucket + 1;
    bool enclosed;

    /* Up to SHARED_MOST buckets of one plan between two buckets of another plan may get that. */
    while (below >= 0 && s->buckets[below].table == b->table)
        below--;
    while (above < s->bucket_count && s->buckets[above].table == b->table)
        above++;
    enclosed = below >= 0 && above < s->bucket_count && above - below - 1 <= SHARED_MOST &&
               s->buckets[below].table == s->buckets[above].table;
    for (int i = 0; i < ROUNDS_ARMS_MAX; i++)
        for (int cycle = 0; cycle < ROUNDS_CYCLES_MAX; cycle++)
            c->log_ns[i][cycle] = NAN;
    c->weight = b->weight;
    c->log_capacity = log(fmax(1, (double)b->capacity));
    c->chosen = b->table;
    c->confirmed = b->confirmed;
    add_contestant(c, b, ROLE_TABLE, b->table);
    add_contestant(c, b, ROLE_DEFAULT, s->default_arm);
    for (int i = 0; i < s->static_count; i++)
        add_contestant(c, b, ROLE_STATIC + i, s->statics[i]);
    add_contestant(c, b, ROLE_NEIGHBOUR, enclosed ? s->buckets[below].table : -1);
    c->search_place = b->first ? c->role[ROLE_TABLE] : -1;
    if (b->first) {
        c->first = *b->first;
        c->belief = b->belief;
    }
}

void rounds_open(struct rounds *r, const struct rounds_setup *setup)
{
    struct rounds_setup *s = &r->setup;

    assert(setup->bucket_count >= 0 && setup->bucket_count <= ROUNDS_BUCKETS_MAX);
    assert(setup->static_count >= 0 && setup->static_count <= ROUNDS_STATICS_MAX);
    memset(r, 0, sizeof(*r));
    *s = *setup;
    if (s->launch_cycles) {
        s->cycles_min = s->launch_cycles * (s->launches < 2 ? 1 : 2);
        s->cycles_max = s->launch_cycles * (s->launches ? s->launches : 1);
    }
    s->cycles_min = s->cycles_min ? s->cycles_min : CYCLES_LEAST;
    s->cycles_max = s->cycles_max ? s->cycles_max : CYCLES_MOST;
    if (s->cycles_max > ROUNDS_CYCLES_MAX)
        s->cycles_max = ROUNDS_CYCLES_MAX;
    if (s->cycles_min > s->cycles_max)
        s->cycles_min = s->cycles_max;
    for (int b = 0; b < setup->bucket_count; b++)
        open_bucket(&r->buckets[b], setup, b);
    for (int i = 0; i < setup->static_count; i++)
        r->statics[i] = setup->statics[i];
    s->buckets = NULL;
    s->statics = NULL;
    s->reruns = s->reruns < RERUNS_MOST ? s->reruns : RERUNS_MOST;
    r->cycles_limit = most_cycles(r);
    if (!s->reruns)
        move_to_next_round(r);
}

static void note_step(struct rounds *r, int bucket, int arm, uint32_t cycle, int64_t ns)
{
    struct bucket_rounds *c = &r->buckets[bucket];
    int place = place_of(c, arm);

    if (place < 0 || cycle >= ROUNDS_CYCLES_MAX || !isnan(c->log_ns[place][cycle]))
        return;
    c->log_ns[place][cycle] = log((double)(ns > 0 ? ns : 1));
    r->steps++;
}

void rounds_tell(struct rounds *r, int bucket, int arm, int64_t ns)
{
    note_step(r, bucket, arm, cycle_of(r), ns);
    move_to_next_round(r);
}

void rounds_recall(struct rounds *r, int bucket, int arm, uint32_t round, int64_t ns)
{
    note_step(r, bucket, arm, round / cycle_rounds(r), ns);
    r->round = round > r->round ? round : r->round;
}

void rounds_continue(struct rounds *r)
{
    uint32_t cycle = cycle_of(r) + 1;

    while (r->setup.launch_cycles && launch_of(r, cycle) == launch_of(r, cycle - 1))
        cycle++;
    r->extended = true;
    r->round = cycle * cycle_rounds(r);
    r->cycles_limit = ROUNDS_CYCLES_MAX;
    r->done = !continue_undecided(r, cycle);
    move_to_next_round(r);
}

void rounds_drop(struct rounds *r, int bucket, int arm)
{
    struct bucket_rounds *c = &r->buckets[bucket];
    int place = place_of(c, arm);

    if (place >= 0)
        c->dropped[place] = true;
    move_to_next_round(r);
}
