/* Says whose turn it is in a round, and turns pairs of samples, of which a few may be far off, into
 * gains with their intervals. */
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
    ROLE_ARM = 64 /* ROLE_ARM + n: arm n, in whatever role it meets others in a bucket */
};
enum { CYCLES_LEAST = 4, CYCLES_MOST = 30, BUCKETS_PER_ROUND = 12 };
/* So much surer has to be what is proven where pairs went on. */
enum { EXTENDED_FACTOR = 2 };
enum { RERUNS_MOST = 16 }; /* from there on a proof need not be surer */
enum { SHARED_MOST = 3 };  /* so many buckets in a row take the plan of both sides together */

/* ---- contestants */

static int place_of(const struct rounds_contest *c, int arm)
{
    for (int i = 0; i < c->arm_count; i++)
        if (c->arms[i] == arm)
            return i;
    return -1;
}

static void add_contestant(struct rounds_contest *c, const struct rounds_bucket *b, int role,
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

static bool present(const struct rounds_contest *c, int place)
{
    return place >= 0 && !c->dropped[place];
}

/* Where a plan cannot run its user falls back to the default; -1: nothing runs. */
static int stands_for(const struct rounds_contest *c, int role)
{
    if (role >= ROLE_ARM)
        return present(c, place_of(c, role - ROLE_ARM)) ? place_of(c, role - ROLE_ARM) : -1;
    if (present(c, c->role[role]))
        return c->role[role];
    return present(c, c->role[ROLE_DEFAULT]) ? c->role[ROLE_DEFAULT] : -1;
}

static int contestants(const struct rounds_contest *c)
{
    int count = 0;

    for (int i = 0; i < c->arm_count; i++)
        count += !c->dropped[i] && !c->finished[i];
    return count;
}

/* ---- the schedule */

/* Rounds that see every bucket once.  All buckets in each of them would be best, for it spreads a
 * bucket's samples over the whole time; with many buckets a round would take too long. */
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

/* Neighbours of similar capacity take turns in an order drawn for every cycle, so that each round
 * has buckets of all sizes. */
static bool is_due(const struct rounds *r, int bucket)
{
    uint32_t rounds = cycle_rounds(r), cycle = cycle_of(r), turn = 0;
    int first = bucket - bucket % (int)rounds;

    if (contestants(&r->contests[bucket]) < 2)
        return false;
    for (int b = first; b < first + (int)rounds && b < r->setup.bucket_count; b++)
        turn += draw(r, 1, cycle, b) < draw(r, 1, cycle, bucket);
    return turn == r->round % rounds;
}

static int next_arm(const struct rounds *r, int bucket)
{
    const struct rounds_contest *c = &r->contests[bucket];
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

/* A bucket that was begun is still the first of those that are not complete. */
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
    *arm = r->contests[b].arms[next_arm(r, b)];
    return true;
}

/* ---- pairs of samples */

/* Those, and the launches, that there are before somebody asks again: then there are all. */
enum { UNASKED_CYCLES = 64, UNASKED_LAUNCHES = 16 };

static uint32_t cycles_most(const struct rounds *r)
{
    uint32_t most = PAIRS_LONGER * r->setup.cycles_max;

    return most < UNASKED_CYCLES ? most : UNASKED_CYCLES;
}

/* Cycles in each of the launches in which undecided buckets go on: more pairs in one launch would
 * only show its luck more precisely. */
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

/* Launches are counted from 0, that of the search. */
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

/* Further ones that are complete after so many cycles. */
static int launches_of(const struct rounds *r, uint32_t cycles)
{
    return r->setup.launch_cycles ? launch_of(r, cycles) - 1 : 0;
}

int rounds_launch(const struct rounds *r)
{
    return launch_of(r, cycle_of(r));
}

static bool same_plan(const struct rounds_contest *c, int role_a, int role_b)
{
    return stands_for(c, role_a) >= 0 && stands_for(c, role_a) == stands_for(c, role_b);
}

/* What the search's launch said of a plan and the default counts as a launch of its own. */
static struct pairs pairs_of(const struct rounds *r, int bucket, int role_a, int role_b)
{
    const struct rounds_contest *c = &r->contests[bucket];
    int a = stands_for(c, role_a), b = stands_for(c, role_b);
    struct pairs pairs = { 0 };

    if (a < 0 || b < 0 || a == b)
        return pairs;
    if (role_b == ROLE_DEFAULT && a == c->first_place)
        pairs = c->first;
    for (uint32_t n = 0; n <= cycle_of(r) && n < ROUNDS_CYCLES_MAX; n++)
        pairs_add(&pairs, c->log_ns[a][n] - c->log_ns[b][n], launch_of(r, n)); /* NAN: none */
    return pairs;
}

/* What the comparison of two roles gives in every bucket. */
struct table_of_means {
    struct pairs pairs[ROUNDS_BUCKETS_MAX]; /* without outliers */
    struct mean of[ROUNDS_BUCKETS_MAX];     /* count 0: nothing is known, for it takes two pairs */
    double share[ROUNDS_BUCKETS_MAX];       /* of the weights; 0 where the two do not both run */
    bool any;
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
        if (same_plan(&r->contests[b], role_a, role_b)) /* no samples are needed to know it */
            out->of[b] = (struct mean){ .count = 2, .half_count = { 1, 1 } };
        else if (out->pairs[b].count > 1)
            out->of[b] = pairs_mean(&out->pairs[b], &scatter);
        out->pairs[b] = pairs_winsorized(&out->pairs[b], &scatter);
        out->share[b] = out->of[b].count ? r->contests[b].weight : 0;
        sum += out->share[b];
    }
    for (int b = 0; b < r->setup.bucket_count && sum > 0; b++)
        out->share[b] /= sum;
    out->any = sum > 0;
}

