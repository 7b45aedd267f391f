/* The back end `sim`, a device on a virtual clock for modelled clusters and tests.  The same
 * executor runs on it; kernels compute nothing, take modelled time, and memory is only counted.
 *
 * A step ends at a stream_sync() after which no stream has work left.  All streams then have the
 * same time, and the device draws the noise of the next step. */
#ifndef SIM_H
#define SIM_H

#include "device.h"

/* The noise of step times: one factor per step, drawn from the seed, the number of the step and the
 * launch of sim_set_launch().  A plain value; where all are 0, the factor is exactly 1. */
struct sim_noise {
    uint64_t seed;
    double sigma;         /* of the logarithm, from step to step; the median is 1 */
    double outlier_share; /* of steps that take 3 times as long */
    double drift;         /* deviation of the logarithm's slow drift, over hundreds of steps */
    double launch;        /* deviation of the logarithm between launches */
};

/* A model of a device: how long kernels take.  First member of the model's own struct. */
struct sim_costs {
    /* How long one kernel takes, in ns of virtual time. */
    int64_t (*kernel_ns)(const struct sim_costs *costs, enum kernel kernel, const void *args);
    void (*close)(const struct sim_costs *costs); /* device_close() calls it; NULL: nothing to do */
    double overlap_slowdown; /* work beside a busy stream takes 1 + this times as long */
    struct sim_noise noise;
    uint64_t memory_bytes; /* 0: no limit */
};

/* Opens a device on this model.  The device closes `costs` where they have a close; else they are
 * borrowed. */
int sim_open(const struct sim_costs *costs, struct device **out);

/* Adds `ns` of work to the stream, for wires; nothing if the stream is muted.  `weight` is the part
 * of the device that the work uses; kernels have 1.  Where two pieces of work overlap, the
 * slow-down is multiplied by both weights.
 *
 * The slow-down is computed when work is queued: of two overlapping pieces, the one queued later is
 * slowed while the other runs.  So each overlap counts once. */
void sim_pass(struct stream *stream, int64_t ns, double weight);

/* Sets the number of the step, and so its noise, until the next call.  A sweep that was interrupted
 * continues with the same noise. */
void sim_set_step(struct device *device, uint64_t number);

/* Sets the number of the launch (0 at first).  All steps of a launch share a factor, drawn from the
 * seed and this number. */
void sim_set_launch(struct device *device, uint64_t number);

/* The time at which all queued work of this stream is done. */
int64_t sim_stream_ns(const struct stream *stream);

#endif
