/* Paired rounds: robust times, rivals chosen and judged by different halves, the bootstrap. */
#include "paired_rounds.h"

#include "random.h"
#include "stats.h"
#include "status.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 1000, HALVES = 2 };

/* ---- rounds */

static int grow(double **values, size_t count)
{
    double *more = realloc(*values, count * sizeof(*more));

    if (!more)
        return fail(ERR_NOMEM, "%zu steps", count);
    *values = more;
    return OK;
}

int paired_rounds_grow(struct paired_rounds *r)
{
    size_t count = r->count + ROUNDS_IN_VISIT;

    TRY(grow(&r->level, count * r->buckets));
    TRY(grow(&r->deviation, count * r->buckets * r->plans));
    r->count = count;
    return OK;
}

void paired_rounds_free(struct paired_rounds *r)
{
    free(r->level);
    free(r->deviation);
    *r = (struct paired_rounds){ 0 };
}

void paired_rounds_tell(struct paired_rounds *r, size_t round, size_t bucket, const double *ns)
{
    double *deviation = r->deviation + (round * r->buckets + bucket) * r->plans;
    double sorted[ROUNDS_PLANS], level;

    for (size_t p = 0; p < r->plans; p++)
        sorted[p] = log(ns[p]);
    level = median_of(sorted, r->plans);
    r->level[round * r->buckets + bucket] = level;
    for (size_t p = 0; p < r->plans; p++)
        deviation[p] = isinf(ns[p]) ? INFINITY : log(ns[p]) - level;
}

/* ---- times from some of the rounds */

