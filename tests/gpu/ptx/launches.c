/* The CUDA runtime as far as kernels that are launched need it, for host code as nvcc made it: who
 * launched what goes to a runner, which also has the memory and says which tests run.  For
 * test_ptx, which loads this with the tests into one library. */
#include "launches.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t subject_launches; /* of cuda_subject.h */

enum { MOST_KERNELS = 1000 };

static struct runner runner;
static struct {
    const void *host;
    const char *name;
} kernels[MOST_KERNELS];
static int kernel_count;

void runner_is(const struct runner *r)
{
    runner = *r;
}

bool test_begins(const char *name)
{
    return runner.begins(name);
}

void test_ended(const char *name, int failures)
{
    fflush(stdout);
    runner.ended(name, failures);
}

void *runner_malloc(size_t bytes)
{
    return runner.take(bytes);
}

int runner_memalign(void **out, size_t alignment, size_t bytes)
{
    (void)alignment; /* the runner's is 256 */
    *out = runner.take(bytes);
    return *out ? 0 : -1;
}

void runner_free(void *memory)
{
    if (memory)
        runner.give(memory);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    int i = 0;

    (void)stream;
    while (i < kernel_count && kernels[i].host != function)
        i++;
    if (i == kernel_count || grid.y * grid.z * block.y * block.z != 1 || shared_bytes)
        return cudaErrorInvalidValue;
    subject_launches++;
    return runner.launch(kernels[i].name, grid.x, block.x, arguments) ? cudaErrorLaunchFailure
                                                                      : cudaSuccess;
}

/* ---- What nvcc's host code calls, by names that are nobody else's */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, uint3 *first, uint3 *last, dim3 *block, dim3 *grid,
                            int *warp);
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
int __cudaGetKernel(void *kernel, const void *function);
int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                       void *stream);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, uint3 *first, uint3 *last, dim3 *block, dim3 *grid,
                            int *warp)
{
    (void)handle, (void)device, (void)threads, (void)first, (void)last;
    (void)block, (void)grid, (void)warp;
    if (kernel_count == MOST_KERNELS)
        abort();
    kernels[kernel_count].host = host;
    kernels[kernel_count++].name = name;
}

/* Of <<< >>>, which no kernel of ours is launched by. */
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    (void)grid, (void)block, (void)shared_bytes, (void)stream;
    abort();
}

int __cudaGetKernel(void *kernel, const void *function)
{
    (void)kernel, (void)function;
    abort();
}

int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                       void *stream)
{
    (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared_bytes, (void)stream;
    abort();
}
