/* The strategy that knows no cost model: which values of which axes make plans alike is all it goes
 * by, and it learns from samples how much each axis matters (likeness.h).  What is believed is a
 * Gaussian process over all plans; each sample moves it.
 *
 * The belief is kept as a Cholesky factor of the samples' covariance, which grows by a row with
 * each of them: `half` is the factor's inverse times the samples' covariance with all plans. */
#include "bound.h"
#include "likeness.h"
#include "pairs.h"
#include "random.h"
#include "search.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 896, PAST_MAX = 256, AGAIN_MOST = 2 };

/* Standard deviations of log(ns). */
static const double level_sd = 3, /* of what a visit's samples have in common */
    mood_sd = 0.02;               /* of the machine's mood, over some 40 steps */
static const double mood_steps = 40;
static const double worth_usual = 0.00001;
/* So many samples leave the constants half as uncertain as what follows from them. */
static const double doubt = 30;

/* A sample, or the mean of those that an arm had in an earlier visit. */
struct sample {
    int arm;
    uint32_t visit;
    int step;
    double log_c, log_ns, count;
    double excess; /* variance beyond that of one sample: it is an outlier */
};

struct blind {
    struct points points;
    struct likeness likeness;
    struct likeness_table table;
    struct likeness_room *room;
    struct likeness_seen *seen; /* by arm */
    struct sample sample[ROWS_MAX];
    size_t count, past; /* all; those of other visits, which come first */
    uint32_t visit;
    double log_c;
    bool alone;              /* what other visits were told does not count in this one */
    double first;            /* log(ns) that the belief counts from */
    double *factor;          /* (ROWS_MAX, ROWS_MAX), lower */
    double *half;            /* (ROWS_MAX, arms) */
    double *right;           /* (ROWS_MAX): the factor's inverse times what the samples took */
    double *mean, *variance; /* by arm; counted from `first`, and without the level's variance */
    size_t rows;             /* of the factor */
    /* Samples at which the constants are fitted again; sooner for those that others ask for. */
    size_t fit_at, fit_soon_at;
    bool *covered[POINT_AXES_MAX]; /* by value: it ran in this visit, or near it */
    int again, agains;             /* an arm whose sample surprised, -1 = none */
    bool limited;
};

/* ---- memory */

static int take(void *out, size_t count, size_t width)
{
    void *memory = calloc(count + 1, width);

    if (!memory)
        return fail(ERR_NOMEM, "%zu numbers of a search's model", count);
    memcpy(out, &memory, sizeof(memory));
    return OK;
}

static int open_memory(struct blind *b, size_t arms)
{
    TRY(take(&b->seen, arms, sizeof(*b->seen)));
    TRY(take(&b->factor, (size_t)ROWS_MAX * ROWS_MAX, sizeof(double)));
    TRY(take(&b->half, ROWS_MAX * arms, sizeof(double)));
    TRY(take(&b->right, ROWS_MAX, sizeof(double)));
    TRY(take(&b->mean, arms, sizeof(double)));
    TRY(take(&b->variance, arms, sizeof(double)));
    for (size_t a = 0; a < b->points.axes; a++)
        TRY(take(&b->covered[a], b->points.axis[a].values, sizeof(bool)));
    return OK;
}

static int blind_open(struct search *search)
{
    const struct search_setup *s = &search->setup;
    struct blind *b = calloc(1, sizeof(*b));

    if (!b)
        return fail(ERR_NOMEM, "a search");
    search->own = b;
    TRY(s->points ? points_copy(s->points, &b->points)
                  : points_of_plans(s->arms, s->arm_count, &b->points));
    TRY(likeness_table_open(&b->points, &b->table));
    TRY(likeness_room_open(&b->room));
    b->likeness = likeness_guess(&b->points);
    likeness_table_set(&b->table, &b->likeness);
    return open_memory(b, s->arm_count);
}

