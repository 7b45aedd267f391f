/* The ranks as a whole, on MPI or what stands for it (comm/forked): who they are, and how they
 * agree.
 *
 * All waiting is done here and in the wire, by testing and giving way.  Open MPI's own
 * mpi_yield_when_idle must stay off: it yields inside each test, and a yield beside a busy kernel
 * costs a scheduler's slice.
 *
 * Every function but the alarm is collective: all ranks call it, in the same order, while their
 * streams are idle (only one thread of a rank is ever inside MPI). */
#ifndef WORLD_H
#define WORLD_H

#include "topology.h"

#include <stddef.h>
#include <stdint.h>

struct world;

/* Starts MPI.  ranks_per_node > 0 overrides what MPI finds (to test two levels on one machine);
 * ranks_per_rack > 0 says what MPI cannot find.  ERR_ARGUMENT if they do not divide the ranks. */
int world_open(int ranks_per_node, int ranks_per_rack, struct world **out);
void world_close(struct world *world); /* ends MPI; NULL is fine */

/* Without MPI: the caller stands for every rank of a topology that is only modelled. */
int world_alone(const struct topology *topology, struct world **out);

/* "Open MPI 4.1", "copies between processes" (by fork); may be asked before MPI starts. */
void world_library(char *text, size_t size);

/* What all processes of this machine read alike, and those of no other ("": unknown): a container
 * may have its own host name on a machine that it shares.  Local. */
void world_machine(char *id, size_t size);

const struct topology *world_topology(const struct world *world);

/* Ranks of this job that share this machine with the caller, itself included. */
int world_neighbours(const struct world *world);

/* True where there are fewer than two cores per rank: kernels, messages and other ranks share one,
 * and whoever waits must give way. */
int world_crowded(const struct world *world);
/* Whole cores that this rank and its neighbours may use, as they were when it joined. */
int world_cores(const struct world *world);

/* Every rank brings its status and gets the same one: the worst error if there is any, else
 * UNSUPPORTED if any rank said so, else OK. */
int world_settle(struct world *world, int status);

int world_barrier(struct world *world);
int world_max(struct world *world, int64_t *values, int n); /* in place */
int world_sum(struct world *world, int64_t *values, int n);
int world_broadcast(struct world *world, void *data, size_t bytes); /* from rank 0 */

/* A broadcast from rank 0 that may be long in coming: who waits sleeps. */
int world_receive_order(struct world *world, void *order, size_t bytes);
int world_gather(struct world *world, const void *mine, void *all, size_t bytes); /* to all */

/* Ends every rank's wait inside an exchange: called by a rank that cannot take part in one. */
void world_alarm(struct world *world);
int world_alarmed(struct world *world); /* 1 once any rank has raised the alarm */

/* For wires of this folder: a communicator of its own (an MPI_Comm). */
int world_channel(struct world *world, void *mpi_comm);
int world_check(int mpi_code, const char *call); /* MPI's code as a status */

#endif
