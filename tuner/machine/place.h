/* Where the ranks of a verb are to be, and what is there, before any of them is started. */
#ifndef PLACE_H
#define PLACE_H

#include "cluster.h"
#include "launch.h"
#include "verb.h"
#include "virtual_ranks.h"
#include "world.h"

/* What the command line says; 0 and NULL: nothing. */
struct place_setup {
    const char *hosts, *launcher_arguments, *device;
    uint32_t ranks, ranks_per_node, ranks_per_rack;
    bool oversubscribe;
    struct virtual_options virtual;
};

/* Options that fill struct place_setup, but for `hosts` and `virtual`, which has virtual_rows. */
extern const struct option_row place_rows[];
#define PLACE_DEFAULTS                                                                             \
    {                                                                                              \
        .device = "auto", .virtual = { .ctas = COPY_CTAS }                                         \
    }

/* The caller frees `hosts`, also after a failure. */
int place_find(const struct place_setup *setup, struct hosts *hosts, struct launch_where *where,
               struct cluster *here);

/* Before anything is measured there: see gpu_check_ready(). */
int place_check_ready(const struct place_setup *setup, const struct launch_where *where);

/* The same on ranks that run, for each of them the GPU it will use.  Collective. */
int place_check_ready_started(const struct place_setup *setup, struct world *world);

/* On a rank that a launcher started: ERR_ARGUMENT, on every rank after one message, for what it has
 * not done. */
int place_check_started(const struct place_setup *setup, const struct world *world);

/* A verb that only runs on ranks, with HOSTS as its argument if it takes one.  On one of them: what
 * it does in their world.  Elsewhere `check` (NULL: nothing) may say no before any rank is started;
 * then they are, with this very command line, and the return is EXIT_CODE_OF_RANKS + their exit
 * code (see verb.h), or an error. */
struct place_verb {
    int (*check)(const struct launch_where *where, const void *options);
    int (*on_rank)(struct world *world, const void *options);
    const void *options;
    bool measures; /* GPUs are to be ours alone */
};
int place_run(struct place_setup *setup, const struct verb_call *call,
              const struct place_verb *verb);

#endif
