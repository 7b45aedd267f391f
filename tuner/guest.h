/* Somebody else's program: started, spoken to in lines, ended. */
#ifndef GUEST_H
#define GUEST_H

#include "launch.h"

struct guest {
    struct launched talk;
    int its_input, its_output; /* kept open, so that whatever it starts can open them by name */
};

struct guest_job {
    const char *command;
    const char *layer; /* as shape_format() writes it */
    uint32_t window;
};

/* Runs the command by /bin/sh in a process group of its own.  It finds our lines at the descriptor
 * $MOETUNE_FROM_FD and its own at $MOETUNE_TO_FD; launchers that close descriptors leave it the
 * files $MOETUNE_FROM and $MOETUNE_TO, which are the same.  $MOETUNE_WINDOW: the width of a bucket,
 * within which an answer holds.  $MOETUNE_LAYER: the layer, so that a program that runs another one
 * can say so. */
int guest_start(const struct guest_job *job, struct guest *out);

/* A line; UNSUPPORTED: nothing came in a while. */
int guest_read(struct guest *guest, char *line, size_t size);
int guest_write(struct guest *guest, const char *line); /* ERR_LAUNCH: it does not listen */

bool guest_ended(const struct guest *guest);

/* Ends it with all that it started; says how it ended.  *exit_code is -1 if it was not by itself.
 * Nothing if it was never started. */
void guest_end(struct guest *guest, int *exit_code, char *how, size_t size);

#endif
