/* Forked ranks meet in memory that they share, and read messages out of each other's. */
#include "mpi.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, SLOT_BYTES = 1 << 16, QUEUE = 256 };

struct message {
    _Atomic int state; /* 0 free, 1 posted, 2 taken */
    pid_t from;
    const void *data;
    size_t bytes;
};

static struct shared {
    _Atomic int arrived, turn, alarm[RANKS_MAX];
    struct message queue[RANKS_MAX][RANKS_MAX][QUEUE]; /* (from, to) */
    char slots[RANKS_MAX][SLOT_BYTES];
} * shared;

struct forked_request {
    struct message *message;
    void *into; /* NULL: sent from here */
    size_t bytes;
};

static int rank, ranks = 1;
static pid_t children[RANKS_MAX];
static uint64_t sent[RANKS_MAX], received[RANKS_MAX];

static void end_children(void)
{
    for (int q = 1; q < ranks && rank == 0; q++)
        waitpid(children[q], NULL, 0);
}

/* Nobody waits for a rank that is gone. */
static void look_after_children(void)
{
    int status;

    for (int q = 1; q < ranks && rank == 0; q++)
        if (children[q] > 0 && waitpid(children[q], &status, WNOHANG) == children[q]) {
            fprintf(stderr, "rank %d is gone\n", q);
            children[q] = 0;
            for (int other = 1; other < ranks; other++)
                if (children[other] > 0)
                    kill(children[other], SIGKILL);
            _exit(1);
        }
}

static void barrier(void)
{
    int turn = atomic_load(&shared->turn);

    if (atomic_fetch_add(&shared->arrived, 1) + 1 == ranks) {
        atomic_store(&shared->arrived, 0);
        atomic_store(&shared->turn, turn + 1);
        return;
    }
    for (unsigned polls = 1; atomic_load(&shared->turn) == turn; polls++) {
        sched_yield();
        if (polls % 65536 == 0)
            look_after_children();
    }
}

/* Also what a launcher would say: each rank has its own GPU where there are several. */
static void become_rank(int number)
{
    char text[16];

    rank = number;
    snprintf(text, sizeof(text), "%d", number);
    setenv("LOCAL_RANK", text, 1);
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    const char *text = getenv("FORKED_RANKS");

    (void)argc, (void)argv;
    ranks = text ? atoi(text) : 1;
    if (ranks < 1 || ranks > RANKS_MAX)
        return MPI_ERR_OTHER;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return MPI_ERR_OTHER;
    fflush(NULL);
    for (int q = 1; q < ranks && rank == 0; q++) {
        children[q] = fork();
        if (children[q] < 0)
            return MPI_ERR_OTHER;
        if (children[q] == 0) {
            become_rank(q);
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
        }
    }
    if (rank == 0)
        become_rank(0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0UL, 0UL, 0UL);
    barrier();
    *provided = wanted;
    return MPI_SUCCESS;
}

int MPI_Initialized(int *flag)
{
    *flag = shared != NULL;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    if (!atomic_load(&shared->alarm[rank]))
        barrier();
    end_children();
    return MPI_SUCCESS;
}

int MPI_Get_library_version(char *text, int *length)
{
    *length = snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "forked ranks");
    return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length)
{
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d of forked ranks", code);
    return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    *out = comm;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm)
{
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *out)
{
    (void)comm;
    *out = rank;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *out)
{
    (void)comm;
    *out = ranks;
    return MPI_SUCCESS;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out)
{
    (void)type, (void)key, (void)info;
    return MPI_Comm_dup(comm, out);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    (void)comm, (void)handler;
    return MPI_SUCCESS;
}

/* ---- collectives */

