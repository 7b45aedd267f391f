/* How many cores and how much memory this process may use: the CPU affinity, and the limits of its
 * control groups (of a container, a batch job or a service).  /proc/meminfo and the list of
 * processors describe the whole machine, even inside a container. */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <stdint.h>

/* Number of whole cores that this process may use; at least 1. */
int allowance_cores(void);

/* Bytes of memory that this process can allocate now; INT64_MAX if unknown. */
int64_t allowance_free_bytes(void);

/* The limits of a process's control groups, of versions 1 and 2: the smallest of its own group and
 * of all groups above.  A plain value.  INT_MAX, INT64_MAX and 0 mean: no limit. */
struct allowance {
    int cores;            /* cpu.max in whole cores, rounded down but at least 1 */
    int64_t free_bytes;   /* memory.max less the memory in use that cannot be dropped */
    int64_t period_ns;    /* longest period of a quota in cpu.max; 0: there is no quota */
    int64_t throttled_ns; /* how long quotas have stopped these groups so far, on all cores */
};

/* The limits of this process. */
struct allowance allowance_here(void);

/* The limits in a tree of files that a test made, in place of "/". */
struct allowance allowance_under(const char *root);

#endif
