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
    ROLE_ARM = 64 /* ROLE_ARM + n: arm n, ignore_cost its role is */
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
    if (place < 0)
        c->arms[place = c->arm_count++] = arm;
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
    if (role >= ROLE_ARM)
        return can_run(c, place_of(c, role - ROLE_ARM)) ? place_of(c, role - ROLE_ARM) : -1;
    if (can_run(c, c->role[role]))
        return c->role[role];
    return can_run(c, c->role[ROLE_DEFAULT]) ? c->role[ROLE_DEFAULT] : -1;
}

static int arms_running(const struct bucket_rounds *c)
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

static uint64_t draw(const struct rounds *r, uint64_t purpose, uint64_t round, int bucket)
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

    if (arms_running(&r->buckets[bucket]) < 2)
        return false;
    for (int b = first; b < first + (int)rounds && b < r->setup.bucket_count; b++)
        turn += draw(r, 1, cycle, b) < draw(r, 1, cycle, bucket);
    return turn == r->round % rounds;
}

static int next_arm(const struct rounds *r, int bucket)
{
    const struct bucket_rounds *c = &r->buckets[bucket];
    uint64_t key = draw(r, 2, r->round, bucket), first = 0;
    int next = -1;

    for (int i = 0; i < c->arm_count; i++) {
        uint64_t place = random_bits(key, (uint64_t)i);

        if (c->dropped[i] || c->finished[i] || !isnan(c->log_ns[i][cycle_of(r)]))
            continue;
        if (next < 0 || place < first) {
            next = i;
            first = place;
        }
    }
    return next;
}

/* The first bucket of the round, in its shuffled order, that lacks a sample; -1: none does.  A
 * bucket that has begun stays the first until it is complete. */
static int next_bucket(const struct rounds *r)
{
    uint64_t first = 0;
    int next = -1;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        uint64_t place = draw(r, 3, r->round, b);

        if ((next < 0 || place < first) && is_due(r, b) && next_arm(r, b) >= 0) {
            next = b;
            first = place;
        }
    }
    return next;
}

bool rounds_next(const struct rounds *r, int *bucket, int *arm)
{
    int b = r->done ? -1 : next_bucket(r);

    if (b < 0)
        return false;
    *bucket = b;
    *arm = r->buckets[b].arms[next_arm(r, b)];
    return true;
}

/* ---- pairs of samples */

/* The most cycles and launches without a rerun. */
enum { UNASKED_CYCLES = 64, UNASKED_LAUNCHES = 16 };

static uint32_t cycles_most(const struct rounds *r)
{
    uint32_t most = PAIRS_LONGER * r->setup.cycles_max;

    return most < UNASKED_CYCLES ? most : UNASKED_CYCLES;
}

/* Cycles per launch for undecided buckets.  They are few: more pairs in one launch cannot average
 * out the differences between launches. */
static uint32_t extended_cycles(const struct rounds *r)
{
    static const uint32_t usual = 3;
    const struct rounds_setup *s = &r->setup;
    uint32_t launches = UNASKED_LAUNCHES - 1 - (s->launches ? s->launches : 1);
    uint32_t least = (cycles_most(r) - s->cycles_max + launches - 1) / launches;

    return least > usual ? least : usual;
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
    uint32_t last = s->launches ? s->launches : 1;

    if (!s->launch_cycles)
        return 0;
    if (cycle < s->cycles_max)
        return 1 + (int)(cycle / s->launch_cycles);
    assert(last < UNASKED_LAUNCHES - 1);
    return (int)(last + 1 + (cycle - s->cycles_max) / extended_cycles(r));
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

/* The comparison of two roles, by bucket; a plain value. */
struct table_of_means {
    struct pairs pairs[ROUNDS_BUCKETS_MAX]; /* winsorized */
    struct mean of[ROUNDS_BUCKETS_MAX];     /* count 0: nothing is known, as it takes two pairs */
    double share[ROUNDS_BUCKETS_MAX];       /* of the weights; 0 if one of the two cannot run */
    bool any;                               /* something is known of some bucket */
};

static void compare_all(const struct rounds *r, int role_a, int role_b, struct table_of_means *out)
{
    struct scatter scatter;
    double sum = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        out->pairs[b] = pairs_of(r, b, role_a, role_b);
    scatter_of(out->pairs, (size_t)r->setup.bucket_count, &scatter);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        out->of[b] = (struct mean){ 0 };
        if (same_plan(&r->buckets[b], role_a, role_b)) /* equal without any sample */
            out->of[b] = (struct mean){ .count = 2, .half_count = { 1, 1 } };
        else if (out->pairs[b].count > 1)
            out->of[b] = pairs_mean(&out->pairs[b], &scatter);
        out->pairs[b] = pairs_winsorized(&out->pairs[b], &scatter);
        out->share[b] = out->of[b].count ? r->buckets[b].weight : 0;
        sum += out->share[b];
    }
    for (int b = 0; b < r->setup.bucket_count && sum > 0; b++)
        out->share[b] /= sum;
    out->any = sum > 0;
}

