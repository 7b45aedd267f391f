/* Events, also between processes: a record has a number, and a wait waits for the number it met. */
#include "gpu_on_cpu.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <sched.h>
#include <set>
#include <unistd.h>

namespace
{

using namespace gpu_on_cpu;

/* Records that may be under way at once. */
enum { RECORDS = 256 };

/* So often somebody waits for an event with a timestamp before anybody asks for that: it was made
 * to order streams, which the timestamp makes slower. */
enum { WAITS_UNASKED = 16 };

/* For all processes that have it; the slots say which record ended last there. */
struct state {
    std::atomic<uint64_t> recorded, ended[RECORDS];
    std::atomic<int64_t> date_ns[RECORDS];
    std::atomic<int> gone;
};

struct handle {
    char what[8];
    pages file;
};
static_assert(sizeof(handle) <= sizeof(cudaIpcEventHandle_t), "fits");

} // namespace

struct CUevent_st {
    int device;
    unsigned flags;
    pages file;
    state *is;
    bool imported;
    std::atomic<int> waits_unasked; /* -1: its date was asked for */
};

namespace
{

std::mutex &lock = *new std::mutex;
std::set<cudaEvent_t> &events = *new std::set<cudaEvent_t>;

bool known(cudaEvent_t event)
{
    std::lock_guard<std::mutex> guard(lock);

    return events.count(event);
}

bool ended(const state *s, uint64_t number)
{
    return !number || s->ended[number % RECORDS] >= number;
}

cudaError_t check(cudaEvent_t event)
{
    cudaError_t code = usable();

    if (!code && !known(event))
        code = cudaErrorInvalidResourceHandle;
    if (!code && event->imported && event->is->gone)
        forbidden("an event of process %d is used, which has destroyed it",
                  (int)event->file.process);
    return code;
}

/* Its memory is kept: a stream may still have it, and so may another process. */
cudaEvent_t make(unsigned flags, const pages &file, bool imported)
{
    std::lock_guard<std::mutex> guard(lock);
    cudaEvent_t event =
        new CUevent_st{ current_device(), flags, file, (state *)file.at, imported, {} };

    events.insert(event);
    return event;
}

} // namespace

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t code = usable();
    bool between = flags & cudaEventInterprocess;
    pages file = { nullptr, sizeof(state), getpid(), -1 };

    if (code)
        return keep(code);
    if ((flags & ~7u) || (between && !(flags & cudaEventDisableTiming)))
        return keep(cudaErrorInvalidValue);
    if (between)
        file = pages_create(sizeof(state));
    else
        file.at = (char *)new state();
    if (!file.at)
        return keep(cudaErrorMemoryAllocation);
    *out = make(flags, file, false);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);

    if (code || !events.erase(event))
        return keep(code ? code : cudaErrorInvalidResourceHandle);
    if (!event->imported)
        event->is->gone = 1;
    if (event->file.file >= 0 && !event->imported)
        close(event->file.file); /* who opens it by now finds nothing */
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t code = check(event);
    state *s;
    uint64_t number;

    if (!code && (!is_stream(stream) || device_of(stream) != event->device))
        code = cudaErrorInvalidResourceHandle;
    if (code || capture_record(event, stream, &code))
        return keep(code);
    s = event->is;
    number = s->recorded + 1;
    while (number > RECORDS && !ended(s, number - RECORDS) && !broken())
        sched_yield();
    s->recorded = number;
    return keep(enqueue(stream, [=] {
        s->date_ns[number % RECORDS] = now_ns();
        s->ended[number % RECORDS] = number;
        return DONE;
    }));
}

/* For the record that is the latest now. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t code = check(event);
    const state *s;
    uint64_t number;

    if (code || flags)
        return keep(code ? code : cudaErrorInvalidValue);
    if (capture_wait(stream, event, &code))
        return keep(code);
    if (!(event->flags & cudaEventDisableTiming) && event->waits_unasked >= 0 &&
        ++event->waits_unasked == WAITS_UNASKED)
        forbidden("an event that only orders streams has a timestamp");
    s = event->is;
    number = s->recorded;
    return keep(enqueue(stream, [=] { return ended(s, number) ? DONE : NOT_YET; }));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t code = check(event);

    if (!code)
        code = capture_of_event(event);
    if (!code)
        code = ended(event->is, event->is->recorded) ? broken() : cudaErrorNotReady;
    return keep(code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t code = check(event);

    if (!code)
        code = capture_of_event(event);
    if (code)
        return keep(code);
    for (uint64_t number = event->is->recorded; !ended(event->is, number) && !broken();)
        usleep(20);
    return keep(broken());
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t code = check(from);
    uint64_t a, b;

    if (!code)
        code = check(to);
    if (!code)
        code = capture_of_event(from);
    if (!code)
        code = capture_of_event(to);
    if (code)
        return keep(code);
    /* The real one says no more than of an event that was never recorded. */
    if ((from->flags | to->flags) & cudaEventDisableTiming)
        forbidden("an event without a timestamp is asked when it was");
    from->waits_unasked = to->waits_unasked = -1;
    a = from->is->recorded;
    b = to->is->recorded;
    if (!a || !b || from->device != to->device)
        return keep(cudaErrorInvalidResourceHandle);
    if (!ended(from->is, a) || !ended(to->is, b))
        return keep(cudaErrorNotReady);
    *ms = (float)((double)(to->is->date_ns[b % RECORDS] - from->is->date_ns[a % RECORDS]) * 1e-6);
    return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t event)
{
    cudaError_t code = check(event);
    handle h = {};

    if (!code && (event->imported || !(event->flags & cudaEventInterprocess)))
        code = cudaErrorInvalidResourceHandle;
    if (code)
        return keep(code);
    memcpy(h.what, "event", 6);
    h.file = event->file;
    h.file.at = nullptr;
    memset(out, 0, sizeof(*out));
    memcpy((void *)out, &h, sizeof(h));
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t given)
{
    cudaError_t code = usable();
    handle h;

    memcpy(&h, &given, sizeof(h));
    if (!code && strcmp(h.what, "event"))
        code = cudaErrorInvalidResourceHandle;
    if (!code && h.file.process == getpid())
        code = cudaErrorDeviceUninitialized;
    if (!code)
        h.file.at = pages_open(h.file);
    if (!code && !h.file.at)
        code = cudaErrorMapBufferObjectFailed;
    if (code)
        return keep(code);
    *out = make(cudaEventDisableTiming | cudaEventInterprocess, h.file, true);
    return cudaSuccess;
}
