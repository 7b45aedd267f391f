/* The strategy `blind`: it searches without a cost model.  Plans with equal values on an axis are
 * similar, and it learns from samples how much each axis matters (likeness.h).  Its belief is a
 * Gaussian process over all plans (posterior.h), which every sample updates. */
#include "distribution.h"
#include "posterior.h"
#include "random.h"
#include "search.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAST_MAX = 256, RETRIES_MOST = 2 };

static const double default_worth = 0.00001;
/* With so many samples the uncertain constants add as much variance as the process itself has. */
static const double samples_of_doubt = 30;

/* The state of one blind search; blind_open() allocates it, blind_close() frees it. */
struct blind {
    struct points points;
    struct posterior posterior;
    struct likeness_workspace *workspace;
    struct likeness_seen *seen; /* by arm */
    /* The constants are fitted again at so many samples; sooner after a sample that somebody else
     * asked for. */
    size_t fit_at, fit_soon_at;
    bool *covered[POINT_AXES_MAX]; /* by value: a plan with it ran in this bucket or one nearby */
    int retry, retries; /* retry: an arm whose surprising sample is to be repeated; -1: none */
    bool limited;
};

/* ---- memory */

static int blind_open(struct search *search)
{
    const struct search_setup *s = &search->setup;
    struct blind *b = calloc(1, sizeof(*b));

    if (!b)
        return fail(ERR_NOMEM, "a search");
    search->own = b;
    TRY(s->points ? points_copy(s->points, &b->points)
                  : points_of_plans(s->arms, s->arm_count, &b->points));
    TRY(posterior_open(&b->points, &b->posterior));
    TRY(likeness_workspace_open(&b->workspace));
    b->seen = calloc(s->arm_count, sizeof(*b->seen));
    for (size_t a = 0; a < b->points.axes && b->seen; a++) {
        b->covered[a] = calloc(b->points.axis[a].values, sizeof(bool));
        if (!b->covered[a])
            return fail(ERR_NOMEM, "values of a search");
    }
    return b->seen ? OK : fail(ERR_NOMEM, "samples of a search");
}

static void blind_close(struct search *search)
{
    struct blind *b = search->own;

    if (!b)
        return;
    for (size_t a = 0; a < POINT_AXES_MAX; a++)
        free(b->covered[a]);
    free(b->seen);
    likeness_workspace_close(b->workspace);
    posterior_close(&b->posterior);
    points_close(&b->points);
    free(b);
}

/* ---- learning which axes matter */

static int by_mean(const void *a, const void *b)
{
    const struct likeness_seen *x = a, *y = b;

    return x->mean != y->mean ? (x->mean > y->mean) - (x->mean < y->mean) : x->point - y->point;
}

/* Averages the samples of this bucket by arm, without outliers, and sorts the arms by mean. */
static size_t gather_seen(struct blind *b, size_t arms)
{
    size_t n = 0;

    for (size_t i = 0; i < arms; i++)
        b->seen[i] = (struct likeness_seen){ .point = (int)i };
    for (size_t k = b->posterior.past; k < b->posterior.count; k++) {
        struct likeness_seen *seen = &b->seen[b->posterior.sample[k].arm];
        double off = b->posterior.sample[k].log_ns - seen->mean;

        if (b->posterior.sample[k].excess > 0)
            continue;
        seen->count++;
        seen->mean += off / seen->count;
        seen->squares += off * (b->posterior.sample[k].log_ns - seen->mean);
    }
    for (size_t i = 0; i < arms; i++)
        if (b->seen[i].count > 0)
            b->seen[n++] = b->seen[i];
    qsort(b->seen, n, sizeof(*b->seen), by_mean);
    return n;
}

/* ---- which arm next */

/* How much that never ran an arm shows: its values that did not run yet, and as a tie-break its
 * distance from the arms that did.  0: all of its values ran. */
static double newness(const struct search *search, int arm)
{
    const struct blind *b = search->own;
    double new = 0, nearest = 0;

    for (size_t a = 0; a < b->points.axes; a++)
        new += !b->covered[a][points_value(&b->points, arm, a)];
    for (size_t k = 0; k < b->posterior.count; k++)
        nearest = fmax(nearest, likeness_of(&b->posterior.table, arm, b->posterior.sample[k].arm) /
                                    b->posterior.table.own);
    return new > 0 ? new + 1 - nearest : 0;
}

