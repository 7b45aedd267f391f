/* What NCCL on a CPU is called for: exchanges, alone or in groups, as work of a stream.
 *
 * Every pair of ranks has a pipe.  What is sent says what it is; who awaits something else, or more
 * or fewer bytes, waits for ever, as on a GPU.  Two ranks connect when they first exchange, for
 * which the later one is awaited inside of the call.  GPU_ON_CPU_PROTOCOLS names a file to which
 * every call is written with what NCCL_PROTO was when its communicator was made. */
#include "nccl_comm.h"

#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace gpu_on_cpu;

namespace
{

thread_local int depth;

struct call {
    ncclComm_t comm;
    cudaStream_t stream;
    std::shared_ptr<exchange> does;
};
thread_local std::vector<call> grouped;
thread_local ncclResult_t group_failed;
thread_local std::vector<std::function<void()>> group_ends;

ncclResult_t start(const call &what)
{
    std::shared_ptr<core> c = what.comm->is;
    std::shared_ptr<exchange> e = what.does;

    if (!connected(*c, *e))
        return ncclInProgress;
    if (is_captured(what.stream) && !captured_by_all(*c, *e))
        return ncclInProgress;
    if (is_captured(what.stream))
        return capture_exchange(what.stream, c, e) ? ncclUnhandledCudaError : ncclSuccess;
    reclaim(*c);
    c->running++;
    if (enqueue(what.stream, [=] { return run(c, e); })) {
        c->running--;
        return refuse(what.comm, ncclUnhandledCudaError, "the stream takes no more");
    }
    return ncclSuccess;
}

ncclResult_t check_call(ncclComm_t comm, const void *memory, size_t bytes, cudaStream_t stream)
{
    ncclResult_t result = check_comm(comm);

    if (result)
        return result;
    if (comm->finalized)
        return refuse(comm, ncclInvalidUsage, "the communicator is finalized");
    if (bytes && !on_device(memory, bytes))
        return refuse(comm, ncclInvalidArgument, "a buffer that is not on the device");
    if (!is_stream(stream) || device_of(stream) != comm->is->device ||
        current_device() != comm->is->device)
        return refuse(comm, ncclInvalidArgument, "a stream of another device");
    return ncclSuccess;
}

ncclResult_t check_peer(ncclComm_t comm, const void *memory, size_t bytes, int peer,
                        cudaStream_t stream)
{
    ncclResult_t result = check_call(comm, memory, bytes, stream);

    if (!result && (peer < 0 || peer >= comm->is->ranks))
        result = refuse(comm, ncclInvalidArgument, "a peer that is not there");
    return result;
}

ncclResult_t fail_group(ncclResult_t result)
{
    if (depth && result && !group_failed)
        group_failed = result;
    return result;
}

/* The exchange of this communicator in this stream that is being put together. */
exchange &gathered(ncclComm_t comm, cudaStream_t stream)
{
    for (call &c : grouped) {
        if (c.comm->blocking != comm->blocking)
            forbidden("communicators that block and that do not, in one group");
        if (c.comm == comm && c.stream == stream)
            return *c.does;
    }
    grouped.push_back({ comm, stream, std::make_shared<exchange>() });
    return *grouped.back().does;
}

ncclResult_t flush()
{
    std::vector<call> now;

    now.swap(grouped);
    if (group_failed) {
        ncclResult_t result = group_failed;

        group_failed = ncclSuccess;
        return result;
    }
    ncclResult_t worst = ncclSuccess;
    for (const call &c : now) {
        ncclResult_t result = begin(c.comm, [=] { return start(c); });

        if (result)
            worst = result;
    }
    return worst;
}

ncclResult_t end_call()
{
    return depth ? ncclSuccess : flush();
}

void add(exchange &e, int peer, bool sends, kind is, ncclDataType_t type, const void *at,
         size_t bytes)
{
    header head = { is, (uint32_t)type, bytes };

    if (bytes)
        e.parts.push_back({ peer, sends, head, (char *)at, 0, 0 });
}

/* A block each way with every other rank; this rank's own is copied, if it is not there already. */
void add_blocks(exchange &e, const core &c, kind is, ncclDataType_t type, const void *from,
                size_t from_stride, void *to, size_t bytes)
{
    for (int q = 0; q < c.ranks; q++) {
        const char *block = (const char *)from + (size_t)q * from_stride;
        char *into = (char *)to + (size_t)q * bytes;

        if (q != c.rank) {
            add(e, q, true, is, type, block, bytes);
            add(e, q, false, is, type, into, bytes);
        } else if (into != block) {
            e.own.push_back([=] { memcpy(into, block, bytes); });
        }
    }
}

void tell(ncclComm_t comm, const char *what)
{
    const char *path = getenv("GPU_ON_CPU_PROTOCOLS");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;

    if (file < 0)
        return;
    dprintf(file, "%s %s\n", what, comm->protocols.c_str());
    close(file);
}

} // namespace

