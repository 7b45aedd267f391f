/* Products that stand for attention: what a model computes between its MoE layers, and what hides
 * their exchanges.  Before each layer of a forward pass as many operations as asked for, after it
 * in a backward pass twice as many. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "arena.h"
#include "device.h"

#include <stdbool.h>

/* A square matrix times another, again and again; `side` 0: nothing is asked for. */
struct attention {
    double operations;
    uint64_t side;
    uint32_t dtype; /* compute type */
    void *a, *b, *c;
};

/* gflop: 1e9 operations of one forward pass of one layer. */
void attention_layout(struct attention *attention, double gflop, uint32_t compute_type,
                      struct arena *arena);

/* Its factors are set: on some processors products of zeros, or of rubbish, take another time. */
int attention_fill(const struct attention *attention, struct device *device);

/* Enqueues it on the stream. */
int attention_run(const struct attention *attention, struct stream *stream, bool backward);

#endif