static bool may_run(const struct search *search, const bool *among, int arm)
{
    return search->usable[arm] && (!among || among[arm]);
}

/* The arm of `among` (NULL: of all) with most values that did not run yet; -1: all values ran. */
static int arm_with_new_value(const struct search *search, const bool *among)
{
    double best_newness = 0;
    int next = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        double arm_newness = may_run(search, among, i) ? newness(search, i) : 0;

        if (arm_newness > best_newness) {
            best_newness = arm_newness;
            next = i;
        }
    }
    return next;
}

enum which_arms { ANY_ARM, ARMS_THAT_RAN };

/* The usable arm with the least mean, of `within` (NULL: of all), without `but`.  ARMS_THAT_RAN: in
 * this bucket.  -1: no arm is left. */
static int best_arm(const struct search *search, const bool *within, enum which_arms which, int but)
{
    const struct blind *b = search->own;
    bool among[SEARCH_ARMS_MAX];

    for (size_t i = 0; i < search->setup.arm_count; i++)
        among[i] = may_run(search, within, (int)i) && (which == ANY_ARM || search->count[i]);
    return search_least(search, among, b->posterior.process.mean, but);
}

/* The expected gain, as a share of a step, of one more sample of this arm or of the best one. */
static double promise_of(const struct search *search, int arm, int best)
{
    const struct blind *b = search->own;
    double covariance = posterior_covariance(&b->posterior, arm, best),
           noise = b->posterior.likeness.noise;
    double arm_alone = b->posterior.process.variance[arm] - covariance,
           best_alone = b->posterior.process.variance[best] - covariance;
    double gap = fmax(b->posterior.process.mean[arm] - b->posterior.process.mean[best], 0);
    double by_arm = fabs(arm_alone) / sqrt(b->posterior.process.variance[arm] + noise);
    double by_best = fabs(best_alone) / sqrt(b->posterior.process.variance[best] + noise);
    double samples = (double)(b->posterior.count - b->posterior.past);

    /* The constants are guesses, too: the fewer samples, the more uncertain. */
    return gain_of_learning(gap, fmax(by_arm, by_best) * sqrt(1 + samples_of_doubt / samples));
}

static double worth_of(const struct search *search)
{
    return search->setup.worth > 0 ? search->setup.worth : default_worth;
}

/* The arm of `among` (NULL: of all) whose sample promises more than *most and more than the others;
 * *most becomes its promise.  -1: none promises more. */
static int most_promising(const struct search *search, const bool *among, int best, double *most)
{
    int next = -1;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        double promised;

        if (!may_run(search, among, i) || i == best)
            continue;
        promised = promise_of(search, i, best);
        if (!(promised > *most))
            continue;
        *most = promised;
        next = i;
    }
    return next;
}

/* If both arms have run, the one with the larger variance; else `next`. */
static int known_less(const struct search *search, int next, int best)
{
    const struct blind *b = search->own;

    return next >= 0 && search->count[next] &&
                   b->posterior.process.variance[best] > b->posterior.process.variance[next]
               ? best
               : next;
}

/* The arm whose sample is worth most; -1: no sample is worth its time. */
static int arm_worth_most(const struct search *search)
{
    double most = worth_of(search);
    int best = best_arm(search, NULL, ARMS_THAT_RAN, -1);

    if (best < 0) /* all that ran are dropped */
        return best_arm(search, NULL, ANY_ARM, -1);
    return known_less(search, most_promising(search, NULL, best, &most), best);
}

static int blind_next(struct search *search)
{
    enum { LEAST = 40, PART = 5 }; /* a fifth of the arms, but 40 samples at least */
    struct blind *b = search->own;
    uint32_t limit =
        search->setup.limit ? search->setup.limit : (uint32_t)search->setup.arm_count / PART;
    int next;

    limit = !search->setup.limit && limit < LEAST ? LEAST : limit;
    b->limited = search->samples >= limit || b->posterior.count >= POSTERIOR_ROWS_MAX;
    if (b->limited)
        return SEARCH_DONE;
    if (b->retry >= 0 && search->usable[b->retry])
        return b->retry;
    if (!search->samples && search->usable[0])
        return 0; /* the first arm is the default plan */
    next = arm_with_new_value(search, NULL);
    return next >= 0 ? next : arm_worth_most(search);
}

/* `among` has the arms that can be sampled cheaply now, say without a restart.  So a sample of them
 * is worth taking at a quarter of the usual gain.  With `within` set no other arm is asked for. */
