/* What samples say of all plans to blind: a Gaussian process whose covariance is how like they are
 * (likeness.h). */
#ifndef POSTERIOR_H
#define POSTERIOR_H

#include "gaussian.h"
#include "likeness.h"
#include "search.h"

enum { POSTERIOR_ROWS_MAX = 896 };

/* A sample, or the mean of those that an arm had in an earlier visit. */
struct sample {
    int arm;
    uint32_t group;
    int step;
    double log_c, log_ns, count;
    double excess; /* variance beyond that of one sample: it is an outlier */
};

struct posterior {
    struct likeness likeness;
    struct likeness_table table;
    struct sample sample[POSTERIOR_ROWS_MAX];
    size_t count, past; /* all; those of other visits, which come first */
    uint32_t group;
    double log_c;
    bool alone;              /* what other visits were told does not count in this one */
    double first;            /* log(ns) that it counts from */
    struct gaussian process; /* its means count from `first` */
};

/* Of all arms that lie at these points; ERR_NOMEM after a message.  To be closed in any case. */
int posterior_open(const struct points *points, struct posterior *out);
void posterior_close(struct posterior *posterior);

/* From all samples anew; then by one that came after them. */
void posterior_renew(struct posterior *posterior);
void posterior_add(struct posterior *posterior);

/* Of two arms, after all samples. */
double posterior_covariance(const struct posterior *posterior, int i, int j);
struct normal posterior_difference(const struct posterior *posterior, int i, int j);

#endif
