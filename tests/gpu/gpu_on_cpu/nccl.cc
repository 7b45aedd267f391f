/* NCCL between processes of one host: communicators whose ranks meet in shared memory, and
 * exchanges that are work of a stream.
 *
 * Every pair of ranks has a pipe.  What is sent says what it is; who awaits something else, or more
 * or fewer bytes, waits for ever, as on a GPU.  Two ranks connect when they first exchange, for
 * which the later one is awaited inside of the call.  A communicator that does not block is busy
 * for a while after each call, and what was called happens only then.
 *
 * While one is made NCCL_PROTO is read, late as by NCCL; GPU_ON_CPU_PROTOCOLS names a file to which
 * every call is written with what that was. */
#include "nccl_exchange.h"

#include <cstring>
#include <fcntl.h>
#include <string>
#include <strings.h>
#include <unistd.h>

using namespace gpu_on_cpu;

namespace
{

struct identity {
    char what[8];
    pages board;
};
static_assert(sizeof(identity) <= NCCL_UNIQUE_ID_BYTES, "fits");

thread_local int depth;

} // namespace

struct ncclComm {
    std::shared_ptr<core> is;
    bool blocking;
    std::function<ncclResult_t()> pending; /* asked until it is no longer in progress */
    int reluctance;
    ncclResult_t state;
    int splits;
    std::string said;
    bool finalized;
    std::string protocols = {}; /* NCCL_PROTO as it was, "-": not set */
};

namespace
{

struct call {
    ncclComm_t comm;
    cudaStream_t stream;
    std::shared_ptr<exchange> does;
};
thread_local std::vector<call> grouped;
thread_local ncclResult_t group_failed;

ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const char *why)
{
    if (comm)
        comm->said = why;
    return result;
}

ncclResult_t start(const call &what)
{
    std::shared_ptr<core> c = what.comm->is;
    std::shared_ptr<exchange> e = what.does;

    if (!connected(*c, *e))
        return ncclInProgress;
    if (is_captured(what.stream))
        return capture_exchange(what.stream, c, e) ? ncclUnhandledCudaError : ncclSuccess;
    c->running++;
    if (enqueue(what.stream, [=] { return run(c, e); })) {
        c->running--;
        return refuse(what.comm, ncclUnhandledCudaError, "the stream takes no more");
    }
    return ncclSuccess;
}

/* ---- being busy */

/* Until it is done, or another thread aborts the communicator. */
ncclResult_t block(ncclComm_t comm)
{
    std::shared_ptr<core> c = comm->is;
    ncclResult_t result = ncclInProgress;

    c->inside++;
    while (result == ncclInProgress && !c->aborted) {
        comm->reluctance = 0;
        ncclCommGetAsyncError(comm, &result);
        if (result == ncclInProgress)
            usleep(20);
    }
    c->inside--;
    return result == ncclInProgress ? ncclInternalError : result;
}

/* Now, if it blocks; else some questions later. */
ncclResult_t begin(ncclComm_t comm, const std::function<ncclResult_t()> &what)
{
    comm->pending = what;
    comm->state = ncclInProgress;
    comm->reluctance = (int)dice(4);
    return comm->blocking ? block(comm) : ncclInProgress;
}

ncclResult_t check_comm(ncclComm_t comm)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->is && comm->is->aborted)
        return refuse(comm, ncclInvalidUsage, "the communicator was aborted");
    if (comm->state == ncclInProgress)
        return refuse(comm, ncclInvalidArgument,
                      "Attempt to use communicator before the previous operation returned "
                      "ncclSuccess");
    return comm->state;
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

/* ---- meeting */

ncclResult_t meet(ncclComm_t comm)
{
    board *b = comm->is->meets;

    if (b->arrived < comm->is->ranks)
        return ncclInProgress;
    for (int i = 0; i < comm->is->ranks; i++)
        for (int j = 0; j < i; j++)
            if (b->here[i] == b->here[j])
                return refuse(comm, ncclInvalidUsage, "Duplicate GPU detected");
    return ncclSuccess;
}

