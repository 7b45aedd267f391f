/* moetune tune --exec: a program runs its own layer, asks which plan to run, and tells how long it
 * took. */
#ifndef INTERVIEW_H
#define INTERVIEW_H

#include "tune_options.h"

/* How it asks and tells. */
extern const char *const interview_help;

/* Until the program ends, and it is started anew where a plan ended it. */
int interview(const struct tune_options *options);

#endif