/* Rounds of one half, as they are or drawn with replacement. */
struct draw {
    size_t *rounds;
    size_t count;
    double *scratch;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The mean of the middle half; of three values the middle one. */
static double midmean(double *values, size_t count)
{
    size_t cut = count < 3 ? 0 : (count + 3) / 4;
    double sum = 0;

    qsort(values, count, sizeof(*values), ascending);
    for (size_t i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (double)(count - 2 * cut);
}

static double level_at(const struct paired_rounds *r, const struct draw *d, size_t bucket)
{
    for (size_t i = 0; i < d->count; i++)
        d->scratch[i] = r->level[d->rounds[i] * r->buckets + bucket];
    return midmean(d->scratch, d->count);
}

static double deviation_at(const struct paired_rounds *r, const struct draw *d, size_t bucket,
                           int plan)
{
    for (size_t i = 0; i < d->count; i++)
        d->scratch[i] = r->deviation[(d->rounds[i] * r->buckets + bucket) * r->plans + plan];
    return midmean(d->scratch, d->count);
}

/* ---- rivals */

/* A plan per bucket. */
struct choice {
    int plan[ROUNDS_BUCKETS];
};

static struct choice same_everywhere(int plan)
{
    struct choice choice;

    for (size_t b = 0; b < ROUNDS_BUCKETS; b++)
        choice.plan[b] = plan;
    return choice;
}

static double total_ns(const struct paired_rounds *r, const struct draw *d,
                       const struct choice *choice)
{
    double sum = 0;

    for (size_t b = 0; b < r->buckets; b++)
        sum += exp(level_at(r, d, b) + deviation_at(r, d, b, choice->plan[b]));
    return sum;
}

static struct choice best_static(const struct paired_rounds *r, const struct draw *d)
{
    struct choice best = same_everywhere(0);
    double least = total_ns(r, d, &best);

    for (int p = 1; p < (int)r->plans; p++) {
        struct choice candidate = same_everywhere(p);
        double ns = total_ns(r, d, &candidate);

        if (ns < least) {
            least = ns;
            best = candidate;
        }
    }
    return best;
}

static int best_at(const struct paired_rounds *r, const struct draw *d, size_t bucket)
{
    int best = 0;

    for (int p = 1; p < (int)r->plans; p++)
        if (deviation_at(r, d, bucket, p) < deviation_at(r, d, bucket, best))
            best = p;
    return best;
}

static struct choice best_of_each(const struct paired_rounds *r, const struct draw *d)
{
    struct choice best = same_everywhere(0);

    for (size_t b = 0; b < r->buckets; b++)
        best.plan[b] = best_at(r, d, b);
    return best;
}

/* ---- what is estimated, as one row of numbers, so that a bootstrap need not know what they are */

enum {
    OVER_DEFAULT,
    OVER_STATIC,
    OVER_BEST,
    REGRET,
    BUCKET_REGRET,
    BUCKET_GAIN = BUCKET_REGRET + ROUNDS_BUCKETS,
    FIGURES = BUCKET_GAIN + ROUNDS_BUCKETS
};

struct rivals {
    struct choice table, default_plan, fixed[HALVES],
        best[HALVES]; /* by the half that judges them */
};

static double log_ratio(const struct paired_rounds *r, const struct draw *d, const struct choice *a,
                        const struct choice *b)
{
    return log(total_ns(r, d, a) / total_ns(r, d, b)) / HALVES;
}

/* Adds one half's part to the logarithms. */
static void judge(const struct paired_rounds *r, const struct draw *d, const struct rivals *rivals,
                  int half, double *figures)
{
    const struct choice *best = &rivals->best[half];

    figures[OVER_DEFAULT] += log_ratio(r, d, &rivals->table, &rivals->default_plan);
    figures[OVER_STATIC] += log_ratio(r, d, &rivals->table, &rivals->fixed[half]);
    figures[OVER_BEST] += log_ratio(r, d, &rivals->table, best);
    for (size_t b = 0; b < r->buckets; b++) {
        double own = deviation_at(r, d, b, rivals->table.plan[b]);

        figures[BUCKET_REGRET + b] += (own - deviation_at(r, d, b, best->plan[b])) / HALVES;
        figures[BUCKET_GAIN + b] +=
            (own - deviation_at(r, d, b, rivals->default_plan.plan[b])) / HALVES;
    }
}

static void compute(const struct paired_rounds *r, const struct draw *draws,
                    const struct rivals *rivals, double *figures)
{
    memset(figures, 0, FIGURES * sizeof(*figures));
    for (int half = 0; half < HALVES; half++)
        judge(r, &draws[half], rivals, half, figures);
    for (int i = OVER_DEFAULT; i <= OVER_BEST; i++)
        figures[i] = exp(figures[i]);
    for (size_t b = 0; b < r->buckets; b++) {
        figures[BUCKET_REGRET + b] = expm1(figures[BUCKET_REGRET + b]);
        figures[BUCKET_GAIN + b] = -expm1(figures[BUCKET_GAIN + b]);
        figures[REGRET] += figures[BUCKET_REGRET + b] / (double)r->buckets;
    }
}

/* ---- the bootstrap */

static int half_of(size_t round)
{
    return (int)(round / ROUNDS_IN_VISIT % HALVES);
}

/* All rounds of each half, each once. */
static void draw_all(const struct paired_rounds *r, struct draw *draws)
{
    for (int half = 0; half < HALVES; half++)
        draws[half].count = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct draw *d = &draws[half_of(i)];

        d->rounds[d->count++] = i;
    }
}

/* Whole visits are drawn, then rounds of each: rounds of one visit are more alike than rounds of
 * two, and it is the next visit that an interval speaks of. */
static void draw_again(const struct draw *from, uint64_t seed, uint64_t index, struct draw *to)
{
    uint32_t visits = (uint32_t)(from->count / ROUNDS_IN_VISIT);
    uint32_t visit = 0;

    to->count = from->count;
    for (size_t i = 0; i < to->count; i++) {
        if (i % ROUNDS_IN_VISIT == 0)
            visit = random_below(~seed, index * visits + i / ROUNDS_IN_VISIT, visits);
        to->rounds[i] = from->rounds[visit * ROUNDS_IN_VISIT +
                                     random_below(seed, index * from->count + i, ROUNDS_IN_VISIT)];
    }
}

/* The rivals that one half chooses are judged by the other. */
static struct rivals choose(const struct paired_rounds *r, const struct draw *all, const int *table,
                            int default_plan)
{
    struct rivals rivals = { .default_plan = same_everywhere(default_plan) };

    memcpy(rivals.table.plan, table, r->buckets * sizeof(*table));
    for (int half = 0; half < HALVES; half++) {
        rivals.fixed[half] = best_static(r, &all[1 - half]);
        rivals.best[half] = best_of_each(r, &all[1 - half]);
    }
    return rivals;
}

static struct interval interval_of(double value, const double *resampled, int figure,
                                   double *sorted)
{
    size_t tail = RESAMPLES / 40; /* 2.5 % */

    for (size_t i = 0; i < RESAMPLES; i++)
        sorted[i] = resampled[i * FIGURES + figure];
    qsort(sorted, RESAMPLES, sizeof(*sorted), ascending);
    return (struct interval){ value, sorted[tail], sorted[RESAMPLES - 1 - tail] };
}

/* What a bootstrap needs room for. */
struct bootstrap {
    struct draw all[HALVES], again[HALVES];
    double resampled[RESAMPLES * FIGURES], sorted[RESAMPLES];
};

static void bootstrap_free(struct bootstrap *boot)
{
    for (int half = 0; half < HALVES && boot; half++) {
        free(boot->all[half].rounds);
        free(boot->again[half].rounds);
        free(boot->all[half].scratch); /* shared with `again` */
    }
    free(boot);
}

static int bootstrap_make(size_t rounds, struct bootstrap **out)
{
    struct bootstrap *boot = calloc(1, sizeof(*boot));
    bool whole = boot != NULL;

    for (int half = 0; half < HALVES && boot; half++) {
        boot->all[half].rounds = calloc(rounds, sizeof(size_t));
        boot->again[half].rounds = calloc(rounds, sizeof(size_t));
        boot->all[half].scratch = calloc(rounds, sizeof(double));
        boot->again[half].scratch = boot->all[half].scratch;
        whole =
            whole && boot->all[half].rounds && boot->again[half].rounds && boot->all[half].scratch;
    }
    if (!whole) {
        bootstrap_free(boot);
        return fail(ERR_NOMEM, "a bootstrap of %zu rounds", rounds);
    }
    *out = boot;
    return OK;
}

static void resample(const struct paired_rounds *r, const struct rivals *rivals, uint64_t seed,
                     struct bootstrap *boot)
{
    for (uint64_t i = 0; i < RESAMPLES; i++) {
        for (int half = 0; half < HALVES; half++)
            draw_again(&boot->all[half], seed, i * HALVES + half, &boot->again[half]);
        compute(r, boot->again, rivals, boot->resampled + i * FIGURES);
    }
}

static void fill(const double *figures, struct bootstrap *boot, size_t buckets,
                 struct estimate *out)
{
    struct interval of[FIGURES];

