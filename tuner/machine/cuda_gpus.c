/* Lists GPUs and versions of libraries, by the CUDA runtime, cuBLAS and NCCL. */
#include "gpu_list.h"

#include "cuda.h"
#include "cuda_blas.h"
#include "cuda_copy.h"
#include "text.h"

#include <nccl.h>
#include <stdio.h>

static void add_gpu(struct gpus *gpus, int ordinal)
{
    struct gpu *gpu = &gpus->list[gpus->count];
    struct cudaDeviceProp properties;

    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess ||
        cudaDeviceGetPCIBusId(gpu->bus, sizeof(gpu->bus), ordinal) != cudaSuccess)
        return;
    if (properties.major < CUDA_LEAST_CAPABILITY)
        text_put(gpus->why, sizeof(gpus->why),
                 "%s (%s) has compute capability %d.%d, but moetune needs %d.0: hide this GPU by "
                 "CUDA_VISIBLE_DEVICES",
                 TEXT_SHORT(properties.name, 60), gpu->bus, properties.major, properties.minor,
                 CUDA_LEAST_CAPABILITY);
    text_put(gpu->name, sizeof(gpu->name), "%s", properties.name);
    gpu->units = (uint32_t)properties.multiProcessorCount;
    gpu->bytes = properties.totalGlobalMem;
    gpus->count++;
}

/* Writes why no GPU works. */
static void explain_no_gpu(struct gpus *gpus, cudaError_t code)
{
    if (!gpus->driver)
        snprintf(gpus->why, sizeof(gpus->why), "no GPU answers: there is no NVIDIA driver");
    else if (code == cudaErrorInsufficientDriver)
        snprintf(gpus->why, sizeof(gpus->why),
                 "no GPU answers: the NVIDIA driver knows CUDA %d.%d, and this moetune was built "
                 "with CUDA %d.%d: a newer driver is needed",
                 gpus->driver / 1000, gpus->driver / 10 % 100, gpus->runtime / 1000,
                 gpus->runtime / 10 % 100);
    else
        text_put(gpus->why, sizeof(gpus->why), "no GPU answers: %s",
                 code ? cudaGetErrorString(code) : "none is visible");
}

void cuda_gpus(struct gpus *out)
{
    int count = 0, major = 0, minor = 0;
    cudaError_t code = cudaGetDeviceCount(&count);

    for (int i = 0; !code && i < count && out->count < GPUS_MAX; i++)
        add_gpu(out, i);
    (void)cudaDriverGetVersion(&out->driver); /* 0 without a driver */
    (void)cudaRuntimeGetVersion(&out->runtime);
    /* These libraries load slowly, so ask them only where they will be used. */
    if (out->count)
        (void)ncclGetVersion(&out->nccl);
    if (out->count && !cuda_blas_version(&major, &minor))
        out->blas = 1000 * major + 10 * minor;
    for (int i = 0; i < out->count; i++)
        for (int j = 0; j < out->count; j++) {
            int reaches = i == j; /* a GPU reaches itself */

            if (i != j)
                (void)cudaDeviceCanAccessPeer(&reaches, i, j);
            out->reaches[i][j] = reaches;
        }
    if (*out->why)
        out->count = 0; /* ranks take GPUs by their numbers, so all must be usable */
    else if (!out->count)
        explain_no_gpu(out, code);
    (void)cudaGetLastError(); /* so that later calls do not report an error of these */
}

int cuda_gpus_copies_beside(void)
{
    int own_gpu = cuda_gpus_own();
    bool beside;

    if (own_gpu < 0 || CUDA(cudaSetDevice(own_gpu)) || cuda_copies_beside(&beside))
        return -1;
    return beside;
}

int cuda_gpus_own(void)
{
    int own_gpu = -1;

    return cuda_choose(-1, &own_gpu) ? -1 : own_gpu;
}