static void blind_close(struct search *search)
{
    struct blind *b = search->own;

    if (!b)
        return;
    for (size_t a = 0; a < POINT_AXES_MAX; a++)
        free(b->covered[a]);
    free(b->variance);
    free(b->mean);
    free(b->right);
    free(b->half);
    free(b->factor);
    free(b->seen);
    likeness_room_close(b->room);
    likeness_table_close(&b->table);
    points_close(&b->points);
    free(b);
}

/* ---- what is believed */

/* How much of what holds at one key holds at another. */
static double across(double log_c, double other)
{
    double apart = log_c - other;

    return apart == 0 ? 1 : exp(-apart * apart / 4.5);
}

/* Of an arm in this visit with a sample. */
static double with_sample(const struct blind *b, int arm, const struct sample *s)
{
    if (s->visit == b->visit)
        return level_sd * level_sd + likeness_of(&b->table, arm, s->arm);
    return b->alone ? 0 : across(b->log_c, s->log_c) * likeness_of(&b->table, arm, s->arm);
}

static double between_samples(const struct blind *b, const struct sample *x, const struct sample *y)
{
    double value = across(x->log_c, y->log_c) * likeness_of(&b->table, x->arm, y->arm);

    if (x->visit != y->visit)
        return b->alone && (x->visit == b->visit || y->visit == b->visit) ? 0 : value;
    return value + level_sd * level_sd +
           mood_sd * mood_sd * exp(-abs(x->step - y->step) / mood_steps);
}

static double of_sample(const struct blind *b, const struct sample *s)
{
    return b->likeness.noise / s->count + s->excess;
}

static void add_row(struct blind *b, size_t arms)
{
    size_t n = b->rows++;
    const struct sample *s = &b->sample[n];
    double *row = b->factor + n * ROWS_MAX, *half = b->half + n * arms, diagonal, right;

    for (size_t j = 0; j < n; j++) {
        const double *other = b->factor + j * ROWS_MAX;
        double value = between_samples(b, s, &b->sample[j]);

        for (size_t k = 0; k < j; k++)
            value -= row[k] * other[k];
        row[j] = value / other[j];
    }
    diagonal = between_samples(b, s, s) + of_sample(b, s);
    right = s->log_ns - b->first;
    for (size_t k = 0; k < n; k++) {
        diagonal -= row[k] * row[k];
        right -= row[k] * b->right[k];
    }
    row[n] = sqrt(fmax(diagonal, 1e-12));
    b->right[n] = right / row[n];
    for (size_t i = 0; i < arms; i++)
        half[i] = with_sample(b, (int)i, s);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < arms; i++)
            half[i] -= row[k] * b->half[k * arms + i];
    for (size_t i = 0; i < arms; i++) {
        half[i] /= row[n];
        b->mean[i] += half[i] * b->right[n];
        b->variance[i] -= half[i] * half[i];
    }
}

static void believe(struct search *search)
{
    struct blind *b = search->own;
    size_t arms = search->setup.arm_count;

    b->rows = 0;
    b->first = b->count ? b->sample[b->count - 1].log_ns : 0;
    for (size_t i = 0; i < arms; i++) {
        b->mean[i] = 0;
        b->variance[i] = level_sd * level_sd + b->table.own;
    }
    while (b->rows < b->count)
        add_row(b, arms);
}

/* Of two arms, after all samples. */
static double covariance(const struct search *search, int i, int j)
{
    const struct blind *b = search->own;
    size_t arms = search->setup.arm_count;
    double value = level_sd * level_sd + likeness_of(&b->table, i, j);

    for (size_t k = 0; k < b->rows; k++)
        value -= b->half[k * arms + (size_t)i] * b->half[k * arms + (size_t)j];
    return value;
}

static struct normal difference(const struct search *search, int i, int j)
{
    const struct blind *b = search->own;
    double variance = b->variance[i] + b->variance[j] - 2 * covariance(search, i, j);

    return (struct normal){ b->mean[i] - b->mean[j], sqrt(fmax(variance, 1e-12)) };
}

