/* Carries exchanges of NCCL on a CPU through pipes, and sums what is to be summed. */
#include "nccl_exchange.h"

#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gpu_on_cpu
{

size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
    }
}

namespace
{

/* ---- pipes */

uint64_t push(pipe &p, const char *from, uint64_t bytes)
{
    uint64_t at = p.written, n = std::min(bytes, PIPE_BYTES - (at - p.read));

    for (uint64_t i = 0; i < n; i++)
        p.bytes[(at + i) % PIPE_BYTES] = from[i];
    p.written = at + n;
    return n;
}

uint64_t pull(pipe &p, char *to, uint64_t bytes)
{
    uint64_t at = p.read, n = std::min(bytes, p.written - at);

    for (uint64_t i = 0; i < n; i++)
        to[i] = p.bytes[(at + i) % PIPE_BYTES];
    p.read = at + n;
    return n;
}

void advance_send(core &c, part &x)
{
    pipe &p = c.meets->pipes[c.rank][x.peer];

    x.head_done += push(p, (const char *)&x.head + x.head_done, sizeof(x.head) - x.head_done);
    if (x.head_done == sizeof(x.head))
        x.done += push(p, x.at + x.done, x.head.bytes - x.done);
}

/* What is not awaited stays where it is, in everybody's way. */
void advance_receive(core &c, part &x)
{
    pipe &p = c.meets->pipes[x.peer][c.rank];
    header theirs;

    if (!x.head_done) {
        if (p.written - p.read < sizeof(theirs))
            return;
        for (size_t i = 0; i < sizeof(theirs); i++)
            ((char *)&theirs)[i] = p.bytes[(p.read + i) % PIPE_BYTES];
        if (memcmp(&theirs, &x.head, sizeof(theirs)) != 0)
            return;
        p.read += sizeof(theirs);
        x.head_done = sizeof(theirs);
    }
    x.done += pull(p, x.at + x.done, x.head.bytes - x.done);
}

/* The first part each way with each peer goes on; the others keep their turn. */
bool advance(core &c, exchange &e)
{
    bool met[RANKS][2] = {};

    for (auto x = e.parts.begin(); x != e.parts.end();) {
        bool &turn = met[x->peer][x->sends];

        if (!turn)
            x->sends ? advance_send(c, *x) : advance_receive(c, *x);
        if (!turn && x->head_done == sizeof(header) && x->done == x->head.bytes) {
            x = e.parts.erase(x);
            continue;
        }
        turn = true;
        ++x;
    }
    return e.parts.empty();
}

/* ---- sums */

float get(const char *at, ncclDataType_t type)
{
    switch (type) {
    case ncclFloat16: return __half2float(*(const __half *)at);
    case ncclBfloat16: return __bfloat162float(*(const __nv_bfloat16 *)at);
    default: return *(const float *)at;
    }
}

void put(char *at, ncclDataType_t type, float x)
{
    switch (type) {
    case ncclFloat16: *(__half *)at = __float2half_rn(x); break;
    case ncclBfloat16: *(__nv_bfloat16 *)at = __float2bfloat16_rn(x); break;
    default: *(float *)at = x;
    }
}

void sum_up(const reduction &r)
{
    for (size_t at = 0; at < r.bytes; at += bytes_of(r.type)) {
        float sum = 0;

        for (size_t block = 0; block < r.arrived->size(); block += r.bytes)
            sum += get(&(*r.arrived)[block + at], r.type);
        put(r.to + at, r.type, sum);
    }
}

} // namespace

outcome run(const std::shared_ptr<core> &c, const std::shared_ptr<exchange> &e)
{
    for (auto &copy : e->own)
        copy();
    e->own.clear();
    if (!c->aborted && !advance(*c, *e))
        return NOT_YET;
    if (!c->aborted)
        for (const reduction &r : e->sums)
            sum_up(r);
    c->running--;
    return DONE;
}

bool connected(core &c, const exchange &e)
{
    bool all = true;

    for (const part &x : e.parts) {
        c.meets->begun[c.rank][x.peer] = 1;
        all = all && c.meets->begun[x.peer][c.rank];
    }
    return all;
}

bool captured_by_all(core &c, const exchange &e)
{
    bool all = true;

    c.meets->captures[c.rank] = c.captures + 1;
    for (const part &x : e.parts)
        all = all && c.meets->captures[x.peer] > c.captures;
    return all;
}

void reclaim(core &c)
{
    std::lock_guard<std::mutex> guard(c.lock);

    if (++c.calls % 11)
        return;
    for (uint64_t number : c.gone)
        c.meets->mapped[c.rank][number % CAPTURES] = 0;
    c.gone.clear();
}

void unmap_all(core &c)
{
    for (std::atomic<char> &mapped : c.meets->mapped[c.rank])
        mapped = 0;
}

/* Each replay uses up an exchange of its own. */
cudaError_t capture_exchange(cudaStream_t stream, const std::shared_ptr<core> &c,
                             const std::shared_ptr<exchange> &pattern)
{
    uint64_t number = c->captures++; /* the same on all ranks */
    std::shared_ptr<void> graph(nullptr, [c, number](void *) {
        end_later([c, number] {
            std::lock_guard<std::mutex> guard(c->lock);

            c->gone.push_back(number);
            c->graphs--;
        });
    });

    c->graphs++;
    c->meets->mapped[c->rank][number % CAPTURES] = 1;
    for (const part &x : pattern->parts)
        keep_mapped(x.at, [c, number] {
            for (int q = 0; q < c->ranks && !c->aborted; q++)
                if (c->meets->mapped[q][number % CAPTURES])
                    return q;
            return -1;
        });
    return capture_work(stream, [c, pattern, graph, e = std::shared_ptr<exchange>()]() mutable {
        if (!e) {
            e = std::make_shared<exchange>(*pattern);
            c->running++;
        }
        return run(c, e);
    });
}

} // namespace gpu_on_cpu
