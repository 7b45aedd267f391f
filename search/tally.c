/* Keeps the samples of each arm sorted, and compares arms by their medians. */
#include "tally.h"

#include "bound.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples that nobody asked for: of rounds against the default, of earlier verifications. */
enum { EXTRA_MAX = 128 };

struct tally {
    size_t arm_count;
    uint32_t per_arm, room; /* samples of an arm: that make it full, that fit */
    uint32_t *count;
    double *sorted; /* `room` of each arm, ascending */
};

int tally_open(struct search *search)
{
    struct tally *tally = calloc(1, sizeof(*tally));
    size_t arms = search->setup.arm_count;

    if (!tally)
        return fail(ERR_NOMEM, "a tally");
    search->own = tally;
    tally->arm_count = arms;
    tally->per_arm = search->setup.repeats ? search->setup.repeats : 1;
    tally->room = tally->per_arm + EXTRA_MAX;
    tally->count = calloc(arms, sizeof(*tally->count));
    tally->sorted = calloc(arms * tally->room, sizeof(*tally->sorted));
    if (!tally->count || !tally->sorted)
        return fail(ERR_NOMEM, "%u samples of each of %zu plans", tally->room, arms);
    return OK;
}

void tally_close(struct search *search)
{
    struct tally *tally = search->own;

    if (!tally)
        return;
    free(tally->count);
    free(tally->sorted);
    free(tally);
}

void tally_visit(struct search *search)
{
    struct tally *tally = search->own;

    memset(tally->count, 0, tally->arm_count * sizeof(*tally->count));
}

static const double *samples_of(const struct tally *tally, int arm)
{
    return tally->sorted + (size_t)arm * tally->room;
}

void tally_tell(struct search *search, int arm, double log_ns, bool asked)
{
    struct tally *tally = search->own;
    double *sorted = tally->sorted + (size_t)arm * tally->room;
    uint32_t i = tally->count[arm];

    if (i >= (asked ? tally->per_arm : tally->room))
        return;
    for (; i && sorted[i - 1] > log_ns; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = log_ns;
    tally->count[arm]++;
}

bool tally_out_of_samples(const struct search *search)
{
    return search->setup.limit && search->samples >= search->setup.limit;
}

uint32_t tally_count(const struct tally *tally, int arm)
{
    return tally->count[arm];
}

bool tally_full(const struct tally *tally, int arm)
{
    return tally->count[arm] >= tally->per_arm;
}

double tally_median(const struct tally *tally, int arm)
{
    const double *sorted = samples_of(tally, arm);
    uint32_t n = tally->count[arm];

    return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : INFINITY;
}

static bool ahead(const struct tally *tally, int a, int b)
{
    if (b < 0 || tally_full(tally, a) != tally_full(tally, b))
        return b < 0 || tally_full(tally, a);
    return tally_median(tally, a) < tally_median(tally, b);
}

static int stand_in(const struct search *search)
{
    int first = -1;

    for (int i = (int)search->setup.arm_count - 1; i >= 0; i--) {
        if (!search->usable[i])
            continue;
        if (plan_is_default(&search->setup.arms[i], &search->setup.shape))
            return i;
        first = i;
    }
    return first;
}

void tally_verdict(struct search *search, struct search_result *out)
{
    const struct tally *tally = search->own;
    int best = -1, second = -1;

    for (int i = 0; i < (int)tally->arm_count; i++) {
        if (!search->usable[i] || !tally->count[i])
            continue;
        if (ahead(tally, i, best)) {
            second = best;
            best = i;
        } else if (ahead(tally, i, second)) {
            second = i;
        }
    }
    out->winner = best < 0 ? stand_in(search) : best;
    out->runner_up = second;
    if (tally_out_of_samples(search))
        out->reason = SEARCH_LIMIT;
}

/* About the medians, over all arms: these leave outliers out of the centre but not of the spread,
 * which errs to the safe side. */
struct scatter {
    double squares;
    uint32_t freedom;
};

static struct scatter scatter_of(const struct tally *tally)
{
    struct scatter s = { 0, 0 };

    for (int i = 0; i < (int)tally->arm_count; i++) {
        double median = tally_median(tally, i);

        if (tally->count[i] < 2)
            continue;
        for (uint32_t k = 0; k < tally->count[i]; k++) {
            double away = samples_of(tally, i)[k] - median;

            s.squares += away * away;
        }
        s.freedom += tally->count[i] - 1;
    }
    return s;
}

/* How much larger a median's variance is than a mean's. */
static const double of_median = 1.5707963267948966;

struct normal tally_level(struct search *search, int arm)
{
    static const double guess = 0.05 * 0.05, guess_freedom = 6;
    const struct tally *tally = search->own;
    struct scatter s = scatter_of(tally);
    double variance = of_median * (s.squares + guess * guess_freedom) / (s.freedom + guess_freedom);

    if (!tally->count[arm])
        return (struct normal){ 0, INFINITY };
    return (struct normal){ tally_median(tally, arm), sqrt(variance / tally->count[arm]) };
}

struct normal tally_compare(struct search *search, int arm, int other)
{
    struct normal a = tally_level(search, arm), b = tally_level(search, other);

    /* Not hypot(), which would want glibc 2.35 where the wheel is built. */
    return (struct normal){ a.mean - b.mean, sqrt(a.sd * a.sd + b.sd * b.sd) };
}

double tally_bound(struct search *search, int winner)
{
    const struct tally *tally = search->own;
    struct scatter s = scatter_of(tally);
    double each = of_median * s.squares / s.freedom;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    size_t n = 0;

    if (!s.freedom || winner < 0 || !tally->count[winner])
        return NAN;
    for (int i = 0; i < (int)tally->arm_count; i++) {
        if (i == winner || !search->usable[i] || !tally->count[i])
            continue;
        mean[n] = tally_median(tally, i) - tally_median(tally, winner);
        sd[n++] = sqrt(each / tally->count[i] + each / tally->count[winner]);
    }
    return bound_of(mean, sd, n, 0.05);
}
