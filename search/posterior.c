/* The belief of `blind`: computes the covariance of samples from their plans, buckets and steps,
 * and adds them to a Gaussian process. */
#include "posterior.h"

#include "status.h"

#include <math.h>
#include <stdlib.h>

/* The shared noise of the machine: its standard deviation, in log(ns), and over how many steps it
 * changes. */
static const double shared_noise_sd = 0.02, shared_noise_steps = 40;

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

/* The covariance of an arm in the present bucket with a sample. */
static double with_sample(const struct posterior *p, int arm, const struct sample *s)
{
    if (s->group == p->group)
        return LIKENESS_LEVEL + likeness_of(&p->table, arm, s->arm);
    return p->alone
               ? 0
               : capacity_correlation(p->log_c, s->log_c) * likeness_of(&p->table, arm, s->arm);
}

static double between_samples(const struct posterior *p, const struct sample *x,
                              const struct sample *y)
{
    double value =
        capacity_correlation(x->log_c, y->log_c) * likeness_of(&p->table, x->arm, y->arm);

    if (x->group != y->group)
        return p->alone && (x->group == p->group || y->group == p->group) ? 0 : value;
    return value + LIKENESS_LEVEL +
           shared_noise_sd * shared_noise_sd * exp(-abs(x->step - y->step) / shared_noise_steps);
}

void posterior_add(struct posterior *p)
{
    struct gaussian *g = &p->process;
    size_t n = g->rows;
    const struct sample *s = &p->sample[n];
    double *among = gaussian_sample_row(g), *with = gaussian_arm_row(g);

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
        g->variance[i] = LIKENESS_LEVEL + p->table.own;
    }
    while (g->rows < p->count)
        posterior_add(p);
}

static double before_samples(const struct posterior *p, int i, int j)
{
    return LIKENESS_LEVEL + likeness_of(&p->table, i, j);
}

double posterior_covariance(const struct posterior *p, int i, int j)
{
    return gaussian_covariance(&p->process, before_samples(p, i, j), i, j);
}

struct normal posterior_difference(const struct posterior *p, int i, int j)
{
    return (struct normal){ p->process.mean[i] - p->process.mean[j],
                            gaussian_difference_sd(&p->process, before_samples(p, i, j), i, j) };
}
