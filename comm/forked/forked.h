/* Makes one process the parent of a host's ranks, for builds without MPI. */
#ifndef FORKED_H
#define FORKED_H

/* Environment variables: the number of ranks to start (default 1), and in each rank its number. */
#define FORKED_RANKS "FORKED_RANKS"
#define FORKED_RANK "FORKED_RANK"

/* Forks `ranks` ranks, and returns in each of them with its number.  The calling process does not
 * return: it waits for the ranks and exits as mpirun would.  Its exit code is the first one of a
 * rank that is not 0 (128 + its number after a signal), and it kills the other ranks first.  If the
 * calling process dies, its ranks die, too.  -1, in the calling process: it could not fork. */
int forked_start(int ranks);

#endif