/* ---- over the buckets */

/* The variance of the mean over launches, from the weighted mean of all buckets in each launch.  A
 * launch may slow many buckets together, which variances by bucket do not show.  0: fewer than two
 * launches have every bucket. */
static double variance_of_launches(const struct table_of_means *t, int bucket_count, int *launches)
{
    double totals[LAUNCHES_MAX], mean = 0, squares = 0;
    int count = 0;

    for (int l = 0; l < LAUNCHES_MAX; l++) {
        double sum = 0;
        bool whole = true;

        for (int b = 0; b < bucket_count && whole; b++) {
            double of_launch = 0;
            uint32_t n = 0;

            if (!(t->share[b] > 0) || !t->pairs[b].count)
                continue;
            for (uint32_t i = 0; i < t->pairs[b].count; i++)
                if (t->pairs[b].launch[i] == l) {
                    of_launch += t->pairs[b].log_ratio[i];
                    n++;
                }
            whole = n > 0;
            sum += n ? t->share[b] * of_launch / n : 0;
        }
        if (whole)
            totals[count++] = sum;
    }
    *launches = count;
    if (count < 2)
        return 0;
    for (int l = 0; l < count; l++)
        mean += totals[l] / count;
    for (int l = 0; l < count; l++)
        squares += (totals[l] - mean) * (totals[l] - mean);
    return squares / (count - 1) / count;
}

/* The weighted mean over all buckets.  Two or three launches tell little of their own scatter, so a
 * prior counts like six: launches shift all buckets together by 1 %. */
static struct total total_of(const struct rounds *r, const struct table_of_means *t)
{
    static const double usual_shared = 0.01, usual_freedom = 6;
    struct total total = { 0 };
    int launches;
    double seen, usual, excess, differing = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        if (t->share[b] > 0) {
            total_add(&total, t->share[b], &t->of[b]);
            differing += t->pairs[b].count ? t->share[b] : 0;
        }
    seen = variance_of_launches(t, r->setup.bucket_count, &launches);
    if (launches < 2 || !(total.steps + total.launches > 0))
        return total;
    usual = usual_shared * differing;
    usual = total.steps + total.launches + usual * usual / launches;
    seen = ((launches - 1) * seen + usual_freedom * usual) / (launches - 1 + usual_freedom);
    excess = seen - total.steps - total.launches;
    if (excess > 0) {
        total.launches += excess;
        total.further += excess * launches;
        total.launch_freedom = launches - 1 + usual_freedom;
    }
    return total;
}

static double half_of(const struct rounds *r, const struct table_of_means *t, int half)
{
    double sum = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        sum += t->share[b] > 0 ? t->share[b] * t->of[b].half[half] : 0;
    return sum;
}

/* ---- against the best static plan */

struct statics {
    struct table_of_means means[ROUNDS_STATICS_MAX]; /* log of table / static */
};

/* The static plan that is fastest by one half of the cycles, or by all cycles (`half` -1). */
static int best_static(const struct rounds *r, const struct statics *s, int half)
{
    double most = -INFINITY;
    int best = -1;

    for (int i = 0; i < r->setup.static_count; i++) {
        double lead = !s->means[i].any ? -INFINITY
                      : half < 0       ? total_of(r, &s->means[i]).mean
                                       : half_of(r, &s->means[i], half);

        if (lead > most) {
            most = lead;
            best = i;
        }
    }
    return best;
}

