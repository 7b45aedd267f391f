/* The sim back end: a stream is a time, an event is a date, nothing is computed and memory is only
 * counted.  It runs the same executor on a virtual clock. */
#ifndef SIM_H
#define SIM_H

#include "device.h"

/* What a kernel costs, in ns of virtual time; borrowed by the device, which it must outlive. */
struct sim_costs {
    int64_t (*kernel_ns)(const struct sim_costs *costs, enum kernel kernel, const void *args);
};

int sim_open(const struct sim_costs *costs, struct device **out);

/* Lets `ns` pass on the stream; for wires, and nothing if the stream is muted. */
void sim_pass(struct stream *stream, int64_t ns);

/* The time at which everything queued on this stream is done. */
int64_t sim_stream_ns(const struct stream *stream);

#endif
