/* Streams: queues that one thread serves, and what orders it.
 *
 * Of the streams that can go on, the one with most luck does; luck changes now and then, and a
 * stream may begin late.  So what no event orders happens in any order, and soon in a wrong one. */
#include "gpu_on_cpu.h"

#include "cuda_on_cpu.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct CUstream_st {
    int device, priority;
    std::deque<gpu_on_cpu::work> queue;
    uint64_t enqueued, finished, luck;
    int64_t late_until_ns;
    bool running, destroyed;
};

namespace gpu_on_cpu
{
namespace
{

const int64_t late_ns = 1000000;
const int greatest_priority = -5;
const std::chrono::microseconds poll_every(50);

std::mutex &lock = *new std::mutex;
std::condition_variable &given = *new std::condition_variable;
std::condition_variable &changed = *new std::condition_variable;
std::vector<cudaStream_t> &streams = *new std::vector<cudaStream_t>;
bool serving;

bool known(cudaStream_t stream)
{
    return std::any_of(streams.begin(), streams.end(),
                       [=](cudaStream_t s) { return s == stream && !s->destroyed; });
}

/* What is left of a broken device's streams is dropped. */
void finish(cudaStream_t s)
{
    if (broken())
        s->queue.clear();
    else
        s->queue.pop_front();
    s->finished = s->enqueued - s->queue.size();
    if (!dice(16))
        s->luck = dice(1000);
    changed.notify_all();
}

void run_first(cudaStream_t s, std::unique_lock<std::mutex> &guard, bool *ran)
{
    work &task = s->queue.front(); /* stays where it is while others are put behind it */
    outcome is;

    s->running = true;
    guard.unlock();
    is = broken() ? DONE : task();
    guard.lock();
    s->running = false;
    if (is == NOT_YET && !broken())
        return;
    finish(s);
    *ran = true;
}

void bury()
{
    auto ended = std::remove_if(streams.begin(), streams.end(), [](cudaStream_t s) {
        bool over = s->destroyed && s->queue.empty();

        if (over)
            delete s;
        return over;
    });

    streams.erase(ended, streams.end());
}

void serve()
{
    std::unique_lock<std::mutex> guard(lock);

    for (;;) {
        std::vector<cudaStream_t> order;
        bool ran = false;

        bury();
        for (cudaStream_t s : streams)
            if (!s->queue.empty())
                order.push_back(s);
        if (order.empty()) {
            given.wait(guard);
            continue;
        }
        std::sort(order.begin(), order.end(),
                  [](cudaStream_t a, cudaStream_t b) { return a->luck > b->luck; });
        for (size_t i = 0; i < order.size() && !ran; i++)
            if (now_ns() >= order[i]->late_until_ns)
                run_first(order[i], guard, &ran);
        if (!ran)
            given.wait_for(guard, poll_every);
    }
}

/* Somebody waits: nothing is late any more. */
void hurry()
{
    for (cudaStream_t s : streams)
        s->late_until_ns = 0;
    given.notify_one();
}

cudaError_t create(cudaStream_t *out)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);

    if (code)
        return keep(code);
    if (!serving)
        std::thread(serve).detach();
    serving = true;
    *out = new CUstream_st{ current_device(), 0, {}, 0, 0, dice(1000), 0, false, false };
    streams.push_back(*out);
    return cudaSuccess;
}

/* A word that is the address of something which is no device's.  Half a word may be what a struct
 * does not use, and what is left of an address; then the other half is a small number. */
bool is_of_host(uint64_t word)
{
    void *page = (void *)(uintptr_t)(word & ~(uint64_t)4095), *at = (void *)(uintptr_t)word;

    return word >> 47 == 0 && word >> 40 >= 0x55 && (uint32_t)word >> 26 && !on_device(at, 1) &&
           !pinned(at, 1) && !msync(page, 1, MS_ASYNC);
}

cudaError_t check_launch(cudaStream_t stream, const cuda_on_cpu::start &what)
{
    cudaError_t code = usable();

    if (code)
        return code;
    if (!is_stream(stream) || device_of(stream) != current_device())
        return cudaErrorInvalidResourceHandle;
    for (uint64_t word : what.words)
        if (is_of_host(word))
            forbidden("a kernel is given %#llx, an address of the host", (unsigned long long)word);
    return cuda_on_cpu::fits(what) ? cudaSuccess : cudaErrorInvalidConfiguration;
}

