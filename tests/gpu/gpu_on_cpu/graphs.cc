/* Graphs: what streams are given while they are captured, and its replay.
 *
 * One capture at a time.  What a capture forbids ends it, as on a GPU: then nothing but its end is
 * allowed.  A replay runs what is kept in any order that the capture's own order allows. */
#include "gpu_on_cpu.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

using namespace gpu_on_cpu;

typedef std::set<size_t> places; /* numbers of nodes */

struct node {
    work task;
    places after;
    int priority; /* of the stream that was captured */
};

struct capture {
    cudaStream_t origin;
    std::thread::id thread;
    bool invalid;
    std::vector<node> nodes;
    std::map<cudaStream_t, places> streams; /* what came last in each; the origin among them */
};

/* The latest record of an event, if that was in a capture. */
struct mark {
    std::shared_ptr<capture> in;
    places at;
};

std::recursive_mutex &lock = *new std::recursive_mutex;
std::shared_ptr<capture> &now = *new std::shared_ptr<capture>;
std::map<cudaEvent_t, mark> &marks = *new std::map<cudaEvent_t, mark>;

places *place_of(cudaStream_t stream)
{
    return now && now->streams.count(stream) ? &now->streams[stream] : nullptr;
}

cudaError_t invalidate(cudaError_t code)
{
    now->invalid = true;
    return code;
}

/* All nodes that come before these, and they themselves. */
places with_before(const capture &c, const places &last)
{
    places all, next = last;

    while (!next.empty()) {
        size_t at = *next.begin();

        next.erase(next.begin());
        if (all.insert(at).second)
            next.insert(c.nodes[at].after.begin(), c.nodes[at].after.end());
    }
    return all;
}

/* What other streams have must come before the end of the origin. */
bool joined(const capture &c)
{
    places all = with_before(c, c.streams.at(c.origin));

    return std::all_of(c.streams.begin(), c.streams.end(), [&](const auto &s) {
        return std::includes(all.begin(), all.end(), s.second.begin(), s.second.end());
    });
}

} // namespace

struct CUuserObject_st {
    std::function<void()> end;
    std::atomic<unsigned> count;
};

namespace
{

typedef std::vector<std::shared_ptr<void>> hangings;

/* ---- endings */

struct endings {
    std::recursive_mutex lock;
    std::vector<std::function<void()>> waiting;
    bool served = false;
};
endings &ends = *new endings;

void serve_endings()
{
    for (;;) {
        std::vector<std::function<void()>> now;

        usleep((useconds_t)(100 + dice(3000)));
        {
            std::lock_guard<std::recursive_mutex> guard(ends.lock);

            now.swap(ends.waiting);
        }
        while (!now.empty()) {
            size_t at = dice(now.size());

            now[at]();
            now.erase(now.begin() + (long)at);
            usleep((useconds_t)dice(300));
        }
    }
}

void release(CUuserObject_st *object, unsigned count)
{
    if ((object->count -= count) > 0)
        return;
    end_later(object->end);
    delete object;
}

/* What hangs on a graph ends together. */
template <typename T> void destroy(T *graph)
{
    std::lock_guard<std::recursive_mutex> guard(ends.lock);

    delete graph;
}

} // namespace

namespace gpu_on_cpu
{

void end_later(const std::function<void()> &what)
{
    std::lock_guard<std::recursive_mutex> guard(ends.lock);

    ends.waiting.push_back(what);
    if (!ends.served)
        std::thread(serve_endings).detach();
    ends.served = true;
}

} // namespace gpu_on_cpu

struct CUgraph_st {
    std::vector<node> nodes;
    hangings objects = {};
};

struct CUgraphExec_st {
    std::vector<node> nodes;
    hangings objects;
    std::shared_ptr<std::atomic<int>> runs; /* replays that have not ended */
    bool
        priorities; /* nodes keep theirs; else all have that of the stream they are launched into */
};

namespace
{

struct replay {
    std::vector<node> left; /* tasks of its own: they are used up */
    std::vector<bool> done;
    size_t count;
    hangings objects;
    std::shared_ptr<std::atomic<int>> runs;
    ~replay() { --*runs; }
};

outcome advance(replay &r)
{
    size_t n = r.left.size(), first = n ? dice(n) : 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = (first + i) % n;
        outcome is;

        if (r.done[at] || !std::all_of(r.left[at].after.begin(), r.left[at].after.end(),
                                       [&](size_t before) { return r.done[before]; }))
            continue;
        is = r.left[at].task();
        if (is == BROKEN)
            return BROKEN;
        r.done[at] = is == DONE;
        r.count += is == DONE;
    }
    return r.count == n ? DONE : NOT_YET;
}

} // namespace

namespace gpu_on_cpu
{

bool is_captured(cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    return place_of(stream);
}

cudaError_t capture_work(cudaStream_t stream, work task)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    places &last = *place_of(stream);

    if (now->invalid)
        return cudaErrorStreamCaptureInvalidated;
    now->nodes.push_back({ std::move(task), last, priority_of(stream) });
    last = { now->nodes.size() - 1 };
    return cudaSuccess;
}

