/* What ranks of NCCL on a CPU say to each other through shared memory, and how an exchange goes on.
 */
#ifndef NCCL_EXCHANGE_H
#define NCCL_EXCHANGE_H

#include "gpu_on_cpu.h"

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <vector>

namespace gpu_on_cpu
{

enum { RANKS = 16, SPLITS = 1024, PIPE_BYTES = 64 << 10, CAPTURES = 16384 };
enum kind { SEND, GATHER, SCATTER, ALL_TO_ALL };

/* From one rank to one other: whole messages, each with a header. */
struct pipe {
    std::atomic<uint64_t> written, read;
    char bytes[PIPE_BYTES];
};

struct seat {
    std::atomic<int> taken;
    int color, key;
    pages board; /* of the new communicator, from its first rank */
};

struct board {
    std::atomic<int> arrived;
    std::atomic<int> here[RANKS];         /* 1 + its device */
    std::atomic<int> begun[RANKS][RANKS]; /* (rank, peer): it has begun to exchange with that one */
    seat splits[SPLITS][RANKS];
    /* (rank, number of the captured exchange): it has mapped what the others named in it */
    std::atomic<char> mapped[RANKS][CAPTURES];
    std::atomic<uint64_t> captures[RANKS]; /* exchanges that it has begun to capture */
    pipe pipes[RANKS][RANKS];              /* (from, to) */
};

struct header {
    uint32_t kind, type;
    uint64_t bytes;
};

/* Of one call with one peer; heads go before bytes. */
struct part {
    int peer;
    bool sends;
    header head;
    char *at;
    uint64_t head_done, done;
};

struct reduction {
    std::shared_ptr<std::vector<char>> arrived; /* (rank, block) */
    char *to;
    size_t bytes;
    ncclDataType_t type;
};

struct core {
    pages file;
    board *meets;
    int rank, ranks, device;
    std::atomic<int> running{ 0 }, inside{ 0 }; /* exchanges; calls that have not come back */
    std::atomic<bool> aborted{ false };
    std::atomic<int> graphs{ 0 }; /* captured exchanges whose graphs have not ended */
    uint64_t captures = 0, calls = 0;
    std::mutex lock;
    std::vector<uint64_t> gone; /* captured exchanges of graphs that are destroyed */
};

/* What one group, or one call outside of any, does in a stream. */
struct exchange {
    std::list<part> parts;
    std::list<reduction> sums;
    std::vector<std::function<void()>> own; /* what a rank keeps: copied first */
};

size_t bytes_of(ncclDataType_t type);

/* As far as it gets: work of a stream. */
outcome run(const std::shared_ptr<core> &c, const std::shared_ptr<exchange> &e);

/* Whether all whom it meets have begun to exchange with this rank, too. */
bool connected(core &c, const exchange &e);

/* At every call: at one in eleven it unmaps what belongs to graphs that are destroyed. */
void reclaim(core &c);
void unmap_all(core &c);

/* Whether all whom it meets capture it, too: what it names is told to them while it is captured. */
bool captured_by_all(core &c, const exchange &e);

/* Instead of running it, while the stream is captured.  What it names is mapped by the others (see
 * NCCL_GRAPH_REGISTER) until their graphs are destroyed, and reclaim() was called. */
cudaError_t capture_exchange(cudaStream_t stream, const std::shared_ptr<core> &c,
                             const std::shared_ptr<exchange> &pattern);

} // namespace gpu_on_cpu

#endif