/* Only the thread that serves comes here. */
bool kernel_runs;

/* What is no kernel goes on beside one that waits. */
void serve_beside()
{
    std::unique_lock<std::mutex> guard(lock);
    bool ran = false;

    for (size_t i = 0; i < streams.size(); i++)
        if (!streams[i]->running && !streams[i]->queue.empty() &&
            now_ns() >= streams[i]->late_until_ns)
            run_first(streams[i], guard, &ran);
}

outcome run_kernel(const cuda_on_cpu::start &what)
{
    cudaError_t code;

    if (kernel_runs)
        return NOT_YET;
    kernel_runs = true;
    code = fault("kernel") ? cudaErrorIllegalAddress : cuda_on_cpu::run(what);
    kernel_runs = false;
    if (fault("die"))
        _exit(1);
    if (fault("stop"))
        raise(SIGSTOP);
    if (code)
        break_device(code);
    return code ? BROKEN : DONE;
}

/* The kernels' way to a stream. */
cudaError_t queue_kernel(cudaStream_t stream, const cuda_on_cpu::start &what)
{
    cudaError_t code = check_launch(stream, what);

    return keep(code ? code : enqueue(stream, [=] { return run_kernel(what); }));
}

const bool kernels_are_queued = (cuda_on_cpu::queue = queue_kernel),
           others_go_on = (cuda_on_cpu::meanwhile = serve_beside);

} // namespace

bool is_stream(cudaStream_t stream)
{
    std::lock_guard<std::mutex> guard(lock);

    return known(stream);
}

int device_of(cudaStream_t stream)
{
    return stream->device;
}

int priority_of(cudaStream_t stream)
{
    return stream->priority;
}

bool a_kernel_runs()
{
    return kernel_runs;
}

cudaError_t enqueue(cudaStream_t stream, work task)
{
    if (is_captured(stream))
        return capture_work(stream, std::move(task));
    std::lock_guard<std::mutex> guard(lock);

    /* The stream without a name waits for others as no part of ours should. */
    if (!known(stream))
        return cudaErrorInvalidResourceHandle;
    if (broken())
        return broken();
    if (stream->queue.empty() && dice(2))
        stream->late_until_ns = now_ns() + (int64_t)dice(late_ns);
    stream->queue.push_back(std::move(task));
    stream->enqueued++;
    given.notify_one();
    return cudaSuccess;
}

void drain(int device)
{
    std::unique_lock<std::mutex> guard(lock);

    hurry();
    changed.wait(guard, [=] {
        return std::all_of(streams.begin(), streams.end(),
                           [=](cudaStream_t s) { return s->device != device || s->queue.empty(); });
    });
}

} // namespace gpu_on_cpu

using namespace gpu_on_cpu;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    if (flags != cudaStreamNonBlocking && flags != cudaStreamDefault)
        return keep(cudaErrorInvalidValue);
    return create(out);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    cudaError_t code = cudaStreamCreateWithFlags(out, flags);

    if (!code) /* the nearest that there is */
        (*out)->priority = std::max(std::min(priority, 0), greatest_priority);
    return code;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = greatest_priority;
    return keep(usable());
}

/* Does not wait; what is queued is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t code = usable();
    if (is_captured(stream))
        forbidden("a stream is destroyed while it is captured");
    std::lock_guard<std::mutex> guard(lock);

    if (!known(stream))
        return keep(cudaErrorInvalidResourceHandle);
    stream->destroyed = true;
    given.notify_one();
    return keep(code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t code = usable();
    if (!code)
        code = capture_forbids(stream);
    std::unique_lock<std::mutex> guard(lock);
    uint64_t wanted;

    if (code)
        return keep(code);
    if (!known(stream))
        return keep(cudaErrorInvalidResourceHandle);
    wanted = stream->enqueued;
    hurry();
    changed.wait(guard, [=] { return stream->finished >= wanted; });
    return keep(broken());
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t code = usable();
    if (!code)
        code = capture_forbids(stream);
    std::unique_lock<std::mutex> guard(lock);

    if (code)
        return keep(code);
    if (!known(stream))
        return keep(cudaErrorInvalidResourceHandle);
    hurry();
    return keep(stream->queue.empty() ? broken() : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize()
{
    cudaError_t code = usable_uncaptured();

    if (!code)
        drain(current_device());
    return keep(code ? code : broken());
}
