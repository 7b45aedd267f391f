/* Copies between GPUs, and inside one, that leave the multiprocessors to kernels where the driver
 * allows it; and a probe that finds out whether it does. */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a copy, and asks for a copy engine where the runtime has such an option (CUDA 12.8).
 * Elsewhere, and in a graph, it equals cudaMemcpyAsync(). */
int cuda_copy_beside(void *to, const void *from, size_t bytes, cudaStream_t stream);

/* Probes whether such a copy, inside the current device, ends while a kernel occupies all
 * multiprocessors.  True is certain.  False means that no copy ended in 127 ms of probes; it needs
 * a device that does nothing else. */
int cuda_copies_beside(bool *out);

/* Probes, and prints a note where copies use multiprocessors. */
void cuda_note_copy_engines(void);

#ifdef __cplusplus
}
#endif

#endif