/* ---- over the buckets */

/* The variance of the mean over launches by what the launches as wholes took: what a launch makes
 * slower in one bucket it may make slower in many.  0: fewer than two launches met every bucket. */
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

/* Two or three launches say little of their own scatter: that buckets share luck of 1 % besides
 * what each has for itself counts like six of them. */
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

/* The static plan that is fastest by one half of the cycles, or by all of them (-1). */
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

/* Each half of the cycles is judged against the static plan that the other half chose; where they
 * chose one they share a variance, which must not count as two. */
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

/* As wide as verifications found that it has to be, see pairs.h.  What proves a plan stays as
 * it is: Student's, of a chance that is much smaller. */
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

/* False if nothing is known of the default plan. */
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

/* The table is only as good as its worst case: to beat the best static plan it has to beat all of
 * them, whichever of them the halves chose. */
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

static bool is_precise(const struct pair_range of[LEVELS])
{
    static const double narrow = 0.005;
    const struct pair_range *stated = &of[STATED];

    return of[STRICT].low > 0 || of[STRICT].high < 0 ||
           fmax(stated->high - stated->mean, stated->mean - stated->low) < narrow;
}

/* ---- one bucket */

/* What the buckets beside this one say of a plan against the default.  How much it saves changes
 * little from one capacity to the next: a random walk along log c, of whose steps these buckets
 * tell the variance, beside 3 % from bucket to bucket, which counts like three of them; below 1 %
 * it is never taken to be.  Of fewer than two others nothing is said. */
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
            distance += r->contests[b].log_capacity - r->contests[last].log_capacity;
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
    /* From the first bucket up to this one, and from the last one down to it. */
    for (int side = 0; side < 2; side++) {
        struct side *s = &sides[side];
        int step = side ? -1 : 1;

        *s = (struct side){ 0, INFINITY, 0 };
        for (int b = side ? r->setup.bucket_count - 1 : 0; b != bucket; b += step) {
            const struct mean *m = &t.of[b];
            double at = r->contests[b].log_capacity, variance = m->steps + m->launches, share;

            if (!m->count)
                continue;
            s->variance += walk * fabs(at - s->at);
            share = isinf(s->variance) ? 1 : s->variance / (s->variance + variance);
            s->mean += share * (m->mean - s->mean);
            s->variance = share * variance;
            s->at = at;
        }
        s->variance += walk * fabs(r->contests[bucket].log_capacity - s->at);
        precision += 1 / s->variance;
        sum += s->mean / s->variance;
    }
    return (struct normal){ sum / precision, sqrt(1 / precision) };
}

/* What its pairs prove of one role's plan in a bucket; `t`: of that role against the default. Where
 * the search did not choose it it is one of several, of which one is likely to have been lucky:
 * what other buckets say of it counts only where its own pairs alone make it likely to be faster.
 * by: the mean by which it was judged, or NULL. */
