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
enum { PROBE_BYTES = 4 << 20, THREADS = 256 };

static bool is_captured(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
}

#if CUDART_VERSION >= 12080
static cudaError_t copy_by_engine(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    cudaMemcpyAttributes attributes = {};
    size_t first = 0;

    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
#else
    void *source = (void *)from;
    size_t failed;

    return cudaMemcpyBatchAsync(&to, &source, &bytes, 1, &attributes, &first, 1, &failed, stream);
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
    if (!is_captured(stream) && copy_by_engine(to, from, bytes, stream) == cudaSuccess)
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

static int probe_open(struct probe *probe)
{
    struct cudaDeviceProp gpu;
    int ordinal;

    TRY(CUDA(cudaGetDevice(&ordinal)));
    TRY(CUDA(cudaGetDeviceProperties(&gpu, ordinal)));
    /* As many threads as the multiprocessors can hold, so that nothing else finds room. */
    probe->blocks = (unsigned)gpu.multiProcessorCount *
                    ((unsigned)gpu.maxThreadsPerMultiProcessor / (unsigned)THREADS);
    TRY(CUDA(cudaStreamCreateWithFlags(&probe->kernels, cudaStreamNonBlocking)));
    TRY(CUDA(cudaStreamCreateWithFlags(&probe->copies, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreateWithFlags(&probe->copied, cudaEventDisableTiming)));
    TRY(CUDA(cudaMallocHost((void **)&probe->begun, sizeof(*probe->begun))));
    TRY(CUDA(cudaMalloc(&probe->clock, sizeof(uint64_t))));
    return CUDA(cudaMalloc((void **)&probe->memory, 2 * (size_t)PROBE_BYTES));
}

static void probe_close(struct probe *probe)
{
    if (probe->copied)
        cudaEventDestroy(probe->copied);
    if (probe->begun)
        cudaFreeHost((void *)probe->begun);
    cudaFree(probe->clock);
    cudaFree(probe->memory);
    if (probe->copies)
        cudaStreamDestroy(probe->copies);
    if (probe->kernels)
        cudaStreamDestroy(probe->kernels);
}

/* Occupies the multiprocessors for `ns`; *out: whether a copy ended before. */
static int probe_once(struct probe *probe, int64_t ns, bool *out)
{
    /* The host reads its clock before the kernel begins, so the kernel does not end earlier. */
    int64_t until_ns = host_clock_ns() + ns;
    struct paced hold = {};
    cudaError_t copied = cudaErrorNotReady;

    hold.clock = probe->clock;
    *probe->begun = 0;
    TRY(cuda_paced_begin(&hold, probe->kernels));
    TRY(CUDA(launch(hold_kernel, probe->blocks, THREADS, probe->kernels, probe->begun,
                    (const uint64_t *)probe->clock, (uint64_t)ns)));
    while (!*probe->begun && host_clock_ns() < until_ns)
        sched_yield();
    TRY(cuda_copy_beside(probe->memory, probe->memory + PROBE_BYTES, PROBE_BYTES, probe->copies));
    TRY(CUDA(cudaEventRecord(probe->copied, probe->copies)));
    while (copied == cudaErrorNotReady && host_clock_ns() < until_ns) {
        copied = cudaEventQuery(probe->copied);
        if (copied == cudaErrorNotReady)
            sched_yield();
    }
    (void)cudaGetLastError();
    if (copied != cudaErrorNotReady)
        TRY(cuda_check(copied, "cudaEventQuery"));
    *out = copied == cudaSuccess && host_clock_ns() < until_ns;
    TRY(CUDA(cudaStreamSynchronize(probe->kernels)));
    return CUDA(cudaStreamSynchronize(probe->copies));
}

extern "C" int cuda_copies_beside(bool *out)
{
    struct probe probe = {};
    bool beside = false;
    int rc = probe_open(&probe);

    for (int64_t ns = first_probe_ns; ns <= last_probe_ns && !rc && !beside; ns *= 2)
        rc = probe_once(&probe, ns, &beside);
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
