/* The kernels of kernels.h on a CUDA stream.  Each function enqueues, allocates nothing, and
 * returns a status.  Results equal those of the host, slot for slot; sums differ only by rounding,
 * and never between two runs. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "kernels.h"

#include <cuda_runtime_api.h>

struct cuda_blas;

/* Where a kernel runs.  It belongs to a stream, which frees it.  Only work of this stream uses the
 * scratch memory, so its uses do not overlap. */
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
