/* What the strategy `blind` believes of all plans after its samples: a Gaussian process whose
 * covariance is the plans' likeness (likeness.h). */
#ifndef POSTERIOR_H
#define POSTERIOR_H

#include "gaussian.h"
#include "likeness.h"
#include "search.h"

enum { POSTERIOR_ROWS_MAX = 896 };

/* A sample, or the mean of an arm's samples in an earlier bucket. */
struct sample {
    int arm;
    uint32_t group; /* number of the bucket, in the order of the search */
    int step;       /* number of the step in its bucket */
    double log_c, log_ns, count;
    double excess; /* above 0: it is an outlier, whose variance is larger by this */
};

/* posterior_open() allocates it, posterior_close() frees it. */
struct posterior {
    struct likeness likeness;
    struct likeness_table table;
    struct sample sample[POSTERIOR_ROWS_MAX];
    size_t count, past; /* samples; those of earlier buckets, which come first */
    uint32_t group;     /* of the present bucket */
    double log_c;       /* of the present bucket */
    bool alone;         /* samples of other buckets do not count in this one */
    double first;       /* log(ns); the process's means are relative to it */
    struct gaussian process;
};

/* The posterior of the arms at these points, without samples.  ERR_NOMEM after a message.  The
 * caller closes it even after an error. */
int posterior_open(const struct points *points, struct posterior *out);
void posterior_close(struct posterior *posterior);

/* Computes the process again from all samples. */
void posterior_renew(struct posterior *posterior);
/* Adds the sample after those that the process already has. */
void posterior_add(struct posterior *posterior);

/* The covariance of two arms' log(ns), and their difference, after all samples. */
double posterior_covariance(const struct posterior *posterior, int i, int j);
struct normal posterior_difference(const struct posterior *posterior, int i, int j);

#endif