ncclResult_t ncclGroupStart()
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    std::vector<std::function<void()>> ends;
    ncclResult_t result;

    if (!depth)
        return ncclInvalidUsage;
    if (--depth)
        return ncclSuccess;
    result = flush();
    ends.swap(group_ends);
    for (const std::function<void()> &end : ends)
        end();
    return result;
}

void gpu_on_cpu::after_group(const std::function<void()> &what)
{
    if (depth)
        group_ends.push_back(what);
    else
        what();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = check_peer(comm, from, count * bytes_of(type), peer, stream);

    if (result)
        return fail_group(result);
    tell(comm, "send");
    add(gathered(comm, stream), peer, true, SEND, type, from, count * bytes_of(type));
    return end_call();
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    ncclResult_t result = check_peer(comm, to, count * bytes_of(type), peer, stream);

    if (result)
        return fail_group(result);
    add(gathered(comm, stream), peer, false, SEND, type, to, count * bytes_of(type));
    return end_call();
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * bytes_of(type);
    ncclResult_t result = check_call(comm, from, bytes, stream);

    if (!result)
        result = check_call(comm, to, bytes * (size_t)comm->is->ranks, stream);
    if (result)
        return fail_group(result);
    tell(comm, "gather");
    add_blocks(gathered(comm, stream), *comm->is, GATHER, type, from, 0, to, bytes);
    return end_call();
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * bytes_of(type);
    ncclResult_t result = check_call(comm, to, bytes, stream);

    if (!result)
        result = check_call(comm, from, bytes * (size_t)comm->is->ranks, stream);
    if (!result &&
        (op != ncclSum || (type != ncclFloat32 && type != ncclFloat16 && type != ncclBfloat16)))
        result = refuse(comm, ncclInvalidArgument, "this twin sums f32, f16 and bf16");
    if (result)
        return fail_group(result);
    tell(comm, "sum");
    exchange &e = gathered(comm, stream);
    e.sums.push_back({ std::make_shared<std::vector<char>>((size_t)comm->is->ranks * bytes),
                       (char *)to, bytes, type });
    add_blocks(e, *comm->is, SCATTER, type, from, bytes, e.sums.back().arrived->data(), bytes);
    return end_call();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * bytes_of(type);
    ncclResult_t result = check_comm(comm);
    size_t all = result ? 0 : bytes * (size_t)comm->is->ranks;

    if (!result)
        result = check_call(comm, from, all, stream);
    if (!result)
        result = check_call(comm, to, all, stream);
    if (!result && (const char *)to < (const char *)from + all && (char *)to + all > from)
        result = refuse(comm, ncclInvalidUsage, "an all-to-all in place");
    if (result)
        return fail_group(result);
    add_blocks(gathered(comm, stream), *comm->is, ALL_TO_ALL, type, from, bytes, to, bytes);
    return end_call();
}
#endif
