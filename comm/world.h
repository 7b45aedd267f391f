/* The ranks as a whole, on MPI or on its replacement comm/forked: where they run, and how they
 * agree on a status, a sum or a value.
 *
 * A rank waits by testing and yielding, only here and in the wire.  Open MPI's own
 * mpi_yield_when_idle must stay off: it yields inside each test, and a yield beside a busy kernel
 * costs a time slice of the scheduler.
 *
 * Every function that communicates, except the alarm's, is collective: all ranks call it, in the
 * same order, while their streams are idle (only one thread of a rank may be inside MPI). */
#ifndef WORLD_H
#define WORLD_H

#include "topology.h"

#include <stddef.h>
#include <stdint.h>

struct world;

/* Starts MPI, and finds the topology.  ranks_per_node > 0 replaces what MPI finds (to test two
 * levels on one machine); ranks_per_rack > 0 gives what MPI cannot find.  ERR_ARGUMENT: they do not
 * divide the ranks.  ERR_WIRE: MPI fails. */
int world_open(int ranks_per_node, int ranks_per_rack, struct world **out);
void world_close(struct world *world); /* ends MPI; NULL is fine */

/* Opens a world without MPI: the caller stands for all ranks of a modelled topology. */
int world_alone(const struct topology *topology, struct world **out);

/* Writes the name of the transport, "Open MPI 4.1" or "copies between processes" (comm/forked).  It
 * may be called before MPI starts. */
void world_library(char *text, size_t size);

/* Writes this machine's identity ("": unknown): all processes of one machine get the same text.  A
 * host name is no such identity, because a container may have its own.  Local. */
void world_machine(char *id, size_t size);

const struct topology *world_topology(const struct world *world);

/* Number of ranks of this job on the caller's machine, itself included. */
int world_neighbours(const struct world *world);

/* True where there are fewer than two cores per rank.  Kernels, messages and other ranks then share
 * cores, and a waiting thread must yield. */
int world_crowded(const struct world *world);

/* Number of whole cores that this rank and its neighbours may use, counted in world_open(). */
int world_cores(const struct world *world);

/* Agrees on one status: every rank gives its own, and all get the worst error; without an error
 * UNSUPPORTED if any rank gave that, else OK. */
int world_settle(struct world *world, int status);

/* Waits until all ranks have come. */
int world_barrier(struct world *world);

/* Replaces each of n values by its largest over all ranks. */
int world_max(struct world *world, int64_t *values, int n);

/* Replaces each of n values by its sum over all ranks. */
int world_sum(struct world *world, int64_t *values, int n);

/* Copies data from rank 0 to all ranks. */
int world_broadcast(struct world *world, void *data, size_t bytes);

/* The broadcast of an order that rank 0 may send much later; a waiting rank sleeps. */
int world_receive_order(struct world *world, void *order, size_t bytes);

/* Collects `bytes` from every rank, in rank order; every rank gets all. */
int world_gather(struct world *world, const void *mine, void *all, size_t bytes);

/* Raises the alarm, which ends every rank's wait inside an exchange.  A rank calls it when it
 * cannot take part in one.  Not collective. */
void world_alarm(struct world *world);

/* 1 once any rank has raised the alarm.  Not collective. */
int world_alarmed(struct world *world);

/* Makes a communicator (an MPI_Comm) for one wire of this folder. */
int world_channel(struct world *world, void *mpi_comm);

/* Turns the code of an MPI call into a status, with a message where it failed. */
int world_check(int mpi_code, const char *call);

#endif
