/* moetune tune --exec: a program runs its own layer, asks which plan to run, and tells how long it
 * took. */
#ifndef EXEC_PROTOCOL_H
#define EXEC_PROTOCOL_H

#include "tune_options.h"

/* How it asks and tells. */
extern const char *const exec_protocol_help;

/* Tunes in launches of the program until all that it asks for is decided or, without a space, until
 * it ends.  argv is the command line behind the program's name, for what to type to go on. */
int exec_protocol(const struct tune_options *options, char **argv);

/* Where it runs, by what options say, on one rank if they name a space and no layer; and the
 * cluster under whose name its table lies. */
struct cluster exec_machine(const struct tune_options *options);
int exec_cluster(const struct tune_request *request, const struct moe_shape *shape,
                 struct cluster *out);

#endif
