/* Strategies that believe nothing but the median of each arm's first few samples: `exhaustive` runs
 * every plan, in interleaved rounds, so that drift hits all of them alike, and is the judge of the
 * others; `paper` is the search of the Tutel paper (section 3.3). */
#include "distribution.h"
#include "plan.h"
#include "random.h"
#include "search.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Samples that nobody asked for: of rounds against the default, of earlier verifications. */
enum { EXTRA_MAX = 128 };

/* An arm is full with the setup's `repeats`, and then only takes samples that were not asked for.
 */
struct medians {
    size_t arm_count;
    uint32_t per_arm, room; /* samples of an arm: that make it full, that fit */
    uint32_t *count;
    double *sorted; /* log(ns), `room` of each arm, ascending */
};

static int medians_open(struct search *search)
{
    struct medians *m = calloc(1, sizeof(*m));
    size_t arms = search->setup.arm_count;

    if (!m)
        return fail(ERR_NOMEM, "samples of a search");
    search->own = m;
    m->arm_count = arms;
    m->per_arm = search->setup.repeats ? search->setup.repeats : 1;
    m->room = m->per_arm + EXTRA_MAX;
    m->count = calloc(arms, sizeof(*m->count));
    m->sorted = calloc(arms * m->room, sizeof(*m->sorted));
    if (!m->count || !m->sorted)
        return fail(ERR_NOMEM, "%u samples of each of %zu plans", m->room, arms);
    return OK;
}

static void medians_close(struct search *search)
{
    struct medians *m = search->own;

    if (!m)
        return;
    free(m->count);
    free(m->sorted);
    free(m);
}

static void medians_begin(struct search *search)
{
    struct medians *m = search->own;

    for (size_t i = 0; i < m->arm_count; i++)
        m->count[i] = 0;
}

static void medians_tell(struct search *search, int arm, double log_ns, bool asked)
{
    struct medians *m = search->own;
    double *sorted = m->sorted + (size_t)arm * m->room;
    uint32_t i = m->count[arm];

    if (i >= (asked ? m->per_arm : m->room))
        return;
    for (; i && sorted[i - 1] > log_ns; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = log_ns;
    m->count[arm]++;
}

static bool out_of_samples(const struct search *search)
{
    return search->setup.limit && search->samples >= search->setup.limit;
}

static bool full(const struct medians *m, int arm)
{
    return m->count[arm] >= m->per_arm;
}

/* INFINITY if there is no sample. */
static double median(const struct medians *m, int arm)
{
    const double *sorted = m->sorted + (size_t)arm * m->room;
    uint32_t n = m->count[arm];

    return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : INFINITY;
}

/* ---- what came of it */

static bool ahead(const struct medians *m, int a, int b)
{
    if (b < 0 || full(m, a) != full(m, b))
        return b < 0 || full(m, a);
    return median(m, a) < median(m, b);
}

/* Least median among the usable arms; full ones go before others.  With no sample at all the winner
 * is the default plan, or else the first usable one. */
static void medians_verdict(struct search *search, struct search_result *out)
{
    const struct medians *m = search->own;
    int best = -1, second = -1, stand_in = -1;

    for (int i = 0; i < (int)m->arm_count; i++) {
        if (!search->usable[i] || !m->count[i])
            continue;
        if (ahead(m, i, best)) {
            second = best;
            best = i;
        } else if (ahead(m, i, second)) {
            second = i;
        }
    }
    for (int i = (int)m->arm_count - 1; i >= 0 && best < 0; i--) {
        if (!search->usable[i])
            continue;
        stand_in = i;
        if (plan_is_default(&search->setup.arms[i], &search->setup.shape))
            break;
    }
    out->winner = best < 0 ? stand_in : best;
    out->runner_up = second;
    if (out_of_samples(search))
        out->reason = SEARCH_LIMIT;
}

/* About the medians, over all arms: these leave outliers out of the centre but not of the spread,
 * which errs to the safe side. */
struct squares {
    double sum;
    uint32_t freedom;
};

static struct squares squares_of(const struct medians *m)
{
    struct squares s = { 0, 0 };

    for (int i = 0; i < (int)m->arm_count; i++) {
        double middle = median(m, i);

        if (m->count[i] < 2)
            continue;
        for (uint32_t k = 0; k < m->count[i]; k++) {
            double away = m->sorted[(size_t)i * m->room + k] - middle;

            s.sum += away * away;
        }
        s.freedom += m->count[i] - 1;
    }
    return s;
}

/* How much larger a median's variance is than a mean's. */
static const double of_median = 1.5707963267948966;

/* The deviation comes from a spread pooled over all arms, which is a guess at first. */
static struct normal medians_level(struct search *search, int arm)
{
    static const double guess = 0.05 * 0.05, guess_freedom = 6;
    const struct medians *m = search->own;
    struct squares s = squares_of(m);
    double variance = of_median * (s.sum + guess * guess_freedom) / (s.freedom + guess_freedom);

    if (!m->count[arm])
        return (struct normal){ 0, INFINITY };
    return (struct normal){ median(m, arm), sqrt(variance / m->count[arm]) };
}

static struct normal medians_compare(struct search *search, int arm, int other)
{
    struct normal a = medians_level(search, arm), b = medians_level(search, other);

    /* Not hypot(), which would want glibc 2.35 where the wheel is built. */
    return (struct normal){ a.mean - b.mean, sqrt(a.sd * a.sd + b.sd * b.sd) };
}

/* The bound holds if all arms have samples; it is NAN while no arm has two. */
static double medians_bound(struct search *search, int winner)
{
    const struct medians *m = search->own;
    struct squares s = squares_of(m);
    double each = of_median * s.sum / s.freedom;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    size_t n = 0;

    if (!s.freedom || winner < 0 || !m->count[winner])
        return NAN;
    for (int i = 0; i < (int)m->arm_count; i++) {
        if (i == winner || !search->usable[i] || !m->count[i])
            continue;
        mean[n] = median(m, i) - median(m, winner);
        sd[n++] = sqrt(each / m->count[i] + each / m->count[winner]);
    }
    return bound_of(mean, sd, n, 0.05);
}

/* ---- exhaustive */

/* Of the arms with the fewest samples the one that comes first in this round's shuffle. */
static int exhaustive_next(struct search *search)
{
    enum { ROUND = 512 };
    const struct medians *m = search->own;
    uint64_t key = search->setup.seed ^ random_bits(search->capacity, 0), first = 0;
    int next = SEARCH_DONE;

    if (out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        uint32_t round = m->count[i];
        uint64_t place = random_bits(key, (uint64_t)round * ROUND + (uint64_t)i);
        uint32_t least = next < 0 ? UINT32_MAX : m->count[next];

        if (!search->usable[i] || full(m, i))
            continue;
        if (round < least || (round == least && place < first)) {
            next = i;
            first = place;
        }
    }
    return next;
}

static void exhaustive_verdict(struct search *search, struct search_result *out)
{
    medians_verdict(search, out);
    out->bound = medians_bound(search, out->winner);
}

const struct search_ops search_exhaustive = {
    .name = "exhaustive",
    .summary = "every plan, in interleaved rounds",
    .open = medians_open,
    .close = medians_close,
    .begin = medians_begin,
    .next = exhaustive_next,
    .tell = medians_tell,
    .verdict = exhaustive_verdict,
    .level = medians_level,
    .compare = medians_compare,
    .bound = medians_bound,
};

/* ---- the paper's: for every d and a, a ternary search over the divisors of s below s, plus r = s;
 * plus r = 0 once.
 *
 * Nothing is remembered but the samples: what comes next is found by running the whole search over
 * what is known until it asks for something that is not.  So it can be resumed from any samples. */

/* One (d, a) at one number of CTAs: its usable arms below r = s, by ascending r. */
struct r_ladder {
    int arms[SEARCH_ARMS_MAX];
    int count;
};

static bool below_slices(const struct search *search, const struct moe_plan *plan)
{
    return plan->r != 0 && plan->r < shape_slices(&search->setup.shape);
}

/* The line of a plan that is below_slices().  An arm that failed is left out: it counts as
 * infinitely slow, and its neighbours stand for it. So the bracket can only shrink towards arms
 * that ran. */
static struct r_ladder line_of(const struct search *search, const struct moe_plan *of)
{
    const struct moe_plan *arms = search->setup.arms;
    struct r_ladder line = { .count = 0 };

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        int at = line.count;

        if (!search->usable[i] || !plan_equal_but(&arms[i], of, PLAN_R) ||
            !below_slices(search, &arms[i]))
            continue;
        for (; at && arms[line.arms[at - 1]].r > arms[i].r; at--)
            line.arms[at] = line.arms[at - 1];
        line.arms[at] = i;
        line.count++;
    }
    return line;
}

