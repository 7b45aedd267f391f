/* What samples say of all plans: a Gaussian process whose covariance is how like they are
 * (likeness.h).  Kept as a Cholesky factor of the samples' covariance, which grows by a row with
 * each of them: `half` is the factor's inverse times the samples' covariance with all plans. */
#ifndef POSTERIOR_H
#define POSTERIOR_H

#include "likeness.h"
#include "search.h"

enum { POSTERIOR_ROWS_MAX = 896 };

/* A sample, or the mean of those that an arm had in an earlier visit. */
struct sample {
    int arm;
    uint32_t visit;
    int step;
    double log_c, log_ns, count;
    double excess; /* variance beyond that of one sample: it is an outlier */
};

struct posterior {
    size_t arms;
    struct likeness likeness;
    struct likeness_table table;
    struct sample sample[POSTERIOR_ROWS_MAX];
    size_t count, past; /* all; those of other visits, which come first */
    uint32_t visit;
    double log_c;
    bool alone;              /* what other visits were told does not count in this one */
    double first;            /* log(ns) that it counts from */
    double *mean, *variance; /* by arm; counted from `first`, and without the level's variance */

    double *factor; /* (POSTERIOR_ROWS_MAX, POSTERIOR_ROWS_MAX), lower */
    double *half;   /* (POSTERIOR_ROWS_MAX, arms) */
    double *right;  /* (POSTERIOR_ROWS_MAX): the factor's inverse times what the samples took */
    size_t rows;    /* of the factor */
};

/* Of all arms that lie at these points; ERR_NOMEM after a message.  To be closed in any case. */
int posterior_open(const struct points *points, struct posterior *out);
void posterior_close(struct posterior *posterior);

/* From all samples anew; then by one that came after them. */
void posterior_renew(struct posterior *posterior);
void posterior_add(struct posterior *posterior);

/* How much of what holds at one key, by its logarithm, holds at another. */
double posterior_across(double log_c, double other);

/* Of two arms, after all samples. */
double posterior_covariance(const struct posterior *posterior, int i, int j);
struct normal posterior_difference(const struct posterior *posterior, int i, int j);

#endif
