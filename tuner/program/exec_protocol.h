/* moetune tune --exec: a program runs its own layer, asks which plan to run, and tells how long it
 * took. */
#ifndef EXEC_PROTOCOL_H
#define EXEC_PROTOCOL_H

#include "tune_options.h"

/* How it asks and tells. */
extern const char *const exec_protocol_help;

/* Tunes until the program ends; it is started anew where a plan ended it. */
int exec_protocol(const struct tune_options *options);

#endif
