/* `moetune tune --exec`: a program runs its own layer, asks which plan to run, and tells how long
 * the step took. */
#ifndef EXEC_PROTOCOL_H
#define EXEC_PROTOCOL_H

#include "tune_options.h"

/* The help text about the lines of the program, and about its launches. */
extern const char *const exec_protocol_help;

/* Launches the program, and tunes it.  With a space it goes on until all that the program asks for
 * is decided; without one until the program ends.  argv is the command line behind the program's
 * name: messages say how to go on with it.  Returns a status, after its message. */
int exec_protocol(const struct tune_options *options, char **argv);

/* Returns the cluster that the options describe.  With a space and no layer it has one rank. */
struct cluster exec_machine(const struct tune_options *options);
/* Finds the cluster under whose name the program's table lies. */
int exec_cluster(const struct tune_request *request, const struct moe_shape *shape,
                 struct cluster *out);

#endif
