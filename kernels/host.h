/* The back end `host`: one thread per stream, products by OpenBLAS, plain memory. */
#ifndef HOST_H
#define HOST_H

#include "device.h"

int host_open(struct device **out);

/* Enqueues fn(args), which the stream's thread calls.  `bytes` of args are copied, at most
 * HOST_ARGS_BYTES.  A status other than OK makes the stream skip its later work.  A muted stream
 * drops the call. */
enum { HOST_ARGS_BYTES = 320 };
int host_call(struct stream *stream, int (*fn)(const void *args), const void *args, size_t bytes);

/* True while another stream of this device runs a kernel; a thread that only polls should then
 * yield its core. */
bool host_other_streams_compute(const struct stream *stream);

/* The machine's monotonic clock. */
int64_t host_clock_ns(void);

/* Declares host_gemm() and so on: the kernels, which can also be called directly. */
#define HOST_KERNEL(name) void host_##name(const struct name *args);
KERNELS(HOST_KERNEL)
#undef HOST_KERNEL

#endif
