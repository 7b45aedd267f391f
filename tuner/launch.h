/* Starting ranks on this machine through mpirun. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* True when a launcher started this process as one of its ranks. */
bool launch_is_rank(void);

/* Runs this very program with the same arguments on `ranks` ranks and waits.  *exit_code is what
 * they ended with; ERR_LAUNCH if they could not be started, or ended by a signal. */
int launch_ranks(int ranks, char **argv, int *exit_code);

/* Ranks that were started and are spoken to: lines to rank 0's standard input, lines from its
 * standard output. */
struct launched {
    pid_t pid; /* of mpirun; 0: none */
    int to, from;
    char buffer[4096]; /* what was read and not yet handed out */
    size_t buffered;
};

/* Starts this program with `arguments` (argv[0] first) in a process group of its own, so that an
 * interrupt from the terminal reaches only the caller. */
int launch_start(int ranks, char **arguments, struct launched *out);

/* ERR_LAUNCH, silently, when the ranks are gone. */
int launch_write(struct launched *ranks, const char *line);

/* One line without its end.  Waits at most `timeout_ms`: UNSUPPORTED if nothing came;
 * ERR_LAUNCH, silently, when the ranks are gone. */
int launch_read(struct launched *ranks, int timeout_ms, char *line, size_t size);

/* Ends them, politely first if `gently`; says how they ended in a few words. */
void launch_end(struct launched *ranks, bool gently, char *how, size_t size);

#endif
