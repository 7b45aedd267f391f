/* The sim back end: a stream is a time, an event is a date, nothing is computed and memory is only
 * counted.  It runs the same executor on a virtual clock.
 *
 * A step lasts until a stream_sync() after which nothing is queued on any stream.  All streams then
 * stand at the same date, and the next step's noise is drawn. */
#ifndef SIM_H
#define SIM_H

#include "device.h"

/* One factor per step, drawn from (seed, number of the step, luck of sim_set_luck()); all 0:
 * exactly 1. */
struct sim_noise {
    uint64_t seed;
    double sigma;         /* of the logarithm, from step to step; the median is 1 */
    double outlier_share; /* of steps that take 3 times as long */
    double drift;         /* deviation of the logarithm's slow wander, over hundreds of steps */
    double luck;          /* of the logarithm, from one luck to another */
};

/* What the device is like. */
struct sim_costs {
    /* Of one kernel, in ns of virtual time. */
    int64_t (*kernel_ns)(const struct sim_costs *costs, enum kernel kernel, const void *args);
    void (*close)(const struct sim_costs *costs); /* with the device; NULL: nothing to do */
    double overlap_slowdown; /* work beside a busy stream takes 1 + this as long; see sim_pass() */
    struct sim_noise noise;
    uint64_t memory_bytes; /* 0: no limit */
};

/* `costs` are borrowed unless they have a close; they must outlive the device. */
int sim_open(const struct sim_costs *costs, struct device **out);

/* Lets `ns` of work pass on the stream; for wires, and nothing if the stream is muted.  `weight`:
 * how much of the device it takes; where two overlap, the slow-down is times both weights.  Of a
 * kernel, and where nothing else is known: 1.
 *
 * Work is charged when it is queued: of two tasks that overlap, the one queued later is slowed for
 * as long as the other runs.  Each overlap is so paid once. */
void sim_pass(struct stream *stream, int64_t ns, double weight);

/* From here on the noise is that of step `number`, whatever ran before, until this is called again:
 * a series of steps that was cut off goes on as if nothing had happened. */
void sim_draw(struct device *device, uint64_t number);

/* From here on steps share what is drawn from (seed, this number): what stays the same for all
 * steps of a plan while its ranks live.  Before: number 0. */
void sim_set_luck(struct device *device, uint64_t number);

/* The time at which everything queued on this stream is done. */
int64_t sim_stream_ns(const struct stream *stream);

#endif