static struct rounds_proof prove_bucket(const struct rounds *r, const struct table_of_means *t,
                                        int role, int bucket, double chance, struct mean *by)
{
    static const double likely_slower = 0.1;
    const struct rounds_contest *c = &r->contests[bucket];
    const struct mean *own = &t->of[bucket];
    int place = c->role[role];
    bool is_first = role == ROLE_TABLE && c->first_place == place;
    double belief = is_first ? c->belief.mean : 0;
    double variance = is_first ? c->belief.sd * c->belief.sd : INFINITY;
    struct rounds_proof word = { PROOF_NONE, GAIN_UNKNOWN };

    chance /= c->extended || r->setup.reruns ? EXTENDED_FACTOR << r->setup.reruns : 1;
    if (by)
        *by = mean_with_belief(own, belief, variance);
    if (!present(c, place) || same_plan(c, role, ROLE_DEFAULT) || own->count < PAIRS_LEAST)
        return word;
    word.gain = range_gain(stated(r, mean_range(own, STATED)));
    word.proof = mean_proof(own, belief, variance, chance);
    if (!word.proof && own->mean < -pairs_least &&
        (place == place_of(c, c->chosen) || mean_chance_above(own, 0) <= likely_slower)) {
        struct normal others = belief_by_others(r, c->arms[place], bucket);
        struct mean both = mean_with_belief(own, others.mean, others.sd * others.sd);

        if (mean_proof(&both, belief, variance, chance))
            word.proof = PROOF_HARMLESS;
        if (by)
            *by = mean_with_belief(&both, belief, variance);
    }
    return word;
}

/* ---- buckets that are not decided */

/* What the buckets say together of how much a role's plans save: the mean, and how far they differ,
 * with what is not known of either.  It proves nothing; it says what pairs may yet show. */
static struct normal usual_of(const struct table_of_means *t, int bucket_count)
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

/* What more pairs of a bucket's plan may show. */
struct bucket_prospect {
    int place; /* DECIDED: a plan is proven there; HOPELESS: none is worth further pairs */
    struct prospect of;
};
enum { DECIDED = -1, HOPELESS = -2 };

/* What further pairs are worth: what is lost without, less what they cost.  Somebody who asks again
 * has said that it is worth the pairs. */
static double worth_of(const struct rounds *r, const struct prospect *p)
{
    if (r->setup.reruns)
        return isfinite(p->pairs) ? p->lost - prospect_least : -1;
    return prospect_worth(p, r->setup.worth);
}

/* Finds in each bucket the plan that is most worth further pairs with the default, where no more
 * than `limit` cycles are to be had.  `whatever`: the plan that most is lost without, whatever
 * pairs of it are worth. */
static void find_prospects(const struct rounds *r, uint32_t limit, bool whatever,
                           struct bucket_prospect best[ROUNDS_BUCKETS_MAX])
{
    int end = ROLE_STATIC + r->setup.static_count;
    double worth[ROUNDS_BUCKETS_MAX] = { 0 };
    double of_launch = r->setup.reruns || whatever ? rounds_launch_cycles(r) : 0;
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
        usual = usual_of(&t, r->setup.bucket_count);
        for (int b = 0; b < r->setup.bucket_count; b++) {
            const struct rounds_contest *c = &r->contests[b];
            int place = c->role[role];
            struct bucket_prospect p = { .place = place };
            struct mean by;
            double gain;

            if (!present(c, place) || same_plan(c, role, ROLE_DEFAULT) ||
                !present(c, c->role[ROLE_DEFAULT]) || c->confirmed || best[b].place == DECIDED)
                continue;
            if (prove_bucket(r, &t, role, b, chance, &by).proof) {
                best[b].place = DECIDED;
                continue;
            }
            p.of = mean_prospect(&by, usual, of_launch, PAIRS_RESERVE * (double)limit - by.count);
            gain = whatever ? p.of.lost : c->finished[place] ? -1 : worth_of(r, &p.of);
            if (gain > worth[b]) {
                worth[b] = gain;
                best[b] = p;
            }
        }
    }
}

/* ---- what is verdicts of the table */

static int arm_of_table(const struct rounds_contest *c)
{
    return c->role[ROLE_TABLE] < 0 ? c->chosen : c->arms[c->role[ROLE_TABLE]];
}

static void assign(struct rounds *r, int bucket, int place, enum verdict_as as,
                   const struct rounds_proof *word, struct rounds_verdict *verdicts)
{
    struct rounds_contest *c = &r->contests[bucket];

    c->role[ROLE_TABLE] = place;
    *verdicts = (struct rounds_verdict){ c->arms[place], as,
                                         place == c->role[ROLE_DEFAULT]
                                             ? (struct rounds_proof){ PROOF_NONE, GAIN_UNKNOWN }
                                             : *word };
}

