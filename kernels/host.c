/* The back end `host`: each stream is a thread that runs its tasks in order, and memory is plain
 * memory. */
#include "host.h"

#include "allowance.h"
#include "blas.h"
#include "fault.h"
#include "status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* BLOCK_ROWS: blocks of 256 to 1,024 rows were equally fast.  Smaller blocks add to the gradients
 * of matrices too often. */
enum { QUEUE_TASKS = 1024, ALIGNMENT = 256, BLOCK_ROWS = 512 };

enum task_kind { TASK_KERNEL, TASK_CALL, TASK_RECORD, TASK_WAIT };

/* One entry of a stream's queue. */
struct task {
    enum task_kind kind;
    union {
        enum kernel kernel;
        int (*call)(const void *args);
        struct host_event *event;
    } what;
    uint64_t turn; /* number of the event's record that this task makes or waits for */
    _Alignas(16) unsigned char args[HOST_ARGS_BYTES];
};

/* An open device of this kind; host_close() frees it. */
struct host_device {
    struct device base;
    atomic_int computing;        /* streams inside a kernel at this moment */
    struct host_stream *streams; /* all that are open */
};

/* A stream: its thread, and a ring of tasks. */
struct host_stream {
    struct stream base;
    struct host_stream *next; /* of the device's streams */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, drained;
    struct task tasks[QUEUE_TASKS];
    uint64_t pushed, finished; /* numbers of tasks; those in between are queued */
    int status;
    bool is_closing;
    atomic_bool is_computing;
};

/* An event; `lock` protects all members below it. */
struct host_event {
    struct event base;
    pthread_mutex_t lock;
    pthread_cond_t happened;
    uint64_t issued, done; /* numbers of records that were enqueued, and that happened */
    int64_t when_ns;
};

