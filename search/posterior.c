/* How alike two samples are: by their plans, visits and steps. */
#include "posterior.h"

#include "distribution.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>

/* Standard deviations of log(ns). */
static const double level_sd = 3, /* of what a visit's samples have in common */
    mood_sd = 0.02;               /* of the machine's mood, over some 40 steps */
static const double mood_steps = 40;

int posterior_open(const struct points *points, struct posterior *p)
{
    p->likeness = likeness_guess(points);
    TRY(likeness_table_open(points, &p->table));
    likeness_table_set(&p->table, &p->likeness);
    return gaussian_open(points->count, POSTERIOR_ROWS_MAX, 1e-12, &p->process);
}

void posterior_close(struct posterior *p)
{
    gaussian_close(&p->process);
    likeness_table_close(&p->table);
}

/* ---- covariances */

double posterior_across(double log_c, double other)
{
    double apart = log_c - other;

    return apart == 0 ? 1 : exp(-apart * apart / 4.5);
}

/* The covariance of an arm in this visit with a sample. */
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

void posterior_add(struct posterior *p)
{
    struct gaussian *g = &p->process;
    size_t n = g->rows;
    const struct sample *s = &p->sample[n];
    double *among = gaussian_among(g), *with = gaussian_with(g);

    for (size_t j = 0; j <= n; j++)
        among[j] = between_samples(p, s, &p->sample[j]);
    among[n] += p->likeness.noise / s->count + s->excess;
    for (size_t i = 0; i < g->arms; i++)
        with[i] = with_sample(p, (int)i, s);
    gaussian_add(g, s->log_ns - p->first);
}

void posterior_renew(struct posterior *p)
{
    struct gaussian *g = &p->process;

    p->first = p->count ? p->sample[p->count - 1].log_ns : 0;
    gaussian_reset(g, g->arms);
    for (size_t i = 0; i < g->arms; i++) {
        g->mean[i] = 0;
        g->variance[i] = level_sd * level_sd + p->table.own;
    }
    while (g->rows < p->count)
        posterior_add(p);
}

double posterior_covariance(const struct posterior *p, int i, int j)
{
    return gaussian_covariance(&p->process, level_sd * level_sd + likeness_of(&p->table, i, j), i,
                               j);
}

struct normal posterior_difference(const struct posterior *p, int i, int j)
{
    double variance =
        p->process.variance[i] + p->process.variance[j] - 2 * posterior_covariance(p, i, j);

    return (struct normal){ p->process.mean[i] - p->process.mean[j],
                            deviation_of(variance, 1e-12) };
}
