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

struct world;

/* For the wires of a world: its alarm, and the longest that any exchange of a step may take. */
struct watch watch_of(struct world *world);

#endif