/* ---- learning which axes matter */

static int by_mean(const void *a, const void *b)
{
    const struct likeness_seen *x = a, *y = b;

    return x->mean != y->mean ? (x->mean > y->mean) - (x->mean < y->mean) : x->point - y->point;
}

/* The samples of this visit by arm, calm ones. */
static size_t gather_seen(struct blind *b, size_t arms)
{
    size_t n = 0;

    for (size_t i = 0; i < arms; i++)
        b->seen[i] = (struct likeness_seen){ .point = (int)i };
    for (size_t k = b->past; k < b->count; k++) {
        struct likeness_seen *seen = &b->seen[b->sample[k].arm];
        double off = b->sample[k].log_ns - seen->mean;

        if (b->sample[k].excess > 0)
            continue;
        seen->count++;
        seen->mean += off / seen->count;
        seen->squares += off * (b->sample[k].log_ns - seen->mean);
    }
    for (size_t i = 0; i < arms; i++)
        if (b->seen[i].count > 0)
            b->seen[n++] = b->seen[i];
    qsort(b->seen, n, sizeof(*b->seen), by_mean);
    return n;
}

static void learn(struct search *search)
{
    struct blind *b = search->own;
    size_t n = gather_seen(b, search->setup.arm_count);

    likeness_fit(&b->table, b->seen, n, b->room, &b->likeness);
    b->fit_at = b->count + (b->count - b->past) / 2 + 2;
    b->fit_soon_at = b->count + (b->count - b->past) / 8 + 1;
    believe(search);
}

/* ---- which arm next */

static double likeness_share(const struct blind *b, int i, int j)
{
    return likeness_of(&b->table, i, j) / b->table.own;
}

/* Values that did not run yet, and how far the arm is from all that did. */
static double newness(const struct search *search, int arm)
{
    const struct blind *b = search->own;
    double new = 0, nearest = 0;

    for (size_t a = 0; a < b->points.axes; a++)
        new += !b->covered[a][points_value(&b->points, arm, a)];
    for (size_t k = 0; k < b->count; k++)
        nearest = fmax(nearest, likeness_share(b, arm, b->sample[k].arm));
    return new > 0 ? new + 1 - nearest : 0;
}

/* The arm that shows most values that did not run; -1: all did. */
static int cover(const struct search *search)
{
    double most = 0;
    int next = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        double new = search->usable[i] ? newness(search, i) : 0;

        if (new > most) {
            most = new;
            next = i;
        }
    }
    return next;
}

/* The arm of least mean among the usable ones, or those of them that ran here. */
static int best_arm(const struct search *search, bool ran, int but)
{
    const struct blind *b = search->own;
    int best = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++)
        if (search->usable[i] && i != but && (!ran || search->count[i]) &&
            (best < 0 || b->mean[i] < b->mean[best]))
            best = i;
    return best;
}

/* How much faster a step is expected to get by one more sample of an arm. */
static double promise(double gap, double v)
{
    double z = gap / v;

    return v > 0 ? v * (normal_density(z) - z * normal_tail(-z)) : 0;
}

/* What samples of an arm, and of the best one, say of their difference. */
static double promise_of(const struct search *search, int arm, int best)
{
    const struct blind *b = search->own;
    double shared = covariance(search, arm, best), noise = b->likeness.noise;
    double of_arm = b->variance[arm] - shared, of_best = b->variance[best] - shared;
    double gap = b->mean[arm] - b->mean[best];
    double by_arm = fabs(of_arm) / sqrt(b->variance[arm] + noise);
    double by_best = fabs(of_best) / sqrt(b->variance[best] + noise);

    /* The constants are guesses, too, the more so the fewer samples there are. */
    return promise(fmax(gap, 0),
                   fmax(by_arm, by_best) * sqrt(1 + doubt / (double)(b->count - b->past)));
}

