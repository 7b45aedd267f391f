/* Copies inside and between GPUs' memory that leave the multiprocessors to kernels, where the
 * driver lets them; and a look at whether it does. */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Asks for a copy engine where the runtime can be asked (CUDA 12.8); elsewhere, and in a graph, it
 * is as cudaMemcpyAsync(). */
int cuda_copy_beside(void *to, const void *from, size_t bytes, cudaStream_t stream);

/* Whether such a copy within the current device comes to its end while a kernel holds every
 * multiprocessor.  It is then certain; the opposite is said after 127 ms in which none did, and
 * wants a device that does nothing else. */
int cuda_copies_beside(bool *out);

/* Looks, and notes where copies are not what a wire that has none but copies asks for. */
void cuda_note_copy_engines(void);

#ifdef __cplusplus
}
#endif

#endif
