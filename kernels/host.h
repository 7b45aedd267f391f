/* The host back end: one worker thread per stream, OpenBLAS, plain memory. */
#ifndef HOST_H
#define HOST_H

#include "device.h"

int host_open(struct device **out);

/* Runs fn(args) in the stream's order, on its thread.  `bytes` of args are copied.  A status other
 * than OK stops the stream.  Dropped like a kernel when the stream is muted. */
enum { HOST_ARGS_BYTES = 320 };
int host_call(struct stream *stream, int (*fn)(const void *args), const void *args, size_t bytes);

/* True while another stream of this device runs a kernel: who only polls should give way then. */
bool host_others_compute(const struct stream *stream);

int64_t host_clock_ns(void);

/* The kernels themselves, callable directly. */
#define HOST_KERNEL(name) void host_##name(const struct name *args);
KERNELS(HOST_KERNEL)
#undef HOST_KERNEL

#endif
