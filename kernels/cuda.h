/* The back end `cuda`: the functions beyond device.h that wires between GPUs and moetune doctor
 * need.  One process drives one GPU, from the thread that opened it. */
#ifndef CUDA_H
#define CUDA_H

#include "device.h"

#include <cuda_runtime_api.h>

/* The kernels are compiled for compute capability 8.0, and newer GPUs run them. */
enum { CUDA_LEAST_CAPABILITY = 8 };

/* Opens GPU number `ordinal`.  ordinal < 0: the launcher's local rank modulo the number of visible
 * GPUs.  ERR_DEVICE: no GPU answers, or it is too old.  ERR_ARGUMENT: there is no such GPU. */
int cuda_device_open(int ordinal, struct device **out);

/* Finds the number of the GPU that cuda_device_open() would open, and opens nothing. */
int cuda_choose(int ordinal, int *out);

/* cuda_device_open() with ordinal -1, for the table in device.c. */
int cuda_open(struct device **out);

cudaStream_t cuda_stream(struct stream *stream);

/* Scratch memory of the stream's work: CUDA_SCRATCH_BYTES. */
void *cuda_scratch(struct stream *stream);

/* Makes kernels use at most so many bytes of scratch memory (0: all), for tests of work in parts.
 */
void cuda_scratch_limit(struct stream *stream, size_t bytes);

/* The GPU's number. */
int cuda_ordinal(const struct device *device);

/* True where the stream drops its work: it is muted, or something in it failed. */
bool cuda_stream_skips(const struct stream *stream);

/* Stores a status for the next stream_sync(), unless the stream has stored a failure already. */
void cuda_stream_keep(struct stream *stream, int status);

/* OK: the stream has no work left.  UNSUPPORTED: it still works.  Else the status of its failure.
 */
int cuda_stream_done(cudaStream_t stream);

/* NCCL keeps a communicator as long as a graph exists that was captured from it, and an abort waits
 * for that without end.  So before an abort the capturing thread must end its capture, and some
 * thread must destroy all graphs, after it has told their kernels to end.  No dropped graph can be
 * launched any more. */
void cuda_capture_drop(struct device *device);
void cuda_graphs_drop(struct device *device);

/* Libraries attach objects to graphs, and the driver destroys these some time after graph_close().
 * OK: all are destroyed.  UNSUPPORTED: not yet. */
int cuda_graphs_gone(struct device *device);

/* Gives a device up after a failure that leaves a stream waiting for ever.  From now on syncs
 * return ERR_WIRE at once, and memory stays allocated until the process ends, because freeing it
 * would wait for the device. */
void cuda_abandon(struct device *device);

/* Turns a CUDA code into OK, ERR_NOMEM or ERR_DEVICE, with a message that names the call. */
int cuda_check(cudaError_t code, const char *call);
#define CUDA(call) cuda_check(call, #call)

#endif
