/* One process becomes the ranks of a host, and one more that waits for them. */
#ifndef FORKED_H
#define FORKED_H

/* In the environment: how many ranks are wanted (1), and in a rank which one it is. */
#define FORKED_RANKS "FORKED_RANKS"
#define FORKED_RANK "FORKED_RANK"

/* Returns in every rank, with its number; in none if there is no room for another process: -1.  The
 * caller itself waits, and ends as mpirun would: with the first exit code of a rank that is not 0,
 * 128 + its number after a signal, and with none of the other ranks left.  Its end is theirs. */
int forked_start(int ranks);

#endif
