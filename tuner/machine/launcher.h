/* What brings ranks to life: mpirun, or a fork where moetune was built without an MPI.  Which of
 * the two is decided when it is built: launcher_mpirun.c or launcher_fork.c.  They also define
 * launch_is_rank() and launch_is_later_rank(). */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include "launch.h"

#include <limits.h>

enum { LAUNCHER_ARGUMENTS = 128, ARGUMENTS_MAX = 256 };

/* A command line, made before a fork: the launcher's words, then the program's. */
struct command {
    const char *words[LAUNCHER_ARGUMENTS + ARGUMENTS_MAX + 1];
    int count;
    char ranks[16], self[PATH_MAX];
    char *hosts, *more; /* owned */
    bool bind;          /* ranks are to bind themselves */
};

/* ERR_ARGUMENT after a message where it cannot start ranks there; may make the place plainer. */
int launcher_check(struct launch_where *where);

/* Its own words. */
int launcher_words(const struct launch_where *where, struct command *command);

/* In a process of its own.  Does not return. */
void launcher_become(const struct command *command);

#endif