/* A plan that was confirmed earlier stays where it still runs and nothing shows that it is slower:
 * in none of the confirmed buckets is that to be shown by chance. */
static void update_confirmed(struct rounds *r, const struct table_of_means *over_default,
                             double harm)
{
    int count = 0;

    for (int b = 0; b < r->setup.bucket_count; b++)
        count += r->contests[b].confirmed;
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct rounds_contest *c = &r->contests[b];
        const struct mean *own = &over_default->of[b];

        c->confirmed =
            c->confirmed && present(c, c->role[ROLE_TABLE]) &&
            !(own->count >= PAIRS_LEAST && mean_chance_above(own, 0) >= 1 - harm / count);
    }
}

/* Several plans have a chance to be proven by luck in a bucket, so each has less of it. */
static void replace_unproven(struct rounds *r, double harm, struct rounds_verdict *verdicts)
{
    struct rounds_proof words[ROLE_NEIGHBOUR + 1][ROUNDS_BUCKETS_MAX] = { 0 };

    for (int role = ROLE_TABLE; role <= ROLE_NEIGHBOUR; role++) {
        double chance = role == ROLE_TABLE ? harm : harm / (1 + r->setup.static_count);
        struct table_of_means t;

        if (role == ROLE_DEFAULT ||
            (role >= ROLE_STATIC + r->setup.static_count && role < ROLE_NEIGHBOUR))
            continue;
        compare_all(r, role, ROLE_DEFAULT, &t);
        for (int b = 0; b < r->setup.bucket_count; b++)
            words[role][b] = prove_bucket(r, &t, role, b, chance, NULL);
        if (role == ROLE_TABLE)
            update_confirmed(r, &t, harm);
    }
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct rounds_contest *c = &r->contests[b];
        int best = ROLE_TABLE;

        verdicts[b].word = words[ROLE_TABLE][b];
        verdicts[b].as = c->confirmed ? VERDICT_CONFIRMED : VERDICT_BY_ITSELF;
        if (c->confirmed || !present(c, c->role[ROLE_DEFAULT]) || words[ROLE_TABLE][b].proof)
            continue;
        for (int role = ROLE_STATIC; role <= ROLE_NEIGHBOUR; role++)
            if (words[role][b].proof &&
                (best == ROLE_TABLE || words[role][b].gain.value > words[best][b].gain.value))
                best = role;
        assign(r, b, c->role[best == ROLE_TABLE ? ROLE_DEFAULT : best], VERDICT_BY_ITSELF,
               &words[best][b], &verdicts[b]);
    }
}

/* Whether it is faster surely, and by so much that it is worth an entry of another kind. */
static bool is_clear(double log_ratio, double sd)
{
    return log_ratio < -2 * sd && log_ratio < log1p(-0.01);
}

static void take_static(struct rounds *r, double harm, struct rounds_verdict *verdicts)
{
    struct rounds_result v = rounds_result(r);
    bool is_default = v.static_arm == r->setup.default_arm;
    int role = ROLE_STATIC, end = ROLE_STATIC + r->setup.static_count;
    struct table_of_means over_default, over_table;
    struct rounds_proof words[ROUNDS_BUCKETS_MAX];

    while (role < end && r->statics[role - ROLE_STATIC] != v.static_arm)
        role++;
    if (role == end)
        return;
    compare_all(r, role, ROLE_DEFAULT, &over_default);
    compare_all(r, role, ROLE_TABLE, &over_table);
    for (int b = 0; b < r->setup.bucket_count; b++)
        words[b] = prove_bucket(r, &over_default, role, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct rounds_contest *c = &r->contests[b];
        const struct mean *here = &over_table.of[b];
        double sd = sqrt(here->steps + here->launches);

        if (c->confirmed || !present(c, c->role[role]) || c->role[role] == c->role[ROLE_TABLE] ||
            over_default.of[b].mean > 0 || !(is_default || words[b].proof) || !here->count ||
            !isfinite(here->mean) || !isfinite(sd))
            continue;
        if (v.over_static.high < 0 ? !is_clear(-here->mean, sd) : is_clear(here->mean, sd))
            assign(r, b, c->role[role], is_default ? VERDICT_BY_ITSELF : VERDICT_STATIC, &words[b],
                   &verdicts[b]);
    }
}

