/* A Gaussian process over plans that grows by a sample at a time. */
#include "posterior.h"

#include "distribution.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Standard deviations of log(ns). */
static const double level_sd = 3, /* of what a visit's samples have in common */
    mood_sd = 0.02;               /* of the machine's mood, over some 40 steps */
static const double mood_steps = 40;

/* ---- memory */

static int take(double **out, size_t count)
{
    *out = calloc(count + 1, sizeof(**out));
    return *out ? OK : fail(ERR_NOMEM, "%zu numbers of a search's model", count);
}

int posterior_open(const struct points *points, struct posterior *p)
{
    enum { ROWS = POSTERIOR_ROWS_MAX };

    p->arms = points->count;
    p->likeness = likeness_guess(points);
    TRY(likeness_table_open(points, &p->table));
    likeness_table_set(&p->table, &p->likeness);
    TRY(take(&p->factor, (size_t)ROWS * ROWS));
    TRY(take(&p->half, ROWS * p->arms));
    TRY(take(&p->right, ROWS));
    TRY(take(&p->mean, p->arms));
    return take(&p->variance, p->arms);
}

void posterior_close(struct posterior *p)
{
    free(p->variance);
    free(p->mean);
    free(p->right);
    free(p->half);
    free(p->factor);
    likeness_table_close(&p->table);
}

/* ---- covariances */

double posterior_across(double log_c, double other)
{
    double apart = log_c - other;

    return apart == 0 ? 1 : exp(-apart * apart / 4.5);
}

/* Of an arm in this visit with a sample. */
static double with_sample(const struct posterior *p, int arm, const struct sample *s)
{
    if (s->visit == p->visit)
        return level_sd * level_sd + likeness_of(&p->table, arm, s->arm);
    return p->alone ? 0
                    : posterior_across(p->log_c, s->log_c) * likeness_of(&p->table, arm, s->arm);
}

static double between_samples(const struct posterior *p, const struct sample *x,
                              const struct sample *y)
{
    double value = posterior_across(x->log_c, y->log_c) * likeness_of(&p->table, x->arm, y->arm);

    if (x->visit != y->visit)
        return p->alone && (x->visit == p->visit || y->visit == p->visit) ? 0 : value;
    return value + level_sd * level_sd +
           mood_sd * mood_sd * exp(-abs(x->step - y->step) / mood_steps);
}

static double of_sample(const struct posterior *p, const struct sample *s)
{
    return p->likeness.noise / s->count + s->excess;
}

void posterior_add(struct posterior *p)
{
    size_t n = p->rows++, arms = p->arms;
    const struct sample *s = &p->sample[n];
    double *row = p->factor + n * POSTERIOR_ROWS_MAX, *half = p->half + n * arms, diagonal, right;

    for (size_t j = 0; j < n; j++) {
        const double *other = p->factor + j * POSTERIOR_ROWS_MAX;
        double value = between_samples(p, s, &p->sample[j]);

        for (size_t k = 0; k < j; k++)
            value -= row[k] * other[k];
        row[j] = value / other[j];
    }
    diagonal = between_samples(p, s, s) + of_sample(p, s);
    right = s->log_ns - p->first;
    for (size_t k = 0; k < n; k++) {
        diagonal -= row[k] * row[k];
        right -= row[k] * p->right[k];
    }
    row[n] = deviation_of(diagonal, 1e-12);
    p->right[n] = right / row[n];
    for (size_t i = 0; i < arms; i++)
        half[i] = with_sample(p, (int)i, s);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < arms; i++)
            half[i] -= row[k] * p->half[k * arms + i];
    for (size_t i = 0; i < arms; i++) {
        half[i] /= row[n];
        p->mean[i] += half[i] * p->right[n];
        p->variance[i] -= half[i] * half[i];
    }
}

void posterior_renew(struct posterior *p)
{
    p->rows = 0;
    p->first = p->count ? p->sample[p->count - 1].log_ns : 0;
    for (size_t i = 0; i < p->arms; i++) {
        p->mean[i] = 0;
        p->variance[i] = level_sd * level_sd + p->table.own;
    }
    while (p->rows < p->count)
        posterior_add(p);
}

double posterior_covariance(const struct posterior *p, int i, int j)
{
    double value = level_sd * level_sd + likeness_of(&p->table, i, j);

    for (size_t k = 0; k < p->rows; k++)
        value -= p->half[k * p->arms + (size_t)i] * p->half[k * p->arms + (size_t)j];
    return value;
}

struct normal posterior_difference(const struct posterior *p, int i, int j)
{
    double variance = p->variance[i] + p->variance[j] - 2 * posterior_covariance(p, i, j);

    return (struct normal){ p->mean[i] - p->mean[j], deviation_of(variance, 1e-12) };
}
