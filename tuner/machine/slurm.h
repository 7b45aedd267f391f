/* What Slurm says, in the environment, to a program that runs inside one of its jobs. */
#ifndef SLURM_H
#define SLURM_H

#include <stdbool.h>
#include <stdint.h>

/* True inside a job that says how many tasks each of its nodes has room for.  Its nodes are those
 * that ranks run on: under salloc not the machine that this program runs on. */
bool slurm_job(void);

/* How many ranks to start in this job's allocation, and how many of them on a node: `wanted`, or
 * all that it has room for when 0.  Nodes are filled one after the other, as mpirun does;
 * *ranks_per_node is 0 where they get different numbers.  Outside a job both are left alone.
 * ERR_ARGUMENT if several nodes have no room for so many, or in any task of srun but the first. */
int slurm_ranks(uint32_t wanted, uint32_t *ranks, uint32_t *ranks_per_node);

#endif
