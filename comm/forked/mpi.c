/* The few MPI functions that moetune uses, for forked ranks of one host: collectives go through
 * shared memory, and messages are read directly from the sender's memory. */
#include "mpi.h"

#include "forked.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* QUEUE_PLACES: messages in progress between two ranks, one way.  QUEUES_OFFSET: of the queues in
 * the shared memory, behind struct shared. */
enum { SLOT_BYTES = 1 << 16, QUEUE_PLACES = 64, RANKS_MAX = 4096, QUEUES_OFFSET = 4096 };

/* One place in the queue of a pair of ranks.  Message number n uses place n % QUEUE_PLACES, in lap
 * n / QUEUE_PLACES.  `turn` is 2 * lap while the place is free for this lap, one more when the
 * message is posted, and two more when it is received. */
struct message {
    _Atomic uint64_t turn;
    const void *data;
    size_t bytes;
    pid_t from;
};

/* What all ranks share for collectives.  A collective goes in rounds: every rank writes its slot
 * and counts itself in `arrivals`; when all have arrived, each reads the slots that it needs.
 * Rounds alternate between two sets of slots.  A rank writes to a set again only after all ranks
 * have arrived at the round in between, and so have read the set. */
static struct shared {
    _Atomic uint64_t arrivals; /* of all ranks at all rounds */
    _Atomic int alarm;
} * shared;
static struct message *queues; /* of (from, to) */
static char *slots;            /* of (round % 2, rank) */

static int rank, ranks = 1;
static uint64_t rounds, *sent, *received; /* messages sent and received, for each peer */
static char error_text[MPI_MAX_ERROR_STRING];

static int set_error(const char *what)
{
    snprintf(error_text, sizeof(error_text), "%s: %s", what, strerror(errno));
    return MPI_ERR_OTHER;
}

/* ---- the ranks */

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    const char *text = getenv(FORKED_RANKS);
    size_t n, slots_offset;
    char *memory;

    (void)argc, (void)argv;
    *provided = wanted;
    ranks = text ? atoi(text) : 1;
    if (ranks < 1 || ranks > RANKS_MAX) {
        errno = EINVAL;
        return set_error(FORKED_RANKS);
    }
    /* Ranks share this mapping.  Most pages are never touched, and take no memory. */
    n = (size_t)ranks;
    slots_offset = QUEUES_OFFSET + n * n * QUEUE_PLACES * sizeof(struct message);
    memory = mmap(NULL, slots_offset + 2 * n * SLOT_BYTES, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    sent = calloc(2 * n, sizeof(*sent));
    if (memory == MAP_FAILED || !sent)
        return set_error("memory for ranks to meet in");
    received = sent + n;
    shared = (struct shared *)(void *)memory;
    queues = (struct message *)(void *)(memory + QUEUES_OFFSET);
    slots = memory + slots_offset;
    if (ranks > 1)
        rank = forked_start(ranks);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0UL, 0UL, 0UL);
    return rank < 0 ? set_error("processes for the ranks") : MPI_SUCCESS;
}

int MPI_Initialized(int *flag)
{
    *flag = shared != NULL;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    return MPI_SUCCESS;
}

/* This text names the transport in tables. */
int MPI_Get_library_version(char *text, int *length)
{
    *length = snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "copies between processes");
    return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length)
{
    (void)code;
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "%s", error_text);
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

/* ---- requests */

/* A message or a collective that is in progress; MPI_Test() calls `advance`, and frees it at its
 * end. */
struct forked_request {
    int (*advance)(struct forked_request *self, int *done);
    const void *send;
    void *recv;
    size_t bytes;
    /* a message */
    struct message *message;
    uint64_t turn; /* of the queue's place while it is free for this message */
    bool is_posted;
    /* a collective */
    /* Reads n bytes of the slots, for the round that begins at byte `done_bytes`. */
    void (*read_slots)(const struct forked_request *self, size_t n);
    size_t done_bytes;
    int root; /* the only rank that writes; -1: every rank writes */
    MPI_Op op;
};

static int new_request(struct forked_request request, MPI_Request *out)
{
    *out = malloc(sizeof(**out));
    if (!*out)
        return set_error("a request");
    **out = request;
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    struct forked_request *r = *request;
    int code = MPI_SUCCESS;

    (void)status;
    *done = !r;
    if (r)
        code = r->advance(r, done);
    if (r && *done)
        MPI_Request_free(request);
    return code;
}