    for (int i = 0; i < FIGURES; i++)
        of[i] = interval_of(figures[i], boot->resampled, i, boot->sorted);
    out->over_default = of[OVER_DEFAULT];
    out->over_static = of[OVER_STATIC];
    out->over_best = of[OVER_BEST];
    out->regret = of[REGRET];
    memcpy(out->bucket_regret, of + BUCKET_REGRET, buckets * sizeof(*of));
    memcpy(out->bucket_gain, of + BUCKET_GAIN, buckets * sizeof(*of));
}

int paired_rounds_estimate(const struct paired_rounds *r, const int *table, int default_plan,
                           uint64_t seed, struct estimate *out)
{
    struct bootstrap *boot = NULL;
    struct rivals rivals;
    double figures[FIGURES];

    assert(r->count >= HALVES * ROUNDS_IN_VISIT);
    TRY(bootstrap_make(r->count, &boot));
    draw_all(r, boot->all);
    rivals = choose(r, boot->all, table, default_plan);
    compute(r, boot->all, &rivals, figures);
    resample(r, &rivals, seed, boot);
    fill(figures, boot, r->buckets, out);
    for (int half = 0; half < HALVES; half++)
        out->static_plan[1 - half] = rivals.fixed[half].plan[0];
    bootstrap_free(boot);
    return OK;
}
