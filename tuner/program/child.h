/* Starts somebody else's program, exchanges lines with it and ends it. */
#ifndef CHILD_H
#define CHILD_H

#include "launch.h"

#include <stdio.h>

/* A program that was started, below a keeper: a process of ours that starts the program, and that
 * kills all that the program leaves behind (keeper.h).  The caller owns it; child_end() empties it.
 */
struct child {
    struct launched keeper; /* the keeper's process, and our pipes to the program */
    /* Our copies of the program's ends of the pipes.  They stay open, so that the program's
     * children can open them by name. */
    int its_input, its_output;
    bool stopped; /* child_stop() has sent SIGTERM */
};

/* What to start.  All members are borrowed for the call. */
struct child_job {
    const char *command;
    const char *layer;        /* as shape_format() writes it */
    uint32_t window;          /* width of a bucket */
    const char *space, *plan; /* text of its space, and the launch values; NULL: none */
    FILE *standard_error;     /* gets its standard error; NULL: ours */
};

/* Runs the command by /bin/sh in a process group of its own, below a keeper.  If this process is
 * killed, the keeper kills all that the command started.
 *
 * The program reads our lines at the descriptor $MOETUNE_FROM_FD, and writes its own to
 * $MOETUNE_TO_FD.  The files $MOETUNE_FROM and $MOETUNE_TO are the same; they are for launchers
 * that close descriptors.  $MOETUNE_WINDOW is the width of a bucket: our answer to one key holds
 * for all keys of its bucket.
 * $MOETUNE_LAYER is the layer, so that a program that runs another one can refuse.  $MOETUNE_SPACE
 * is the text of the declared space, and $MOETUNE_PLAN has the launch values.
 *
 * ERR_LAUNCH, after a message, if there is no pipe or no process. */
int child_start(const struct child_job *job, struct child *out);

/* Reads a line.  UNSUPPORTED, which is no failure: no line came within 0.2 seconds, or within 0.01
 * seconds with `about_to_end`. */
int child_read(struct child *child, bool about_to_end, char *line, size_t size);
/* Writes a line.  ERR_LAUNCH: the program does not read. */
int child_write(struct child *child, const char *line);

/* Returns whether the program has ended.  Its last lines can still be read. */
bool child_ended(const struct child *child);

/* Sends SIGTERM once, unless the program has ended. */
void child_stop(struct child *child);

/* Stops the program, waits, and kills it with all that it started.  *exit_code is -1 if the program
 * did not end by itself.  `how` gets the end in a few words, as "the program ended with exit code
 * 3", cut to `size` bytes; 128 are enough.  Does nothing if the program was never started. */
void child_end(struct child *child, int *exit_code, char *how, size_t size);

#endif
