/* Finds out which cluster ranks run on: each rank describes its host, and all ranks compare. */
#ifndef DISCOVER_H
#define DISCOVER_H

#include "launch.h"
#include "machine.h"
#include "world.h"

#include <stdio.h>

/* What the ranks found.  discover() makes it whole; discovery_free() frees it. */
struct discovery {
    struct cluster cluster;
    struct host_facts *facts; /* one per rank; owned */
    uint32_t ranks;
    int64_t clock_skew_us; /* largest difference between the ranks' dates */
};

/* Has every rank describe its host, and gathers that.  Collective; the result is the same on every
 * rank.  device: see gpus_agree_device().  ranks_per_node > 0: pretend that nodes hold so many
 * ranks, as world_open() does. */
int discover(struct world *world, const char *device, uint32_t ranks_per_node,
             struct discovery *out);
/* Frees the facts; a zeroed discovery is fine. */
void discovery_free(struct discovery *discovery);

/* Prints how hosts differ.  ERR_LAUNCH if they do not run the same program and libraries. */
int discovery_check(const struct discovery *discovery);

/* Prints one comment line per host: "# host a, ranks 0-3: ...". */
void discovery_print_hosts(const struct discovery *discovery, FILE *to);

/* For a process that is no rank: finds the cluster that ranks at `where` would run on.  It starts
 * ranks only where they may run on other hosts; then it names each host that it cannot reach.
 * ERR_ARGUMENT: ranks_per_node (0: as found) does not divide the ranks.  ERR_LAUNCH: the ranks did
 * not start, or did not answer. */
int discover_place(const struct launch_where *where, const char *device, uint32_t ranks_per_node,
                   uint32_t ranks_per_rack, struct cluster *out);

#endif
