/* What this process may use of its machine: the affinity it was given, and the limits of its
 * control groups (a container's, a batch job's, a service's).  /proc/meminfo and the list of
 * processors tell of the whole machine, whatever a container was given. */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <stdint.h>

/* Whole cores; at least 1. */
int allowance_cores(void);

/* Memory that can be had now; INT64_MAX if it cannot be told. */
int64_t allowance_free_bytes(void);

/* What control groups say, of versions 1 and 2, and of every level above the process's own; of this
 * machine, or of a tree of a test's own in place of "/".  INT_MAX, INT64_MAX and 0: nothing. */
struct allowance {
    int cores;          /* cpu.max; a part of a core does not count, save the only one */
    int64_t free_bytes; /* memory.max less what is in use and cannot be dropped */
    int64_t period_ns;  /* of the quota in cpu.max, the longest; 0: there is none */
    int64_t held_ns;    /* for which quotas have held back these groups so far, on all cores */
};
struct allowance allowance_here(void);
struct allowance allowance_under(const char *root);

#endif