/* "LL,Simple", "^LL128": NCCL refuses any other word. */
bool are_protocols(const char *list)
{
    std::string words = list + (*list == '^');

    for (size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
        std::string word = words.substr(at, (end = words.find(',', at)) - at);

        if (strcasecmp(word.c_str(), "LL") && strcasecmp(word.c_str(), "LL128") &&
            strcasecmp(word.c_str(), "Simple"))
            return false;
    }
    return true;
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

ncclResult_t join(ncclComm_t comm, const pages &file, int rank, int ranks)
{
    std::shared_ptr<core> c = std::make_shared<core>();
    const char *protocols = getenv("NCCL_PROTO");

    if (protocols && !are_protocols(protocols))
        return refuse(comm, ncclInvalidUsage, "Unrecognized element token in NCCL_PROTO");
    comm->protocols = protocols ? protocols : "-";
    c->file = file;
    c->meets = (board *)pages_open(file);
    c->rank = rank;
    c->ranks = ranks;
    c->device = current_device();
    if (!c->meets)
        return refuse(comm, ncclSystemError, "rank 0 is gone");
    c->file.at = (char *)c->meets;
    c->meets->here[rank] = 1 + c->device;
    c->meets->arrived++;
    comm->is = c;
    return ncclSuccess;
}

ncclResult_t check_config(const ncclConfig_t *config)
{
    if (config->magic != 0xcafebeef || config->size != sizeof(*config))
        return ncclInvalidArgument;
    if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
        return ncclInvalidArgument;
    if ((config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->minCTAs <= 0) ||
        (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs <= 0) ||
        (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
         config->minCTAs > config->maxCTAs))
        return ncclInvalidArgument;
    return ncclSuccess;
}

/* The ranks of a color in the order of their keys; the new rank of this one. */
int place_in(const seat *seats, int ranks, int self, int *first, int *count)
{
    int before = 0;

    *first = self;
    *count = 0;
    for (int q = 0; q < ranks; q++) {
        if (seats[q].color != seats[self].color)
            continue;
        ++*count;
        if (seats[q].key < seats[self].key || (seats[q].key == seats[self].key && q < self))
            before++;
        if (seats[q].key < seats[*first].key || (seats[q].key == seats[*first].key && q < *first))
            *first = q;
    }
    return before;
}

/* A step of a split: all have taken their seats, the first has made a board, it is joined. */
ncclResult_t split(ncclComm_t parent, ncclComm_t child, int number)
{
    core &c = *parent->is;
    seat *seats = c.meets->splits[number];
    int first, count, rank;

    for (int q = 0; q < c.ranks; q++)
        if (!seats[q].taken)
            return ncclInProgress;
    if (!child)
        return ncclSuccess;
    rank = place_in(seats, c.ranks, c.rank, &first, &count);
    if (first == c.rank && seats[first].taken == 1) {
        seats[first].board = pages_create(sizeof(board));
        seats[first].taken = 2;
    }
    if (seats[first].taken != 2)
        return ncclInProgress;
    return join(child, seats[first].board, rank, count);
}

} // namespace

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? comm->said.c_str() : "";
}

/* Its board stays open here for as long as the process lives. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    identity id = {};

    memcpy(id.what, "nccl id", 8);
    id.board = pages_create(sizeof(board));
    if (!id.board.at)
        return ncclSystemError;
    memset(out, 0, sizeof(*out));
    memcpy((void *)out, &id, sizeof(id));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId given, int rank,
                                    ncclConfig_t *config)
{
    ncclResult_t result = config ? check_config(config) : ncclSuccess;
    identity id;
    ncclComm_t comm;

    memcpy(&id, &given, sizeof(id));
    if (result || ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks ||
        memcmp(id.what, "nccl id", 8) || usable())
        return ncclInvalidArgument;
    comm =
        new ncclComm{ nullptr, !config || config->blocking != 0, {}, 0, ncclSuccess, 0, "", false };
    result = join(comm, id.board, rank, ranks);
    if (result) {
        delete comm;
        return result;
    }
    *out = comm;
    return begin(comm, [=] { return meet(comm); });
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    ncclResult_t result = check_comm(parent);
    ncclComm_t child = nullptr;
    int number;
    seat *mine;

    if (!result && config)
        result = check_config(config);
    if (result)
        return result;
    if (parent->splits == SPLITS)
        return refuse(parent, ncclInternalError, "too many splits for this twin");
    number = parent->splits++;
    mine = &parent->is->meets->splits[number][parent->is->rank];
    mine->color = color;
    mine->key = key;
    mine->taken = 1;
    if (color != NCCL_SPLIT_NOCOLOR)
        child = new ncclComm{ nullptr,
                              config ? config->blocking != 0 : parent->blocking,
                              {},
                              0,
                              ncclInProgress,
                              0,
                              "",
                              false };
    *out = child;
    return begin(parent, [=] {
        ncclResult_t ended =
            child && child->is ? ncclSuccess : split(parent, child, number); /* joined before */

        if (child && ended == ncclSuccess)
            ended = child->state = meet(child);
        return ended;
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->pending && comm->reluctance-- <= 0) {
        std::function<ncclResult_t()> pending = comm->pending;
        ncclResult_t result = pending();

        comm->state = result;
        if (result != ncclInProgress)
            comm->pending = nullptr;
    }
    *out = comm->state;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    ncclResult_t result = check_comm(comm);

    if (!result)
        *count = comm->is->ranks;
    return result;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    ncclResult_t result = check_comm(comm);

    if (!result)
        *rank = comm->is->rank;
    return result;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    ncclResult_t result = check_comm(comm);

    if (!result)
        *device = comm->is->device;
    return result;
}

