/* Times our all-to-alls inside their stream, against every MPI_Alltoall algorithm of Open MPI on
 * the same buffers.  Started by mpirun with --mca coll_tuned_use_dynamic_rules 1. */
#include "a2a.h"
#include "engine.h"
#include "host.h"
#include "measure.h"
#include "stats.h"
#include "status.h"
#include "world.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALGORITHMS = 5, ROUNDS = 41, OURS = 2, ENTRANTS = OURS + ALGORITHMS };

static const char *const names[ENTRANTS] = { "linear",       "2dh",       "mpi:linear",
                                             "mpi:pairwise", "mpi:bruck", "mpi:linear_sync",
                                             "mpi:two_proc" };

static struct {
    struct world *world;
    struct engine engine;
    struct event *begin, *end;
    MPI_Comm comms[ALGORITHMS];
    bool enters[ENTRANTS];
    int rank, ranks;
} f;

/* One communicator for each algorithm: the choice is read when a communicator is made. */
static void make_communicators(void)
{
    MPI_T_cvar_handle handle;
    int level, index = 0, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    if (MPI_T_cvar_get_index("coll_tuned_alltoall_algorithm", &index) ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count))
        return;
    for (int i = 0; i < ALGORITHMS; i++) {
        int algorithm = i + 1;

        MPI_T_cvar_write(handle, &algorithm);
        MPI_Comm_dup(MPI_COMM_WORLD, &f.comms[i]);
        f.enters[OURS + i] = i != 4 || f.ranks == 2; /* two_proc is for two */
    }
    MPI_T_cvar_handle_free(&handle);
}

struct race {
    struct a2a *ours[OURS];
    void *send, *recv;
    size_t block_bytes;
    int entrant;
};

static void mpi_alltoall(const struct race *race)
{
    MPI_Alltoall(race->send, (int)race->block_bytes, MPI_BYTE, race->recv, (int)race->block_bytes,
                 MPI_BYTE, f.comms[race->entrant - OURS]);
}

static int64_t run_once(struct race *race)
{
    int64_t ns;

    /* Each is timed right behind a first call, which lines the ranks up where it runs: a barrier in
     * the main thread would leave the streams' threads asleep. */
    world_barrier(f.world);
    if (race->entrant < OURS) {
        a2a_run(race->ours[race->entrant], f.engine.comm);
        event_record(f.begin, f.engine.comm);
        a2a_run(race->ours[race->entrant], f.engine.comm);
        event_record(f.end, f.engine.comm);
        engine_sync(&f.engine);
        ns = event_ns(f.end) - event_ns(f.begin);
    } else {
        mpi_alltoall(race);
        ns = host_clock_ns();
        mpi_alltoall(race);
        ns = host_clock_ns() - ns;
    }
    world_max(f.world, &ns, 1);
    return ns;
}

static void run_race(size_t block_bytes)
{
    uint64_t block = block_bytes / 4;
    size_t all = (size_t)f.ranks * block_bytes;
    struct race race = { .send = malloc(all), .recv = malloc(all), .block_bytes = block_bytes };
    void *scratch = malloc(2 * all);
    int64_t samples[ENTRANTS][ROUNDS] = { { 0 } }, ratio[ROUNDS];
    double median[ENTRANTS];
    int best = -1;

    memset(race.send, 1, all);
    memset(race.recv, 1, all);
    for (uint32_t a = 0; a < OURS; a++) {
        struct a2a_call call = { f.engine.wire, MOE_F32, block, race.send, race.recv, scratch };

        if (f.enters[a] && a2a_open(a, &call, &race.ours[a]))
            exit(1);
    }
    for (int round = -3; round < ROUNDS; round++) {
        int order[ENTRANTS];

        measure_order(1, (uint64_t)(round + 3), ENTRANTS, order);
        for (int i = 0; i < ENTRANTS; i++) {
            int64_t ns;

            race.entrant = order[i];
            if (!f.enters[race.entrant])
                continue;
            ns = run_once(&race);
            if (round >= 0)
                samples[race.entrant][round] = ns;
        }
    }
    for (int i = 0; i < ENTRANTS; i++) {
        int64_t copy[ROUNDS];

        if (!f.enters[i])
            continue;
        memcpy(copy, samples[i], sizeof(copy));
        median[i] = (double)spread_of(copy, ROUNDS).median_ns;
        if (i >= OURS && (best < 0 || median[i] < median[best]))
            best = i;
    }
    for (int i = 0; i < ROUNDS && best >= 0; i++)
        ratio[i] = (int64_t)(1e6 * (double)samples[0][i] / (double)samples[best][i]);
    if (f.rank == 0) {
        struct spread s = spread_of(ratio, ROUNDS);

        printf("%8zu KiB per peer: linear %9.1f us, %.2f x the best [%.2f, %.2f], which is %s",
               block_bytes >> 10, median[0] * 1e-3, (double)s.median_ns * 1e-6,
               (double)s.low_ns * 1e-6, (double)s.high_ns * 1e-6, names[best]);
        if (f.enters[1])
            printf("; 2dh %9.1f us, %.2f x linear", median[1] * 1e-3, median[1] / median[0]);
        printf("\n");
        fflush(stdout);
    }
    for (int a = 0; a < OURS; a++)
        a2a_close(race.ours[a]);
    free(race.send), free(race.recv), free(scratch);
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoull(argv[1], NULL, 10) << 10 : 4u << 20;

    if (world_open(0, 0, &f.world) || engine_open(f.world, "host", NULL, &f.engine) ||
        event_open_dated(f.engine.device, &f.begin) || event_open_dated(f.engine.device, &f.end))
        return 1;
    f.rank = world_topology(f.world)->rank;
    f.ranks = world_topology(f.world)->ranks;
    f.enters[0] = true;
    f.enters[1] = topology_two_levels(world_topology(f.world));
    make_communicators();
    if (f.rank == 0)
        printf("%d ranks, %d per node; largest over the ranks, median of %d interleaved rounds\n",
               f.ranks, world_topology(f.world)->ranks_per_node, ROUNDS);
    for (size_t bytes = 1 << 10; bytes <= most; bytes *= 4)
        run_race(bytes);
    event_close(f.begin);
    event_close(f.end);
    for (int i = 0; i < ALGORITHMS; i++)
        if (f.enters[OURS + i])
            MPI_Comm_free(&f.comms[i]);
    MPI_T_finalize();
    engine_close(&f.engine);
    world_close(f.world);
    return 0;
}