#define HOST_ROW(name)                                                                             \
    static void run_##name(const void *args)                                                       \
    {                                                                                              \
        host_##name(args);                                                                         \
    }                                                                                              \
    _Static_assert(sizeof(struct name) <= HOST_ARGS_BYTES, #name " fits a task");
KERNELS(HOST_ROW)
#undef HOST_ROW

#define HOST_ENTRY(name) [KERNEL_##name] = run_##name,
static void (*const kernel_table[KERNEL_COUNT])(const void *args) = { KERNELS(HOST_ENTRY) };
#undef HOST_ENTRY

int64_t host_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs a task, and returns the status of a call; kernels cannot fail.  With `has_failed` it runs
 * only events. */
static int task_run(struct host_stream *stream, const struct task *task, bool has_failed)
{
    struct host_device *device = (struct host_device *)stream->base.device;
    struct host_event *event;

    switch (task->kind) {
    case TASK_RECORD:
        event = task->what.event;
        pthread_mutex_lock(&event->lock);
        event->done = task->turn;
        event->when_ns = host_clock_ns();
        pthread_cond_broadcast(&event->happened);
        pthread_mutex_unlock(&event->lock);
        break;
    case TASK_WAIT:
        event = task->what.event;
        pthread_mutex_lock(&event->lock);
        while (event->done < task->turn)
            pthread_cond_wait(&event->happened, &event->lock);
        pthread_mutex_unlock(&event->lock);
        break;
    case TASK_CALL: return has_failed ? OK : task->what.call(task->args);
    case TASK_KERNEL:
        if (has_failed)
            break;
        atomic_store(&stream->is_computing, true);
        atomic_fetch_add(&device->computing, 1);
        kernel_table[task->what.kernel](task->args);
        atomic_fetch_sub(&device->computing, 1);
        atomic_store(&stream->is_computing, false);
        break;
    }
    return OK;
}

static void *stream_main(void *arg)
{
    struct host_stream *stream = arg;

    /* The default timer slack of 50 us would double the short sleeps of a wire that polls. */
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        const struct task *task = &stream->tasks[stream->finished % QUEUE_TASKS];
        bool has_failed = stream->status != OK;
        int status;

        if (stream->finished == stream->pushed) {
            if (stream->is_closing)
                break;
            pthread_cond_wait(&stream->filled, &stream->lock);
            continue;
        }
        pthread_mutex_unlock(&stream->lock);
        status = task_run(stream, task, has_failed);
        pthread_mutex_lock(&stream->lock);
        if (status && !stream->status)
            stream->status = status;
        stream->finished++;
        /* Signals only what the host thread may wait for: each useless signal costs two context
         * switches. */
        if (stream->finished == stream->pushed ||
            stream->pushed - stream->finished == QUEUE_TASKS - 1)
            pthread_cond_signal(&stream->drained);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* Wakes all sleeping streams when the host thread itself is about to wait.  If its first task woke
 * a stream, then with few cores the stream would take the core from the thread that still enqueues,
 * and the two would switch at every task. */
static void wake_streams(const struct device *device)
{
    for (struct host_stream *s = ((const struct host_device *)device)->streams; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        pthread_cond_signal(&s->filled);
        pthread_mutex_unlock(&s->lock);
    }
}

/* Appends a task to the queue, and waits while the queue is full.  Only one thread enqueues, the
 * one that drives the device. */
static void enqueue_task(struct host_stream *stream, const struct task *head, const void *args,
                         size_t bytes)
{
    struct task *task;

    pthread_mutex_lock(&stream->lock);
    if (stream->pushed - stream->finished == QUEUE_TASKS) {
        pthread_mutex_unlock(&stream->lock);
        wake_streams(stream->base.device);
        pthread_mutex_lock(&stream->lock);
    }
    while (stream->pushed - stream->finished == QUEUE_TASKS)
        pthread_cond_wait(&stream->drained, &stream->lock);
    task = &stream->tasks[stream->pushed % QUEUE_TASKS];
    task->kind = head->kind;
    task->what = head->what;
    task->turn = head->turn;
    if (bytes)
        memcpy(task->args, args, bytes);
    stream->pushed++;
    pthread_mutex_unlock(&stream->lock);
}

static int host_launch(struct stream *base, enum kernel kernel, const void *args, size_t bytes)
{
    struct task head = { .kind = TASK_KERNEL, .what.kernel = kernel };

    enqueue_task((struct host_stream *)base, &head, args, bytes);
    return OK;
}

int host_call(struct stream *base, int (*fn)(const void *args), const void *args, size_t bytes)
{
    struct task head = { .kind = TASK_CALL, .what.call = fn };

    if (bytes > HOST_ARGS_BYTES)
        return fail(ERR_DEVICE, "%zu bytes of arguments do not fit into a task of a stream", bytes);
    if (!base->muted)
        enqueue_task((struct host_stream *)base, &head, args, bytes);
    return OK;
}

bool host_other_streams_compute(const struct stream *base)
{
    const struct host_stream *stream = (const struct host_stream *)base;
    const struct host_device *device = (const struct host_device *)base->device;

    return atomic_load(&device->computing) > (atomic_load(&stream->is_computing) ? 1 : 0);
}

static int host_event_record(struct event *base, struct stream *stream)
{
    struct host_event *event = (struct host_event *)base;
    struct task head = { .kind = TASK_RECORD, .what.event = event, .turn = ++event->issued };

    enqueue_task((struct host_stream *)stream, &head, NULL, 0);
    return OK;
}

static int host_event_wait(struct event *base, struct stream *stream)
{
    struct host_event *event = (struct host_event *)base;
    struct task head = { .kind = TASK_WAIT, .what.event = event, .turn = event->issued };

    enqueue_task((struct host_stream *)stream, &head, NULL, 0);
    return OK;
}

static int64_t host_event_ns(const struct event *base)
{
    return ((const struct host_event *)base)->when_ns;
}

static int host_event_open(struct device *device, bool dated, struct event **out)
{
    struct host_event *event = calloc(1, sizeof(*event));

    (void)dated; /* all events are dated */
    if (!event)
        return fail(ERR_NOMEM, "an event");
    event->base.device = device;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->happened, NULL);
    *out = &event->base;
    return OK;
}

static void host_event_close(struct event *base)
{
    struct host_event *event = (struct host_event *)base;

    pthread_cond_destroy(&event->happened);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static int host_stream_open(struct device *device, bool urgent, struct stream **out)
{
    struct host_stream *stream = calloc(1, sizeof(*stream));

    (void)urgent;
    if (!stream)
        return fail(ERR_NOMEM, "a stream");
    stream->base.device = device;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->filled, NULL);
    pthread_cond_init(&stream->drained, NULL);
    if (pthread_create(&stream->thread, NULL, stream_main, stream)) {
        free(stream);
        return fail(ERR_DEVICE, "cannot start a thread for a stream");
    }
    stream->next = ((struct host_device *)device)->streams;
    ((struct host_device *)device)->streams = stream;
    *out = &stream->base;
    return OK;
}

static void host_stream_close(struct stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    struct host_stream **link = &((struct host_device *)base->device)->streams;

    pthread_mutex_lock(&stream->lock);
    stream->is_closing = true;
    pthread_mutex_unlock(&stream->lock);
    wake_streams(base->device);
    pthread_join(stream->thread, NULL);
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_cond_destroy(&stream->drained);
    pthread_cond_destroy(&stream->filled);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static int host_stream_sync(struct stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    int status;

    wake_streams(base->device);
    pthread_mutex_lock(&stream->lock);
    while (stream->finished < stream->pushed)
        pthread_cond_wait(&stream->drained, &stream->lock);
    status = stream->status;
    stream->status = OK;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static int host_alloc(struct device *device, size_t bytes, void **out)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory;

    (void)device;
    if (fault_hit("alloc"))
        return fail(ERR_NOMEM, "%zu bytes of host memory (injected)", bytes);
    memory = rounded >= bytes ? aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT) : NULL;
    if (!memory)
        return fail(ERR_NOMEM, "%zu bytes of host memory", bytes);
    *out = memory;
    return OK;
}

static void host_release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int host_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes)
        memcpy(to, from, bytes);
    return OK;
}

static void host_close(struct device *device)
{
    free(device);
}

static int64_t host_free_bytes(struct device *device)
{
    (void)device;
    return allowance_free_bytes();
}

static int64_t host_now_ns(struct device *device)
{
    (void)device;
    return host_clock_ns();
}

static const struct device_ops host_ops = {
    .name = "host",
    .close = host_close,
    .alloc = host_alloc,
    .release = host_release,
    .free_bytes = host_free_bytes,
    .upload = host_copy,
    .download = host_copy,
    .stream_open = host_stream_open,
    .stream_close = host_stream_close,
    .stream_sync = host_stream_sync,
    .event_open = host_event_open,
    .event_close = host_event_close,
    .event_record = host_event_record,
    .event_wait = host_event_wait,
    .event_ns = host_event_ns,
    .now_ns = host_now_ns,
    .launch = host_launch,
};

int host_open(struct device **out)
{
    struct host_device *device = calloc(1, sizeof(*device));

    if (!device)
        return fail(ERR_NOMEM, "a device");
    device->base.ops = &host_ops;
    device->base.computes_f32 = true;
    device->base.block_rows = BLOCK_ROWS;
    /* A CPU rank uses one core: its compute stream is one thread, and a second BLAS thread would
     * take the core of another rank. */
    blas_stay_in_thread();
    *out = &device->base;
    return OK;
}
