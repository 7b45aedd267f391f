/* Waits for other ranks: polls, and gives up when another rank has raised the alarm or too much
 * time has passed. */
#ifndef WATCH_H
#define WATCH_H

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

/* The conditions that end a wait early.  A plain value. */
struct watch {
    int (*alarmed)(void *self); /* 1 once another rank cannot take part any more; NULL: no alarm */
    void *self;
    int64_t limit_ns; /* longest wait */
    bool yields; /* yields the core between polls: there are fewer cores than waiting threads */
};

/* What a poll returns while the caller must wait on. */
enum { POLL_AGAIN = UNSUPPORTED };

/* Calls `poll` until it returns OK.  POLL_AGAIN: it calls again.  An error ends the wait.
 * ERR_WIRE: the alarm is raised (no message: the rank that raised it has printed the reason), or
 * the limit has passed (with a message that names `what`). */
int watch_until(const struct watch *watch, int (*poll)(void *self), void *self, const char *what);

/* A second thread that watches a call of a library which may never come back. */
struct guard;

/* Starts the thread.  Between guard_begin() and guard_end() it calls `interrupt` as soon as
 * watch_until() would give up.  `interrupt` must make the library's call come back; it may still
 * run after that. */
int guard_open(const struct watch *watch, void (*interrupt)(void *self), void *self,
               struct guard **out);
void guard_close(struct guard *guard); /* NULL is fine */

/* Begins to watch one call; `what` names it in the message. */
void guard_begin(struct guard *guard, const char *what);

/* Ends it.  ERR_WIRE: the call was interrupted. */
int guard_end(struct guard *guard);

/* Waits until an `interrupt` that runs has ended; NULL is fine. */
void guard_wait_interrupt(struct guard *guard);

struct world;

/* The watch of a world's wires: the world's alarm, and the longest time that any exchange of a step
 * may take. */
struct watch watch_of(struct world *world);

#endif
