/* The launcher that starts ranks: mpirun, or fork where moetune was built without an MPI.  The
 * build takes launcher_mpirun.c or launcher_fork.c.  Each also defines launch_is_rank() and
 * launch_is_later_rank(). */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include "launch.h"

#include <limits.h>

enum { LAUNCHER_ARGUMENTS = 128, ARGUMENTS_MAX = 256 };

/* The command line of a launch: the launcher's words, then the program's.  launch.c makes it before
 * it forks, because a forked child should not allocate, and frees it. */
struct command {
    const char *words[LAUNCHER_ARGUMENTS + ARGUMENTS_MAX + 1];
    int count;
    char ranks[16], self[PATH_MAX]; /* the number of ranks; the path of this program */
    char *hosts, *more;             /* texts that `words` point into; owned */
    bool bind;                      /* ranks bind themselves to cores */
};

/* Checks that this launcher can start ranks at `where`; may simplify *where.  ERR_ARGUMENT after a
 * message if it cannot. */
int launcher_check(struct launch_where *where);

/* Adds the launcher's own words to the command.  ERR_NOMEM or ERR_ARGUMENT after a message. */
int launcher_add_words(const struct launch_where *where, struct command *command);

/* Executes the launcher in the calling process.  Does not return: exit code 127 after a message if
 * that fails. */
void launcher_exec(const struct command *command);

#endif