/* Whether the plan that is the neighbours' may take a bucket: it was slower than the table's by no
 * more than `margin`, is not shown to be slower at all, and is proven (the default needs no proof,
 * but does not replace what is faster for certain). */
static bool allows_neighbour(const struct rounds *r, int b, double margin, double harm,
                             const struct rounds_proof *now, struct rounds_proof *word)
{
    static const double shown = 0.975; /* the chance that it is slower: one end of 95 % */
    const struct rounds_contest *c = &r->contests[b];
    struct table_of_means t;
    struct mean here;

    *word = (struct rounds_proof){ PROOF_NONE, GAIN_UNKNOWN };
    if (!present(c, c->role[ROLE_NEIGHBOUR]))
        return false;
    compare_all(r, ROLE_NEIGHBOUR, ROLE_TABLE, &t);
    here = t.of[b];
    if (here.count < PAIRS_LEAST || !(here.mean <= log1p(margin)) ||
        !(mean_chance_above(&here, 0) < shown))
        return false;
    if (c->role[ROLE_NEIGHBOUR] == c->role[ROLE_DEFAULT])
        return now->proof != PROOF_FASTER;
    compare_all(r, ROLE_NEIGHBOUR, ROLE_DEFAULT, &t);
    *word = prove_bucket(r, &t, ROLE_NEIGHBOUR, b, harm, NULL);
    return word->proof != PROOF_NONE;
}

/* One plan instead of two for buckets that lie between others, where no difference is shown; one
 * after the other, for what takes its neighbours' plan is a neighbour itself. */
static void take_neighbours(struct rounds *r, double margin, double harm,
                            struct rounds_verdict *verdicts)
{
    int count = r->setup.bucket_count, next;

    for (int first = 1; first < count; first = next) {
        int own = arm_of_table(&r->contests[first]), side = arm_of_table(&r->contests[first - 1]);
        struct rounds_proof words[SHARED_MOST];
        bool all = own != side;

        for (next = first; next < count && arm_of_table(&r->contests[next]) == own; next++)
            all =
                all && next - first < SHARED_MOST && !r->contests[next].confirmed &&
                r->contests[next].role[ROLE_NEIGHBOUR] >= 0 &&
                r->contests[next].arms[r->contests[next].role[ROLE_NEIGHBOUR]] == side &&
                allows_neighbour(r, next, margin, harm, &verdicts[next].word, &words[next - first]);
        if (!all || next == count || arm_of_table(&r->contests[next]) != side)
            continue;
        for (int b = first; b < next; b++)
            assign(r, b, r->contests[b].role[ROLE_NEIGHBOUR], VERDICT_SHARED, &words[b - first],
                   &verdicts[b]);
    }
}

/* Gives up all plans that are proven less well than `least` and not confirmed. */
static void fall_back(struct rounds *r, enum proof least, double harm,
                      struct rounds_verdict *verdicts)
{
    struct table_of_means t;
    struct rounds_proof words[ROUNDS_BUCKETS_MAX];

    compare_all(r, ROLE_TABLE, ROLE_DEFAULT, &t);
    for (int b = 0; b < r->setup.bucket_count; b++)
        words[b] = prove_bucket(r, &t, ROLE_TABLE, b, harm, NULL);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct rounds_contest *c = &r->contests[b];

        if (!c->confirmed && present(c, c->role[ROLE_DEFAULT]) && words[b].proof < least &&
            !same_plan(c, ROLE_TABLE, ROLE_DEFAULT))
            assign(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &words[b], &verdicts[b]);
    }
}

bool rounds_decide(struct rounds *r, double margin, double harm,
                   struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX])
{
    struct rounds_result chosen = rounds_result(r), v;
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];

    find_prospects(r, ROUNDS_CYCLES_MAX, true, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b] = (struct rounds_verdict){ .arm = arm_of_table(&r->contests[b]) };
    replace_unproven(r, harm, verdicts);
    take_static(r, harm, verdicts);
    take_neighbours(r, margin, harm, verdicts);
    if (rounds_result(r).may_lose)
        fall_back(r, PROOF_FASTER, harm, verdicts);
    v = rounds_result(r);
    if (v.loses)
        fall_back(r, PROOF_FASTER + 1, harm, verdicts);
    if (rounds_result(r).over_default.high <
        0) { /* what is confirmed is verdicts, and it is slower */
        for (int b = 0; b < r->setup.bucket_count; b++)
            r->contests[b].confirmed = false;
        fall_back(r, PROOF_FASTER + 1, harm, verdicts);
    }
    for (int b = 0; b < r->setup.bucket_count; b++)
        verdicts[b].doubt = verdicts[b].arm == r->setup.default_arm && best[b].place >= 0
                                ? prospect_doubt(&best[b].of, r->contests[b].arms[best[b].place])
                                : (struct doubt){ .arm = -1 };
    return v.loses || chosen.over_default.high < 0;
}

