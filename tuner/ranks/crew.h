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

/* The ranks are those of a world that a launcher started, of which this is rank 0 and the others
 * follow; or those of a modelled cluster; or they are started here, at `where`. */
struct crew_setup {
    struct world *world;         /* borrowed; NULL: there is none */
    const struct cluster *model; /* NULL: none */
    uint64_t seed;               /* of the model's noise */
    struct launch_where where;
    uint32_t ranks_per_node; /* 0: as found */
    uint32_t ranks_per_rack; /* 0: none */
    const char *device;
    struct virtual_options virtual;
    double timeout_s;    /* for one order */
    int64_t deadline_ns; /* on the host clock, for all; 0: none */
    /* Set by a signal, which may have hit the ranks too; NULL: by none. */
    const volatile sig_atomic_t *stop;
    void (*idle)(void *self); /* called about once a second while waiting; may be NULL */
    void *self;
};

/* Starts no ranks before the first order. */
int crew_open(const struct crew_setup *setup, struct crew **out);
void crew_close(struct crew *crew); /* ends the ranks; NULL is fine */

/* OK with a reply, whatever became of the trial; TRIAL_TIMEOUT and TRIAL_CRASHED are made here.
 * ERR_CUT: a host is gone (said by name), the ranks ended because all of us are to stop, or the
 * deadline came (not before one step has been timed: each run is to get on; nor for ranks that a
 * launcher started): the plan is not to blame.  Another error: ranks cannot be had at all. */
int crew_do(struct crew *crew, const struct order *order, struct reply *reply);

/* Ends the ranks in good order: the next order starts new ones, which are told the layer first.
 * `number`: which launch they are, 0 that of the search; modelled ranks draw their luck by it, and
 * where none have run yet, that is all.  Ranks are not lost by it: their faults (fault.h) are those
 * of the next ones, too.  UNSUPPORTED, and nothing has changed, for ranks around us, which somebody
 * else has launched. */
int crew_relaunch(struct crew *crew, uint32_t number);

/* What the last launch took until its first answer; 0: modelled, around us, or none yet. */
int64_t crew_launch_ns(const struct crew *crew);

#endif
