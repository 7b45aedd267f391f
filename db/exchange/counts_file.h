/* Reads how many tokens chose each expert, step by step, as trainers record it (moe_counts_step).
 * --routing, `moetune capacities`, `report --counts` and `study trace` read such files.
 *
 * A file is JSON Lines: an object for each step, in the order of the run.  Its members come in any
 * order; other members and empty lines are ignored:
 *
 *   "counts": [..E numbers..]   choices of each expert over all ranks, dropped or not
 *   "largest": [..E numbers..]  the largest over the ranks; one of both lists must be there
 *   "ranks", "tokens"           W ranks of T tokens.  Where both are there, counts must add up to
 *                               W T k, if k is known
 *   "capacity"                  c of the step */
#ifndef COUNTS_FILE_H
#define COUNTS_FILE_H

#include <stddef.h>
#include <stdint.h>

enum { COUNTS_EXPERTS_MOST = 1 << 16 };

/* ---- One step after the other. */

/* One step of a file, valid during the call of `on`. */
struct counts_line {
    const char *path;
    uint32_t number;                /* from 1 on */
    const double *counts, *largest; /* valid during the call; NULL: not given */
    uint32_t experts;               /* numbers in each list */
    double sum, most;               /* of counts: their sum, and the largest one */
    double ranks, tokens, capacity; /* whole numbers; 0: not given */
};

/* Passes the steps of a file to `on`, one after the other, and keeps only one in memory. Reading
 * ends when `on` returns anything but OK. ERR_FORMAT or ERR_IO after a message with the line: no
 * JSON, no list, a number below 0, lists of two lengths, nothing counted, or no step in the
 * file. */
int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self);

/* ---- All steps at once; the memory grows with the file. */

/* All steps of a file; counts_free() frees it. */
struct counts_trace {
    uint32_t experts, ranks;
    size_t steps;
    uint32_t *counts; /* (steps, E): choices of an expert, the largest over ranks */
    double choices;   /* of one rank in one step, k T: the mean over steps */
};

/* Reads a file. Without "largest" the largest over ranks is taken to be the mean, rounded up. The
 * first line says how many experts there are. ERR_FORMAT or ERR_IO after a message with the line.
 * The caller frees *out with counts_free(). */
int counts_read(const char *path, uint32_t ranks, struct counts_trace *out);
/* Does what counts_read() does with a text; `path` stands in messages. */
int counts_parse(const char *text, const char *path, uint32_t ranks, struct counts_trace *out);
void counts_free(struct counts_trace *trace);

#endif
