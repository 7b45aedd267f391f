/* The workbench of a probe: the work that a rank does while it is timed.  That is exchanges,
 * products, copies and nearly empty kernels, on the engine's two streams and in the workbench's own
 * memory. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "engine.h"
#include "probe.h"

/* Memory and events for that work.  workbench_open() makes it whole; workbench_close() frees it. */
struct workbench {
    struct engine *engine; /* borrowed */
    struct event *comm, *compute;
    void *memory;     /* one allocation, which the pointers below divide */
    char *from, *to;  /* `bytes` each; larger than any cache if there is enough memory */
    void *weights[2]; /* (hidden_dim, model_dim) each, of products.dtype, as rows */
    void *rows[3];    /* in, hidden, out */
    size_t bytes;
    struct products products;
};

/* Opens a workbench for copies of `bytes` and for these products, and fills its memory.  ERR_NOMEM
 * or ERR_DEVICE after a message. */
int workbench_open(struct engine *engine, size_t bytes, const struct products *products,
                   struct workbench *out);
void workbench_close(struct workbench *bench); /* a zeroed one is fine */

/* How much memory workbench_open(bytes, products) allocates. */
size_t workbench_bytes(size_t bytes, const struct products *products);

/* One piece of work: how many exchanges, products, half products, copies and launches, in a row.  A
 * product is the two matrix products of a feed-forward network; half a product is the first of
 * them. batch_free() frees its batch. */
struct chore {
    int exchanges, products, halves, copies, launches;
    struct batch batch; /* of each exchange */
    uint64_t rows;      /* of each product */
};

/* Adds to the chore's exchange `copies` messages of `bytes` to each of these ranks, and as many
 * from each.  ERR_ARGUMENT if they do not fit. */
int workbench_add_messages(struct workbench *bench, const int *peers, int count, int copies,
                           size_t bytes, struct chore *chore);

/* Queues the work of a chore, communication first, and waits for both streams. */
int workbench_run(struct workbench *bench, const struct chore *chore);

/* Operations of both matrix products, and bytes that both read and write. */
double products_ops(const struct products *products, uint64_t rows);
double products_bytes(const struct products *products, uint64_t rows);

/* Bytes that one copy reads and writes. */
double workbench_copy_bytes(const struct workbench *bench);

#endif
