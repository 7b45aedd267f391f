/* That the NCCL which is run on a CPU moves and adds what NCCL does, is busy when a communicator
 * does not block, waits for ever for what nobody sends, and ends when it is aborted.  Each rank is
 * a process with a GPU of its own. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, FLOATS = 100000 };

static int rank, id_pipe[RANKS][2];
static cudaStream_t stream;
static float *from, *to, *host;

/* Also how often it was not ready. */
static ncclResult_t settle(ncclComm_t comm, int *polls)
{
    ncclResult_t state = ncclSuccess;

    for (;;) {
        if (ncclCommGetAsyncError(comm, &state) || state != ncclInProgress)
            return state;
        ++*polls;
    }
}

static ncclResult_t done(ncclResult_t called, ncclComm_t comm)
{
    int polls = 0;

    return called == ncclSuccess || called == ncclInProgress ? settle(comm, &polls) : called;
}

static ncclComm_t communicator(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id;

    config.blocking = 0;
    if (rank == 0) {
        CHECK(!ncclGetUniqueId(&id));
        for (int q = 1; q < RANKS; q++)
            CHECK(write(id_pipe[q][1], &id, sizeof(id)) == sizeof(id));
    } else {
        CHECK(read(id_pipe[rank][0], &id, sizeof(id)) == sizeof(id));
    }
    CHECK(ncclCommInitRankConfig(&comm, RANKS, id, rank, &config) == ncclInProgress);
    CHECK(!done(ncclSuccess, comm));
    return comm;
}

