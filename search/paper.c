/* The search of the paper (section 3.3): for every d and a, a ternary search over the divisors of s
 * below s, plus r = s; plus r = 0 once.  Each arm is evaluated at most once, by the median of
 * `repeats` samples.
 *
 * Nothing is remembered but the samples: what comes next is found by running the whole search over
 * what is known until it asks for something that is not.  So it can be resumed from any samples. */
#include "plan.h"
#include "shape.h"
#include "tally.h"

#include <math.h>

/* One (d, a) at one number of CTAs: its usable arms below r = s, by ascending r. */
struct line {
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
static struct line line_of(const struct search *search, const struct moe_plan *of)
{
    const struct moe_plan *arms = search->setup.arms;
    struct line line = { .count = 0 };

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

static int wanted(const struct tally *tally, int arm)
{
    return tally_full(tally, arm) ? SEARCH_DONE : arm;
}

static int first_wanted(const struct tally *tally, const struct line *line, int low, int high)
{
    for (int i = low; i <= high; i++)
        if (!tally_full(tally, line->arms[i]))
            return line->arms[i];
    return SEARCH_DONE;
}

static double least(const struct tally *tally, const struct line *line, int low, int high)
{
    double value = INFINITY;

    for (int i = low; i <= high; i++)
        value = fmin(value, tally_median(tally, line->arms[i]));
    return value;
}

/* The first arm that the ternary search over one line needs and that has too few samples. */
static int line_next(const struct tally *tally, const struct line *line)
{
    int low = 0, high = line->count - 1, next;
    double tie = -INFINITY;

    while (high - low > 1) {
        int third = (high - low + 1) / 3;
        int a = low + third, b = high - third > a ? high - third : a + 1;
        double at_a = tally_median(tally, line->arms[a]);
        double at_b = tally_median(tally, line->arms[b]);

        next = wanted(tally, line->arms[a]);
        if (next == SEARCH_DONE)
            next = wanted(tally, line->arms[b]);
        if (next != SEARCH_DONE)
            return next;
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
    next = first_wanted(tally, line, low, high);
    /* Between equal ends lies the least, unless they belong to one plateau: then nothing lower was
     * found there, and it may be on either side. */
    if (next == SEARCH_DONE && least(tally, line, low, high) == tie)
        next = first_wanted(tally, line, 0, line->count - 1);
    return next;
}

static int paper_next(struct search *search)
{
    const struct moe_plan *arms = search->setup.arms;

    if (tally_out_of_samples(search))
        return SEARCH_DONE;
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        struct line line;
        int next = SEARCH_DONE;

        if (below_slices(search, &arms[i])) {
            line = line_of(search, &arms[i]);
            if (line.count && line.arms[0] == i) /* once per line */
                next = line_next(search->own, &line);
        } else if (search->usable[i]) {
            next = wanted(search->own, i); /* r = 0 and r = s */
        }
        if (next != SEARCH_DONE)
            return next;
    }
    return SEARCH_DONE;
}

const struct search_ops search_paper = {
    .name = "paper",
    .summary = "ternary search over r for every d and a, as published",
    .open = tally_open,
    .close = tally_close,
    .visit = tally_visit,
    .next = paper_next,
    .tell = tally_tell,
    .verdict = tally_verdict,
    .level = tally_level,
    .compare = tally_compare,
};
