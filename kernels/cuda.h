/* The back end `cuda`, for what must know more of it than device.h says: wires and the doctor.
 * One process drives one GPU, from the thread that opened it. */
#ifndef CUDA_H
#define CUDA_H

#include "device.h"

#include <cuda_runtime_api.h>

/* The compute capability that the kernels are compiled for and later ones run: N.0. */
enum { CUDA_LEAST_CAPABILITY = 8 };

/* ordinal < 0: the local rank that the launcher put into the environment, modulo the GPUs seen. */
int cuda_device_open(int ordinal, struct device **out);
int cuda_choose(int ordinal, int *out); /* only which; opens nothing */
int cuda_open(struct device **out);     /* ordinal -1: the row in device.c */

cudaStream_t cuda_stream(struct stream *stream);
void *cuda_scratch(struct stream *stream); /* what its work may write to; some MiB */
/* As if it were no larger; 0: all of it.  What does not fit then comes in parts. */
void cuda_scratch_limit(struct stream *stream, size_t bytes);
int cuda_ordinal(const struct device *device);

/* True when work is to be dropped: the stream is muted, or something in it failed. */
bool cuda_stream_skips(const struct stream *stream);
/* Keeps the first failure of what was queued there, for stream_sync() to return. */
void cuda_stream_keep(struct stream *stream, int status);

/* OK when nothing of the stream is left to do, UNSUPPORTED: not yet; or how it failed. */
int cuda_stream_done(cudaStream_t stream);

/* NCCL keeps a communicator for as long as a graph lives that was captured from it: an abort waits
 * for that, without end.  So the thread that captures ends its capture, and any thread drops the
 * graphs, once it has told their kernels to end; none can be launched any more. */
void cuda_capture_drop(struct device *device);
void cuda_graphs_drop(struct device *device);

/* What libraries hang on a graph ends some time after graph_close().  OK when all of it has ended,
 * UNSUPPORTED: not yet. */
int cuda_graphs_gone(struct device *device);

/* One of its streams waits for what may never come, and nothing can end that.  From now on syncs
 * return ERR_WIRE at once, and memory stays taken until the process ends: whatever waits for the
 * device would wait for ever. */
void cuda_abandon(struct device *device);

/* A CUDA code as a status, after a message that names the call: OK, ERR_NOMEM, ERR_DEVICE. */
int cuda_check(cudaError_t code, const char *call);
#define CUDA(call) cuda_check(call, #call)

#endif
