/* Injected faults: tests make the n-th call of a point fail and look at what happens.
 *
 * The environment variable has the form MOETUNE_FAULT="point:n[+][@rank][,...]", for example
 * "alloc:3@1,exchange:20". On that rank (default: every rank) the n-th passage of the point fails;
 * with +, also every later one. The text after a ";" is for the ranks that replace lost ones.
 *
 * Points: alloc, exchange, wrong, large (wrong only at the layer's real size), hang, crash.
 * throttle: a step takes twice as long, as from heat. disturb: it does so as from other processes
 * that take half of the machine. late: the host queues a step later than the hold lasts.
 *
 * pace:N is no fault: each matrix product on the host takes N percent of its time, as on slower
 * cores. */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

/* Reads the variable; `rank` is this process's. ERR_ARGUMENT on a malformed list. */
int fault_setup(int rank);

/* Replaces the variable by the text after its ";", for the ranks that are started next. */
void fault_next_ranks(void);

/* Counts one passage of a point. Returns true when this passage must fail. */
bool fault_hit(const char *point);

/* Returns how long each product of this rank must take, in percent of its time: 100 or more. */
int fault_pace(void);

/* Returns whether some passage of the point fails on some rank: the same answer on all ranks. */
bool fault_expected(const char *point);

#endif