static int first_wanted(const struct medians *m, const struct r_ladder *line, int low, int high)
{
    for (int i = low; i <= high; i++)
        if (!full(m, line->arms[i]))
            return line->arms[i];
    return SEARCH_DONE;
}

/* The first arm that the ternary search over one line needs and that has too few samples. */
static int line_next(const struct medians *m, const struct r_ladder *line)
{
    int low = 0, high = line->count - 1, next;
    double tie = -INFINITY, least = INFINITY;

    while (high - low > 1) {
        int third = (high - low + 1) / 3;
        int a = low + third, b = high - third > a ? high - third : a + 1;
        double at_a = median(m, line->arms[a]), at_b = median(m, line->arms[b]);

        if (!full(m, line->arms[a]) || !full(m, line->arms[b]))
            return line->arms[full(m, line->arms[a]) ? b : a];
        if (at_a == at_b) {
            tie = at_a;
            low = a;
            high = b;
        } else if (at_a < at_b) {
            high = b - 1;
        } else {
            low = a + 1;
        }
    }
    next = first_wanted(m, line, low, high);
    for (int i = low; i <= high; i++)
        least = fmin(least, median(m, line->arms[i]));
    /* Between equal ends lies the least, unless they belong to one plateau: then nothing lower was
     * found there, and it may be on either side. */
    if (next == SEARCH_DONE && least == tie)
        next = first_wanted(m, line, 0, line->count - 1);
    return next;
}

static int paper_next(struct search *search)
{
    const struct medians *m = search->own;
    const struct moe_plan *arms = search->setup.arms;

    if (out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        struct r_ladder line;
        int next = SEARCH_DONE;

        if (below_slices(search, &arms[i])) {
            line = line_of(search, &arms[i]);
            if (line.count && line.arms[0] == i) /* once per line */
                next = line_next(m, &line);
        } else if (search->usable[i] && !full(m, i)) {
            next = i; /* r = 0 and r = s */
        }
        if (next != SEARCH_DONE)
            return next;
    }
    return SEARCH_DONE;
}

const struct search_ops search_paper = {
    .name = "paper",
    .summary = "ternary search over r for every d and a, as published",
    .open = medians_open,
    .close = medians_close,
    .begin = medians_begin,
    .next = paper_next,
    .tell = medians_tell,
    .verdict = medians_verdict,
    .level = medians_level,
    .compare = medians_compare,
};
