/* All-to-all of W blocks, for the steps of a layer: block q of send goes to rank q, and block q of
 * recv comes from rank q.  Inside a group, ranks count from 0.  Blocks are equal, or the caller
 * gives the number of rows for each pair of ranks; every rank knows these numbers beforehand, so
 * ranks exchange none.  The algorithms use exchanges (wire.h) and copies, and no transport. */
#ifndef A2A_H
#define A2A_H

#include "moelookup.h"
#include "wire.h"

/* A function that gives the number of rows in the block from one rank to another.  A plain value;
 * in a group, ranks count from 0. */
struct a2a_rows {
    uint64_t (*between)(const void *self, int from, int to); /* NULL: blocks are equal */
    const void *self;
};

/* What one all-to-all sends, and from where to where.  The caller fills this value; a2a_open()
 * copies it and borrows the memory.  send and recv may not overlap; scratch has a2a_scratch()
 * elements. */
struct a2a_call {
    struct wire *wire; /* borrowed */
    uint32_t dtype;
    uint64_t block; /* elements; 0: nothing is sent */
    const void *send;
    void *recv, *scratch;
    uint32_t ctas;        /* see struct batch */
    bool naive;           /* measure the baseline of `2dh`: see a2a_2dh_naive */
    struct group among;   /* the ranks of `linear`; count 0: all ranks */
    struct a2a_rows rows; /* borrowed as long as the call is open */
    uint64_t width;       /* elements of a row */
    uint64_t room;        /* rows that fit into scratch: the result of a2a_scratch_rows() */
    const struct row_block *tables; /* a2a_tables() of them, in the device's memory */
    /* Not NULL: this function replaces the algorithm.  It adds the transfers, each directly from
     * its source block to its destination. */
    int (*add_transfers)(const void *self, struct batch *batch);
    const void *self; /* its argument; borrowed as long as the call is open */
};

struct a2a;

/* An algorithm for equal blocks; one constant per algorithm. */
struct a2a_ops {
    int levels; /* number of exchanges, where there are several one after the other */
    uint64_t (*scratch)(const struct topology *topology, uint64_t block); /* NULL: none */
    int (*build)(struct a2a *a2a);                                        /* fills the batches */
    int (*run)(struct a2a *a2a, struct stream *stream); /* NULL: exchanges the first batch */
};

/* An algorithm for blocks of different sizes; one constant per algorithm.  `tables` counts the
 * row_blocks that one call needs, and `fill` writes them. */
struct a2a_uneven_ops {
    uint64_t (*scratch_rows)(const struct topology *topology, struct a2a_rows rows);
    uint64_t (*tables)(const struct topology *topology);
    void (*fill)(const struct topology *topology, struct a2a_rows rows, struct row_block *to);
    int (*build)(struct a2a *a2a);
    int (*run)(struct a2a *a2a, struct stream *stream);
};

enum { A2A_PHASES = 3 };

/* An open all-to-all: its call, and the batches that its algorithm built.  a2a_close() frees it. */
struct a2a {
    const struct a2a_ops *ops;
    const struct a2a_uneven_ops *uneven; /* used instead of ops; NULL: blocks are equal */
    struct a2a_call call;
    struct batch phases[A2A_PHASES];
};

extern const struct a2a_ops a2a_2dh, a2a_3dh;

/* A baseline for 2dh that moves the same bytes without a copy: inside a node it sends a message for
 * each block, where 2dh sends one for each rank.  No plan uses it; moetune only measures it. */
extern const struct a2a_ops a2a_2dh_naive;
extern const struct a2a_uneven_ops a2a_linear_uneven, a2a_2dh_uneven;

/* Elements of scratch memory that algorithm `a` (enum moe_a2a) needs for equal blocks.  All calls
 * of one stream may share it. */
uint64_t a2a_scratch(uint32_t a, const struct topology *topology, uint64_t block);

/* Rows of scratch memory that algorithm `a` needs for a call with these rows. */
uint64_t a2a_scratch_rows(uint32_t a, const struct topology *topology, struct a2a_rows rows);

/* Number of row_blocks in the tables of one call with rows; 0: it needs none. */
uint64_t a2a_tables(uint32_t a, const struct topology *topology);

/* Writes these tables to `to`, in the host's memory. */
void a2a_fill_tables(uint32_t a, const struct topology *topology, struct a2a_rows rows,
                     struct row_block *to);

/* Builds the batches of algorithm `a` for the call.  UNSUPPORTED: the algorithm does not apply
 * here.  ERR_NOMEM: memory is short. */
int a2a_open(uint32_t a, const struct a2a_call *call, struct a2a **out);

/* Builds the batches again after the caller's rows have changed.  Every rank calls it, while the
 * stream is idle. */
int a2a_rebuild(struct a2a *a2a);

/* Enqueues the whole all-to-all on the stream. */
int a2a_run(struct a2a *a2a, struct stream *stream);

/* Frees it; NULL is fine. */
void a2a_close(struct a2a *a2a);

#endif