/* The table against the best static plan: each half of the cycles is compared with the static plan
 * that the other half chose.  If both chose the same plan, its variance must count once only. */
static struct total judge_statics(const struct rounds *r, const struct statics *s)
{
    int even = best_static(r, s, 0), odd = best_static(r, s, 1);
    struct total total = total_of(r, &s->means[even]), other;

    if (even == odd)
        return total;
    other = total_of(r, &s->means[odd]);
    total.mean = (half_of(r, &s->means[even], 1) + half_of(r, &s->means[odd], 0)) / 2;
    total.steps = (total.steps + other.steps) / 2;
    total.launches = (total.launches + other.launches) / 2;
    total.further = (total.further + other.further) / 2;
    total.spent = (total.spent + other.spent) / 2;
    return total;
}

/* ---- what is stated */

/* Widens an interval that moetune prints by kappa (pairs.h).  Proofs are not widened: their chance
 * of error is much smaller. */
static struct pair_range stated(const struct rounds *r, struct pair_range range)
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

    return level == STATED ? stated(r, range) : range;
}

/* The table's log ratio to the default plan.  False: nothing is known of it. */
static bool over_default(const struct rounds *r, struct pair_range out[LEVELS])
{
    struct table_of_means means;
    struct total total;

    compare_all(r, ROLE_TABLE, ROLE_DEFAULT, &means);
    total = total_of(r, &means);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(r, &total, level);
    return means.any;
}

/* The table's log ratio to the best static plan (*best: its index).  The upper end of the interval
 * is that of the worst comparison: a table that beats the best static plan has to beat all of them.
 * False: there is no static plan. */
static bool over_static(const struct rounds *r, struct pair_range out[LEVELS], int *best)
{
    struct statics s;
    struct total total;

    for (int i = 0; i < r->setup.static_count; i++)
        compare_all(r, ROLE_TABLE, ROLE_STATIC + i, &s.means[i]);
    *best = best_static(r, &s, -1);
    if (*best < 0)
        return false;
    total = judge_statics(r, &s);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(r, &total, level);
    for (int i = 0; i < r->setup.static_count; i++) {
        total = total_of(r, &s.means[i]);
        for (int level = 0; level < LEVELS && s.means[i].any; level++)
            out[level].high = fmax(out[level].high, range_of(r, &total, level).high);
    }
    return true;
}

struct rounds_result rounds_result(const struct rounds *r)
{
    struct rounds_result v = { GAIN_UNKNOWN, GAIN_UNKNOWN, .rounds = r->round, .steps = r->steps };
    struct pair_range range[LEVELS];

    if (over_default(r, range)) {
        v.over_default = range_gain(range[STATED]);
        v.loses = range[STATED].mean > 0;
        v.may_lose = !(range[STATED].high <= 0);
    }
    if (over_static(r, range, &v.static_arm))
        v.over_static = range_gain(range[STATED]);
    v.static_arm = v.static_arm < 0 ? -1 : r->statics[v.static_arm];
    v.launches = 1 + launches_of(r, cycle_of(r));
    return v;
}

/* Whether further cycles would not change what is known: the sign is certain, or the interval is
 * narrow. */
static bool is_precise(const struct pair_range of[LEVELS])
{
    static const double narrow = 0.005;
    const struct pair_range *stated = &of[STATED];

    return of[STRICT].low > 0 || of[STRICT].high < 0 ||
           fmax(stated->high - stated->mean, stated->mean - stated->low) < narrow;
}

/* ---- one bucket */

/* The belief about a plan against the default in one bucket, from the other buckets.  A plan's gain
 * changes little from one capacity to the next: it is modelled as a random walk along log c.  The
 * other buckets tell the variance of its steps.  The prior, 3 % between neighbouring buckets,
 * counts like three steps, and the estimate is at least 1 %.  Fewer than two other buckets say
 * nothing. */
static struct normal belief_by_others(const struct rounds *r, int arm, int bucket)
{
    static const double least_apart = 0.01, usual_apart = 0.03, usual_count = 3;
    static const double octave_third = 0.231; /* of log c: buckets of `--effort normal` */
    struct side {
        double mean, variance, at;
    } sides[2];
    struct table_of_means t;
    double walk = 0, distance = 0, precision = 0, sum = 0;
    int n = 0, last = -1;

