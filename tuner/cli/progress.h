/* What a sweep says while it runs: one line on a terminal, a plain line every few seconds
 * elsewhere.  To standard error, so that results can be piped.  What fail() and note() say takes
 * the line's place; before something is printed, log_line_clear() clears it. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    bool terminal, quiet;
    int64_t begun_ns, shown_ns, leader_ns;
    uint32_t buckets, done, fresh; /* to measure in all, 0: not known; finished; measured now */
    bool compares; /* once measured they are compared as a whole, which takes about as long again */
    double compared;           /* of how many that is done; of those under way the part */
    char layer[160], now[160]; /* what is swept; what is measured */
    char leader[96];           /* of the bucket that is measured; "": none yet */
    uint64_t steps;            /* that were timed */
    int64_t deadline_ns;       /* on the host clock; 0: none */
};

void progress_open(struct progress *progress, bool quiet, const char *now);

/* Prints the line if it is time; `now`, as printf wants it, is what is measured. */
void progress_show(struct progress *progress, const char *now, ...)
    __attribute__((format(printf, 2, 3)));
void progress_tick(struct progress *progress); /* nothing new: keeps the clock alive */
/* Whether `leader` is worth finding out again: at most as often as it is shown. */
bool progress_wants_leader(struct progress *progress);

/* What time cut off, and about how long it would take: as each of those did that are done. */
void progress_left(size_t left, size_t all, const char *what, size_t done, double took_s, FILE *to);

#endif
