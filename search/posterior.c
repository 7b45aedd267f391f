/* A Gaussian process over plans that grows by a sample at a time. */
#include "posterior.h"

#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int posterior_open(const struct points *points, struct posterior *b)
{
    enum { ROWS = POSTERIOR_ROWS_MAX };

    b->arms = points->count;
    b->likeness = likeness_guess(points);
    TRY(likeness_table_open(points, &b->table));
    likeness_table_set(&b->table, &b->likeness);
    TRY(take(&b->factor, (size_t)ROWS * ROWS));
    TRY(take(&b->half, ROWS * b->arms));
    TRY(take(&b->right, ROWS));
    TRY(take(&b->mean, b->arms));
    return take(&b->variance, b->arms);
}

void posterior_close(struct posterior *b)
{
    free(b->variance);
    free(b->mean);
    free(b->right);
    free(b->half);
    free(b->factor);
    likeness_table_close(&b->table);
}

/* ---- covariances */

double posterior_across(double log_c, double other)
{
    double apart = log_c - other;

    return apart == 0 ? 1 : exp(-apart * apart / 4.5);
}

/* Of an arm in this visit with a sample. */
static double with_sample(const struct posterior *b, int arm, const struct sample *s)
{
    if (s->visit == b->visit)
        return level_sd * level_sd + likeness_of(&b->table, arm, s->arm);
    return b->alone ? 0
                    : posterior_across(b->log_c, s->log_c) * likeness_of(&b->table, arm, s->arm);
}

static double between_samples(const struct posterior *b, const struct sample *x,
                              const struct sample *y)
{
    double value = posterior_across(x->log_c, y->log_c) * likeness_of(&b->table, x->arm, y->arm);

    if (x->visit != y->visit)
        return b->alone && (x->visit == b->visit || y->visit == b->visit) ? 0 : value;
    return value + level_sd * level_sd +
           mood_sd * mood_sd * exp(-abs(x->step - y->step) / mood_steps);
}

static double of_sample(const struct posterior *b, const struct sample *s)
{
    return b->likeness.noise / s->count + s->excess;
}

void posterior_add(struct posterior *b)
{
    size_t n = b->rows++, arms = b->arms;
    const struct sample *s = &b->sample[n];
    double *row = b->factor + n * POSTERIOR_ROWS_MAX, *half = b->half + n * arms, diagonal, right;

    for (size_t j = 0; j < n; j++) {
        const double *other = b->factor + j * POSTERIOR_ROWS_MAX;
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

void posterior_renew(struct posterior *b)
{
    b->rows = 0;
    b->first = b->count ? b->sample[b->count - 1].log_ns : 0;
    for (size_t i = 0; i < b->arms; i++) {
        b->mean[i] = 0;
        b->variance[i] = level_sd * level_sd + b->table.own;
    }
    while (b->rows < b->count)
        posterior_add(b);
}

double posterior_covariance(const struct posterior *b, int i, int j)
{
    double value = level_sd * level_sd + likeness_of(&b->table, i, j);

    for (size_t k = 0; k < b->rows; k++)
        value -= b->half[k * b->arms + (size_t)i] * b->half[k * b->arms + (size_t)j];
    return value;
}

struct normal posterior_difference(const struct posterior *b, int i, int j)
{
    double variance = b->variance[i] + b->variance[j] - 2 * posterior_covariance(b, i, j);

    return (struct normal){ b->mean[i] - b->mean[j], sqrt(fmax(variance, 1e-12)) };
}
