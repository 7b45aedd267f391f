/* The back end `cuda`: a GPU's memory, streams, events and their clock, graphs, and copies from and
 * to the host. */
#include "cuda.h"

#include "cuda_blas.h"
#include "cuda_kernels.h"
#include "cuda_paced.h"
#include "fault.h"
#include "host.h"
#include "status.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAGE_BYTES = 4 << 20, STAGES = 2, LEAST_BYTES = 256, ENDING_MS = 1000 };

/* CUDA gives the time between two events as a float of milliseconds.  After a second its last bit
 * is worth 60 ns, after an hour a quarter of a millisecond.  So the device often records a new
 * origin.
 */
static const int64_t origin_lasts_ns = 500000000;

/* An open GPU; cuda_close() frees it. */
struct cuda_device {
    struct device base;
    int ordinal;
    cudaStream_t transfer_stream; /* for copies from and to the host, and for timestamps */
    cudaEvent_t origin, now;
    int64_t origin_ns, origin_set_ns; /* time of the origin on the GPU's and on the host's clock */
    char *stage[STAGES];              /* pinned buffers for copies */
    cudaEvent_t staged[STAGES];       /* when a buffer is free, or full */
    /* Two numbers of holds in pinned memory: the last that the host has ended, and the last that
     * ended by itself. */
    volatile uint32_t *hold_words;
    uint32_t hold_count; /* holds so far */
    struct cuda_blas *blas;
    bool abandoned;              /* see cuda_abandon() */
    pthread_mutex_t graphs_lock; /* protects `graphs`, which another thread may drop */
    struct cuda_graph *graphs;   /* graphs that can be launched */
    cudaStream_t captured;       /* stream whose capture is in progress, or NULL */
    struct endings *endings;
};

/* Counts destroyed graphs.  A thread of the driver destroys the objects on a graph, one after the
 * other, some time after the graph.  We attach an object to each graph; its destructor shows that
 * the thread has begun. */
struct endings {
    uint32_t destroyed;    /* graphs, and objects without a graph */
    atomic_uint ended;     /* destructors that have run */
    bool last_is_released; /* an object without a graph came last, or there were no graphs */
};

struct cuda_stream {
    struct stream base;
    struct cuda_queue queue;
    int status; /* the first failure since the last sync */
};

struct cuda_graph {
    struct graph base;
    cudaGraphExec_t handle; /* NULL: dropped */
    struct cuda_graph *next;
};

struct cuda_event {
    struct event base;
    cudaEvent_t handle;
};

int cuda_check(cudaError_t code, const char *call)
{
    if (code == cudaSuccess)
        return OK;
    (void)cudaGetLastError(); /* else the next launch reports this error */
    return fail(code == cudaErrorMemoryAllocation ? ERR_NOMEM : ERR_DEVICE, "%s: %s (%s)", call,
                cudaGetErrorString(code), cudaGetErrorName(code));
}

static struct cuda_device *device_of(struct device *device)
{
    return (struct cuda_device *)device;
}

static struct cuda_stream *stream_of(struct stream *stream)
{
    return (struct cuda_stream *)stream;
}

/* ---- Memory */

static int cuda_alloc(struct device *device, size_t bytes, void **out)
{
    void *memory;
    cudaError_t code;

    (void)device;
    if (fault_hit("alloc"))
        return fail(ERR_NOMEM, "%zu bytes of GPU memory (injected)", bytes);
    code = cudaMalloc(&memory, bytes ? bytes : LEAST_BYTES);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return fail(ERR_NOMEM, "%zu bytes of GPU memory", bytes);
    }
    TRY(cuda_check(code, "cudaMalloc"));
    *out = memory;
    return OK;
}

static void cuda_release(struct device *device, void *memory)
{
    if (device_of(device)->abandoned)
        return; /* cudaFree() would wait for the device */
    cuda_check(cudaFree(memory), "cudaFree");
}

static int64_t cuda_free_bytes(struct device *device)
{
    size_t free = 0, total = 0;

    (void)device;
    return CUDA(cudaMemGetInfo(&free, &total)) ? INT64_MAX : (int64_t)free;
}

