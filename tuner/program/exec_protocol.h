/* moetune tune --exec: a program runs its own layer, asks which plan to run, and tells how long it
 * took. */
#ifndef EXEC_PROTOCOL_H
#define EXEC_PROTOCOL_H

#include "tune_options.h"

/* How it asks and tells. */
extern const char *const exec_protocol_help;

/* Tunes in launches of the program until all that it asks for is decided or, without a space, until
 * it ends.  `command` is what to type to go on where time was too short. */
int exec_protocol(const struct tune_options *options, const char *command);

/* Where it runs, by what options say; and the cluster under whose name its table lies. */
struct cluster exec_machine(const struct place_setup *where);
int exec_cluster(const struct tune_request *request, const struct moe_shape *shape,
                 struct cluster *out);

#endif
