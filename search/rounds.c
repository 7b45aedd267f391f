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

enum { ROLE_TABLE, ROLE_DEFAULT, ROLE_STATIC };
enum { CYCLES_LEAST = 4, CYCLES_MOST = 30, BUCKETS_PER_ROUND = 12 };

/* ---- contestants */

static int place_of(const struct rounds_contest *c, int arm)
{
    for (int i = 0; i < c->arm_count; i++)
        if (c->arms[i] == arm)
            return i;
    return -1;
}

static void enter(struct rounds_contest *c, const struct rounds_bucket *b, int role, int arm)
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
    if (present(c, c->role[role]))
        return c->role[role];
    return present(c, c->role[ROLE_DEFAULT]) ? c->role[ROLE_DEFAULT] : -1;
}

static int contestants(const struct rounds_contest *c)
{
    int count = 0;

    for (int i = 0; i < c->arm_count; i++)
        count += !c->dropped[i];
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

/* Neighbours of similar capacity take turns in an order drawn for every cycle, so that each round
 * has buckets of all sizes. */
static bool is_due(const struct rounds *r, int bucket)
{
    uint32_t rounds = cycle_rounds(r), cycle = r->round / rounds, turn = 0;
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

        if (c->dropped[i] || c->told[i] > r->round / cycle_rounds(r))
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

static uint32_t pairs(const struct rounds_contest *c, int a, int b)
{
    return a < 0 || b < 0 ? 0 : c->told[a] < c->told[b] ? c->told[a] : c->told[b];
}

static double ratio(const struct rounds_contest *c, int a, int b, uint32_t cycle)
{
    return c->log_ns[a][cycle] - c->log_ns[b][cycle];
}

/* The standard deviation of a pair's log ratio, from differences of successive ones in all buckets:
 * they need no centre, which a handful of values could not give, and their median no more than half
 * of them to be sound.  0: nothing is known, or there is no noise. */
static double spread_of_pairs(const struct rounds *r, int role_a, int role_b)
{
    double steps[ROUNDS_BUCKETS_MAX * ROUNDS_CYCLES_MAX];
    size_t count = 0;

    for (int i = 0; i < r->setup.bucket_count; i++) {
        const struct rounds_contest *c = &r->contests[i];
        int a = stands_for(c, role_a), b = stands_for(c, role_b);

        for (uint32_t n = 1; a != b && n < pairs(c, a, b); n++)
            steps[count++] = fabs(ratio(c, a, b, n) - ratio(c, a, b, n - 1));
    }
    return count ? median_of(steps, count) / (0.6745 * sqrt(2)) : 0;
}

/* Compares two contestants in one bucket; nothing is said of fewer than two cycles. */
static struct mean compare(const struct rounds_contest *c, int role_a, int role_b, double sd)
{
    static const double tuning = 1.5; /* 96 % of a mean's efficiency where there are no outliers */
    int a = stands_for(c, role_a), b = stands_for(c, role_b);
    uint32_t count = pairs(c, a, b);
    double values[ROUNDS_CYCLES_MAX];

    if (a >= 0 && a == b) /* the same plan: no samples are needed to know it */
        return (struct mean){ .count = 2, .half_count = { 1, 1 } };
    if (count < 2)
        return (struct mean){ .count = 0 };
    for (uint32_t n = 0; n < count; n++)
        values[n] = ratio(c, a, b, n);
    return mean_of_pairs(values, count, tuning * sd);
}

/* ---- over the buckets */

/* What the comparison of two roles gives in every bucket. */
struct table_of_means {
    struct mean of[ROUNDS_BUCKETS_MAX];
    double share[ROUNDS_BUCKETS_MAX]; /* of the weights; 0 where the two do not both run */
};

static bool compare_all(const struct rounds *r, int role_a, int role_b, struct table_of_means *out)
{
    double sd = spread_of_pairs(r, role_a, role_b), sum = 0;

    for (int b = 0; b < r->setup.bucket_count; b++) {
        out->of[b] = compare(&r->contests[b], role_a, role_b, sd);
        out->share[b] = out->of[b].count ? r->contests[b].weight : 0;
        sum += out->share[b];
    }
    for (int b = 0; b < r->setup.bucket_count && sum > 0; b++)
        out->share[b] /= sum;
    return sum > 0;
}

static struct total total_of(const struct rounds *r, const struct table_of_means *t)
{
    struct total total = { 0 };

    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct mean *m = &t->of[b];

        if (!(t->share[b] > 0))
            continue;
        total.mean += t->share[b] * m->mean;
        total_add_variance(&total, t->share[b] * t->share[b] * m->variance / m->count, m->count);
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
    bool known[ROUNDS_STATICS_MAX];
};

/* The fastest by one half, or by all (-1). */
static int best_static(const struct rounds *r, const struct statics *s, int half)
{
    double most = -INFINITY;
    int best = -1;

    for (int i = 0; i < r->setup.static_count; i++) {
        double lead = !s->known[i] ? -INFINITY
                      : half < 0   ? total_of(r, &s->means[i]).mean
                                   : half_of(r, &s->means[i], half);

        if (lead > most) {
            most = lead;
            best = i;
        }
    }
    return best;
}

static void judge_half(const struct rounds *r, const struct table_of_means *t, int half,
                       struct total *total)
{
    total->mean += 0.5 * half_of(r, t, half);
    for (int b = 0; b < r->setup.bucket_count; b++) {
        const struct mean *m = &t->of[b];

        if (t->share[b] > 0)
            total_add_variance(total,
                               0.25 * t->share[b] * t->share[b] * m->variance / m->half_count[half],
                               m->count);
    }
}

/* Each half of the cycles is judged against the static plan that the other half chose. */
static struct total judge_statics(const struct rounds *r, const struct statics *s)
{
    int even = best_static(r, s, 0), odd = best_static(r, s, 1);
    struct total total = { 0 };

    if (even == odd) /* the halves share a variance: it must not count as two */
        return total_of(r, &s->means[even]);
    judge_half(r, &s->means[even], 1, &total);
    judge_half(r, &s->means[odd], 0, &total);
    return total;
}

/* ---- what is stated */

/* False if nothing is known of the default plan. */
static bool over_default(const struct rounds *r, struct range out[LEVELS])
{
    struct table_of_means means;
    struct total total;

    if (!compare_all(r, ROLE_TABLE, ROLE_DEFAULT, &means))
        return false;
    total = total_of(r, &means);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(&total, level);
    return true;
}

/* The table is only as good as its worst case: to beat the best static plan it has to beat all of
 * them, whichever of them the halves chose. */
static bool over_static(const struct rounds *r, struct range out[LEVELS], int *best)
{
    struct statics s;
    struct total total;

    for (int i = 0; i < r->setup.static_count; i++)
        s.known[i] = compare_all(r, ROLE_TABLE, ROLE_STATIC + i, &s.means[i]);
    *best = best_static(r, &s, -1);
    if (*best < 0)
        return false;
    total = judge_statics(r, &s);
    for (int level = 0; level < LEVELS; level++)
        out[level] = range_of(&total, level);
    for (int i = 0; i < r->setup.static_count; i++) {
        total = total_of(r, &s.means[i]);
        for (int level = 0; level < LEVELS && s.known[i]; level++)
            out[level].high = fmax(out[level].high, range_of(&total, level).high);
    }
    return true;
}

static struct gain gain_of(struct range range)
{
    return (struct gain){ 0 - expm1(range.mean), 0 - expm1(range.high), 0 - expm1(range.low) };
}

struct rounds_result rounds_result(const struct rounds *r)
{
    struct rounds_result v = { GAIN_UNKNOWN, GAIN_UNKNOWN, .rounds = r->round, .steps = r->steps };
    struct range range[LEVELS];

    if (over_default(r, range))
        v.over_default = gain_of(range[STATED]);
    if (over_static(r, range, &v.static_arm))
        v.over_static = gain_of(range[STATED]);
    v.static_arm = v.static_arm < 0 ? -1 : r->statics[v.static_arm];
    return v;
}

static bool is_settled(const struct range of[LEVELS])
{
    static const double narrow = 0.005;
    const struct range *stated = &of[STATED];

    return of[STRICT].low > 0 || of[STRICT].high < 0 ||
           fmax(stated->high - stated->mean, stated->mean - stated->low) < narrow;
}

static bool is_decided(const struct rounds *r)
{
    struct range range[LEVELS];
    int best;

    if (over_default(r, range) && !is_settled(range))
        return false;
    return !over_static(r, range, &best) || is_settled(range);
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

/* Two equal cycles: a third would be the same again. */
static bool is_without_noise(const struct rounds *r)
{
    for (int role = ROLE_DEFAULT; role < ROLE_STATIC + r->setup.static_count; role++) {
        struct table_of_means means;

        if (compare_all(r, ROLE_TABLE, role, &means) && total_of(r, &means).variance > 0)
            return false;
    }
    return true;
}

static bool is_enough(const struct rounds *r, uint32_t cycles)
{
    const struct rounds_setup *s = &r->setup;

    if (cycles >= s->cycles_max || !cycle_steps(r))
        return true;
    if (cycles < s->cycles_min)
        return cycles >= 2 && is_without_noise(r);
    return (s->steps_max && r->steps + cycle_steps(r) > s->steps_max) || is_decided(r);
}

/* To the first round that lacks a sample.  Only whole cycles are judged: until then some buckets
 * have been seen more often than others. */
static void advance(struct rounds *r)
{
    uint32_t rounds = cycle_rounds(r);

    while (!r->done && next_bucket(r) < 0) {
        r->done = !cycle_steps(r);
        r->round += !r->done;
        if (!r->done && r->round % rounds == 0)
            r->done = is_enough(r, r->round / rounds);
    }
}

static void set_defaults(struct rounds_setup *s)
{
    s->cycles_min = s->cycles_min ? s->cycles_min : CYCLES_LEAST;
    s->cycles_max = s->cycles_max ? s->cycles_max : CYCLES_MOST;
    if (s->cycles_max > ROUNDS_CYCLES_MAX)
        s->cycles_max = ROUNDS_CYCLES_MAX;
    if (s->cycles_min > s->cycles_max)
        s->cycles_min = s->cycles_max;
}

static void open_contest(struct rounds_contest *c, const struct rounds_setup *s, int bucket)
{
    const struct rounds_bucket *b = &s->buckets[bucket];

    c->weight = b->weight;
    enter(c, b, ROLE_TABLE, b->table);
    enter(c, b, ROLE_DEFAULT, s->default_arm);
    for (int i = 0; i < s->static_count; i++)
        enter(c, b, ROLE_STATIC + i, s->statics[i]);
}

void rounds_open(struct rounds *r, const struct rounds_setup *setup)
{
    assert(setup->bucket_count >= 0 && setup->bucket_count <= ROUNDS_BUCKETS_MAX);
    assert(setup->static_count >= 0 && setup->static_count <= ROUNDS_STATICS_MAX);
    memset(r, 0, sizeof(*r));
    r->setup = *setup;
    set_defaults(&r->setup);
    for (int b = 0; b < setup->bucket_count; b++)
        open_contest(&r->contests[b], setup, b);
    for (int i = 0; i < setup->static_count; i++)
        r->statics[i] = setup->statics[i];
    r->setup.buckets = NULL;
    r->setup.statics = NULL;
    advance(r);
}

void rounds_tell(struct rounds *r, int bucket, int arm, int64_t ns)
{
    struct rounds_contest *c = &r->contests[bucket];
    int place = place_of(c, arm);

    if (place < 0 || c->told[place] >= ROUNDS_CYCLES_MAX)
        return;
    c->log_ns[place][c->told[place]++] = log((double)(ns > 0 ? ns : 1));
    r->steps++;
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

bool rounds_republish(struct rounds *r, int bucket, int arm)
{
    struct rounds_contest *c = &r->contests[bucket];
    int place = place_of(c, arm);

    if (present(c, place))
        c->role[ROLE_TABLE] = place;
    return present(c, place);
}

/* ---- one bucket */

static int role_of_static(const struct rounds *r, int arm)
{
    for (int i = 0; i < r->setup.static_count; i++)
        if (r->statics[i] == arm)
            return ROLE_STATIC + i;
    return -1;
}

/* A difference of log times in one bucket; NAN: not known.  A few values say little of their own
 * spread: that of all buckets counts like four more. */
static struct normal ratio_in(const struct rounds *r, int bucket, int role_a, int role_b)
{
    static const double borrowed = 4;
    double sd = spread_of_pairs(r, role_a, role_b), variance;
    struct mean m = compare(&r->contests[bucket], role_a, role_b, sd);

    if (!m.count)
        return (struct normal){ NAN, NAN };
    if (stands_for(&r->contests[bucket], role_a) == stands_for(&r->contests[bucket], role_b))
        return (struct normal){ 0, 0 };
    variance = (borrowed * sd * sd + (m.count - 1) * m.variance) / (borrowed + m.count - 1);
    return (struct normal){ m.mean, sqrt(variance / m.count) };
}

/* Surely, and by so much that it is worth an entry of another kind. */
static bool is_clear(double log_ratio, double sd)
{
    return log_ratio < -2 * sd && log_ratio < log1p(-0.01);
}

bool rounds_prefers_static(const struct rounds *r, const struct rounds_result *v, int bucket)
{
    const struct rounds_contest *c = &r->contests[bucket];
    int role = role_of_static(r, v->static_arm);
    struct normal here, over_default;

    if (role < 0 || !present(c, c->role[role]) || c->role[role] == c->role[ROLE_TABLE])
        return false;
    here = ratio_in(r, bucket, role, ROLE_TABLE);
    over_default = ratio_in(r, bucket, role, ROLE_DEFAULT);
    if (isnan(here.mean) || over_default.mean > 0)
        return false;
    if (v->over_static.high < 0)
        return !is_clear(-here.mean, here.sd);
    return is_clear(here.mean, here.sd);
}