/* Copies through pinned memory.  A copy from pageable memory may return before the GPU has the
 * bytes, and the driver gives it no order with other streams. */
static int cuda_upload(struct device *base, void *to, const void *from_host, size_t bytes)
{
    struct cuda_device *device = device_of(base);

    for (size_t offset = 0, turn = 0; offset < bytes; offset += STAGE_BYTES, turn++) {
        size_t n = bytes - offset < STAGE_BYTES ? bytes - offset : STAGE_BYTES;
        size_t stage = turn % STAGES;

        TRY(CUDA(cudaEventSynchronize(device->staged[stage])));
        memcpy(device->stage[stage], (const char *)from_host + offset, n);
        TRY(CUDA(cudaMemcpyAsync((char *)to + offset, device->stage[stage], n,
                                 cudaMemcpyHostToDevice, device->transfer_stream)));
        TRY(CUDA(cudaEventRecord(device->staged[stage], device->transfer_stream)));
    }
    return CUDA(cudaStreamSynchronize(device->transfer_stream));
}

static int download_piece(struct cuda_device *device, const void *from, size_t offset, size_t bytes)
{
    size_t stage = offset / STAGE_BYTES % STAGES;
    size_t n = bytes - offset < STAGE_BYTES ? bytes - offset : STAGE_BYTES;

    TRY(CUDA(cudaMemcpyAsync(device->stage[stage], (const char *)from + offset, n,
                             cudaMemcpyDeviceToHost, device->transfer_stream)));
    return CUDA(cudaEventRecord(device->staged[stage], device->transfer_stream));
}

/* Copies two pieces at a time: the GPU writes the next one while the host copies this one. */
static int cuda_download(struct device *base, void *to_host, const void *from, size_t bytes)
{
    struct cuda_device *device = device_of(base);

    if (bytes)
        TRY(download_piece(device, from, 0, bytes));
    for (size_t offset = 0; offset < bytes; offset += STAGE_BYTES) {
        size_t n = bytes - offset < STAGE_BYTES ? bytes - offset : STAGE_BYTES;
        size_t stage = offset / STAGE_BYTES % STAGES;

        if (offset + n < bytes)
            TRY(download_piece(device, from, offset + n, bytes));
        TRY(CUDA(cudaEventSynchronize(device->staged[stage])));
        memcpy((char *)to_host + offset, device->stage[stage], n);
    }
    return OK;
}

/* ---- Dates */

static int64_t between_ns(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;

    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
        (void)cudaGetLastError(); /* the event was never recorded, or not synced */
    return llround((double)ms * 1e6);
}

static int record_now(struct cuda_device *device)
{
    TRY(CUDA(cudaEventRecord(device->now, device->transfer_stream)));
    return CUDA(cudaEventSynchronize(device->now));
}

static int refresh_origin(struct cuda_device *device)
{
    cudaEvent_t old = device->origin;

    if (host_clock_ns() - device->origin_set_ns < origin_lasts_ns)
        return OK;
    TRY(record_now(device));
    device->origin_ns += between_ns(device->origin, device->now);
    device->origin = device->now;
    device->now = old;
    device->origin_set_ns = host_clock_ns();
    return OK;
}

static int64_t cuda_event_ns(const struct event *event)
{
    const struct cuda_device *device = device_of(event->device);

    return device->origin_ns +
           between_ns(device->origin, ((const struct cuda_event *)event)->handle);
}

/* Records an event to read the GPU's clock, on which all events are; on an idle GPU that takes some
 * 10 us. */
static int64_t cuda_now_ns(struct device *base)
{
    struct cuda_device *device = device_of(base);

    if (refresh_origin(device) || record_now(device))
        return device->origin_ns;
    return device->origin_ns + between_ns(device->origin, device->now);
}

/* ---- Streams and events */

