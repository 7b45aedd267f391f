/* A Gaussian process over the arms of a search, by samples that are added one at a time.  What is
 * believed before them (means, and how alike arms and samples are) the caller knows: see belief.h
 * for what guided does, posterior.h for blind.
 *
 *     gaussian_reset(g, arms);                 then g->mean and g->variance of arms before samples
 *     among = gaussian_sample_row(g)                its covariances with the samples before it,
 * then its own variance, noise included with = gaussian_arm_row(g)                  its covariances
 * with all arms gaussian_add(g, what it took less what was expected before any of them); */
#ifndef GAUSSIAN_H
#define GAUSSIAN_H

#include <stddef.h>

struct gaussian {
    size_t arms, stride; /* rows of arms are padded to whole groups of four */
    size_t rows, rows_max;
    double least;            /* no variance is below it, however numbers are rounded */
    double *mean, *variance; /* by arm, after the samples */
    double *factor;    /* Cholesky's of the samples' covariance: (rows_max, rows_max), lower */
    double *arm_rows;  /* its inverse times the samples' covariance with arms */
    double *residuals; /* its inverse times what samples took */
};

/* ERR_NOMEM after a message; to be closed in any case. */
int gaussian_open(size_t arms, size_t rows_max, double least, struct gaussian *out);
void gaussian_close(struct gaussian *g);

/* 0 arms: only what samples say of each other is wanted. */
void gaussian_reset(struct gaussian *g, size_t arms);
double *gaussian_sample_row(struct gaussian *g);
double *gaussian_arm_row(struct gaussian *g);
void gaussian_add(struct gaussian *g, double residual);

/* Of two arms, if it was `before` without samples; and the deviation of their difference then. */
double gaussian_covariance(const struct gaussian *g, double before, int a, int b);
double gaussian_difference_sd(const struct gaussian *g, double before, int a, int b);

/* Solves the factor's triangle for x, which has a number for each sample. */
void gaussian_solve_lower(const struct gaussian *g, double *x);
/* The inverse of the samples' covariance times what they took. */
void gaussian_weights(const struct gaussian *g, double *out);
/* The diagonal of that inverse at one sample. */
double gaussian_precision(const struct gaussian *g, size_t at, double *scratch);

/* How much of what holds at one capacity, by its logarithm, holds at another. */
double capacity_correlation(double log_c, double other);

/* `padded`: whole groups of four. */
void subtract_scaled(double *restrict from, const double *restrict what, double factor,
                     size_t padded);
double dot(const double *a, const double *b, size_t n);

#endif
