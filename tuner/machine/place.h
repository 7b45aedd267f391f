/* Decides where the ranks of a verb run, and finds out which cluster that is, before any rank
 * starts. */
#ifndef PLACE_H
#define PLACE_H

#include "cluster.h"
#include "launch.h"
#include "verb.h"
#include "virtual_ranks.h"
#include "world.h"

/* The options of the command line that say where ranks run.  A plain value; texts are borrowed.  0
 * and NULL: not given. */
struct place_setup {
    const char *hosts, *launcher_arguments, *device;
    uint32_t ranks, ranks_per_node, ranks_per_rack;
    bool oversubscribe;
    struct virtual_options virtual;
};

/* The options that fill struct place_setup, except `hosts` (an argument) and `virtual`
 * (virtual_rows). */
extern const struct option_row place_rows[];
#define PLACE_DEFAULTS                                                                             \
    {                                                                                              \
        .device = "auto", .virtual = {.ctas = COPY_CTAS }                                          \
    }

/* Finds where ranks run, and which cluster that is.  The caller frees `hosts`, also after a
 * failure. ERR_ARGUMENT, ERR_DEVICE or ERR_LAUNCH after a message. */
int place_find(const struct place_setup *setup, struct hosts *hosts, struct launch_where *where,
               struct cluster *here);

/* Checks, before ranks start, that the GPUs of this host are free to measure: see
 * gpu_check_ready(). */
int place_check_ready(const struct place_setup *setup, const struct launch_where *where);

/* Checks on running ranks that the GPU of each rank is free to measure: see gpu_check_ready().
 * Collective; the same status on every rank. */
int place_check_ready_started(const struct place_setup *setup, struct world *world);

/* On ranks that a launcher started: checks that the options fit the launched ranks.  ERR_ARGUMENT
 * on every rank, after one message. */
int place_check_started(const struct place_setup *setup, const struct world *world);

/* A verb that does all its work on ranks.  A plain value. */
struct place_verb {
    int (*check)(const struct launch_where *where,
                 const void *options); /* before ranks start; NULL: none */
    int (*on_rank)(struct world *world, const void *options);
    const void *options; /* for both; borrowed */
    bool measures;       /* then GPUs must be free: gpu_check_ready() */
};

/* Runs such a verb; its first argument, if any, is HOSTS.  On a rank: on_rank() in the ranks'
 * world. In another process: check(), then starts ranks with the same command line, and returns
 * EXIT_CODE_OF_RANKS + their exit code (see verb.h), or an error. */
int place_run(struct place_setup *setup, const struct verb_call *call,
              const struct place_verb *verb);

#endif