static void cuda_stream_close(struct stream *base)
{
    struct cuda_stream *stream = stream_of(base);

    if (stream->queue.stream && !device_of(base->device)->abandoned)
        cudaStreamSynchronize(stream->queue.stream);
    if (stream->queue.stream)
        cudaStreamDestroy(stream->queue.stream);
    cuda_release(base->device, stream->queue.scratch);
    cuda_release(base->device, stream->queue.blas_workspace);
    cuda_blas_forget(stream->queue.blas, &stream->queue);
    free(stream);
}

static int cuda_stream_open(struct device *device, bool urgent, struct stream **out)
{
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    int least, greatest, rc;

    if (!stream)
        return fail(ERR_NOMEM, "a stream");
    stream->base.device = device;
    stream->queue.blas = device_of(device)->blas;
    stream->queue.scratch_bytes = CUDA_SCRATCH_BYTES;
    TRY_OUT(CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    TRY_OUT(CUDA(cudaStreamCreateWithPriority(&stream->queue.stream, cudaStreamNonBlocking,
                                              urgent ? greatest : least)));
    TRY_OUT(CUDA(cudaMalloc(&stream->queue.scratch, CUDA_SCRATCH_BYTES)));
    TRY_OUT(CUDA(cudaMalloc(&stream->queue.blas_workspace, CUDA_BLAS_WORKSPACE_BYTES)));
    *out = &stream->base;
    return OK;
out:
    cuda_stream_close(&stream->base);
    return rc;
}

static int cuda_stream_sync(struct stream *base)
{
    struct cuda_stream *stream = stream_of(base);
    int status;

    if (device_of(base->device)->abandoned)
        return ERR_WIRE; /* the caller of cuda_abandon() has printed the reason */
    cuda_stream_keep(base, CUDA(cudaStreamSynchronize(stream->queue.stream)));
    if (!stream->status)
        stream->status = refresh_origin(device_of(base->device));
    status = stream->status;
    stream->status = OK;
    return status;
}

static int cuda_event_open(struct device *device, bool dated, struct event **out)
{
    struct cuda_event *event = calloc(1, sizeof(*event));
    int rc;

    if (!event)
        return fail(ERR_NOMEM, "an event");
    event->base.device = device;
    TRY_OUT(CUDA(cudaEventCreateWithFlags(&event->handle,
                                          dated ? cudaEventDefault : cudaEventDisableTiming)));
    *out = &event->base;
    return OK;
out:
    free(event);
    return rc;
}

static void cuda_event_close(struct event *base)
{
    cudaEventDestroy(((struct cuda_event *)base)->handle);
    free(base);
}

static int cuda_event_record(struct event *event, struct stream *stream)
{
    return CUDA(cudaEventRecord(((struct cuda_event *)event)->handle, cuda_stream(stream)));
}

static int cuda_event_wait(struct event *event, struct stream *stream)
{
    return CUDA(cudaStreamWaitEvent(cuda_stream(stream), ((struct cuda_event *)event)->handle, 0));
}

cudaStream_t cuda_stream(struct stream *stream)
{
    return stream_of(stream)->queue.stream;
}

void *cuda_scratch(struct stream *stream)
{
    return stream_of(stream)->queue.scratch;
}

void cuda_scratch_limit(struct stream *stream, size_t bytes)
{
    stream_of(stream)->queue.scratch_bytes =
        bytes && bytes < CUDA_SCRATCH_BYTES ? bytes : CUDA_SCRATCH_BYTES;
}

bool cuda_stream_skips(const struct stream *stream)
{
    return stream->muted || ((const struct cuda_stream *)stream)->status != OK;
}

void cuda_stream_keep(struct stream *stream, int status)
{
    if (!stream_of(stream)->status)
        stream_of(stream)->status = status;
}

int cuda_stream_done(cudaStream_t stream)
{
    cudaError_t code = cudaStreamQuery(stream);

    if (code != cudaErrorNotReady)
        return cuda_check(code, "cudaStreamQuery");
    (void)cudaGetLastError(); /* else the next launch reports cudaErrorNotReady */
    return UNSUPPORTED;
}

/* ---- Kernels */

int cuda_fill(const struct fill *f, const struct cuda_queue *queue)
{
    return f->bytes ? CUDA(cudaMemsetAsync(f->to, 0, f->bytes, queue->stream)) : OK;
}

#define CUDA_ROW(name)                                                                             \
    static int run_##name(const void *args, const struct cuda_queue *queue)                        \
    {                                                                                              \
        return cuda_##name(args, queue);                                                           \
    }
KERNELS(CUDA_ROW)
#undef CUDA_ROW

#define CUDA_ENTRY(name) [KERNEL_##name] = run_##name,
static int (*const kernel_table[KERNEL_COUNT])(const void *args, const struct cuda_queue *queue) = {
    KERNELS(CUDA_ENTRY)
};
#undef CUDA_ENTRY

static int cuda_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    (void)bytes;
    if (!cuda_stream_skips(stream))
        cuda_stream_keep(stream, kernel_table[kernel](args, &stream_of(stream)->queue));
    return OK;
}

