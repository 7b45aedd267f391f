/* Computes the covariance of plans from their values, and fits its constants to samples by a search
 * along each constant in turn. */
#include "likeness.h"

#include "gaussian.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Guesses of the constants, and the standard deviation of their logarithms. */
static const double guess_scale = 0.15, guess_weight = 0.5, guess_noise_sd = 0.05;
static const double doubt_scale = 1.5, doubt_weight = 1.2, doubt_length = 0.6, doubt_noise = 0.7;
static const double least_noise_sd = 0.002;

/* The length of an axis before there are samples: see like(). */
static double usual_length(const struct point_axis *axis)
{
    double third = (double)axis->values / 3;

    return axis->words ? 1 : third > 1.5 ? third : 1.5;
}

struct likeness likeness_guess(const struct points *points)
{
    struct likeness l = { .scale = guess_scale, .noise = guess_noise_sd * guess_noise_sd };

    for (size_t a = 0; a < points->axes; a++) {
        l.weight[a] = guess_weight;
        l.length[a] = usual_length(&points->axis[a]);
    }
    return l;
}

/* The similarity of two values of an axis.  For ordered values it is a Matern function of order
 * 3/2, which is smooth but allows for jumps. */
static double like(const struct point_axis *axis, double length, size_t i, size_t j)
{
    double distance = axis->words ? i != j : fabs(axis->at[i] - axis->at[j]);
    double by = 1.7320508075688772 * distance / length;

    return axis->words ? exp(-distance / length) : (1 + by) * exp(-by);
}

int likeness_table_open(const struct points *points, struct likeness_table *out)
{
    *out = (struct likeness_table){ .points = points };
    for (size_t a = 0; a < points->axes; a++) {
        size_t values = points->axis[a].values;

        out->factor[a] = calloc(values * values, sizeof(double));
        if (!out->factor[a])
            return fail(ERR_NOMEM, "%zu pairs of values", values * values);
    }
    return OK;
}

void likeness_table_set(struct likeness_table *table, const struct likeness *l)
{
    double product = 1;

    for (size_t a = 0; a < table->points->axes; a++) {
        const struct point_axis *axis = &table->points->axis[a];

        for (size_t i = 0; i < axis->values; i++)
            for (size_t j = 0; j < axis->values; j++)
                table->factor[a][i * axis->values + j] =
                    1 + l->weight[a] * like(axis, l->length[a], i, j);
        product *= 1 + l->weight[a];
    }
    table->scale = l->scale;
    table->own = l->scale * (product - 1) + LIKENESS_OWN;
}

void likeness_table_close(struct likeness_table *table)
{
    for (size_t a = 0; a < POINT_AXES_MAX; a++)
        free(table->factor[a]);
    *table = (struct likeness_table){ 0 };
}

/* ---- the constants */

struct likeness_workspace {
    struct likeness_seen seen[LIKENESS_SEEN_MAX];
    struct gaussian process; /* over samples only, without arms */
};

int likeness_workspace_open(struct likeness_workspace **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fail(ERR_NOMEM, "what a search's model is fitted in");
    return gaussian_open(0, LIKENESS_SEEN_MAX, 1e-12, &(*out)->process);
}

void likeness_workspace_close(struct likeness_workspace *workspace)
{
    if (workspace)
        gaussian_close(&workspace->process);
    free(workspace);
}

static double log_prior(double value, double usual, double doubt)
{
    double deviations = log(value / usual) / doubt;

    return -0.5 * deviations * deviations;
}

static double log_priors(const struct points *points, const struct likeness *l)
{
    double sum = log_prior(l->scale, guess_scale, doubt_scale) +
                 log_prior(l->noise, guess_noise_sd * guess_noise_sd, 2 * doubt_noise);

    for (size_t a = 0; a < points->axes; a++)
        sum += log_prior(l->weight[a], guess_weight, doubt_weight) +
               log_prior(l->length[a], usual_length(&points->axis[a]), doubt_length);
    return sum;
}

/* The log likelihood of the means under the constants of the table: the sum over each mean's
 * likelihood given those before it. */
static double log_likelihood(const struct likeness_table *table,
                             struct likeness_workspace *workspace, size_t count, double noise)
{
    struct gaussian *g = &workspace->process;
    double sum = 0;

    gaussian_reset(g, 0);
    for (size_t i = 0; i < count; i++) {
        const struct likeness_seen *seen = &workspace->seen[i];
        double *row = gaussian_sample_row(g);

        for (size_t j = 0; j <= i; j++)
            row[j] = LIKENESS_LEVEL + likeness_of(table, seen->point, workspace->seen[j].point);
        row[i] += noise / seen->count;
        gaussian_add(g, seen->mean - workspace->seen[0].mean);
        sum -= 0.5 * g->residuals[i] * g->residuals[i] + log(row[i]);
        /* The likelihood of the repeated samples, which tell the noise. */
        sum -= 0.5 * (seen->squares / noise + (seen->count - 1) * log(noise));
    }
    return sum;
}

static double log_posterior(struct likeness_table *table, struct likeness_workspace *workspace,
                            size_t count, const struct likeness *l)
{
    likeness_table_set(table, l);
    return log_likelihood(table, workspace, count, l->noise) + log_priors(table->points, l);
}

static double *constant(struct likeness *l, size_t axes, size_t n)
{
    if (n < 2)
        return n ? &l->noise : &l->scale;
    n -= 2;
    return n < axes ? &l->weight[n] : &l->length[n - axes];
}

/* Chooses the fastest arms, which matter most, and some others, which show what makes arms slow. */
static size_t choose_seen(struct likeness_workspace *workspace,
                          const struct likeness_seen *ascending, size_t count)
{
    size_t fast = LIKENESS_SEEN_MAX * 2 / 3, rest = LIKENESS_SEEN_MAX - fast;

    if (count <= LIKENESS_SEEN_MAX) {
        memcpy(workspace->seen, ascending, count * sizeof(*ascending));
        return count;
    }
    memcpy(workspace->seen, ascending, fast * sizeof(*ascending));
    for (size_t i = 0; i < rest; i++)
        workspace->seen[fast + i] = ascending[fast + (i + 1) * (count - fast) / rest - 1];
    return LIKENESS_SEEN_MAX;
}

/* Multiplies one constant by `factor` as long as the samples become more likely.  True: it did. */
static bool improve(struct likeness_table *table, struct likeness_workspace *workspace,
                    size_t count, size_t which, double factor, struct likeness *inout, double *best)
{
    enum { STEPS_MAX = 8 };
    bool moved = false;

    for (int i = 0; i < STEPS_MAX; i++) {
        struct likeness tried = *inout;
        double found;

        *constant(&tried, table->points->axes, which) *= factor;
        tried.noise = fmax(tried.noise, least_noise_sd * least_noise_sd);
        found = log_posterior(table, workspace, count, &tried);
        if (!(found > *best + 1e-6))
            break;
        *best = found;
        *inout = tried;
        moved = true;
    }
    return moved;
}

void likeness_fit(struct likeness_table *table, const struct likeness_seen *ascending, size_t count,
                  struct likeness_workspace *workspace, struct likeness *inout)
{
    static const double steps[] = { 1, 0.5, 0.25 };
    size_t n = choose_seen(workspace, ascending, count);
    double best = log_posterior(table, workspace, n, inout);

    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++)
        for (size_t c = 0; c < 2 + 2 * table->points->axes; c++)
            if (!improve(table, workspace, n, c, exp(steps[s]), inout, &best))
                improve(table, workspace, n, c, exp(-steps[s]), inout, &best);
    likeness_table_set(table, inout);
}
