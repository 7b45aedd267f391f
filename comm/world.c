/* The ranks as a whole, by MPI: agreement, sums, broadcasts, gathers and the alarm. */
#include "world.h"

#include "allowance.h"
#include "host.h"
#include "status.h"
#include "watch.h"

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An open world; world_close() frees it. */
struct world {
    MPI_Comm control, alarm;
    struct topology topology;
    int neighbours;
    int cores;
    bool alarmed, raised; /* alarm: by any rank; by this rank */
    bool is_lost;         /* a rank did not come; collectives fail from now on */
    bool is_alone;        /* one process stands for all ranks, without MPI */
};

#define MPI(call) world_check((call), #call)

int world_check(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    if (code == MPI_SUCCESS)
        return OK;
    MPI_Error_string(code, text, &length);
    return fail(ERR_WIRE, "%s: %.*s", call, length, text);
}

/* A rank that waits for an order sleeps NAP_US between tests: long enough to cost nothing, and
 * short beside any step worth tuning. */
enum { NAP_US = 100, EAGER_TESTS = 1000, CLOCK_CHECK_TESTS = 256 };

/* Waits for a collective; with `may_sleep`, it sleeps between tests after a while. */
static int wait_for_collective(struct world *world, MPI_Request *request, bool may_sleep)
{
    int64_t alarmed_ns = 0;
    int done = 0;

    for (unsigned tests = 0;; tests++) {
        TRY(MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE)));
        if (done)
            return OK;
        /* After an alarm a rank may have ended; only the clock ends a wait for it. */
        if (world->alarmed && tests % CLOCK_CHECK_TESTS == CLOCK_CHECK_TESTS - 1) {
            alarmed_ns = alarmed_ns ? alarmed_ns : host_clock_ns();
            if (host_clock_ns() - alarmed_ns > watch_of(world).limit_ns) {
                world->is_lost = true;
                return fail(ERR_WIRE, "another rank does not answer: it has ended, or hangs");
            }
        }
        if (may_sleep && tests > EAGER_TESTS)
            usleep(NAP_US);
        else if (world_crowded(world))
            sched_yield();
    }
}

static int duplicate_world(MPI_Comm *out)
{
    TRY(MPI(MPI_Comm_dup(MPI_COMM_WORLD, out)));
    return MPI(MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN));
}

/* Sets ranks_per_node where the ranks of each node are consecutive and every node has the same
 * number of ranks; else 0. */
static int find_nodes(struct world *world)
{
    struct topology *t = &world->topology;
    MPI_Comm node;
    int first, local;
    int64_t
        largest[3]; /* over the ranks: ranks of a node, minus these, whether the order is wrong */

    TRY(MPI(MPI_Comm_split_type(world->control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node)));
    MPI_Comm_size(node, &world->neighbours);
    MPI_Comm_rank(node, &local);
    world->cores = allowance_cores();
    first = t->rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    largest[0] = world->neighbours;
    largest[1] = -world->neighbours;
    /* Each node's first rank must be a multiple, and its ranks must be consecutive. */
    largest[2] = first % world->neighbours != 0 || t->rank != first + local;
    TRY(world_max(world, largest, 3));
    t->ranks_per_node = largest[0] == -largest[1] && !largest[2] ? world->neighbours : 0;
    return OK;
}

/* Sets nodes and racks from the caller's numbers (0: none given).  Every rank decides the same, and
 * rank 0 prints what is wrong. */
static int override_levels(struct topology *t, int ranks_per_node, int ranks_per_rack)
{
    if (ranks_per_node > 0 && t->ranks % ranks_per_node) {
        if (t->rank == 0)
            note("--ranks-per-node %d does not divide the number of ranks, %d", ranks_per_node,
                 t->ranks);
        return ERR_ARGUMENT;
    }
    if (ranks_per_node > 0)
        t->ranks_per_node = ranks_per_node;
    t->ranks_per_rack = ranks_per_rack;
    if (ranks_per_rack == 0 || topology_three_levels(t))
        return OK;
    if (t->rank == 0)
        note("--ranks-per-rack %d: a rack must have several nodes of %d ranks, and the %d ranks "
             "must fill several racks",
             ranks_per_rack, t->ranks_per_node, t->ranks);
    return ERR_ARGUMENT;
}

int world_open(int ranks_per_node, int ranks_per_rack, struct world **out)
{
    struct world *world = calloc(1, sizeof(*world));
    int rc = OK, level;

    if (!world)
        return fail(ERR_NOMEM, "the world");
    world->control = world->alarm = MPI_COMM_NULL;
    TRY_OUT(MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)));
    if (level < MPI_THREAD_SERIALIZED) {
        rc = fail(ERR_WIRE, "this MPI lacks MPI_THREAD_SERIALIZED; moetune calls MPI from the "
                            "thread of a stream");
        goto out;
    }
    TRY_OUT(duplicate_world(&world->control));
    TRY_OUT(duplicate_world(&world->alarm));
    MPI_Comm_rank(world->control, &world->topology.rank);
    MPI_Comm_size(world->control, &world->topology.ranks);
    log_rank(world->topology.rank);
    TRY_OUT(find_nodes(world));
    TRY_OUT(override_levels(&world->topology, ranks_per_node, ranks_per_rack));
    *out = world;
    return OK;