/* ---- Holds: a kernel of one thread waits until the host writes a number */

static int cuda_hold(struct stream *stream)
{
    struct cuda_device *device = device_of(stream->device);

    cuda_stream_keep(stream, cuda_wait_said((uint32_t *)device->hold_words, ++device->hold_count,
                                            HOLD_MOST_NS, cuda_stream(stream)));
    return OK;
}

static int cuda_end_hold(struct device *base)
{
    const struct cuda_device *device = device_of(base);
    bool ended_by_itself = device->hold_words[1] == device->hold_count;

    device->hold_words[0] = device->hold_count;
    return ended_by_itself ? UNSUPPORTED : OK;
}

/* ---- Graphs */

/* Captures only the calls of this thread, not those of the threads of libraries. */
static int cuda_graph_begin(struct stream *stream)
{
    struct cuda_device *device = device_of(stream->device);

    TRY(CUDA(cudaStreamBeginCapture(cuda_stream(stream), cudaStreamCaptureModeThreadLocal)));
    device->captured = cuda_stream(stream);
    return OK;
}

static void CUDART_CB count_ending(void *self)
{
    struct endings *endings = self;

    atomic_fetch_add(&endings->ended, 1);
}

/* Makes an object whose destructor counts, and attaches it to a graph; NULL: releases it at once.
 */
static int attach_object(struct cuda_device *device, cudaGraph_t graph)
{
    cudaUserObject_t object;

    TRY(CUDA(cudaUserObjectCreate(&object, device->endings, count_ending, 1,
                                  cudaUserObjectNoDestructorSync)));
    if (graph)
        return CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    device->endings->destroyed++;
    return CUDA(cudaUserObjectRelease(object, 1));
}

/* Destroys a graph and removes it from the list; the caller has the lock. */
static void drop_graph(struct cuda_device *device, struct cuda_graph *graph)
{
    struct cuda_graph **link = &device->graphs;

    while (*link && *link != graph)
        link = &(*link)->next;
    if (*link)
        *link = graph->next;
    if (graph->handle && !device->abandoned) {
        device->endings->destroyed += !CUDA(cudaGraphExecDestroy(graph->handle));
        device->endings->last_is_released = false;
    }
    graph->handle = NULL;
}

static void cuda_graph_close(struct graph *base)
{
    struct cuda_device *device = device_of(base->device);

    pthread_mutex_lock(&device->graphs_lock);
    drop_graph(device, (struct cuda_graph *)base);
    pthread_mutex_unlock(&device->graphs_lock);
    free(base);
}

void cuda_capture_drop(struct device *base)
{
    struct cuda_device *device = device_of(base);
    cudaGraph_t captured = NULL;

    if (!device->captured)
        return;
    if (cudaStreamEndCapture(device->captured, &captured) == cudaSuccess && captured)
        CUDA(cudaGraphDestroy(captured));
    (void)cudaGetLastError(); /* an invalidated capture has no graph */
    device->captured = NULL;
    device->endings->last_is_released = false;
}

/* The calling thread may not have used the GPU before, so it sets the device first. */
void cuda_graphs_drop(struct device *base)
{
    struct cuda_device *device = device_of(base);

    pthread_mutex_lock(&device->graphs_lock);
    if (device->graphs)
        CUDA(cudaSetDevice(device->ordinal));
    while (device->graphs)
        drop_graph(device, device->graphs);
    pthread_mutex_unlock(&device->graphs_lock);
}

