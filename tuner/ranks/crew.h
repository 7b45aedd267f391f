/* The ranks as one thing that does what it is told, wherever they run: started here and watched,
 * around us under a launcher, or modelled.  Survives ranks that hang or die: new ones are started
 * and the layer is set up again. */
#ifndef CREW_H
#define CREW_H

#include "cluster.h"
#include "launch.h"
#include "virtual_ranks.h"
#include "work.h"

#include <signal.h>

struct crew;

struct crew_setup {
    struct launch_where where; /* for ranks that are started here */
    uint32_t ranks_per_node;   /* 0: as found */
    const char *device;
    struct virtual_options virtual;
    double timeout_s;    /* for one order */
    int64_t deadline_ns; /* on the host clock, for all; 0: none */
    /* Set by a signal, which may have hit the ranks too; NULL: by none. */
    const volatile sig_atomic_t *stop;
    void (*idle)(void *self); /* called about once a second while waiting; may be NULL */
    void *self;
};

/* Starts nothing before the first order. */
int crew_open_launched(const struct crew_setup *setup, struct crew **out);

/* Rank 0 of a world that a launcher started; the other ranks follow. */
int crew_open_around(struct world *world, const struct crew_setup *setup, struct crew **out);

int crew_open_model(const struct cluster *cluster, uint64_t seed, struct crew **out);
void crew_close(struct crew *crew); /* ends the ranks; NULL is fine */

/* OK with a reply, whatever became of the trial; TRIAL_TIMEOUT and TRIAL_CRASHED are made here.
 * ERR_CUT: a host is gone (said by name), the ranks ended because all of us are to stop, or the
 * deadline came (not before one step has been timed: each run is to get on; nor for ranks that a
 * launcher started): the plan is not to blame.  Another error: ranks cannot be had at all. */
int crew_do(struct crew *crew, const struct order *order, struct reply *reply);

#endif
