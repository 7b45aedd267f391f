/* Copies addresses to the device's memory, where cuBLAS reads them, as arguments of a kernel. */
#include "cuda_rows.cuh"

extern "C" {
#include "cuda_blas.h"
}

static __global__ void __launch_bounds__(THREADS)
    pointers_kernel(struct cuda_pointers p, const void **to)
{
    for (uint32_t i = threadIdx.x; i < CUDA_POINTERS; i += THREADS)
        to[i] = p.at[i];
}

extern "C" int cuda_put_pointers(const struct cuda_pointers *p, const void **to,
                                 cudaStream_t stream)
{
    return cuda_check(launch(pointers_kernel, 1, THREADS, stream, *p, to), "pointers");
}