static int blind_next_among(struct search *search, const bool *among, const bool *within)
{
    static const double cheap_share = 0.25;
    int best = best_arm(search, within, ARMS_THAT_RAN, -1),
        next = arm_with_new_value(search, among);
    double most = worth_of(search), least_promise;

    if (next < 0 && best < 0 && within)
        return best_arm(search, among, ANY_ARM, -1);
    if (next >= 0 || best < 0)
        return next;
    if (!within)
        (void)most_promising(search, NULL, best, &most);
    least_promise = fmax(worth_of(search), cheap_share * most);
    next = most_promising(search, among, best, &least_promise);
    best = known_less(search, next, best);
    return best >= 0 && among[best] ? best : next;
}

/* ---- samples */

static void mark_covered(struct blind *b, int arm)
{
    for (size_t a = 0; a < b->points.axes; a++)
        b->covered[a][points_value(&b->points, arm, a)] = true;
}

/* Marks one sample of the arm that lies far above its fastest one.  False: none does. */
static bool find_outlier(struct blind *b, int arm)
{
    static const double far_sds = 6;
    double fastest = INFINITY, limit;
    size_t n = 0;

    for (size_t k = b->posterior.past; k < b->posterior.count; k++)
        if (b->posterior.sample[k].arm == arm) {
            fastest = fmin(fastest, b->posterior.sample[k].log_ns);
            n++;
        }
    limit = fastest + far_sds * sqrt(b->posterior.likeness.noise);
    for (size_t k = b->posterior.past; k < b->posterior.count && n > 1; k++)
        if (b->posterior.sample[k].arm == arm && !(b->posterior.sample[k].excess > 0) &&
            b->posterior.sample[k].log_ns > limit) {
            double above = b->posterior.sample[k].log_ns - fastest;

            b->posterior.sample[k].excess = above * above;
            return true;
        }
    return false;
}

static void blind_tell(struct search *search, int arm, double log_ns, bool asked)
{
    struct blind *b = search->own;
    bool first = search->count[arm] == 1;
    double expected = b->posterior.process.mean[arm] + b->posterior.first, sd;
    size_t bucket_samples;

    if (b->posterior.count == POSTERIOR_ROWS_MAX)
        return;
    sd = safe_deviation(b->posterior.process.variance[arm] + b->posterior.likeness.noise, 0);
    b->posterior.sample[b->posterior.count] = (struct sample){ .arm = arm,
                                                               .group = b->posterior.group,
                                                               .step = (int)search->samples,
                                                               .log_c = b->posterior.log_c,
                                                               .log_ns = log_ns,
                                                               .count = 1 };
    if (b->retry < 0 || b->retry == arm) { /* another arm keeps waiting for its second sample */
        b->retries = b->retry == arm ? b->retries + 1 : 0;
        b->retry = -1;
    }
    /* Much slower than expected: another program may have run.  The arm is sampled again. */
    if (b->posterior.count > b->posterior.past + 8 && log_ns > expected + 3.5 * sd && first &&
        b->retries < RETRIES_MOST)
        b->retry = arm;
    b->posterior.count++;
    mark_covered(b, arm);
    if (find_outlier(b, arm) || b->posterior.count - b->posterior.past == 1)
        posterior_renew(&b->posterior);
    else
        posterior_add(&b->posterior);
    /* A sample that the search did not ask for serves a proof.  A proof needs the noise, so the fit
     * comes sooner. */
    bucket_samples = b->posterior.count - b->posterior.past;
    if (b->posterior.count < (asked ? b->fit_at : b->fit_soon_at) ||
        bucket_samples < b->points.axes + 3)
        return;
    likeness_fit(&b->posterior.table, b->seen, gather_seen(b, search->setup.arm_count),
                 b->workspace, &b->posterior.likeness);
    b->fit_at = b->posterior.count + bucket_samples / 2 + 2;
    b->fit_soon_at = b->posterior.count + bucket_samples / 8 + 1;
    posterior_renew(&b->posterior);
}

static void blind_drop(struct search *search, int arm, bool failed)
{
    struct blind *b = search->own;

    (void)failed;
    b->retry = b->retry == arm ? -1 : b->retry;
    mark_covered(b, arm); /* its values cannot be tried with it */
}

/* ---- buckets */

/* Replaces the samples of the bucket that ends by one mean for each arm.  The oldest samples of
 * earlier buckets make room. */