static void set_up(void)
{
    size_t bytes = (size_t)RANKS * FLOATS * sizeof(float);

    CHECK(!cudaSetDevice(rank));
    CHECK(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(!cudaMalloc((void **)&from, bytes) && !cudaMalloc((void **)&to, bytes));
    CHECK(!cudaMallocHost((void **)&host, bytes));
}

/* Element i of block q is 1000 * `a` + 10 * q + i % 7, on this rank. */
static void put(int a)
{
    for (int i = 0; i < RANKS * FLOATS; i++)
        host[i] = (float)(1000 * a + 10 * (i / FLOATS) + i % FLOATS % 7);
    CHECK(!cudaMemcpyAsync(from, host, (size_t)RANKS * FLOATS * sizeof(float),
                           cudaMemcpyHostToDevice, stream));
    CHECK(!cudaStreamSynchronize(stream));
}

static bool holds(int block, float first)
{
    bool same = true;

    CHECK(!cudaMemcpyAsync(host, to, (size_t)RANKS * FLOATS * sizeof(float), cudaMemcpyDeviceToHost,
                           stream));
    CHECK(!cudaStreamSynchronize(stream));
    for (int i = 0; i < FLOATS; i++)
        same = same && host[block * FLOATS + i] == first + (float)(i % 7);
    return same;
}

static void collectives(ncclComm_t comm)
{
    put(rank);
    CHECK(!done(ncclAllGather(from, to, FLOATS, ncclFloat32, comm, stream), comm));
    for (int q = 0; q < RANKS; q++)
        CHECK(holds(q, (float)(1000 * q)));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    CHECK(!done(ncclAlltoAll(from, to, FLOATS, ncclFloat32, comm, stream), comm));
    for (int q = 0; q < RANKS; q++)
        CHECK(holds(q, (float)(1000 * q + 10 * rank)));
#endif
    for (int i = 0; i < RANKS * FLOATS; i++)
        host[i] = (float)(100 * rank + 10 * (i / FLOATS));
    CHECK(!cudaMemcpyAsync(from, host, (size_t)RANKS * FLOATS * sizeof(float),
                           cudaMemcpyHostToDevice, stream));
    CHECK(!done(ncclReduceScatter(from, to, FLOATS, ncclFloat32, ncclSum, comm, stream), comm));
    CHECK(!cudaMemcpyAsync(host, to, sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(!cudaStreamSynchronize(stream));
    CHECK(host[0] == (float)(300 + 30 * rank));
}

/* Even and odd ranks, in descending order. */
static void groups(ncclComm_t comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t part = NULL;
    int count = 0, number = -1;

    config.blocking = 0;
    CHECK(!done(ncclCommSplit(comm, rank % 2, -rank, &part, &config), comm));
    CHECK(!done(ncclSuccess, part));
    CHECK(!ncclCommCount(part, &count) && !ncclCommUserRank(part, &number));
    CHECK(count == (rank == 1 ? 1 : 2) && number == (rank == 0));
    put(rank);
    CHECK(!done(ncclAllGather(from, to, FLOATS, ncclFloat32, part, stream), part));
    CHECK(holds(0, (float)(1000 * (rank == 1 ? 1 : 2))));
    CHECK(!done(ncclCommFinalize(part), part) && !ncclCommDestroy(part));
}

/* A call is in progress now and then, and nothing else may be asked meanwhile. */
static void busy(ncclComm_t comm)
{
    int polls = 0;

    for (int i = 0; i < 50; i++) {
        CHECK(ncclAllGather(from, to, 10, ncclFloat32, comm, stream) == ncclInProgress);
        CHECK(ncclAllGather(from, to, 10, ncclFloat32, comm, stream) == ncclInvalidArgument);
        CHECK(*ncclGetLastError(comm));
        CHECK(!settle(comm, &polls));
    }
    CHECK(polls > 10 && !cudaStreamSynchronize(stream));
    CHECK(ncclSend(host, 1, ncclFloat32, 0, comm, stream) == ncclInvalidArgument);
    CHECK(ncclSend(from, 1, ncclFloat32, RANKS, comm, stream) == ncclInvalidArgument);
    CHECK(ncclAllGather(from, to, 2 * FLOATS, ncclFloat32, comm, stream) == ncclInvalidArgument);
}

/* Rank 0 sends a byte less than rank 1 awaits: it waits until it is aborted. */
static void mismatch(ncclComm_t comm)
{
    if (rank == 0)
        CHECK(!done(ncclSend(from, 99, ncclUint8, 1, comm, stream), comm));
    else if (rank == 1)
        CHECK(!done(ncclRecv(to, 100, ncclUint8, 0, comm, stream), comm));
    /* What may end has time to: rank 1's exchange does not, and the others' do. */
    usleep(50000);
    for (int ms = 0; rank != 1 && cudaStreamQuery(stream) != cudaSuccess && ms < 30000; ms++)
        usleep(1000);
    CHECK(cudaStreamQuery(stream) == (rank == 1 ? cudaErrorNotReady : cudaSuccess));
    cudaGetLastError();
    CHECK(!ncclCommAbort(comm));
    CHECK(!cudaStreamSynchronize(stream));
}

static void *abort_soon(void *comm)
{
    usleep(500000);
    CHECK(!ncclCommAbort(comm));
    return NULL;
}

/* Of communicators that block: the first exchange waits for the others, inside of the call, and
 * another thread ends that. */
static void alone(ncclComm_t comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t part = NULL;
    pthread_t other;

    config.blocking = 1;
    CHECK(!done(ncclCommSplit(comm, 0, rank, &part, &config), comm));
    put(rank);
    CHECK(!ncclAllGather(from, to, FLOATS, ncclFloat32, part, stream));
    CHECK(holds(2, 2000));
    CHECK(!ncclCommFinalize(part) && !ncclCommDestroy(part));
    CHECK(!done(ncclCommSplit(comm, 0, rank, &part, &config), comm));
    if (rank != 1)
        return;
    CHECK(!pthread_create(&other, NULL, abort_soon, part));
    CHECK(ncclAllGather(from, to, FLOATS, ncclFloat32, part, stream) == ncclInternalError);
    CHECK(!pthread_join(other, NULL));
    CHECK(!cudaStreamSynchronize(stream));
}

static void as_rank(void (*act)(ncclComm_t comm), bool ends)
{
    ncclComm_t comm;

    set_up();
    comm = communicator();
    act(comm);
    if (ends)
        CHECK(!done(ncclCommFinalize(comm), comm) && !ncclCommDestroy(comm));
}

static void on_ranks(void (*act)(ncclComm_t comm), bool ends)
{
    pid_t children[RANKS];
    int status;

    for (int q = 0; q < RANKS; q++)
        CHECK(!pipe(id_pipe[q]));
    fflush(stdout);
    for (rank = 0; rank < RANKS; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            alarm(60);
            as_rank(act, ends);
            fflush(stdout);
            _exit(check_failures ? 1 : 0);
        }
    }
    for (int q = 0; q < RANKS; q++) {
        waitpid(children[q], &status, 0);
        CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
        close(id_pipe[q][0]);
        close(id_pipe[q][1]);
    }
}

static void collectives_move_and_add(void)
{
    on_ranks(collectives, true);
}

static void a_group_has_ranks_of_its_own(void)
{
    on_ranks(groups, true);
}

static void a_communicator_that_does_not_block_is_busy(void)
{
    on_ranks(busy, true);
}

static void a_communicator_that_blocks_is_freed_by_another_thread(void)
{
    on_ranks(alone, true);
}

static void what_nobody_sends_is_awaited_until_the_abort(void)
{
    on_ranks(mismatch, false);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(collectives_move_and_add),
        TEST(a_group_has_ranks_of_its_own),
        TEST(a_communicator_that_does_not_block_is_busy),
        TEST(a_communicator_that_blocks_is_freed_by_another_thread),
        TEST(what_nobody_sends_is_awaited_until_the_abort),
    };

    setenv("GPU_ON_CPU_DEVICES", "3", 1);
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
