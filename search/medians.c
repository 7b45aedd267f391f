/* Two strategies that use nothing but the median of each arm's first samples.  `exhaustive` runs
 * every plan in interleaved rounds, so that drift slows all plans alike; it is the reference for
 * the other strategies.  `paper` is the search of the Tutel paper (section 3.3). */
#include "distribution.h"
#include "plan.h"
#include "random.h"
#include "search.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Room for samples that the search did not ask for: those of rounds and of verifications. */
enum { EXTRA_MAX = 128 };

/* The samples of one search; medians_open() allocates it, medians_close() frees it.  An arm is full
 * when it has per_arm samples. */
struct medians {
    size_t arm_count;
    uint32_t per_arm; /* samples that the search asks for */
    uint32_t room;    /* samples that fit */
    uint32_t *count;  /* samples so far, by arm */
    double *sorted;   /* log(ns), `room` of each arm, ascending */
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

static bool is_full(const struct medians *m, int arm)
{
    return m->count[arm] >= m->per_arm;
}

/* The median of an arm's log(ns); INFINITY without samples. */
static double median(const struct medians *m, int arm)
{
    const double *sorted = m->sorted + (size_t)arm * m->room;
    uint32_t n = m->count[arm];

    return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : INFINITY;
}

/* ---- the verdict */

/* Whether arm a ranks before arm b (-1: no arm). */
static bool ranks_before(const struct medians *m, int a, int b)
{
    if (b < 0 || is_full(m, a) != is_full(m, b))
        return b < 0 || is_full(m, a);
    return median(m, a) < median(m, b);
}

/* The winner has the least median among the usable arms; full arms rank before others.  Without any
 * sample the winner is the default plan, or the first usable arm. */
static void medians_verdict(struct search *search, struct search_result *out)
{
    const struct medians *m = search->own;
    int best = -1, second = -1, stand_in = -1;

    for (int i = 0; i < (int)m->arm_count; i++) {
        if (!search->usable[i] || !m->count[i])
            continue;
        if (ranks_before(m, i, best)) {
            second = best;
            best = i;
        } else if (ranks_before(m, i, second)) {
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

/* The sum of squares about the arms' medians, over all arms.  Outliers do not move the medians but
 * do widen the spread, which errs on the safe side. */
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
static const double median_to_mean = 1.5707963267948966;

/* The deviation comes from the spread of all arms together, with a guess as its prior. */
static struct normal medians_level(struct search *search, int arm)
{
    static const double usual_variance = 0.05 * 0.05, usual_freedom = 6;
    const struct medians *m = search->own;
    struct squares s = squares_of(m);
    double variance =
        median_to_mean * (s.sum + usual_variance * usual_freedom) / (s.freedom + usual_freedom);

    if (!m->count[arm])
        return (struct normal){ 0, INFINITY };
    return (struct normal){ median(m, arm), sqrt(variance / m->count[arm]) };
}

static struct normal medians_compare(struct search *search, int arm, int other)
{
    struct normal a = medians_level(search, arm), b = medians_level(search, other);

    /* Not hypot(): built where the wheel is built, it would need glibc 2.35. */
    return (struct normal){ a.mean - b.mean, sqrt(a.sd * a.sd + b.sd * b.sd) };
}

/* The bound of struct search_result.  It holds if all arms have samples; NAN while no arm has
 * two. */
static double medians_bound(struct search *search, int winner)
{
    const struct medians *m = search->own;
    struct squares s = squares_of(m);
    double sample_variance = median_to_mean * s.sum / s.freedom;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    size_t n = 0;

    if (!s.freedom || winner < 0 || !m->count[winner])
        return NAN;
    for (int i = 0; i < (int)m->arm_count; i++) {
        if (i == winner || !search->usable[i] || !m->count[i])
            continue;
        mean[n] = median(m, i) - median(m, winner);
        sd[n++] = sqrt(sample_variance / m->count[i] + sample_variance / m->count[winner]);
    }
    return bound_of(mean, sd, n, 0.05);
}

/* ---- exhaustive */

/* The arm that comes first in this round's shuffle, among those with the fewest samples. */
static int exhaustive_next(struct search *search)
{
    enum { ROUND = 512 };
    const struct medians *m = search->own;
    uint64_t key = search->setup.seed ^ random_bits(search->capacity, 0), least_number = 0;
    int next = SEARCH_DONE;

    if (out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        uint32_t round = m->count[i];
        uint64_t number = random_bits(key, (uint64_t)round * ROUND + (uint64_t)i);
        uint32_t fewest = next < 0 ? UINT32_MAX : m->count[next];

        if (!search->usable[i] || is_full(m, i))
            continue;
        if (round < fewest || (round == fewest && number < least_number)) {
            next = i;
            least_number = number;
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

/* ---- paper: for every d and a a ternary search over the divisors of s below s, and r = s; and
 * r = 0 once.
 *
 * The strategy remembers the samples only.  To find the next arm it runs the whole search over the
 * known medians until the search needs an arm without enough samples.  So it can be resumed from
 * any samples. */

/* The usable arms of one (d, a) below r = s, by ascending r. */
struct r_ladder {
    int arms[SEARCH_ARMS_MAX];
    int count;
};

static bool below_slices(const struct search *search, const struct moe_plan *plan)
{
    return plan->r != 0 && plan->r < shape_slices(&search->setup.shape);
}

/* The ladder of a plan that is below_slices().  Arms that failed are left out: they count as
 * infinitely slow, so the bracket shrinks towards arms that ran. */
static struct r_ladder ladder_of(const struct search *search, const struct moe_plan *plan)
{
    const struct moe_plan *arms = search->setup.arms;
    struct r_ladder ladder = { .count = 0 };

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        int place = ladder.count;

        if (!search->usable[i] || !plan_equal_but(&arms[i], plan, PLAN_R) ||
            !below_slices(search, &arms[i]))
            continue;
        for (; place && arms[ladder.arms[place - 1]].r > arms[i].r; place--)
            ladder.arms[place] = ladder.arms[place - 1];
        ladder.arms[place] = i;
        ladder.count++;
    }
    return ladder;
}

/* The first arm between two places of the ladder that has too few samples. */
static int first_without_samples(const struct medians *m, const struct r_ladder *ladder, int low,
                                 int high)
{
    for (int i = low; i <= high; i++)
        if (!is_full(m, ladder->arms[i]))
            return ladder->arms[i];
    return SEARCH_DONE;
}

/* The first arm that the ternary search over one ladder needs and that has too few samples. */
static int ladder_next(const struct medians *m, const struct r_ladder *ladder)
{
    int low = 0, high = ladder->count - 1, next;
    double tied_median = -INFINITY, least_median = INFINITY;

    while (high - low > 1) {
        int third = (high - low + 1) / 3;
        int a = low + third, b = high - third > a ? high - third : a + 1;
        double median_a = median(m, ladder->arms[a]), median_b = median(m, ladder->arms[b]);

        if (!is_full(m, ladder->arms[a]) || !is_full(m, ladder->arms[b]))
            return ladder->arms[is_full(m, ladder->arms[a]) ? b : a];
        if (median_a == median_b) {
            tied_median = median_a;
            low = a;
            high = b;
        } else if (median_a < median_b) {
            high = b - 1;
        } else {
            low = a + 1;
        }
    }
    next = first_without_samples(m, ladder, low, high);
    for (int i = low; i <= high; i++)
        least_median = fmin(least_median, median(m, ladder->arms[i]));
    /* The least median lies between two equal ends, unless both belong to a plateau.  Then nothing
     * lower was found between them, and it may lie on either side. */
    if (next == SEARCH_DONE && least_median == tied_median)
        next = first_without_samples(m, ladder, 0, ladder->count - 1);
    return next;
}

static int paper_next(struct search *search)
{
    const struct medians *m = search->own;
    const struct moe_plan *arms = search->setup.arms;

    if (out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        struct r_ladder ladder;
        int next = SEARCH_DONE;

        if (below_slices(search, &arms[i])) {
            ladder = ladder_of(search, &arms[i]);
            if (ladder.count && ladder.arms[0] == i) /* once per ladder */
                next = ladder_next(m, &ladder);
        } else if (search->usable[i] && !is_full(m, i)) {
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
