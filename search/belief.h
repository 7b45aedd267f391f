/* What guided believes of log(ns) of every arm at every capacity: a Gaussian process.  Its mean is
 * the cost model at constants that are themselves uncertain; what the model misses is carried to
 * neighbouring r, d, a and c, and forgotten with distance. */
#ifndef BELIEF_H
#define BELIEF_H

#include "costs.h"
#include "gaussian.h"

/* All samples of one arm in one visit, averaged. */
struct observation {
    int arm;
    uint32_t group; /* a visit's samples share an offset: the machine's shared_noise */
    double log_c;
    double log_ns;
    double variance;        /* of log_ns, as an average */
    double offset_variance; /* of what the visit shares */
};

/* The machine's shared_noise is what makes every plan slower or faster for a while.  Within a visit
 * it wanders a little from step to step, and turns now and then: a burst of somebody else's work
 * begins or ends.  The steps between two turns are called a stretch.
 *
 * When a step was taken: its number in the visit, and its stretch; the first stretch is 0. */
struct moment {
    int step, stretch;
};

/* The covariance of the moods at two moments, beyond what the whole visit shares. */
double shared_noise_covariance(struct moment a, struct moment b);

/* One sample of the present visit, or the mean of a few of one arm that were taken together. */
struct belief_sample {
    int arm;
    struct moment when;
    double log_ns, variance;
};

enum { BELIEF_OBSERVATIONS_MAX = 160, BELIEF_SAMPLES_MAX = 256 };

/* Before any sample. */
struct prior {
    struct costs costs;
    const struct search_model *model; /* borrowed; in place of costs, or NULL */
    const struct moe_plan *arms;      /* borrowed */
    size_t count, stride;             /* of arms; rows are padded as struct gaussian has them */
    double constants[COST_CONSTANTS]; /* where the cost model is taken as linear */
    bool unknown[SEARCH_ARMS_MAX];    /* of which the model gave no number once */
    double misfit_scale;              /* scales all that the cost model misses; 1 = as expected */
    double *misfit_covariance;        /* by pair of arms: how much of a misfit they share */
    double *gradient;                 /* by arm and constant, for the capacity being predicted */
    double *seen_gradient;            /* the same of the observations */
    struct gaussian process;          /* of the observations */
};

/* What an open cannot make whole is still to be closed; so may be what was zeroed. */
int prior_open(const struct search_setup *setup, struct prior *prior);
void prior_close(struct prior *prior);

/* Moves the constants to their most likely values, one bounded Gauss-Newton step. */
void prior_fit(struct prior *prior, const struct observation *seen, size_t count);

/* What is believed of all arms at one capacity, in one visit. */
struct belief {
    double *mean;
    double *covariance; /* arm i with arm j at [i * stride + j] */
    size_t count, stride;
};

int belief_open(const struct prior *prior, struct belief *out);
void belief_close(struct belief *belief);

/* At most BELIEF_OBSERVATIONS_MAX observations.  `visited`: of what a visit will measure, which is
 * a little off the long-run times; false: of the long-run times. */
void belief_compute(struct prior *prior, const struct observation *seen, size_t count, double log_c,
                    bool visited, struct belief *out);

/* What a sample turns out to be made of: the shared_noise of the machine, and noise; `freedom`: how
 * much of one independent sample that noise is. */
struct belief_reading {
    double shared_noise, noise, freedom;
};

/* What is believed after this visit's own observations: means, and for any arm the mean and the
 * standard deviation of its difference to another.  O(count^2 arms). */
struct outlook {
    struct gaussian process;
    double *mean, *sd;                                  /* sd: of the arm itself */
    struct belief_reading readings[BELIEF_SAMPLES_MAX]; /* of what was samples */
    /* The shared_noise of the next step, if it is of the last one's stretch, and its covariance
     * with each arm: below 0 where nobody knows which of the two was slow. */
    double shared_noise_now, shared_noise_variance, *with_shared_noise;
    const struct belief *belief;
};

int outlook_open(const struct prior *prior, struct outlook *out);
void outlook_close(struct outlook *outlook);
void outlook_update(const struct belief *belief, const struct belief_sample *samples, size_t count,
                    struct moment now, struct outlook *out);
double outlook_difference_sd(const struct outlook *outlook, int a, int b);

#endif