/* When all destructors have run, the driver's thread has begun with the last graph's objects, but
 * may not have finished.  So this releases one more object: its destructor runs after all of
 * them. */
int cuda_graphs_gone(struct device *base)
{
    struct cuda_device *device = device_of(base);
    struct endings *endings = device->endings;

    if (atomic_load(&endings->ended) != endings->destroyed)
        return UNSUPPORTED;
    if (endings->last_is_released)
        return OK;
    TRY(attach_object(device, NULL));
    endings->last_is_released = true;
    return UNSUPPORTED;
}

/* Ends the capture in any case, even after a failure. */
static int cuda_graph_end(struct stream *stream, struct graph **out)
{
    struct cuda_device *device = device_of(stream->device);
    struct cuda_graph *graph = calloc(1, sizeof(*graph));
    cudaGraph_t captured = NULL;
    size_t nodes = 0;
    bool is_attached = false;
    int rc =
        ERR_WIRE; /* for a dropped capture: the caller of cuda_capture_drop() has printed why */

    if (device->captured)
        rc = CUDA(cudaStreamEndCapture(device->captured, &captured));
    device->captured = NULL;
    device->endings->last_is_released = false; /* objects of the capture may be destroyed already */
    if (!graph)
        rc = fail(ERR_NOMEM, "a graph");
    if (graph)
        graph->base.device = stream->device;
    if (!rc)
        rc = CUDA(cudaGraphGetNodes(captured, NULL, &nodes));
    if (!rc)
        rc = attach_object(device, captured);
    is_attached = !rc;
    if (!rc) {
        graph->base.nodes = nodes;
        /* Without this flag all nodes get the priority of the launching stream, and exchanges no
         * longer come before products. */
        rc = CUDA(cudaGraphInstantiate(&graph->handle, captured,
                                       cudaGraphInstantiateFlagUseNodePriority));
    }
    if (captured)
        CUDA(cudaGraphDestroy(captured));
    if (rc) {
        device->endings->destroyed += is_attached;
        free(graph);
        return rc;
    }
    pthread_mutex_lock(&device->graphs_lock);
    graph->next = device->graphs;
    device->graphs = graph;
    pthread_mutex_unlock(&device->graphs_lock);
    *out = &graph->base;
    return OK;
}

static int cuda_graph_launch(struct graph *graph, struct stream *stream)
{
    cudaGraphExec_t handle = ((struct cuda_graph *)graph)->handle;

    if (!cuda_stream_skips(stream))
        cuda_stream_keep(stream,
                         handle ? CUDA(cudaGraphLaunch(handle, cuda_stream(stream))) : ERR_WIRE);
    return OK;
}

/* ---- The device */

static void cuda_close(struct device *base)
{
    struct cuda_device *device = device_of(base);

    if (device->abandoned) { /* destructors may still run, so `endings` must stay */
        free(device);
        return;
    }
    for (int ms = 0; ms < ENDING_MS && device->endings && cuda_graphs_gone(base) == UNSUPPORTED;
         ms++)
        usleep(1000);
    if (device->endings && atomic_load(&device->endings->ended) == device->endings->destroyed)
        free(device->endings);
    cuda_blas_close(device->blas);
    for (int i = 0; i < STAGES; i++) {
        if (device->staged[i])
            cudaEventDestroy(device->staged[i]);
        if (device->stage[i])
            cudaFreeHost(device->stage[i]);
    }
    if (device->hold_words)
        cudaFreeHost((void *)device->hold_words);
    if (device->origin)
        cudaEventDestroy(device->origin);
    if (device->now)
        cudaEventDestroy(device->now);
    if (device->transfer_stream)
        cudaStreamDestroy(device->transfer_stream);
    free(device);
}

