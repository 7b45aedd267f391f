/* Where the ranks of a verb are to be, and what is there, before any of them is started. */
#ifndef PLACE_H
#define PLACE_H

#include "cluster.h"
#include "launch.h"
#include "virtual_ranks.h"

/* What the command line says; 0 and NULL: nothing. */
struct place_setup {
    const char *hosts, *launcher_arguments, *device;
    uint32_t ranks, ranks_per_node;
    struct virtual_options pretence;
};

/* The caller frees `hosts`, also after a failure. */
int place_find(const struct place_setup *setup, struct hosts *hosts, struct launch_where *where,
               struct cluster *here);

/* For verbs that only start ranks: --device as gpus_check_device() has it, where `hosts` (NULL:
 * none given) or an allocation say. */
int place_check_device(const char *device, const char *hosts);

/* How many ranks this machine has by itself: its GPUs, or 0 where they compute on its cores. */
uint32_t place_ranks(const char *device);

#endif