    compare_all(r, ROLE_ARM + arm, ROLE_DEFAULT, &t);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct mean *m = &t.of[b], *before = last < 0 ? NULL : &t.of[last];

        if (b == bucket || !t.pairs[b].count || m->count < PAIRS_LEAST) {
            t.of[b].count = 0;
            continue;
        }
        if (before) {
            distance += r->buckets[b].log_capacity - r->buckets[last].log_capacity;
            walk += (m->mean - before->mean) * (m->mean - before->mean) -
                    (m->steps + m->launches + before->steps + before->launches);
        }
        last = b;
        n++;
    }
    if (n < 2)
        return (struct normal){ 0, INFINITY };
    walk = fmax(least_apart * least_apart / octave_third,
                (walk + usual_count * usual_apart * usual_apart) /
                    (distance + usual_count * octave_third));
    /* A Kalman filter from the first bucket up to this one, and one from the last bucket down. */
    for (int side = 0; side < 2; side++) {
        struct side *s = &sides[side];
        int step = side ? -1 : 1;

        *s = (struct side){ 0, INFINITY, 0 };
        for (int b = side ? r->setup.bucket_count - 1 : 0; b != bucket; b += step) {
            const struct mean *m = &t.of[b];
            double at = r->buckets[b].log_capacity, variance = m->steps + m->launches, share;

            if (!m->count)
                continue;
            s->variance += walk * fabs(at - s->at);
            share = isinf(s->variance) ? 1 : s->variance / (s->variance + variance);
            s->mean += share * (m->mean - s->mean);
            s->variance = share * variance;
            s->at = at;
        }
        s->variance += walk * fabs(r->buckets[bucket].log_capacity - s->at);
        precision += 1 / s->variance;
        sum += s->mean / s->variance;
    }
    return (struct normal){ sum / precision, sqrt(1 / precision) };
}

/* What the pairs of one role's plan prove in a bucket; `t` compares that role with the default. The
 * belief from other buckets may prove that the plan is harmless.  If the search did not choose the
 * plan, the belief counts only if the plan's own pairs make it likely to be faster: one of several
 * plans always looks good by chance.  *by: the mean that was judged; may be NULL. */
static struct rounds_finding prove_bucket(const struct rounds *r, const struct table_of_means *t,
                                          int role, int bucket, double chance, struct mean *by)
{
    static const double likely_slower = 0.1;
    const struct bucket_rounds *c = &r->buckets[bucket];
    const struct mean *own = &t->of[bucket];
    int place = c->role[role];
    bool is_first = role == ROLE_TABLE && c->search_place == place;
    double belief = is_first ? c->belief.mean : 0;
    double variance = is_first ? c->belief.sd * c->belief.sd : INFINITY;
    struct rounds_finding finding = { PROOF_NONE, GAIN_UNKNOWN };

    chance /= c->extended || r->setup.reruns ? EXTENDED_FACTOR << r->setup.reruns : 1;
    if (by)
        *by = mean_with_belief(own, belief, variance);
    if (!can_run(c, place) || same_plan(c, role, ROLE_DEFAULT) || own->count < PAIRS_LEAST)
        return finding;
    finding.gain = range_gain(stated(r, mean_range(own, STATED)));
    finding.proof = mean_proof(own, belief, variance, chance);
    if (!finding.proof && own->mean < -pairs_least &&
        (place == place_of(c, c->chosen) || mean_chance_above(own, 0) <= likely_slower)) {
        struct normal others = belief_by_others(r, c->arms[place], bucket);
        struct mean both = mean_with_belief(own, others.mean, others.sd * others.sd);

        if (mean_proof(&both, belief, variance, chance))
            finding.proof = PROOF_HARMLESS;
        if (by)
            *by = mean_with_belief(&both, belief, variance);
    }
    return finding;
}

/* ---- undecided buckets */

/* The mean log ratio of a role's plans over all buckets, and how far buckets differ from it.  It
 * proves nothing; it says what further pairs may show. */
static struct normal typical_gain(const struct table_of_means *t, int bucket_count)
{
    double mean = 0, variance = 0, differ = 0;
    int n = 0;

