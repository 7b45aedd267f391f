/* A Gaussian process over the arms of a search, to which samples are added one at a time.  The
 * caller supplies the prior means and all covariances: belief.h for `guided`, posterior.h for
 * `blind`.
 *
 *     gaussian_reset(g, arms);        the caller then sets g->mean and g->variance: the prior
 *     gaussian_sample_row(g)[j] = ... covariance of the new sample with sample j; last its own
 *                                     variance, noise included
 *     gaussian_arm_row(g)[i] = ...    covariance of the new sample with arm i
 *     gaussian_add(g, residual);      residual: the sample minus its prior mean */
#ifndef GAUSSIAN_H
#define GAUSSIAN_H

#include <stddef.h>

/* gaussian_open() allocates it, gaussian_close() frees it.  L is the Cholesky factor of the
 * samples' covariance. */
struct gaussian {
    size_t arms, stride;     /* stride: arms, rounded up to a multiple of four */
    size_t rows, rows_max;   /* samples so far, at most */
    double least;            /* the least variance, which guards against rounding */
    double *mean, *variance; /* by arm, after the samples so far */
    double *factor;          /* L: (rows_max, rows_max), lower triangle */
    double *arm_rows;        /* L^-1 times the samples' covariance with arms: (rows_max, stride) */
    double *residuals;       /* L^-1 times the samples' residuals */
};

/* ERR_NOMEM after a message.  The caller closes it even after an error. */
int gaussian_open(size_t arms, size_t rows_max, double least, struct gaussian *out);
void gaussian_close(struct gaussian *g);

/* Removes all samples.  0 arms: the caller needs the samples' likelihood only. */
void gaussian_reset(struct gaussian *g, size_t arms);
/* The two rows that the caller fills before gaussian_add(). */
double *gaussian_sample_row(struct gaussian *g);
double *gaussian_arm_row(struct gaussian *g);
void gaussian_add(struct gaussian *g, double residual);

/* The covariance of two arms after the samples, and the standard deviation of their difference.
 * `before`: their prior covariance. */
double gaussian_covariance(const struct gaussian *g, double before, int a, int b);
double gaussian_difference_sd(const struct gaussian *g, double before, int a, int b);

/* Replaces x, which has a number for each sample, by L^-1 x. */
void gaussian_solve_lower(const struct gaussian *g, double *x);
/* The inverse of the samples' covariance times their residuals. */
void gaussian_weights(const struct gaussian *g, double *out);
/* The diagonal of the inverse of the samples' covariance, at one sample. */
double gaussian_precision(const struct gaussian *g, size_t at, double *scratch);

/* The correlation of a plan's misfits at two capacities, which are given by their logarithms. */
double capacity_correlation(double log_c, double other);

/* from -= factor * what.  `padded`: their length, a multiple of four. */
void subtract_scaled(double *restrict from, const double *restrict what, double factor,
                     size_t padded);
/* The dot product of two vectors. */
double dot(const double *a, const double *b, size_t n);

#endif
