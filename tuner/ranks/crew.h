/* The crew: all ranks behind one function, crew_do(), which executes an order on them.  The crew
 * starts and watches the ranks; or a launcher has started them, and this process is one of them; or
 * they are modelled.  If ranks hang or die, the crew starts new ones and sets the layer up again.
 */
#ifndef CREW_H
#define CREW_H

#include "cluster.h"
#include "launch.h"
#include "virtual_ranks.h"
#include "work.h"

#include <signal.h>

/* The ranks and their state.  crew_open() makes it whole; crew_close() frees it. */
struct crew;

/* Which ranks to use: with `model`, those of a modelled cluster; else with `world`, ranks that a
 * launcher started, of which this process is rank 0 and the others follow; else ranks that the crew
 * starts at `where`.  Borrowed as long as the crew is open. */
struct crew_setup {
    struct world *world;         /* NULL: no launcher started ranks */
    const struct cluster *model; /* NULL: ranks are real */
    uint64_t seed;               /* of the model's noise */
    struct launch_where where;
    uint32_t ranks_per_node; /* 0: as found */
    uint32_t ranks_per_rack; /* 0: no racks */
    const char *device;
    struct virtual_options virtual;
    double timeout_s;    /* of one order */
    int64_t deadline_ns; /* of all orders, on the host clock; 0: none */
    /* A signal handler sets it; the signal may also have reached the ranks.  NULL: no handler. */
    const volatile sig_atomic_t *stop;
    void (*idle)(void *self); /* called about once a second while waiting; may be NULL */
    void *self;
};

/* Opens a crew; it starts no ranks before the first order.  ERR_NOMEM or an error of the ranks,
 * after a message. */
int crew_open(const struct crew_setup *setup, struct crew **out);
void crew_close(struct crew *crew); /* ends the ranks; NULL is fine */

/* Executes an order on all ranks.  OK: the reply says what became of it.  If the ranks hang or die,
 * the crew itself makes the reply, with TRIAL_TIMEOUT or TRIAL_CRASHED. ERR_CUT, where the plan is
 * not to blame: a host is gone (a message names it), the ranks ended because a signal stops the
 * whole job, or the deadline passed.  The deadline does not count before one step has been timed,
 * so that each run makes progress, nor for ranks that a launcher started. Another error: no ranks
 * can be started. */
int crew_do(struct crew *crew, const struct order *order, struct reply *reply);

/* Ends the ranks in good order; the next order launches new ones and sets the layer up again.
 * `number`: which launch comes next, 0 for that of the search; modelled ranks draw their difference
 * between launches by it.  New ranks keep the injected faults (fault.h), because none were lost.
 * UNSUPPORTED, and nothing changes, for ranks that a launcher started. */
int crew_relaunch(struct crew *crew, uint32_t number);

/* How long the last launch took until its first reply; 0: not launched yet, or not by the crew. */
int64_t crew_launch_ns(const struct crew *crew);

#endif
