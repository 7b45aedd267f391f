/* What strategies did, as lines of a table. */
#ifndef TALLY_H
#define TALLY_H

#include "outcomes.h"

extern const char *const summary_heading; /* a format */
void summary_print(const char *name, struct summary *s);

#endif
