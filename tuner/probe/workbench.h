/* What a rank does to be timed: exchanges, products, copies and kernels that do next to nothing, on
 * an engine's two streams and in memory of its own. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "engine.h"
#include "probe.h"

struct workbench {
    struct engine *engine; /* borrowed */
    struct event *comm, *compute;
    void *memory;
    char *from, *to;  /* `bytes` each; past any cache if there is memory enough */
    void *weights[2]; /* (hidden_dim, model_dim) each, of products.dtype as rows are */
    void *rows[3];    /* in, hidden, out */
    size_t bytes;
    struct products products;
};

int workbench_open(struct engine *engine, size_t bytes, const struct products *products,
                   struct workbench *out);
void workbench_close(struct workbench *bench); /* a zeroed one is fine */

/* Bytes that workbench_open(bytes, products) asks for. */
size_t workbench_bytes(size_t bytes, const struct products *products);

/* How many of each are done in a row; a product is the two of a feed-forward network, half of one
 * the first of them. */
struct chore {
    int exchanges, products, halves, copies, launches;
    struct batch batch; /* of each exchange */
    uint64_t rows;      /* of each product */
};

/* Adds `copies` messages of `bytes` to each of these ranks, and as many from each; they must fit.
 */
int workbench_add(struct workbench *bench, const int *peers, int count, int copies, size_t bytes,
                  struct chore *chore);

/* Queues it, communication first, and waits for both streams. */
int workbench_do(struct workbench *bench, const struct chore *chore);

double products_ops(const struct products *products, uint64_t rows); /* of both */
double products_bytes(const struct products *products,
                      uint64_t rows); /* read and written by both */
double workbench_copy_bytes(const struct workbench *bench);

#endif