out:
    world_close(world);
    return rc;
}

int world_alone(const struct topology *topology, struct world **out)
{
    struct world *world = calloc(1, sizeof(*world));

    if (!world)
        return fail(ERR_NOMEM, "the world");
    world->topology = *topology;
    world->neighbours = 1;
    world->cores = allowance_cores();
    world->is_alone = true;
    *out = world;
    return OK;
}

void world_close(struct world *world)
{
    int running = 0;

    if (!world)
        return;
    if (world->is_alone) {
        free(world);
        return;
    }
    MPI_Initialized(&running);
    if (running && !world->alarmed) {
        if (world->alarm != MPI_COMM_NULL)
            MPI_Comm_free(&world->alarm);
        if (world->control != MPI_COMM_NULL)
            MPI_Comm_free(&world->control);
    }
    if (running)
        MPI_Finalize();
    free(world);
}

const struct topology *world_topology(const struct world *world)
{
    return &world->topology;
}

int world_crowded(const struct world *world)
{
    return world->cores < 2 * world->neighbours;
}

int world_cores(const struct world *world)
{
    return world->cores;
}

int world_neighbours(const struct world *world)
{
    return world->neighbours;
}

int world_settle(struct world *world, int status)
{
    int64_t worst[2] = { -(int64_t)status, status }; /* an error; UNSUPPORTED */
    int rc = world_max(world, worst, 2);

    if (rc)
        return rc;
    return worst[0] > 0 ? -(int)worst[0] : (int)worst[1];
}

int world_barrier(struct world *world)
{
    MPI_Request request;

    if (world->is_alone || world->is_lost)
        return world->is_lost ? ERR_WIRE : OK;
    TRY(MPI(MPI_Ibarrier(world->control, &request)));
    return wait_for_collective(world, &request, false);
}

static int reduce(struct world *world, int64_t *values, int n, MPI_Op op)
{
    MPI_Request request;

    if (world->is_alone || world->is_lost)
        return world->is_lost ? ERR_WIRE : OK;
    TRY(MPI(MPI_Iallreduce(MPI_IN_PLACE, values, n, MPI_INT64_T, op, world->control, &request)));
    return wait_for_collective(world, &request, false);
}

int world_max(struct world *world, int64_t *values, int n)
{
    return reduce(world, values, n, MPI_MAX);
}

int world_sum(struct world *world, int64_t *values, int n)
{
    return reduce(world, values, n, MPI_SUM);
}

static int broadcast(struct world *world, void *data, size_t bytes, bool may_sleep)
{
    MPI_Request request;

    if (world->is_alone || world->is_lost)
        return world->is_lost ? ERR_WIRE : OK;
    TRY(MPI(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, world->control, &request)));
    return wait_for_collective(world, &request, may_sleep);
}

int world_broadcast(struct world *world, void *data, size_t bytes)
{
    return broadcast(world, data, bytes, false);
}

int world_receive_order(struct world *world, void *order, size_t bytes)
{
    return broadcast(world, order, bytes, true);
}

void world_library(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, major = 0, minor = 0;

    MPI_Get_library_version(version, &length);
    if (sscanf(version, "Open MPI v%d.%d", &major, &minor) == 2)
        snprintf(text, size, "Open MPI %d.%d", major, minor);
    else
        snprintf(text, size, "%.*s", (int)strcspn(version, ",\n"), version);
}

void world_machine(char *id, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    *id = 0;
    if (file && !fgets(id, (int)size, file))
        *id = 0;
    if (file)
        fclose(file);
}

int world_gather(struct world *world, const void *mine, void *all, size_t bytes)
{
    MPI_Request request;

    if (world->is_alone) {
        memcpy(all, mine, bytes);
        return OK;
    }
    if (world->is_lost)
        return ERR_WIRE;
    TRY(MPI(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, world->control,
                           &request)));
    return wait_for_collective(world, &request, false);
}

void world_alarm(struct world *world)
{
    /* An empty message completes without a receiver, so this rank need not wait. */
    for (int peer = 0; peer < world->topology.ranks && !world->raised; peer++) {
        MPI_Request request;

        if (peer != world->topology.rank &&
            MPI_Isend(NULL, 0, MPI_BYTE, peer, 0, world->alarm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
    world->raised = world->alarmed = true;
}

int world_alarmed(struct world *world)
{
    int has_message = 0;

    if (!world->alarmed && !world->is_alone &&
        MPI_Iprobe(MPI_ANY_SOURCE, 0, world->alarm, &has_message, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        world->alarmed = has_message != 0;
    return world->alarmed;
}

int world_channel(struct world *world, void *mpi_comm)
{
    (void)world;
    return duplicate_world(mpi_comm);
}