/* ---- exchanges */

ncclResult_t ncclGroupStart()
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    if (!depth)
        return ncclInvalidUsage;
    return --depth ? ncclSuccess : flush();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = check_call(comm, from, count * bytes_of(type), stream);

    if (!result && (peer < 0 || peer >= comm->is->ranks))
        result = refuse(comm, ncclInvalidArgument, "a peer that is not there");
    if (result)
        return fail_group(result);
    tell(comm, "send");
    add(gathered(comm, stream), peer, true, SEND, type, from, count * bytes_of(type));
    return end_call();
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    ncclResult_t result = check_call(comm, to, count * bytes_of(type), stream);

    if (!result && (peer < 0 || peer >= comm->is->ranks))
        result = refuse(comm, ncclInvalidArgument, "a peer that is not there");
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
    exchange &e = gathered(comm, stream);
    for (int q = 0; q < comm->is->ranks; q++) {
        char *block = (char *)to + (size_t)q * bytes;

        if (q != comm->is->rank) {
            add(e, q, true, GATHER, type, from, bytes);
            add(e, q, false, GATHER, type, block, bytes);
        } else if (block != from) {
            e.own.push_back([=] { memcpy(block, from, bytes); });
        }
    }
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
    int ranks = comm->is->ranks, self = comm->is->rank;
    e.sums.push_back(
        { std::make_shared<std::vector<char>>((size_t)ranks * bytes), (char *)to, bytes, type });
    char *arrived = e.sums.back().arrived->data();
    for (int q = 0; q < ranks; q++) {
        const char *block = (const char *)from + (size_t)q * bytes;
        char *into = arrived + (size_t)q * bytes;

        if (q != self) {
            add(e, q, true, SCATTER, type, block, bytes);
            add(e, q, false, SCATTER, type, into, bytes);
        } else {
            e.own.push_back([=] { memcpy(into, block, bytes); });
        }
    }
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
    exchange &e = gathered(comm, stream);
    for (int q = 0; q < comm->is->ranks; q++) {
        const char *block = (const char *)from + (size_t)q * bytes;
        char *into = (char *)to + (size_t)q * bytes;

        if (q != comm->is->rank) {
            add(e, q, true, ALL_TO_ALL, type, block, bytes);
            add(e, q, false, ALL_TO_ALL, type, into, bytes);
        } else {
            e.own.push_back([=] { memcpy(into, block, bytes); });
        }
    }
    return end_call();
}
#endif

/* ---- ending */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result = check_comm(comm);

    if (result)
        return result;
    comm->finalized = true;
    return begin(comm, [=] { return comm->is->running ? ncclInProgress : ncclSuccess; });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = check_comm(comm);

    if (result)
        return result;
    if (comm->is->running)
        forbidden("a communicator is destroyed while it exchanges");
    delete comm;
    return ncclSuccess;
}

/* Its exchanges end, whatever they have done, and calls of other threads that wait in it. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->is)
        comm->is->aborted = true;
    while (comm->is && comm->is->inside)
        usleep(20);
    delete comm;
    return ncclSuccess;
}
