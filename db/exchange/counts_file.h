/* How many tokens chose each expert, step by step, as trainers record it (moe_counts_step): what
 * --routing, `moetune capacities`, `report --counts` and `study trace` read.
 *
 * A file is JSON Lines, an object for each step, in the order of the steps of a run.  Members, in
 * any order; others and empty lines mean nothing:
 *
 *   "counts": [..E numbers..]   choices of each expert over all ranks, dropped or not
 *   "largest": [..E numbers..]  the largest over the ranks; one of both lists has to be there
 *   "ranks", "tokens"           of whom: W ranks of T tokens.  Where both are there counts have to
 *                               add up to W T k, where k is known
 *   "capacity"                  c of the step */
#ifndef COUNTS_FILE_H
#define COUNTS_FILE_H

#include <stdint.h>

enum { COUNTS_EXPERTS_MOST = 1 << 16 };

struct counts_line {
    const char *path;
    uint32_t number;                /* from 1 on */
    const double *counts, *largest; /* valid during the call; NULL: not given */
    uint32_t experts;               /* numbers in both */
    double ranks, tokens, capacity; /* whole numbers; 0: not given */
};

/* Hands the steps of a file to `on` one after the other, and holds one of them at a time; what `on`
 * returns, where that is not OK, ends it.  ERR_FORMAT or ERR_IO after a message with the line: no
 * JSON, no list, what is no number from 0 on, lists of two lengths, nothing counted, a file without
 * a step. */
int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self);

/* The same from a text, whose lines `path` stands for in messages. */
int counts_file_take(const char *text, const char *path,
                     int (*on)(void *self, const struct counts_line *line), void *self);

/* ERR_FORMAT after a message that says which line it is of how many counts. */
int counts_line_wrong(const struct counts_line *line, const char *fault);

#endif
