/* What the strategy `guided` believes of the time of every arm at every capacity: a Gaussian
 * process over log(ns).  Its mean is the cost model, whose constants are uncertain, too.  The error
 * of the model (its misfit) is similar for similar r, d, a and c. */
#ifndef BELIEF_H
#define BELIEF_H

#include "costs.h"
#include "gaussian.h"

/* The mean of all samples of one arm in one bucket.  A plain value. */
struct observation {
    int arm;
    uint32_t group; /* observations of one group share an offset; a group is a bucket, or in
                     * worth.c a launch of the ranks */
    double log_c;
    double log_ns;
    double variance;        /* of log_ns */
    double offset_variance; /* of the group's offset */
};

/* Shared noise makes every plan slower or faster for a while.  It changes a little from step to
 * step.  Now and then it jumps, because other work on the machine begins or ends.  The steps
 * between two jumps are a stretch.
 *
 * A moment is when a step ran: its number in the bucket, and its stretch, from 0 on. */
struct moment {
    int step, stretch;
};

/* The covariance of the shared noise at two moments, without the offset of the whole bucket. */
double shared_noise_covariance(struct moment a, struct moment b);

/* One sample of the present bucket.  A plain value. */
struct belief_sample {
    int arm;
    struct moment when;
    double log_ns, variance;
};

enum { BELIEF_OBSERVATIONS_MAX = 160, BELIEF_SAMPLES_MAX = 256 };

/* The belief before the samples of the present bucket, and the memory to update it.  guided.c owns
 * one from prior_open() to prior_close(). */
struct prior {
    struct costs costs;
    const struct search_model *model; /* borrowed; in place of costs, or NULL */
    const struct moe_plan *arms;      /* borrowed */
    size_t count, stride;             /* of arms; stride: padded as in struct gaussian */
    double constants[COST_CONSTANTS]; /* logarithms, about which the cost model is linearised */
    bool unknown[SEARCH_ARMS_MAX];    /* the model has failed to give a number for this arm */
    double misfit_scale;              /* factor of the misfit's variance; 1: as expected */
    double *misfit_covariance;        /* by pair of arms */
    double *gradient;                 /* by arm and constant, for the capacity being predicted */
    double *seen_gradient;            /* the same by observation */
    struct gaussian process;          /* of the observations */
};

/* ERR_NOMEM or ERR_ARGUMENT after a message.  The caller closes it even after an error.  A zeroed
 * struct may be closed, too. */
int prior_open(const struct search_setup *setup, struct prior *prior);
void prior_close(struct prior *prior);

/* Moves the constants towards their most likely values by one bounded Gauss-Newton step. */
void prior_fit(struct prior *prior, const struct observation *seen, size_t count);

/* A belief about all arms at one capacity, as a normal distribution.  belief_open() allocates it,
 * belief_close() frees it. */
struct belief {
    double *mean;       /* log(ns) */
    double *covariance; /* arm i with arm j at [i * stride + j] */
    size_t count, stride;
};

/* ERR_NOMEM after a message. */
int belief_open(const struct prior *prior, struct belief *out);
void belief_close(struct belief *belief);

/* Computes the belief from at most BELIEF_OBSERVATIONS_MAX observations.  `measured`: it is about
 * the samples of a bucket that begins now, which share an offset; else about long-run times. */
void belief_compute(struct prior *prior, const struct observation *seen, size_t count, double log_c,
                    bool measured, struct belief *out);

/* One sample divided into the machine's shared noise and the sample's own noise.  `freedom`: the
 * degrees of freedom of the own noise, at most 1. */
struct belief_reading {
    double shared_noise, noise, freedom;
};

/* A belief after the samples of the present bucket.  outlook_open() allocates it, outlook_close()
 * frees it; `belief` is borrowed. */
struct outlook {
    struct gaussian process;
    double *mean, *sd;                                  /* of log(ns), by arm */
    struct belief_reading readings[BELIEF_SAMPLES_MAX]; /* by sample */
    /* The shared noise that the next step will have if no jump comes first, and its covariance with
     * each arm.  The covariance is negative where slow samples may be due to either of the two. */
    double shared_noise_now, shared_noise_variance, *with_shared_noise;
    const struct belief *belief;
};

/* ERR_NOMEM after a message.  The caller closes it even after an error. */
int outlook_open(const struct prior *prior, struct outlook *out);
void outlook_close(struct outlook *outlook);
/* Computes the outlook from the samples.  Its cost grows with count^2 times the number of arms. */
/* Computes the outlook from the samples.  Its cost grows with count^2 times the number of arms. */
void outlook_update(const struct belief *belief, const struct belief_sample *samples, size_t count,
                    struct moment now, struct outlook *out);
/* The standard deviation of arm a's log(ns) minus arm b's. */
/* The standard deviation of arm a's log(ns) minus arm b's. */
double outlook_difference_sd(const struct outlook *outlook, int a, int b);

#endif