    for (int b = 0; b < bucket_count; b++)
        if (t->pairs[b].count && t->of[b].count) {
            mean += t->of[b].mean;
            variance += t->of[b].steps + t->of[b].launches;
            n++;
        }
    if (n < 2)
        return (struct normal){ 0, INFINITY };
    mean /= n;
    for (int b = 0; b < bucket_count; b++)
        if (t->pairs[b].count && t->of[b].count)
            differ += (t->of[b].mean - mean) * (t->of[b].mean - mean);
    differ = fmax(0, differ / (n - 1) - variance / n);
    return (struct normal){ mean, sqrt(differ + (differ + variance / n) / n) };
}

/* What further pairs of a bucket's plan may show. */
struct bucket_prospect {
    int place; /* DECIDED: a plan is proven; HOPELESS: no plan is worth further pairs */
    struct prospect of;
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
 * cycles are the most.  `ignore_cost`: the plan with the greatest expected loss, ignore_cost its
 * pairs cost. */
static void find_prospects(const struct rounds *r, uint32_t limit, bool ignore_cost,
                           struct bucket_prospect best[ROUNDS_BUCKETS_MAX])
{
    int end = ROLE_STATIC + r->setup.static_count;
    double worth[ROUNDS_BUCKETS_MAX] = { 0 };
    double of_launch = r->setup.reruns || ignore_cost ? rounds_launch_cycles(r) : 0;
    struct table_of_means t;

