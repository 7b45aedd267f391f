/* cuBLAS for one GPU: opened with the device, used by cuda_gemm.c. */
#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* The workspace that NVIDIA recommends for Hopper; with less, some products are slower. */
enum { CUDA_BLAS_WORKSPACE_BYTES = 32 << 20 };

struct cuda_blas;
struct cuda_queue;

/* Loads the library and gives its version; needs no GPU. */
int cuda_blas_version(int *major, int *minor);

/* Loads cuBLAS, and opens a handle for the current GPU. */
int cuda_blas_open(struct cuda_blas **out);
void cuda_blas_close(struct cuda_blas *blas); /* NULL is fine */

/* Must be called before a queue is freed, because another one may later have its address. */
void cuda_blas_forget(struct cuda_blas *blas, const struct cuda_queue *queue);

/* Addresses of matrices that a grouped product reads on the device.  A plain value. */
enum { CUDA_GROUPS = 64, CUDA_POINTERS = 3 * CUDA_GROUPS };
struct cuda_pointers {
    const void *at[CUDA_POINTERS];
};

/* Enqueues a kernel that copies them to memory of the device. */
int cuda_put_pointers(const struct cuda_pointers *pointers, const void **to, cudaStream_t stream);

#endif
