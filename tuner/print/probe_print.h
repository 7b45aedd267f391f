/* What a probe says, to standard output. */
#ifndef PROBE_PRINT_H
#define PROBE_PRINT_H

#include "probe.h"

/* Prints the text of a cluster, with what it was read from in comments, or a JSON object.  Unequal
 * ranks are also named on standard error. */
int probe_print(const struct probe *probe, bool json);

#endif