bool capture_record(cudaEvent_t event, cudaStream_t stream, cudaError_t *code)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    if (!place_of(stream)) {
        marks.erase(event);
        return false;
    }
    *code = now->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    marks[event] = { now, *place_of(stream) };
    return true;
}

bool capture_wait(cudaStream_t stream, cudaEvent_t event, cudaError_t *code)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    auto mark = marks.find(event);

    if (mark == marks.end()) {
        if (!place_of(stream))
            return false;
        *code = invalidate(cudaErrorStreamCaptureIsolation);
        return true;
    }
    *code = mark->second.in != now ? cudaErrorCapturedEvent
            : now->invalid         ? cudaErrorStreamCaptureInvalidated
                                   : cudaSuccess;
    if (!*code)
        now->streams[stream].insert(mark->second.at.begin(), mark->second.at.end());
    return true;
}

cudaError_t capture_of_event(cudaEvent_t event)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    auto mark = marks.find(event);

    if (mark == marks.end())
        return capture_forbids(nullptr);
    if (now && mark->second.in == now)
        invalidate(cudaSuccess);
    return cudaErrorCapturedEvent;
}

cudaError_t usable_uncaptured()
{
    cudaError_t code = usable();

    return code ? code : capture_forbids(nullptr);
}

cudaError_t capture_forbids(cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    if (!now || (stream ? !place_of(stream) : now->thread != std::this_thread::get_id()))
        return cudaSuccess;
    return invalidate(cudaErrorStreamCaptureUnsupported);
}

} // namespace gpu_on_cpu

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out)
{
    cudaError_t code = is_stream(stream) ? usable() : cudaErrorInvalidResourceHandle;

    if (!code)
        *out = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return keep(code);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    cudaError_t code = usable();
    std::lock_guard<std::recursive_mutex> guard(lock);

    if (!code && !is_stream(stream))
        code = cudaErrorInvalidResourceHandle;
    if (!code && (now || mode != cudaStreamCaptureModeThreadLocal))
        forbidden(now ? "two captures at a time" : "a capture of another mode");
    if (code)
        return keep(code);
    now = std::make_shared<capture>(
        capture{ stream, std::this_thread::get_id(), false, {}, { { stream, {} } } });
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    std::shared_ptr<capture> ended = now;

    *out = nullptr;
    if (!ended || ended->origin != stream)
        return keep(ended ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState);
    now = nullptr;
    if (ended->invalid || !joined(*ended)) {
        ended->nodes.clear(); /* events may still know the capture */
        return keep(ended->invalid ? cudaErrorStreamCaptureInvalidated
                                   : cudaErrorStreamCaptureUnjoined);
    }
    *out = new CUgraph_st{ std::move(ended->nodes) };
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    if (nodes)
        return keep(cudaErrorInvalidValue); /* nobody has asked for more than their number */
    *count = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t code = usable();

    if (!code)
        code = flags & ~(unsigned long long)cudaGraphInstantiateFlagUseNodePriority
                   ? cudaErrorInvalidValue
                   : capture_forbids(nullptr);
    if (code)
        return keep(code);
    *out = new CUgraphExec_st{ graph->nodes, graph->objects,
                               std::make_shared<std::atomic<int>>(0), flags != 0 };
    return cudaSuccess;
}

/* Each replay has tasks of its own. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    cudaError_t code = usable();

    if (!code)
        code = capture_forbids(stream);
    if (code)
        return keep(code);
    for (const node &n : graph->nodes)
        if (!graph->priorities && n.priority != priority_of(stream))
            forbidden("a graph is launched whose nodes lose the priority of their stream");
    std::shared_ptr<replay> r(
        new replay{ graph->nodes, std::vector<bool>(graph->nodes.size()), 0, graph->objects,
                    graph->runs },
        destroy<replay>);
    ++*graph->runs;
    return keep(enqueue(stream, [=] { return advance(*r); }));
}

/* Nobody promises that it does not wait for what still runs. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    while (*graph->runs && !broken())
        usleep(20);
    destroy(graph);
    return keep(usable());
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    destroy(graph);
    return keep(usable());
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *what, cudaHostFn_t end,
                                 unsigned count, unsigned flags)
{
    if (!end || !count || flags != cudaUserObjectNoDestructorSync)
        return keep(cudaErrorInvalidValue);
    *out = new CUuserObject_st{ [=] { end(what); }, { count } };
    return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count)
{
    if (!object || !count || count > object->count)
        return keep(cudaErrorInvalidValue);
    release(object, count);
    return cudaSuccess;
}

/* The caller's reference becomes the graph's; what is made of the graph has it, too. */
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags)
{
    if (!graph || !object || !count || flags != cudaGraphUserObjectMove)
        return keep(cudaErrorInvalidValue);
    graph->objects.push_back(
        std::shared_ptr<void>(object, [=](void *) { release(object, count); }));
    return cudaSuccess;
}
