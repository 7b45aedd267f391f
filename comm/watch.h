/* Waiting for what other ranks may never do: polls, and gives up instead of waiting for ever. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* What ends a wait before its time. */
struct watch {
    int (*alarmed)(void *self); /* 1 once another rank can take part no more; NULL: nobody says */
    void *self;
    int64_t limit_ns; /* of one wait */
    bool gives_way;   /* to others between polls: fewer cores than threads that wait */
};

/* Until `look` says OK; UNSUPPORTED means not yet, an error ends the wait.  ERR_WIRE when the alarm
 * is raised (silently: who raised it has said why) or the limit has passed (said here, with
 * `what`). */
int watch_until(const struct watch *watch, int (*look)(void *self), void *self, const char *what);

/* A thread that ends a call in which its owner waits for others without looking. */
struct guard;

/* `cut` is called by that thread, between guard_begin() and guard_end(), as soon as watch_until()
 * would give up; it makes the call come back, and may go on when it has. */
int guard_open(const struct watch *watch, void (*cut)(void *self), void *self, struct guard **out);
void guard_close(struct guard *guard); /* NULL is fine */

/* Around one call; `what` as above. */
void guard_begin(struct guard *guard, const char *what);
int guard_end(struct guard *guard);   /* ERR_WIRE: it was cut */
void guard_rest(struct guard *guard); /* waits for a cut that goes on; NULL is fine */

struct world;

/* For the wires of a world: its alarm, and the longest that any exchange of a step may take. */
struct watch watch_of(struct world *world);

#endif
