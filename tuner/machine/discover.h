/* What the ranks stand on: every host describes itself, and the ranks compare. */
#ifndef DISCOVER_H
#define DISCOVER_H

#include "launch.h"
#include "machine.h"
#include "world.h"

#include <stdio.h>

struct discovery {
    struct cluster cluster;
    struct host_facts *facts; /* one per rank */
    uint32_t ranks;
    int64_t clock_skew_us; /* between the hosts' clocks, at most */
};

/* Collective; the same on every rank.  device: see gpus_agree_device().  ranks_per_node > 0: a
 * virtual, see world_open. */
int discover(struct world *world, const char *device, uint32_t ranks_per_node,
             struct discovery *out);
void discovery_free(struct discovery *discovery);

/* Says how hosts differ.  ERR_LAUNCH if they do not run the same program and libraries. */
int discovery_check(const struct discovery *discovery);

/* One comment line per host: "# host a, ranks 0-3: ...". */
void discovery_print_hosts(const struct discovery *discovery, FILE *to);

/* For a process that is no rank: the cluster that ranks at that place would find.  Ranks are
 * started to say so only where they may lie on other hosts; then a host that cannot be reached is
 * named. ERR_ARGUMENT: ranks_per_node (0: as found) does not divide them. */
int discover_place(const struct launch_where *where, const char *device, uint32_t ranks_per_node,
                   uint32_t ranks_per_rack, struct cluster *out);

#endif
