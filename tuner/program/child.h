/* Somebody else's program: started, spoken to in lines, ended. */
#ifndef CHILD_H
#define CHILD_H

#include "launch.h"

#include <stdio.h>

struct child {
    struct launched talk;      /* its process is the program's keeper */
    int its_input, its_output; /* kept open, so that whatever it starts can open them by name */
    bool stopped;              /* it did not end by itself */
};

struct child_job {
    const char *command;
    const char *layer; /* as shape_format() writes it */
    uint32_t window;
    const char *space, *plan; /* its space, and the values of this launch; NULL: none */
    FILE *errors;             /* what it says on standard error goes there; NULL: to ours */
};

/* Runs the command by /bin/sh in a process group of its own, below a keeper: where this process is
 * killed, so is all that it started.  It finds our lines at the descriptor
 * $MOETUNE_FROM_FD and its own at $MOETUNE_TO_FD; launchers that close descriptors leave it the
 * files $MOETUNE_FROM and $MOETUNE_TO, which are the same.  $MOETUNE_WINDOW: the width of a bucket,
 * within which an answer holds.  $MOETUNE_LAYER: the layer, so that a program that runs another one
 * can say so.  $MOETUNE_SPACE, $MOETUNE_PLAN: the text of the space that it declared, and what this
 * launch has of it. */
int child_start(const struct child_job *job, struct child *out);

/* A line; UNSUPPORTED: nothing came in a while, a short one where it is `about_to_end`. */
int child_read(struct child *child, bool about_to_end, char *line, size_t size);
int child_write(struct child *child, const char *line); /* ERR_LAUNCH: it does not listen */

bool child_ended(const struct child *child);

/* Tells it to end, unless it has ended or was told. */
void child_stop(struct child *child);

/* Stops it, waits, and ends it with all that it started; says how it ended.  *exit_code is -1 if it
 * was not by itself. Nothing if it was never started. */
void child_end(struct child *child, int *exit_code, char *how, size_t size);

#endif
