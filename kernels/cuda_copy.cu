/* Copies by copy engines, and a probe whether the driver uses them: a kernel occupies all
 * multiprocessors for a while, and a copy that ends before needed none of them. */
extern "C" {
#include "cuda.h"
#include "host.h"
#include "status.h"
}
#include "cuda_copy.h"
#include "cuda_launch.cuh"
#include "cuda_paced.h"

#include <sched.h>

/* Each probe is twice as long as the last one: a host thread that does not get a core in time sees
 * nothing. */
static const int64_t first_probe_ns = 1000000, last_probe_ns = 64000000;
enum { BYTES = 4 << 20, THREADS = 256 };

static bool in_graph(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
}

#if CUDART_VERSION >= 12080
static cudaError_t copy_by_engine(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    cudaMemcpyAttributes beside = {};
    size_t first = 0;

    beside.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    beside.flags = cudaMemcpyFlagPreferOverlapWithCompute;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &beside, &first, 1, stream);
#else
    void *source = (void *)from;
    size_t failed;

    return cudaMemcpyBatchAsync(&to, &source, &bytes, 1, &beside, &first, 1, &failed, stream);
#endif
}
#else
static cudaError_t copy_by_engine(void *, const void *, size_t, cudaStream_t)
{
    return cudaErrorNotSupported;
}
#endif

extern "C" int cuda_copy_beside(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    if (!bytes)
        return OK;
    if (!in_graph(stream) && copy_by_engine(to, from, bytes, stream) == cudaSuccess)
        return OK;
    (void)cudaGetLastError(); /* if the copy itself is wrong, the next call reports it */
    return CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

/* ---- the probe */

static __global__ void hold_kernel(volatile uint32_t *begun, const uint64_t *clock, uint64_t ns)
{
    *begun = 1;
    wait_until(*clock + ns);
}

struct probe {
    cudaStream_t kernels, copies;
    cudaEvent_t copied;
    volatile uint32_t *begun; /* host memory; the kernel writes it */
    void *clock;
    char *memory; /* source and destination of the copy */
    unsigned blocks;
};

static int probe_open(struct probe *l)
{
    struct cudaDeviceProp gpu;
    int ordinal;

    TRY(CUDA(cudaGetDevice(&ordinal)));
    TRY(CUDA(cudaGetDeviceProperties(&gpu, ordinal)));
    /* As many threads as the multiprocessors can hold, so that nothing else finds room. */
    l->blocks = (unsigned)gpu.multiProcessorCount *
                ((unsigned)gpu.maxThreadsPerMultiProcessor / (unsigned)THREADS);
    TRY(CUDA(cudaStreamCreateWithFlags(&l->kernels, cudaStreamNonBlocking)));
    TRY(CUDA(cudaStreamCreateWithFlags(&l->copies, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreateWithFlags(&l->copied, cudaEventDisableTiming)));
    TRY(CUDA(cudaMallocHost((void **)&l->begun, sizeof(*l->begun))));
    TRY(CUDA(cudaMalloc(&l->clock, sizeof(uint64_t))));
    return CUDA(cudaMalloc((void **)&l->memory, 2 * (size_t)BYTES));
}

static void probe_close(struct probe *l)
{
    if (l->copied)
        cudaEventDestroy(l->copied);
    if (l->begun)
        cudaFreeHost((void *)l->begun);
    cudaFree(l->clock);
    cudaFree(l->memory);
    if (l->copies)
        cudaStreamDestroy(l->copies);
    if (l->kernels)
        cudaStreamDestroy(l->kernels);
}

/* Occupies the multiprocessors for `ns`; *out: whether a copy ended before. */
static int probe_for(struct probe *l, int64_t ns, bool *out)
{
    /* The host reads its clock before the kernel begins, so the kernel does not end earlier. */
    int64_t until_ns = host_clock_ns() + ns;
    struct paced since = { l->clock, 0, 0, 0 };
    cudaError_t code = cudaErrorNotReady;

    *l->begun = 0;
    TRY(cuda_paced_begin(&since, l->kernels));
    TRY(CUDA(launch(hold_kernel, l->blocks, THREADS, l->kernels, l->begun,
                    (const uint64_t *)l->clock, (uint64_t)ns)));
    while (!*l->begun && host_clock_ns() < until_ns)
        sched_yield();
    TRY(cuda_copy_beside(l->memory, l->memory + BYTES, BYTES, l->copies));
    TRY(CUDA(cudaEventRecord(l->copied, l->copies)));
    while (code == cudaErrorNotReady && host_clock_ns() < until_ns) {
        code = cudaEventQuery(l->copied);
        if (code == cudaErrorNotReady)
            sched_yield();
    }
    (void)cudaGetLastError();
    if (code != cudaErrorNotReady)
        TRY(cuda_check(code, "cudaEventQuery"));
    *out = code == cudaSuccess && host_clock_ns() < until_ns;
    TRY(CUDA(cudaStreamSynchronize(l->kernels)));
    return CUDA(cudaStreamSynchronize(l->copies));
}

extern "C" int cuda_copies_beside(bool *out)
{
    struct probe probe = {};
    bool beside = false;
    int rc = probe_open(&probe);

    for (int64_t ns = first_probe_ns; ns <= last_probe_ns && !rc && !beside; ns *= 2)
        rc = probe_for(&probe, ns, &beside);
    probe_close(&probe);
    if (!rc)
        *out = beside;
    return rc;
}

extern "C" void cuda_note_copy_engines(void)
{
    bool beside;

    if (!cuda_copies_beside(&beside) && !beside)
        note("copies within this GPU run on its multiprocessors, not on copy engines: they take "
             "time from products that copies between GPUs would not");
}
