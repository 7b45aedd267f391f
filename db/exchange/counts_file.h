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

#include <stddef.h>
#include <stdint.h>

enum { COUNTS_EXPERTS_MOST = 1 << 16 };

/* ---- one step after the other */

struct counts_line {
    const char *path;
    uint32_t number;                /* from 1 on */
    const double *counts, *largest; /* valid during the call; NULL: not given */
    uint32_t experts;               /* numbers in both */
    double sum, most;               /* of counts: all of them, and the largest one */
    double ranks, tokens, capacity; /* whole numbers; 0: not given */
};

/* Hands the steps of a file to `on` one after the other, and holds one of them at a time; what `on`
 * returns, where that is not OK, ends it.  ERR_FORMAT or ERR_IO after a message with the line: no
 * JSON, no list, what is no number from 0 on, lists of two lengths, nothing counted, a file without
 * a step. */
int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self);

/* ---- all steps at once, whose memory grows with the file */

struct counts_trace {
    uint32_t experts, ranks;
    size_t steps;
    uint32_t *counts; /* (steps, E): choices of an expert, the largest over ranks */
    double choices;   /* of one rank in one step, k T: their mean */
};

/* The largest over ranks is taken to be the mean, rounded up, unless "largest" says it.  The first
 * line says how many experts there are.  ERR_FORMAT or ERR_IO after a message that names the line;
 * *out is freed by counts_free. */
int counts_read(const char *path, uint32_t ranks, struct counts_trace *out);
/* The same of a text, for which `path` stands in messages. */
int counts_parse(const char *text, const char *path, uint32_t ranks, struct counts_trace *out);
void counts_free(struct counts_trace *trace);

#endif