int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses)
{
    int all_done = 1, one_done;

    for (int i = 0; i < count; i++) {
        int code = MPI_Test(&requests[i], &one_done, statuses);

        if (code)
            return code;
        all_done = all_done && one_done;
    }
    *done = all_done;
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

/* ---- collectives */

static char *slot_of(int q)
{
    return slots + ((rounds % 2) * (size_t)ranks + (size_t)q) * SLOT_BYTES;
}

static size_t bytes_of_round(const struct forked_request *r)
{
    return r->bytes - r->done_bytes < SLOT_BYTES ? r->bytes - r->done_bytes : SLOT_BYTES;
}

static void begin_round(const struct forked_request *r)
{
    rounds++;
    if (r->bytes && (r->root < 0 || r->root == rank))
        memcpy(slot_of(rank), (const char *)r->send + r->done_bytes, bytes_of_round(r));
    atomic_fetch_add(&shared->arrivals, 1);
}

static int advance_collective(struct forked_request *r, int *done)
{
    size_t n = bytes_of_round(r);

    *done = 0;
    if (atomic_load(&shared->arrivals) < rounds * (uint64_t)ranks)
        return MPI_SUCCESS;
    if (n)
        r->read_slots(r, n);
    r->done_bytes += n;
    *done = r->done_bytes == r->bytes;
    if (!*done)
        begin_round(r);
    return MPI_SUCCESS;
}

static int begin_collective(struct forked_request request, MPI_Request *out)
{
    int code;

    request.advance = advance_collective;
    code = new_request(request, out);
    if (!code)
        begin_round(*out);
    return code;
}

static void read_from_root(const struct forked_request *r, size_t n)
{
    if (rank != r->root)
        memcpy((char *)r->recv + r->done_bytes, slot_of(r->root), n);
}

static void read_all(const struct forked_request *r, size_t n)
{
    for (int q = 0; q < ranks; q++)
        memcpy((char *)r->recv + (size_t)q * r->bytes + r->done_bytes, slot_of(q), n);
}

static void reduce_all(const struct forked_request *r, size_t n)
{
    int64_t *results = (int64_t *)(void *)((char *)r->recv + r->done_bytes);

    for (size_t i = 0; i < n / sizeof(*results); i++) {
        results[i] = ((const int64_t *)(void *)slot_of(0))[i];
        for (int q = 1; q < ranks; q++) {
            int64_t value = ((const int64_t *)(void *)slot_of(q))[i];

            switch (r->op) {
            case MPI_MAX: results[i] = value > results[i] ? value : results[i]; break;
            case MPI_MIN: results[i] = value < results[i] ? value : results[i]; break;
            default: results[i] += value;
            }
        }
    }
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    (void)comm;
    return begin_collective((struct forked_request){ .root = -1 }, request);
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
    (void)comm;
    return begin_collective((struct forked_request){ .read_slots = read_from_root,
                                                     .send = data,
                                                     .recv = data,
                                                     .bytes = (size_t)count * (size_t)type,
                                                     .root = root },
                            request);
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    MPI_Request request;
    int done = 0, code = MPI_Ibcast(data, count, type, root, comm, &request);

    while (!code && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        sched_yield();
    }
    return code;
}

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    (void)comm;
    return begin_collective((struct forked_request){ .read_slots = reduce_all,
                                                     .send = send == MPI_IN_PLACE ? recv : send,
                                                     .recv = recv,
                                                     .bytes = (size_t)count * (size_t)type,
                                                     .root = -1,
                                                     .op = op },
                            request);
}

int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    (void)recv_count, (void)recv_type, (void)comm;
    return begin_collective(
        (struct forked_request){ .read_slots = read_all,
                                 .send = send,
                                 .recv = recv,
                                 .bytes = (size_t)send_count * (size_t)send_type,
                                 .root = -1 },
        request);
}

/* ---- messages */

/* Posts the message once its place is free; done once it was received. */
static int advance_send(struct forked_request *r, int *done)
{
    struct message *m = r->message;
    uint64_t turn = atomic_load(&m->turn);

    *done = r->is_posted && turn != r->turn + 1;
    if (r->is_posted || turn != r->turn)
        return MPI_SUCCESS;
    m->from = getpid();
    m->data = r->send;
    m->bytes = r->bytes;
    r->is_posted = true;
    atomic_store(&m->turn, r->turn + 1);
    return MPI_SUCCESS;
}

/* Copies the message once it is posted. */
static int advance_receive(struct forked_request *r, int *done)
{
    struct message *m = r->message;

    *done = 0;
    if (atomic_load(&m->turn) != r->turn + 1)
        return MPI_SUCCESS;
    if (m->bytes != r->bytes) {
        errno = EMSGSIZE;
        return set_error("a message between ranks");
    }
    for (size_t copied = 0; copied < r->bytes;) {
        struct iovec to = { (char *)r->recv + copied, r->bytes - copied };
        struct iovec from = { (char *)(uintptr_t)m->data + copied, r->bytes - copied };
        ssize_t n = process_vm_readv(m->from, &to, 1, &from, 1, 0);

        if (n <= 0)
            return set_error("process_vm_readv: cannot read another rank's memory (a container may "
                             "forbid it)");
        copied += (size_t)n;
    }
    *done = 1;
    atomic_store(&m->turn, r->turn + 2);
    return MPI_SUCCESS;
}

static struct forked_request request_for_message(int from, int to, uint64_t number)
{
    struct message *queue = &queues[((size_t)from * (size_t)ranks + (size_t)to) * QUEUE_PLACES];

    return (struct forked_request){ .message = &queue[number % QUEUE_PLACES],
                                    .turn = 2 * (number / QUEUE_PLACES) };
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    struct forked_request r;
    int code, done;

    (void)tag, (void)comm;
    *request = MPI_REQUEST_NULL;
    if (!count) {
        atomic_store(&shared->alarm, 1);
        return MPI_SUCCESS;
    }
    r = request_for_message(rank, to, sent[to]++);
    r.advance = advance_send;
    r.send = data;
    r.bytes = (size_t)count * (size_t)type;
    code = new_request(r, request);
    return code ? code : advance_send(*request, &done);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    struct forked_request r = request_for_message(from, rank, received[from]++);

    (void)tag, (void)comm;
    r.advance = advance_receive;
    r.recv = data;
    r.bytes = (size_t)count * (size_t)type;
    return new_request(r, request);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *there, MPI_Status *status)
{
    (void)from, (void)tag, (void)comm, (void)status;
    *there = atomic_load(&shared->alarm);
    return MPI_SUCCESS;
}
