/* Exchanges on SimGrid's SMPI, each from a common start until the last rank is done: one line
 * "RANKS COST KIND BYTES NS" for each.  COST only names what smpirun was told.
 *
 *   exchanges RANKS_PER_NODE COST BYTES... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Rings of more ranks take SMPI minutes. */
enum { REQUESTS_MOST = 4096, GATHER_RANKS_MOST = 64, KINDS = 4 };

struct job {
    int rank, ranks, per_node;
    char *send, *recv;
    MPI_Request requests[REQUESTS_MOST];
    int pending;
};

static void both(struct job *j, int to, int from, size_t bytes)
{
    MPI_Irecv(j->recv, (int)bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &j->requests[j->pending++]);
    MPI_Isend(j->send, (int)bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &j->requests[j->pending++]);
}

static void finish(struct job *j)
{
    MPI_Waitall(j->pending, j->requests, MPI_STATUSES_IGNORE);
    j->pending = 0;
}

/* With each of `count` ranks first, first + stride, ..., as comm/wire.c lists them. */
static void with_all(struct job *j, int first, int stride, int count, size_t bytes)
{
    int self = (j->rank - first) / stride;

    for (int i = 1; i < count; i++) {
        int peer = first + (self + i) % count * stride;

        MPI_Irecv(j->recv, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                  &j->requests[j->pending++]);
    }
    for (int i = 1; i < count; i++) {
        int peer = first + (self + i) % count * stride;

        MPI_Isend(j->send, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                  &j->requests[j->pending++]);
    }
    finish(j);
}

/* `bytes` of each rank, a W-th for each other. */
static void linear(struct job *j, size_t bytes)
{
    with_all(j, 0, 1, j->ranks, bytes / (size_t)j->ranks);
}

static void staged(struct job *j, size_t bytes)
{
    int local = j->rank % j->per_node;

    with_all(j, j->rank - local, 1, j->per_node, bytes / (size_t)j->per_node);
    with_all(j, local, j->per_node, j->ranks / j->per_node,
             bytes * (size_t)j->per_node / (size_t)j->ranks);
}

/* `bytes` are what all ranks have in the end. */
static void two_levels(struct job *j, size_t bytes)
{
    int local = j->rank % j->per_node, nodes = j->ranks / j->per_node;

    with_all(j, local, j->per_node, nodes, bytes / (size_t)j->ranks);
    with_all(j, j->rank - local, 1, j->per_node, bytes / (size_t)j->per_node);
}

/* As many rings as a node has ports, an equal part of all in each.  They differ by which rank of a
 * node is the first, so that each enters and leaves through ports of its own. */
static void rings(struct job *j, size_t bytes)
{
    int m = j->per_node, nodes = j->ranks / m, node = j->rank / m, local = j->rank % m;

    for (int step = 1; step < j->ranks; step++) {
        for (int ring = 0; ring < m; ring++) {
            int place = (local - ring + m) % m;
            int next = place == m - 1 ? (node + 1) % nodes * m + ring : node * m + (local + 1) % m;
            int before = place ? node * m + (local + m - 1) % m
                               : (node + nodes - 1) % nodes * m + (ring + m - 1) % m;

            both(j, next, before, bytes / (size_t)j->ranks / (size_t)m);
        }
        finish(j);
    }
}

static const struct {
    const char *name;
    void (*run)(struct job *j, size_t bytes);
} kinds[KINDS] = {
    { "linear", linear }, { "2dh", staged }, { "levels", two_levels }, { "rings", rings }
};

/* At one date on every rank: after a barrier the last would begin a latency later than the first.
 */
static double start_together(void)
{
    double now = MPI_Wtime(), latest;

    MPI_Allreduce(&now, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    latest += 0.01;
    usleep((useconds_t)((latest - MPI_Wtime()) * 1e6));
    return MPI_Wtime();
}

int main(int argc, char **argv)
{
    static struct job j;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.ranks);
    j.per_node = atoi(argv[1]);
    for (int i = 3; i < argc; i++)
        for (size_t k = 0; k < (j.ranks > GATHER_RANKS_MOST ? 2 : KINDS); k++) {
            size_t bytes = (size_t)atoll(argv[i]);
            double begin, end, last;

            /* Nobody looks at what is sent: one room of the largest message for all. */
            j.send = SMPI_SHARED_MALLOC(bytes / (size_t)j.per_node);
            j.recv = SMPI_SHARED_MALLOC(bytes / (size_t)j.per_node);
            begin = start_together();
            kinds[k].run(&j, bytes);
            end = MPI_Wtime();
            MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (!j.rank)
                printf("%d %s %s %zu %.0f\n", j.ranks, argv[2], kinds[k].name, bytes,
                       (last - begin) * 1e9);
            SMPI_SHARED_FREE(j.send);
            SMPI_SHARED_FREE(j.recv);
        }
    MPI_Finalize();
    return 0;
}