/* -1: none is worth a sample. */
static int race(const struct search *search)
{
    double worth = search->setup.worth > 0 ? search->setup.worth : worth_usual, most = worth;
    int best = best_arm(search, true, -1), next = -1;
    const struct blind *b = search->own;

    if (best < 0) /* all that ran are dropped */
        return best_arm(search, false, -1);
    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        double promised;

        if (!search->usable[i] || i == best)
            continue;
        promised = promise_of(search, i, best);
        if (promised <= most)
            continue;
        most = promised;
        next = i;
    }
    /* Of two that differ by noise alone, the one that is known less. */
    return next >= 0 && search->count[next] && b->variance[best] > b->variance[next] ? best : next;
}

static uint32_t limit_of(const struct search *search)
{
    enum { LEAST = 40, PART = 5 };
    uint32_t part = (uint32_t)search->setup.arm_count / PART;

    if (search->setup.limit)
        return search->setup.limit;
    return part > LEAST ? part : LEAST;
}

static int blind_next(struct search *search)
{
    struct blind *b = search->own;
    int next;

    b->limited = search->samples >= limit_of(search) || b->count >= ROWS_MAX;
    if (b->limited)
        return SEARCH_DONE;
    if (b->again >= 0 && search->usable[b->again])
        return b->again;
    if (!search->samples && search->usable[0])
        return 0; /* what is listed first is what is used today */
    next = cover(search);
    return next >= 0 ? next : race(search);
}

/* ---- samples */

static void mark_covered(struct blind *b, int arm)
{
    for (size_t a = 0; a < b->points.axes; a++)
        b->covered[a][points_value(&b->points, arm, a)] = true;
}

/* Of several samples of one arm one is far above the others. */
static bool find_outlier(struct blind *b, int arm)
{
    static const double far = 6;
    double least = INFINITY, limit;
    size_t n = 0;

    for (size_t k = b->past; k < b->count; k++)
        if (b->sample[k].arm == arm) {
            least = fmin(least, b->sample[k].log_ns);
            n++;
        }
    limit = least + far * sqrt(b->likeness.noise);
    for (size_t k = b->past; k < b->count && n > 1; k++)
        if (b->sample[k].arm == arm && !(b->sample[k].excess > 0) && b->sample[k].log_ns > limit) {
            double above = b->sample[k].log_ns - least;

            b->sample[k].excess = above * above;
            return true;
        }
    return false;
}

static void blind_tell(struct search *search, int arm, double log_ns, bool asked)
{
    struct blind *b = search->own;
    bool first = search->count[arm] == 1;
    double expected = b->mean[arm] + b->first, sd;

    if (b->count == ROWS_MAX)
        return;
    sd = sqrt(fmax(b->variance[arm], 0) + b->likeness.noise);
    b->sample[b->count] = (struct sample){ .arm = arm,
                                           .visit = b->visit,
                                           .step = (int)search->samples,
                                           .log_c = b->log_c,
                                           .log_ns = log_ns,
                                           .count = 1 };
    b->agains = b->again == arm ? b->agains + 1 : 0;
    b->again = -1;
    /* Much slower than expected: another program may have run.  The plan gets another chance. */
    if (b->count > b->past + 8 && log_ns > expected + 3.5 * sd && first && b->agains < AGAIN_MOST)
        b->again = arm;
    b->count++;
    mark_covered(b, arm);
    if (find_outlier(b, arm))
        believe(search);
    else if (b->count - b->past == 1)
        believe(search);
    else
        add_row(b, search->setup.arm_count);
    /* What is not asked for is told to make sure, and how far samples scatter decides that. */
    if (b->count >= (asked ? b->fit_at : b->fit_soon_at) &&
        b->count - b->past >= b->points.axes + 3)
        learn(search);
}

static void blind_drop(struct search *search, int arm, bool failed)
{
    struct blind *b = search->own;

    (void)failed;
    b->again = b->again == arm ? -1 : b->again;
    mark_covered(b, arm); /* it cannot show them */
}