static void close_bucket(struct blind *b, size_t arms)
{
    struct sample last;
    size_t means, kept;

    if (b->posterior.count == b->posterior.past)
        return;
    last = b->posterior.sample[b->posterior.count - 1];
    means = gather_seen(b, arms);
    means = means > PAST_MAX / 2 ? PAST_MAX / 2 : means;
    kept = b->posterior.past > PAST_MAX - means ? PAST_MAX - means : b->posterior.past;
    memmove(b->posterior.sample, b->posterior.sample + b->posterior.past - kept,
            kept * sizeof(*b->posterior.sample));
    for (size_t i = 0; i < means; i++)
        b->posterior.sample[kept + i] = (struct sample){ .arm = b->seen[i].point,
                                                         .group = last.group,
                                                         .log_c = last.log_c,
                                                         .log_ns = b->seen[i].mean,
                                                         .count = b->seen[i].count };
    b->posterior.past = b->posterior.count = kept + means;
}

static void blind_begin(struct search *search)
{
    struct blind *b = search->own;

    close_bucket(b, search->setup.arm_count);
    b->posterior.group++;
    b->posterior.alone = search->alone;
    b->posterior.log_c = log(search->capacity ? (double)search->capacity : 1);
    b->retry = -1;
    b->retries = 0;
    b->limited = false;
    for (size_t a = 0; a < b->points.axes; a++)
        memset(b->covered[a], 0, b->points.axis[a].values * sizeof(bool));
    for (size_t k = 0; k < b->posterior.past && !b->posterior.alone; k++)
        if (capacity_correlation(b->posterior.log_c, b->posterior.sample[k].log_c) > 0.5)
            mark_covered(b, b->posterior.sample[k].arm);
    b->fit_at = b->fit_soon_at = b->posterior.past + 2 * b->points.axes + 4;
    posterior_renew(&b->posterior);
}

/* ---- the verdict */

static double bound_against(const struct search *search, const bool *usable, int winner)
{
    const struct blind *b = search->own;
    double mean[SEARCH_ARMS_MAX], sd[SEARCH_ARMS_MAX];
    size_t n = 0;

    for (int i = 0; i < (int)search->setup.arm_count; i++) {
        struct normal apart;

        if (i == winner || (usable && !usable[i]))
            continue;
        apart = posterior_difference(&b->posterior, i, winner);
        mean[n] = apart.mean;
        sd[n++] = apart.sd;
    }
    return bound_of(mean, sd, n, 0.05);
}

static void blind_verdict(struct search *search, struct search_result *out)
{
    struct blind *b = search->own;
    int winner = best_arm(search, NULL, ARMS_THAT_RAN, -1);

    out->winner = winner >= 0 ? winner : best_arm(search, NULL, ANY_ARM, -1);
    out->runner_up = best_arm(search, NULL, ANY_ARM, out->winner);
    out->bound = out->winner < 0 ? NAN : bound_against(search, search->usable, out->winner);
    if (b->limited)
        out->reason = SEARCH_LIMIT;
}

/* Few repeated samples tell the noise.  So deviations are wider by the ratio of Student's quantile
 * to the normal one. */
static double widening(const struct search *search)
{
    double freedom = LIKENESS_FREEDOM + search->samples - search->ran;

    return student_quantile(freedom, STATED) / student_quantile(INFINITY, STATED);
}

static struct normal blind_level(struct search *search, int arm)
{
    const struct blind *b = search->own;

    return (struct normal){ b->posterior.process.mean[arm] + b->posterior.first,
                            widening(search) *
                                safe_deviation(b->posterior.process.variance[arm], 1e-12) };
}

static struct normal blind_compare(struct search *search, int arm, int other)
{
    const struct blind *b = search->own;
    struct normal apart = posterior_difference(&b->posterior, arm, other);

    apart.sd *= widening(search);
    return apart;
}

static double blind_bound(struct search *search, int arm)
{
    return bound_against(search, search->usable, arm);
}

const struct search_ops search_blind = {
    .name = "blind",
    .summary = "learns from samples alone which values of axes are fast",
    .open = blind_open,
    .close = blind_close,
    .begin = blind_begin,
    .next = blind_next,
    .next_among = blind_next_among,
    .tell = blind_tell,
    .drop = blind_drop,
    .verdict = blind_verdict,
    .level = blind_level,
    .compare = blind_compare,
    .bound = blind_bound,
    .least = 4,
};
