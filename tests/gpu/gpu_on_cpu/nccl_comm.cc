/* NCCL between processes of one host: communicators, whose ranks meet in shared memory.
 *
 * One that does not block is busy for a while after each call, and what was called happens only
 * then.  While one is made NCCL_PROTO is read, late as by NCCL. */
#include "nccl_comm.h"

#include <cstring>
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

} // namespace

namespace gpu_on_cpu
{

ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const char *why)
{
    if (comm)
        comm->said = why;
    return result;
}

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

} // namespace gpu_on_cpu

namespace
{

/* ---- meeting */

ncclResult_t take_room(ncclComm_t comm)
{
    size_t bytes = (size_t)(number_from("GPU_ON_CPU_COMM_MIB", 0) +
                            number_from("GPU_ON_CPU_COMM_MORE", 0) * comm->is->device)
                   << 20;

    if (!bytes || comm->room || cudaMalloc(&comm->room, bytes) == cudaSuccess)
        return ncclSuccess;
    return refuse(comm, ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

void leave(ncclComm_t comm)
{
    if (comm->is)
        unmap_all(*comm->is);
    delete comm;
}

ncclResult_t meet(ncclComm_t comm)
{
    board *b = comm->is->meets;

    if (b->arrived < comm->is->ranks)
        return ncclInProgress;
    for (int i = 0; i < comm->is->ranks; i++)
        for (int j = 0; j < i; j++)
            if (b->here[i] == b->here[j])
                return refuse(comm, ncclInvalidUsage, "Duplicate GPU detected");
    return take_room(comm);
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
    *version = (int)gpu_on_cpu::number_from("GPU_ON_CPU_NCCL", NCCL_VERSION_CODE);
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
    /* What is aborted keeps it: to free it there would wait for other communicators. */
    if (comm->room)
        cudaFree(comm->room);
    leave(comm);
    return ncclSuccess;
}

/* Its exchanges end, whatever they have done, and calls of other threads that wait in it.  In a
 * group all are told to end before any is waited for; and, whether there is one or not, it waits
 * for all graphs that were captured from it, as long as they live. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclInvalidArgument;
    if (comm->is)
        comm->is->aborted = true;
    after_group([=] {
        while (comm->is && (comm->is->inside || comm->is->graphs))
            usleep(20);
        leave(comm);
    });
    return ncclSuccess;
}