    for (int b = 0; b < r->setup.bucket_count; b++)
        best[b] = (struct bucket_prospect){ .place = HOPELESS };
    for (int role = ROLE_TABLE; role <= ROLE_NEIGHBOUR; role++) {
        double chance =
            (role == ROLE_TABLE ? .01 : .01 / (1 + r->setup.static_count)) / PAIRS_LOOKS;
        struct normal usual;

        if (role == ROLE_DEFAULT || (role >= end && role < ROLE_NEIGHBOUR))
            continue;
        compare_all(r, role, ROLE_DEFAULT, &t);
        usual = typical_gain(&t, r->setup.bucket_count);
        for (int b = 0; b < r->setup.bucket_count; b++) {
            const struct bucket_rounds *c = &r->buckets[b];
            int place = c->role[role];
            struct bucket_prospect p = { .place = place };
            struct mean by;
            double gain;

            if (!can_run(c, place) || same_plan(c, role, ROLE_DEFAULT) ||
                !can_run(c, c->role[ROLE_DEFAULT]) || c->confirmed || best[b].place == DECIDED)
                continue;
            if (prove_bucket(r, &t, role, b, chance, &by).proof) {
                best[b].place = DECIDED;
                continue;
            }
            p.of = mean_prospect(&by, usual, of_launch, PAIRS_RESERVE * (double)limit - by.count);
            gain = ignore_cost ? p.of.lost : c->finished[place] ? -1 : worth_of(r, &p.of);
            if (gain > worth[b]) {
                worth[b] = gain;
                best[b] = p;
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
static void assign(struct rounds *r, int bucket, int place, enum verdict_as as,
                   const struct rounds_finding *finding, struct rounds_verdict *verdict)
{
    struct bucket_rounds *c = &r->buckets[bucket];

    c->role[ROLE_TABLE] = place;
    *verdict = (struct rounds_verdict){ c->arms[place], as,
                                        place == c->role[ROLE_DEFAULT]
                                            ? (struct rounds_finding){ PROOF_NONE, GAIN_UNKNOWN }
                                            : *finding };
}

/* A confirmed plan stays confirmed if it still runs and is not shown to be slower.  `harm` is the
 * chance that noise alone shows this in any confirmed bucket. */
static void update_confirmed(struct rounds *r, const struct table_of_means *over_default,
                             double harm)
{
    int count = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        count += r->buckets[b].confirmed;
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        const struct mean *own = &over_default->of[b];

        c->confirmed =
            c->confirmed && can_run(c, c->role[ROLE_TABLE]) &&
            !(own->count >= PAIRS_LEAST && mean_chance_above(own, 0) >= 1 - harm / count);
    }
}

/* Rule 1 of rounds_decide().  Several plans of a bucket may be proven by chance, so each gets a
 * part of the allowed chance of error. */
static void replace_unproven(struct rounds *r, double harm, struct rounds_verdict *verdicts)
{
    struct rounds_finding findings[ROLE_NEIGHBOUR + 1][ROUNDS_BUCKETS_MAX] = { 0 };

    for (int role = ROLE_TABLE; role <= ROLE_NEIGHBOUR; role++) {
        double chance = role == ROLE_TABLE ? harm : harm / (1 + r->setup.static_count);
        struct table_of_means t;

        if (role == ROLE_DEFAULT ||
            (role >= ROLE_STATIC + r->setup.static_count && role < ROLE_NEIGHBOUR))
            continue;
        compare_all(r, role, ROLE_DEFAULT, &t);
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
        assign(r, b, c->role[best == ROLE_TABLE ? ROLE_DEFAULT : best], VERDICT_BY_ITSELF,
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
    struct rounds_result v = rounds_result(r);
    bool is_default = v.static_arm == r->setup.default_arm;
    int role = ROLE_STATIC, end = ROLE_STATIC + r->setup.static_count;
    struct table_of_means over_default, over_table;
    struct rounds_finding findings[ROUNDS_BUCKETS_MAX];

    while (role < end && r->statics[role - ROLE_STATIC] != v.static_arm)
        role++;
    if (role == end)
        return;
    compare_all(r, role, ROLE_DEFAULT, &over_default);
    compare_all(r, role, ROLE_TABLE, &over_table);
    for (int b = 0; b < r->setup.bucket_count; b++)
        findings[b] = prove_bucket(r, &over_default, role, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct bucket_rounds *c = &r->buckets[b];
        const struct mean *here = &over_table.of[b];
        double sd = sqrt(here->steps + here->launches);

        if (c->confirmed || !can_run(c, c->role[role]) || c->role[role] == c->role[ROLE_TABLE] ||
            over_default.of[b].mean > 0 || !(is_default || findings[b].proof) || !here->count ||
            !isfinite(here->mean) || !isfinite(sd))
            continue;
        if (v.over_static.high < 0 ? !is_clear(-here->mean, sd) : is_clear(here->mean, sd))
            assign(r, b, c->role[role], is_default ? VERDICT_BY_ITSELF : VERDICT_STATIC,
                   &findings[b], &verdicts[b]);
    }
}

/* Whether the plan of both neighbours may have a bucket: it was slower than the table's plan by at
 * most `margin`, is not shown to be slower, and is proven.  The default needs no proof, but it does
 * not replace a plan that is proven faster. */
static bool allows_neighbour(const struct rounds *r, int b, double margin, double harm,
                             const struct rounds_finding *now, struct rounds_finding *finding)
{
    static const double shown =
        0.975; /* it is shown to be slower at this chance: one end of 95 % */
    const struct bucket_rounds *c = &r->buckets[b];
    struct table_of_means t;
    struct mean here;

    *finding = (struct rounds_finding){ PROOF_NONE, GAIN_UNKNOWN };
    if (!can_run(c, c->role[ROLE_NEIGHBOUR]))
        return false;
    compare_all(r, ROLE_NEIGHBOUR, ROLE_TABLE, &t);
    here = t.of[b];
    if (here.count < PAIRS_LEAST || !(here.mean <= log1p(margin)) ||
        !(mean_chance_above(&here, 0) < shown))
        return false;
    if (c->role[ROLE_NEIGHBOUR] == c->role[ROLE_DEFAULT])
        return now->proof != PROOF_FASTER;
    compare_all(r, ROLE_NEIGHBOUR, ROLE_DEFAULT, &t);
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
        int own = arm_of_table(&r->buckets[first]), side = arm_of_table(&r->buckets[first - 1]);
        struct rounds_finding findings[SHARED_MOST];
        bool all = own != side;

        for (next = first; next < count && arm_of_table(&r->buckets[next]) == own; next++)
            all = all && next - first < SHARED_MOST && !r->buckets[next].confirmed &&
                  r->buckets[next].role[ROLE_NEIGHBOUR] >= 0 &&
                  r->buckets[next].arms[r->buckets[next].role[ROLE_NEIGHBOUR]] == side &&
                  allows_neighbour(r, next, margin, harm, &verdicts[next].finding,
                                   &findings[next - first]);
        if (!all || next == count || arm_of_table(&r->buckets[next]) != side)
            continue;
        for (int b = first; b < next; b++)
            assign(r, b, r->buckets[b].role[ROLE_NEIGHBOUR], VERDICT_SHARED, &findings[b - first],
                   &verdicts[b]);
    }
}

/* Gives the default to all buckets whose plan has a weaker proof than `least` and is not
 * confirmed. */
static void fall_back(struct rounds *r, enum proof least, double harm,
                      struct rounds_verdict *verdicts)
{
    struct table_of_means t;
    struct rounds_finding findings[ROUNDS_BUCKETS_MAX];

    compare_all(r, ROLE_TABLE, ROLE_DEFAULT, &t);
    for (int b = 0; b < r->setup.bucket_count; b++)
        findings[b] = prove_bucket(r, &t, ROLE_TABLE, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct bucket_rounds *c = &r->buckets[b];

        if (!c->confirmed && can_run(c, c->role[ROLE_DEFAULT]) && findings[b].proof < least &&
            !same_plan(c, ROLE_TABLE, ROLE_DEFAULT))
            assign(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &findings[b], &verdicts[b]);
    }
}

bool rounds_decide(struct rounds *r, double margin, double harm,
                   struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX])
{
    struct rounds_result chosen = rounds_result(r), v;
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];

    find_prospects(r, ROUNDS_CYCLES_MAX, true, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b] = (struct rounds_verdict){ .arm = arm_of_table(&r->buckets[b]) };
    replace_unproven(r, harm, verdicts);
    take_static(r, harm, verdicts);
    take_neighbours(r, margin, harm, verdicts);
    if (rounds_result(r).may_lose)
        fall_back(r, PROOF_FASTER, harm, verdicts);
    v = rounds_result(r);
    if (v.loses)
        fall_back(r, PROOF_FASTER + 1, harm, verdicts);
    if (rounds_result(r).over_default.high < 0) { /* only confirmed plans are left, and they lose */
        for (int b = 0; b < r->setup.bucket_count; b++)
            r->buckets[b].confirmed = false;
        fall_back(r, PROOF_FASTER + 1, harm, verdicts);
    }
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b].doubt = verdicts[b].arm == r->setup.default_arm && best[b].place >= 0
                                ? prospect_doubt(&best[b].of, r->buckets[b].arms[best[b].place])
                                : (struct doubt){ .arm = -1 };
    return v.loses || chosen.over_default.high < 0;
}

/* Whether all buckets together prove the table against the default: see rounds_decide_whole(). */
static bool is_proven_whole(const struct rounds *r, struct table_of_means *t)
{
    double harm = r->setup.whole_harm / (r->extended ? EXTENDED_FACTOR : 1);
    struct total total;

    compare_all(r, ROLE_TABLE, ROLE_DEFAULT, t);
    total = total_of(r, t);
    return t->any && total.mean < 0 && total_chance_above(&total, log1p(pairs_harmless)) <= harm;
}

bool rounds_decide_whole(struct rounds *r, struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX])
{
    struct table_of_means t;
    bool is_left = is_proven_whole(r, &t), runs = true, default_runs = true;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        runs = runs && can_run(&r->buckets[b], r->buckets[b].role[ROLE_TABLE]);
        default_runs = default_runs && can_run(&r->buckets[b], r->buckets[b].role[ROLE_DEFAULT]);
    }
    is_left = runs && (is_left || !default_runs);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct bucket_rounds *c = &r->buckets[b];
        struct rounds_finding finding = { PROOF_NONE, GAIN_UNKNOWN };

