/* Where the ranks of a verb are to be, and what is there, before any of them is started. */
#ifndef PLACE_H
#define PLACE_H

#include "cluster.h"
#include "launch.h"
#include "virtual_ranks.h"
#include "world.h"

/* What the command line says; 0 and NULL: nothing. */
struct place_setup {
    const char *hosts, *launcher_arguments, *device;
    uint32_t ranks, ranks_per_node;
    bool oversubscribe;
    struct virtual_options virtual;
};

/* Options that fill struct place_setup, but for `hosts` and `virtual`, which has virtual_rows. */
extern const struct option_row place_rows[];
#define PLACE_DEFAULTS                                                                             \
    {                                                                                              \
        .device = "auto"                                                                           \
    }

/* The caller frees `hosts`, also after a failure. */
int place_find(const struct place_setup *setup, struct hosts *hosts, struct launch_where *where,
               struct cluster *here);

/* For verbs that only run on ranks: where those would be started.  The caller frees `hosts`,
 * also after a failure. */
int place_launch(const struct place_setup *setup, struct hosts *hosts, struct launch_where *where);

/* Starts them there: with this very command line, which then finds itself on a rank.
 * EXIT_CODE_OF_RANKS + their exit code (see verb.h), or an error. */
int place_run(const struct place_setup *setup, char **argv);

/* On a rank: ERR_ARGUMENT, on every rank after one message, for what the launcher has not done. */
int place_check_started(const struct place_setup *setup, const struct world *world);

/* On such a rank: what it does in their world. */
int place_join(const struct place_setup *setup,
               int (*on_rank)(struct world *world, const void *options), const void *options);

#endif