static const struct device_ops cuda_ops = {
    .name = "cuda",
    .close = cuda_close,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .free_bytes = cuda_free_bytes,
    .upload = cuda_upload,
    .download = cuda_download,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_sync = cuda_stream_sync,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_ns = cuda_event_ns,
    .now_ns = cuda_now_ns,
    .launch = cuda_launch,
    .hold = cuda_hold,
    .end_hold = cuda_end_hold,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch,
    .graph_close = cuda_graph_close,
};

/* The local rank that the launcher has set: Open MPI, MPICH and Intel MPI, Slurm, or torchrun. */
static int local_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                         "SLURM_LOCALID", "LOCAL_RANK" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);

        if (text && *text)
            return (int)(strtoul(text, NULL, 10) & 0xffff);
    }
    return 0;
}

int cuda_choose(int ordinal, int *out)
{
    cudaError_t code;
    int count = 0;

    code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice || (!code && !count)) {
        (void)cudaGetLastError();
        return fail(ERR_DEVICE,
                    "no GPU answers: %s; is the NVIDIA driver loaded, and a GPU visible "
                    "(nvidia-smi, CUDA_VISIBLE_DEVICES)?",
                    code ? cudaGetErrorString(code) : "none is visible");
    }
    TRY(cuda_check(code, "cudaGetDeviceCount"));
    if (ordinal >= count)
        return fail(ERR_ARGUMENT, "there is no GPU %d: this process sees %d, counted from 0",
                    ordinal, count);
    *out = ordinal >= 0 ? ordinal : local_rank() % count;
    return OK;
}

int cuda_device_open(int ordinal, struct device **out)
{
    struct cuda_device *device = calloc(1, sizeof(*device));
    struct cudaDeviceProp gpu;
    int rc;

    if (!device)
        return fail(ERR_NOMEM, "a device");
    device->base.ops = &cuda_ops;
    device->graphs_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    device->endings = calloc(1, sizeof(*device->endings));
    TRY_OUT(device->endings ? OK : fail(ERR_NOMEM, "a device"));
    device->endings->last_is_released = true;
    TRY_OUT(cuda_choose(ordinal, &ordinal));
    device->ordinal = ordinal;
    TRY_OUT(CUDA(cudaSetDevice(device->ordinal)));
    TRY_OUT(CUDA(cudaGetDeviceProperties(&gpu, ordinal)));
    device->base.asynchronous = true;
    device->base.cache_bytes = (size_t)gpu.l2CacheSize;
    if (gpu.major < CUDA_LEAST_CAPABILITY) {
        rc = fail(ERR_DEVICE,
                  "GPU %d (%s) has compute capability %d.%d; moetune needs %d.0 or newer", ordinal,
                  gpu.name, gpu.major, gpu.minor, CUDA_LEAST_CAPABILITY);
        goto out;
    }
    TRY_OUT(CUDA(cudaStreamCreateWithFlags(&device->transfer_stream, cudaStreamNonBlocking)));
    TRY_OUT(CUDA(cudaEventCreate(&device->origin)));
    TRY_OUT(CUDA(cudaEventCreate(&device->now)));
    TRY_OUT(CUDA(cudaMallocHost((void **)&device->hold_words, 2 * sizeof(*device->hold_words))));
    device->hold_words[0] = device->hold_words[1] = 0;
    for (int i = 0; i < STAGES; i++) {
        TRY_OUT(CUDA(cudaMallocHost((void **)&device->stage[i], STAGE_BYTES)));
        TRY_OUT(CUDA(cudaEventCreateWithFlags(&device->staged[i], cudaEventDisableTiming)));
    }
    TRY_OUT(cuda_blas_open(&device->blas));
    TRY_OUT(CUDA(cudaEventRecord(device->origin, device->transfer_stream)));
    TRY_OUT(CUDA(cudaStreamSynchronize(device->transfer_stream)));
    device->origin_set_ns = host_clock_ns();
    *out = &device->base;
    return OK;
out:
    cuda_close(&device->base);
    return rc;
}

int cuda_open(struct device **out)
{
    return cuda_device_open(-1, out);
}

void cuda_abandon(struct device *device)
{
    device_of(device)->abandoned = true;
}

int cuda_ordinal(const struct device *device)
{
    return ((const struct cuda_device *)device)->ordinal;
}
