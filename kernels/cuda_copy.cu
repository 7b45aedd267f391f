/* Asks for copy engines, and finds out whether it was heard: a kernel fills the multiprocessors
 * until a date, and a copy that ends before took none of them. */
extern "C" {
#include "cuda.h"
#include "host.h"
#include "status.h"
}
#include "cuda_copy.h"
#include "cuda_launch.cuh"
#include "cuda_paced.h"

#include <sched.h>

/* Each look is twice as long: a host that does not get its core in time has seen nothing. */
static const int64_t first_look_ns = 1000000, last_look_ns = 64000000;
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
    (void)cudaGetLastError(); /* what is wrong with the copy itself is said by this one */
    return CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

/* ---- the look */

static __global__ void hold(volatile uint32_t *begun, const uint64_t *clock, uint64_t ns)
{
    *begun = 1;
    wait_until(*clock + ns);
}

struct look {
    cudaStream_t kernels, copies;
    cudaEvent_t copied;
    volatile uint32_t *begun; /* the host's, written by the kernel */
    void *clock;
    char *memory; /* what is copied, and room for it */
    unsigned blocks;
};

static int look_open(struct look *l)
{
    struct cudaDeviceProp gpu;
    int ordinal;

    TRY(CUDA(cudaGetDevice(&ordinal)));
    TRY(CUDA(cudaGetDeviceProperties(&gpu, ordinal)));
    /* As many threads as the multiprocessors take at a time: nothing else finds room. */
    l->blocks = (unsigned)gpu.multiProcessorCount *
                ((unsigned)gpu.maxThreadsPerMultiProcessor / (unsigned)THREADS);
    TRY(CUDA(cudaStreamCreateWithFlags(&l->kernels, cudaStreamNonBlocking)));
    TRY(CUDA(cudaStreamCreateWithFlags(&l->copies, cudaStreamNonBlocking)));
    TRY(CUDA(cudaEventCreateWithFlags(&l->copied, cudaEventDisableTiming)));
    TRY(CUDA(cudaMallocHost((void **)&l->begun, sizeof(*l->begun))));
    TRY(CUDA(cudaMalloc(&l->clock, sizeof(uint64_t))));
    return CUDA(cudaMalloc((void **)&l->memory, 2 * (size_t)BYTES));
}

static void look_close(struct look *l)
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

/* Holds the multiprocessors for so long, and says whether a copy was done before. */
static int look_for(struct look *l, int64_t ns, bool *out)
{
    /* On the host's clock, read before the kernel's: the kernel ends no sooner. */
    int64_t until_ns = host_clock_ns() + ns;
    struct paced since = { l->clock, 0, 0, 0 };
    cudaError_t code = cudaErrorNotReady;

    *l->begun = 0;
    TRY(cuda_paced_begin(&since, l->kernels));
    TRY(CUDA(launch(hold, l->blocks, THREADS, l->kernels, l->begun, (const uint64_t *)l->clock,
                    (uint64_t)ns)));
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
    struct look look = {};
    bool beside = false;
    int rc = look_open(&look);

    for (int64_t ns = first_look_ns; ns <= last_look_ns && !rc && !beside; ns *= 2)
        rc = look_for(&look, ns, &beside);
    look_close(&look);
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