static void gather(const void *mine, size_t bytes, char *all)
{
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        size_t n = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;

        memcpy(shared->slots[rank], (const char *)mine + at, n);
        barrier();
        for (int q = 0; q < ranks; q++)
            memcpy(all + (size_t)q * bytes + at, shared->slots[q], n);
        barrier();
    }
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    (void)comm;
    barrier();
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
    size_t bytes = (size_t)count * (size_t)type;

    (void)comm;
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        size_t n = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;

        if (rank == root)
            memcpy(shared->slots[root], (char *)data + at, n);
        barrier();
        if (rank != root)
            memcpy((char *)data + at, shared->slots[root], n);
        barrier();
    }
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    MPI_Request request;

    return MPI_Ibcast(data, count, type, root, comm, &request);
}

static int64_t reduced(MPI_Op op, int64_t a, int64_t b)
{
    switch (op) {
    case MPI_MAX: return a > b ? a : b;
    case MPI_MIN: return a < b ? a : b;
    default: return a + b;
    }
}

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    size_t n = (size_t)count;
    int64_t *all = malloc(n * (size_t)ranks * sizeof(*all) + 1), *out = recv;

    (void)comm;
    if (!all || type != MPI_INT64_T)
        return MPI_ERR_OTHER;
    gather(send == MPI_IN_PLACE ? recv : send, n * sizeof(*all), (char *)all);
    for (size_t i = 0; i < n; i++) {
        out[i] = all[i];
        for (int q = 1; q < ranks; q++)
            out[i] = reduced(op, out[i], all[(size_t)q * n + i]);
    }
    free(all);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    (void)recv_count, (void)recv_type, (void)comm;
    gather(send, (size_t)send_count * (size_t)send_type, recv);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* ---- messages */

static int new_request(struct message *message, void *into, size_t bytes, MPI_Request *out)
{
    *out = malloc(sizeof(**out));
    if (!*out)
        return MPI_ERR_OTHER;
    **out = (struct forked_request){ message, into, bytes };
    return MPI_SUCCESS;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    struct message *m = &shared->queue[rank][to][sent[to] % QUEUE];

    (void)tag, (void)comm;
    *request = MPI_REQUEST_NULL;
    if (!count) {
        atomic_store(&shared->alarm[to], 1);
        return MPI_SUCCESS;
    }
    sent[to]++;
    while (atomic_load(&m->state)) /* until its sender of long ago has seen that it was taken */
        sched_yield();
    m->from = getpid();
    m->data = data;
    m->bytes = (size_t)count * (size_t)type;
    atomic_store(&m->state, 1);
    return new_request(m, NULL, m->bytes, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    (void)tag, (void)comm;
    return new_request(&shared->queue[from][rank][received[from]++ % QUEUE], data,
                       (size_t)count * (size_t)type, request);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *there, MPI_Status *status)
{
    (void)from, (void)tag, (void)comm, (void)status;
    *there = atomic_load(&shared->alarm[rank]);
    return MPI_SUCCESS;
}

static bool take(const struct forked_request *r)
{
    struct message *m = r->message;
    size_t at = 0;

    if (atomic_load(&m->state) != 1)
        return false;
    while (at < r->bytes) {
        struct iovec here = { (char *)r->into + at, r->bytes - at };
        struct iovec there = { (char *)(uintptr_t)m->data + at, r->bytes - at };
        ssize_t n = process_vm_readv(m->from, &here, 1, &there, 1, 0);

        if (n <= 0 || m->bytes != r->bytes) {
            perror("a message between forked ranks");
            _exit(1);
        }
        at += (size_t)n;
    }
    atomic_store(&m->state, 2);
    return true;
}

static bool given(const struct forked_request *r)
{
    if (atomic_load(&r->message->state) != 2)
        return false;
    atomic_store(&r->message->state, 0);
    return true;
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    struct forked_request *r = *request;

    (void)status;
    *done = !r || (r->into ? take(r) : given(r));
    if (r && *done)
        MPI_Request_free(request);
    return MPI_SUCCESS;
}

int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses)
{
    int all = 1;

    for (int i = 0; i < count; i++) {
        MPI_Test(&requests[i], done, statuses);
        all = all && *done;
    }
    *done = all;
    return MPI_SUCCESS;
}

int MPI_Cancel(MPI_Request *request)
{
    (void)request;
    return MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request *request)
{
    free(*request);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