/* Whether all buckets together prove the table against the default. */
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
        runs = runs && present(&r->contests[b], r->contests[b].role[ROLE_TABLE]);
        default_runs = default_runs && present(&r->contests[b], r->contests[b].role[ROLE_DEFAULT]);
    }
    is_left = runs && (is_left || !default_runs);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        struct rounds_contest *c = &r->contests[b];
        struct rounds_proof word = { PROOF_NONE, GAIN_UNKNOWN };

        if (is_left && t.of[b].count > 1)
            word.gain = range_gain(stated(r, mean_range(&t.of[b], STATED)));
        verdicts[b] =
            (struct rounds_verdict){ .arm = arm_of_table(c), .as = VERDICT_STATIC, .word = word };
        if (!is_left && present(c, c->role[ROLE_DEFAULT]))
            assign(r, b, c->role[ROLE_DEFAULT], VERDICT_BY_ITSELF, &word, &verdicts[b]);
        verdicts[b].doubt.arm = -1;
    }
    return is_left;
}

/* ---- what is told */

static uint32_t cycle_steps(const struct rounds *r)
{
    uint32_t steps = 0;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        int count = contestants(&r->contests[b]);

        steps += count < 2 ? 0 : (uint32_t)count;
    }
    return steps;
}

/* Whether cycles so far were equal: a further one would be the same again. */
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

/* ---- when they end */

/* Whether nothing is proven in any bucket, and nothing will be that would be worth it. */
static bool is_hopeless(const struct rounds *r)
{
    struct bucket_prospect best[ROUNDS_BUCKETS_MAX];
    bool all = true;

    find_prospects(r, r->cycles_limit, false, best);
    for (int b = 0; b < r->setup.bucket_count; b++)
        all = all && best[b].place == HOPELESS;
    return all;
}

/* It is worth further pairs where it seems to save more than a little and is not proven. */
static bool may_prove_whole(const struct rounds *r)
{
    static const double little = 0.005;
    struct table_of_means t;

    return !is_proven_whole(r, &t) && t.any && total_of(r, &t).mean < log1p(-little);
}

/* Whether undecided buckets go on; all finished in them but one plan and the default, as do the
 * others from here on. */
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
        struct rounds_contest *c = &r->contests[b];
        int place = s->whole_harm > 0 ? c->role[ROLE_TABLE] : best[b].place;

        c->extended |= place >= 0;
        any |= place >= 0;
        for (int i = 0; i < c->arm_count; i++)
            c->finished[i] |= place < 0 || (i != place && i != c->role[ROLE_DEFAULT]);
    }
    return any;
}

/* Whether no further cycle is needed of all contestants.  Where launches are counted only whole
 * launches are judged. */
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

/* To the first round that lacks a sample.  Only whole cycles are judged: until then some buckets
 * have been seen more often than others. */
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

    /* A search knows the arms of one capacity together, so buckets are the outer loop. */
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
        /* Nothing is to be told apart where the default is everywhere and expected to be best. */
        if (count == 1 && best == default_arm && all_default)
            break;
    }
    return count;
}

/* ---- beginning and going on */

static void open_contest(struct rounds_contest *c, const struct rounds_setup *s, int bucket)
{
    const struct rounds_bucket *b = &s->buckets[bucket];
    int low = bucket - 1, high = bucket + 1;
    bool enclosed;

    /* A few buckets of one plan between others that both have another one may take that. */
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
    c->first_place = b->first ? c->role[ROLE_TABLE] : -1;
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
        open_contest(&r->contests[b], setup, b);
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
    struct rounds_contest *c = &r->contests[bucket];
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
    struct rounds_contest *c = &r->contests[bucket];
    int place = place_of(c, arm);

    if (place >= 0)
        c->dropped[place] = true;
    advance(r);
}
