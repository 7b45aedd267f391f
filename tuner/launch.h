/* Starting ranks on this machine through mpirun. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>

/* True when a launcher started this process as one of its ranks. */
bool launch_is_rank(void);

/* Runs this very program with the same arguments on `ranks` ranks and waits.  *exit_code is what
 * they ended with; ERR_LAUNCH if they could not be started, or ended by a signal. */
int launch_ranks(int ranks, char **argv, int *exit_code);

#endif
