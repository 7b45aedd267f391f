/* Injected faults, for tests of what happens when the n-th call fails.
 *
 * MOETUNE_FAULT="point:n[+][@rank][,...]", for example "alloc:3@1,exchange:20": the n-th passage
 * of the point on that rank (default: every rank) fails; with +, and every later one.  What
 * follows a ";" is for the ranks that take the place of lost ones.  Points: alloc, exchange, wrong,
 * large (wrong at the layer's real size alone), hang, crash; throttle, disturb: a step takes twice
 * as long, for heat, or because other processes take half of it; late: the host queues a step that
 * is held for longer than the hold lasts.
 *
 * pace:N is no fault: each matrix product on the host takes N percent of its time, as on slower
 * cores. */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

/* Reads the environment.  ERR_ARGUMENT on a malformed list. */
int fault_setup(int rank);

/* Leaves in the environment what is for the ranks that are started next. */
void fault_next_ranks(void);

/* True when this passage is to fail. */
bool fault_hit(const char *point);

/* In percent: what each product of this rank is to take of its time, 100 or more. */
int fault_pace(void);

/* True when some passage is, on some rank: the same on all ranks. */
bool fault_expected(const char *point);

#endif
