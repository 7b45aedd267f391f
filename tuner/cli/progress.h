/* The progress of a sweep on standard error: one line that is rewritten on a terminal, or a plain
 * line every few seconds.  A message of fail() or note() takes the line's place.  Before anything
 * else is printed, call log_progress_clear(). */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A plain value; the sweep writes its counts. */
struct progress {
    bool terminal, quiet;
    int64_t begun_ns, shown_ns, leader_ns; /* when it began, and last showed a line, a leader */
    uint32_t buckets, done, fresh; /* to do, 0: not known; finished; of these, measured now */
    bool compares; /* the table is compared in rounds afterwards, which takes about as long again */
    double compared;           /* buckets that were compared; parts count for those under way */
    char layer[160], now[160]; /* the layer that is swept, the plan that is measured */
    char leader[96];           /* the best plan so far in this bucket; "": none yet */
    uint64_t steps;            /* timed so far */
    int64_t deadline_ns;       /* on the host clock; 0: none */
};

/* Begins: `now` is what is done first. */
void progress_open(struct progress *progress, bool quiet, const char *now);

/* Prints the line if one is due; `now`, a format as for printf, is what is measured. */
void progress_show(struct progress *progress, const char *now, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints the line if one is due, with nothing new but the time. */
void progress_tick(struct progress *progress);
/* Whether the caller should find the leader again: true as often as a line is due. */
bool progress_wants_leader(struct progress *progress);

/* Prints how many of `total` things are left when time ran out, and about how long they would take:
 * as long as each of the `done` ones did.  `what` names the things, for instance "entries". */
void progress_left(size_t left, size_t total, const char *what, size_t done, double took_s,
                   FILE *out);

#endif