        if (is_left && t.of[b].count > 1)
            finding.gain = range_gain(stated(r, mean_range(&t.of[b], STATED)));
        verdicts[b] = (struct rounds_verdict){ .arm = arm_of_table(c),
                                               .as = VERDICT_STATIC,
                                               .finding = finding };
        if (!is_left && can_run(c, c->role[ROLE_DEFAULT]))
            assign(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &finding, &verdicts[b]);
        verdicts[b].doubt.arm = -1;
    }
    return is_left;
}

/* ---- when the rounds end */

static uint32_t cycle_steps(const struct rounds *r)
{
    uint32_t steps = 0;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        int count = arms_running(&r->buckets[b]);

        steps += count < 2 ? 0 : (uint32_t)count;
    }
    return steps;
}

/* Whether all cycles so far were equal, so that a further one would be, too. */
static bool is_without_noise(const struct rounds *r)
{
    for (int role = ROLE_DEFAULT; role < ROLE_STATIC + r->setup.static_count; role++) {
        struct table_of_means means;
        struct total total;

        compare_all(r, ROLE_TABLE, role, &means);
        total = total_of(r, &means);
        if (means.any && total.steps + total.launches > 0)
            return false;
    }
    return true;
}

/* Whether nothing is proven in any bucket, and no proof is worth further pairs. */
static bool is_hopeless(const struct rounds *r)
{
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];
    bool all = true;

    find_prospects(r, r->cycles_limit, false, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        all = all && best[b].place == HOPELESS;
    return all;
}

