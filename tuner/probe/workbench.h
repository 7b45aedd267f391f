/* What a rank does to be timed: exchanges, products, copies and kernels that do next to nothing, on
 * an engine's two streams and in memory of its own. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "engine.h"

struct workbench {
    struct engine *engine; /* borrowed */
    struct event *comm, *compute;
    void *memory;
    char *from, *to;   /* `bytes` each; past any cache if there is memory enough */
    float *weights[2]; /* (PRODUCT_WIDTH, PRODUCT_WIDTH) */
    float *rows[3];    /* (PRODUCT_ROWS, PRODUCT_WIDTH): in, hidden, out */
    size_t bytes;
};

/* Rows up to PRODUCT_ROWS; the other two sides are PRODUCT_WIDTH. */
enum { PRODUCT_WIDTH = 512, PRODUCT_ROWS = 512 };

int workbench_open(struct engine *engine, size_t bytes, struct workbench *out);
void workbench_close(struct workbench *bench); /* a zeroed one is fine */

/* Bytes that workbench_open(bytes) asks for. */
size_t workbench_bytes(size_t bytes);

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

double workbench_product_ops(uint64_t rows);   /* of both products */
double workbench_product_bytes(uint64_t rows); /* read and written by both */
double workbench_copy_bytes(const struct workbench *bench);

#endif
