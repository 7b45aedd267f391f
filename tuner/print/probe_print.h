/* What a probe says, to standard output. */
#ifndef PROBE_PRINT_H
#define PROBE_PRINT_H

#include "probe.h"

/* As the text of a cluster, with what it was read from in comments, or as a JSON object.  Unequal
 * ranks are a remark on standard error too. */
int probe_print(const struct probe *probe, bool json);

#endif
