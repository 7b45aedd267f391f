/* The capacities of a training, step by step. */
#ifndef CAPACITY_TRACE_H
#define CAPACITY_TRACE_H

#include "moelookup.h"

#include <stddef.h>

enum { TRACE_CAPACITY_MOST = 1 << 24 };

struct capacity_trace {
    uint32_t *capacities; /* from 1 on */
    size_t steps;         /* one at least */
};

/* A capacity on each line, with comments after "#"; or what a gate chose, as counts_file.h has it:
 * then a step's capacity is the one that drops nothing.  ERR_ARGUMENT after a message that names
 * the line; ERR_IO. */
int capacity_trace_read(const char *path, const struct moe_shape *shape,
                        struct capacity_trace *out);

/* Two waves of the capacity factor, from 1 to 4.38 and back, as wide as in Tutel's Figure 1. */
#define SWING_MOST 4.38
double swing_factor(size_t step, size_t steps);
int capacity_trace_swing(const struct moe_shape *shape, size_t steps, struct capacity_trace *out);

void capacity_trace_free(struct capacity_trace *trace);

#endif
