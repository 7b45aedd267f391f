/* The kernels of kernels.h on a CUDA stream: each enqueues, allocates nothing, returns a status.
 * Each is as its host twin, slot for slot; sums differ by rounding only, and never between runs. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "kernels.h"

#include <cuda_runtime_api.h>

struct cuda_blas;

/* Where a kernel goes.  The scratch memory belongs to the stream, so its use is in order too. */
struct cuda_queue {
    cudaStream_t stream;
    void *scratch; /* aligned to 256 bytes */
    size_t scratch_bytes;
    struct cuda_blas *blas;
    void *blas_workspace;
};

enum { CUDA_SCRATCH_BYTES = KEPT_RESULTS_SCRATCH };

#define CUDA_KERNEL(name) int cuda_##name(const struct name *args, const struct cuda_queue *queue);
KERNELS(CUDA_KERNEL)
#undef CUDA_KERNEL

#endif
