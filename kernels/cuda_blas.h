/* cuBLAS for one device. */
#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* What NVIDIA asks to be given for Hopper; less makes some products slower. */
enum { CUDA_BLAS_WORKSPACE_BYTES = 32 << 20 };

struct cuda_blas;
struct cuda_queue;

/* The version of the library that is loaded; needs no GPU. */
int cuda_blas_version(int *major, int *minor);

int cuda_blas_open(struct cuda_blas **out);
void cuda_blas_close(struct cuda_blas *blas); /* NULL is fine */
/* To be told of a queue that ends: another may come to lie at its address. */
void cuda_blas_forget(struct cuda_blas *blas, const struct cuda_queue *queue);

/* Copies them to memory of the device, in the stream's order. */
enum { CUDA_GROUPS = 64, CUDA_POINTERS = 3 * CUDA_GROUPS };
struct cuda_pointers {
    const void *at[CUDA_POINTERS];
};
int cuda_put_pointers(const struct cuda_pointers *pointers, const void **to, cudaStream_t stream);

#endif