/* Whether further pairs may prove the table as a whole: it is not proven, and seems to save more
 * than 0.5 %. */
static bool may_prove_whole(const struct rounds *r)
{
    static const double little = 0.005;
    struct table_of_means t;

    return !is_proven_whole(r, &t) && t.any && total_of(r, &t).mean < log1p(-little);
}

/* Has undecided buckets continue with one plan and the default each; all other arms are finished.
 * False: no bucket continues. */
static bool extend(struct rounds *r, uint32_t cycles)
{
    const struct rounds_setup *s = &r->setup;
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];
    bool any = false;

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
        any |= place >= 0;
        for (int i = 0; i < c->arm_count; i++)
            c->finished[i] |= place < 0 || (i != place && i != c->role[ROLE_DEFAULT]);
    }
    return any;
}

/* Whether no further cycle of all arms is needed.  If launches matter, it is judged after whole
 * launches only. */
static bool is_enough(const struct rounds *r, uint32_t cycles)
{
    const struct rounds_setup *s = &r->setup;
    uint32_t more = cycle_steps(r) * (s->launch_cycles ? s->launch_cycles : 1);
    struct pair_range range[LEVELS];
    int best;

    if (cycles >= s->cycles_max || !more)
        return true;
    if (s->launch_cycles && cycles % s->launch_cycles)
        return false;
    if (cycles < s->cycles_min)
        return cycles >= 2 &&
               (is_without_noise(r) || (s->worth > 0 && !(s->whole_harm > 0) && is_hopeless(r)));
    if (s->steps_max && r->steps + more > s->steps_max)
        return true;
    if (over_default(r, range) && !is_precise(range))
        return false;
    return !over_static(r, range, &best) || is_precise(range);
}

/* Moves to the first round that lacks a sample.  It judges after whole cycles only: before, some
 * buckets have more samples than others. */
static void advance(struct rounds *r)
{
    uint32_t rounds = cycle_rounds(r);

    while (!r->done && next_bucket(r) < 0) {
        r->done = !cycle_steps(r);
        r->round += !r->done;
        if (!r->done && r->round % rounds == 0 && (r->extended || is_enough(r, r->round / rounds)))
            r->done = !extend(r, r->round / rounds);
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
            int runs = !bucket->usable || bucket->usable[arm] ? arm : default_arm;

            ratings[arm] += bucket->weight * log(search_estimate(search, bucket->capacity, runs));
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
    int low = bucket - 1, high = bucket + 1;
    bool enclosed;

    /* Up to SHARED_MOST buckets of one plan between two buckets of another plan may get that. */
    while (low >= 0 && s->buckets[low].table == b->table)
        low--;
    while (high < s->bucket_count && s->buckets[high].table == b->table)
        high++;
    enclosed = low >= 0 && high < s->bucket_count && high - low - 1 <= SHARED_MOST &&
               s->buckets[low].table == s->buckets[high].table;
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
    add_contestant(c, b, ROLE_NEIGHBOUR, enclosed ? s->buckets[low].table : -1);
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
    r->cycles_limit = cycles_most(r);
    if (!s->reruns)
        advance(r);
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
    advance(r);
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
    r->done = !extend(r, cycle);
    advance(r);
}

void rounds_drop(struct rounds *r, int bucket, int arm)
{
    struct bucket_rounds *c = &r->buckets[bucket];
    int place = place_of(c, arm);

    if (place >= 0)
        c->dropped[place] = true;
    advance(r);
}