/* ---- visits */

/* The samples of the visit that ends become one for each arm; the oldest make room. */
static void average(struct blind *b, size_t arms)
{
    struct sample last;
    size_t n, keep;

    if (b->count == b->past)
        return;
    last = b->sample[b->count - 1];
    n = gather_seen(b, arms);
    n = n > PAST_MAX / 2 ? PAST_MAX / 2 : n;
    keep = b->past > PAST_MAX - n ? PAST_MAX - n : b->past;
    memmove(b->sample, b->sample + b->past - keep, keep * sizeof(*b->sample));
    for (size_t i = 0; i < n; i++)
        b->sample[keep + i] = (struct sample){ .arm = b->seen[i].point,
                                               .visit = last.visit,
                                               .log_c = last.log_c,
                                               .log_ns = b->seen[i].mean,
                                               .count = b->seen[i].count };
    b->past = b->count = keep + n;
}

static void blind_visit(struct search *search)
{
    struct blind *b = search->own;

    average(b, search->setup.arm_count);
    b->visit++;
    b->alone = search->alone;
    b->log_c = log(search->capacity ? (double)search->capacity : 1);
    b->again = -1;
    b->agains = 0;
    b->limited = false;
    for (size_t a = 0; a < b->points.axes; a++)
        memset(b->covered[a], 0, b->points.axis[a].values * sizeof(bool));
    for (size_t k = 0; k < b->past && !b->alone; k++)
        if (across(b->log_c, b->sample[k].log_c) > 0.5)
            mark_covered(b, b->sample[k].arm);
    b->fit_at = b->fit_soon_at = b->past + 2 * b->points.axes + 4;
    believe(search);
}

/* ---- what came of it */

static double bound_against(const struct search *search, const bool *usable, int winner)
{
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    size_t n = 0;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        struct normal apart;

        if (i == winner || (usable && !usable[i]))
            continue;
        apart = difference(search, i, winner);
        mean[n] = apart.mean;
        sd[n++] = apart.sd;
    }
    return bound_of(mean, sd, n, 0.05);
}

static void blind_verdict(struct search *search, struct search_result *out)
{
    struct blind *b = search->own;
    int winner = best_arm(search, true, -1);

    out->winner = winner >= 0 ? winner : best_arm(search, false, -1);
    out->runner_up = best_arm(search, false, out->winner);
    out->bound = out->winner < 0 ? NAN : bound_against(search, search->usable, out->winner);
    if (b->limited)
        out->reason = SEARCH_LIMIT;
}

/* How far samples scatter is known from few that repeat others: what is said of a plan is wider by
 * so much, as Student's distribution is than the normal one. */
static double widening(const struct search *search)
{
    double freedom = LIKENESS_FREEDOM;

    for (size_t i = 0; i < search->setup.arm_count; i++)
        freedom += search->count[i] ? search->count[i] - 1 : 0;
    return student(freedom, STATED) / student(INFINITY, STATED);
}

static struct normal blind_level(struct search *search, int arm)
{
    const struct blind *b = search->own;

    return (struct normal){ b->mean[arm] + b->first,
                            widening(search) * sqrt(fmax(b->variance[arm], 1e-12)) };
}

static struct normal blind_compare(struct search *search, int arm, int other)
{
    struct normal apart = difference(search, arm, other);

    apart.sd *= widening(search);
    return apart;
}

static double blind_bound(struct search *search, int arm)
{
    return bound_against(search, search->usable, arm);
}

const struct search_ops search_blind = {
    .name = "blind",
    .summary = "learns from samples alone which values of which axes are fast",
    .open = blind_open,
    .close = blind_close,
    .visit = blind_visit,
    .next = blind_next,
    .tell = blind_tell,
    .drop = blind_drop,
    .verdict = blind_verdict,
    .level = blind_level,
    .compare = blind_compare,
    .bound = blind_bound,
    .least = 4,
};
