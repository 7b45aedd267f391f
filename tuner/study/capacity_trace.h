/* The capacity of each step of a training, for `study trace`: read from a file, or made up. */
#ifndef CAPACITY_TRACE_H
#define CAPACITY_TRACE_H

#include "moelookup.h"

#include <stddef.h>

enum { TRACE_CAPACITY_MOST = 1 << 24 };

/* capacity_trace_free() frees what a reader returned. */
struct capacity_trace {
    uint32_t *capacities; /* rows, at least 1 */
    size_t steps;         /* at least 1 */
};

/* Reads a file with a capacity on each line and comments after "#".  A file of counts that a gate
 * chose (counts_file.h) is read, too: a step's capacity is then the count of its fullest expert,
 * which drops nothing.  ERR_ARGUMENT after a message that names the line; ERR_IO. */
int capacity_trace_read(const char *path, const struct moe_shape *shape,
                        struct capacity_trace *out);

/* Returns the capacity factor of one step of a made-up training: two waves from 1 to 4.38 and back,
 * the range of Tutel's Figure 1. */
#define SWING_MOST 4.38
double swing_factor(size_t step, size_t steps);
/* Makes up the capacities of such a training of `shape`.  ERR_ARGUMENT for a shape with T=0. */
int capacity_trace_swing(const struct moe_shape *shape, size_t steps, struct capacity_trace *out);

void capacity_trace_free(struct capacity_trace *trace);

#endif
