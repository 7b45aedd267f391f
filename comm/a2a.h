/* All-to-all of W blocks: block q of send goes to rank q; block q of recv is what rank q sent here;
 * in a group its ranks count from 0.  Blocks are equal, or of as many rows as the caller says of
 * each pair of ranks: all know these numbers, and exchange none.  Algorithms are written over
 * exchanges and moves, and know no transport. */
#ifndef A2A_H
#define A2A_H

#include "moelookup.h"
#include "wire.h"

/* How many rows the block has that goes from one rank to another; of a group they count from 0. */
struct a2a_rows {
    uint64_t (*between)(const void *self, int from, int to); /* NULL: blocks are equal */
    const void *self;
};

/* One call, prepared.  send and recv may not overlap; scratch is a2a_scratch() elements. */
struct a2a_call {
    struct wire *wire; /* borrowed */
    uint32_t dtype;
    uint64_t block; /* elements; 0: nothing is sent */
    const void *send;
    void *recv, *scratch;
    uint32_t ctas;        /* as struct batch has it */
    bool naive;           /* a baseline, of `2dh`: see a2a_2dh_naive */
    struct group among;   /* of `linear`; count 0: all ranks */
    struct a2a_rows rows; /* as long as the call is open */
    uint64_t width;       /* elements of a row */
    uint64_t room;        /* rows that the scratch memory holds, as a2a_scratch_rows() gave them */
    const struct row_block *tables; /* a2a_tables(), in the device's memory */
    /* Not NULL: instead of an algorithm, adds the transfers, each from where its block lies to
     * where it is wanted. */
    int (*list)(const void *self, struct batch *batch);
    const void *self; /* as long as the call is open */
};

struct a2a;

struct a2a_ops {
    int levels; /* exchanges one after the other, of those that have several */
    uint64_t (*scratch)(const struct topology *topology, uint64_t block); /* NULL: none */
    int (*build)(struct a2a *a2a);                                        /* fills the batches */
    int (*run)(struct a2a *a2a, struct stream *stream); /* NULL: exchanges the first batch */
};

/* For calls with rows; `tables` is how many blocks they have, `fill` makes those of one call. */
struct a2a_uneven_ops {
    uint64_t (*scratch_rows)(const struct topology *topology, struct a2a_rows rows);
    uint64_t (*tables)(const struct topology *topology);
    void (*fill)(const struct topology *topology, struct a2a_rows rows, struct row_block *to);
    int (*build)(struct a2a *a2a);
    int (*run)(struct a2a *a2a, struct stream *stream);
};

enum { A2A_PHASES = 3 };

struct a2a {
    const struct a2a_ops *ops;
    const struct a2a_uneven_ops *uneven; /* instead; NULL: blocks are equal */
    struct a2a_call call;
    struct batch phases[A2A_PHASES];
};

extern const struct a2a_ops a2a_2dh, a2a_3dh;

/* The same bytes without a copy: inside a node a message for each block, where 2dh sends one for
 * each rank.  It is there to be measured, and no plan has it. */
extern const struct a2a_ops a2a_2dh_naive;
extern const struct a2a_uneven_ops a2a_linear_uneven, a2a_2dh_uneven;

/* Elements of scratch that algorithm `a` (enum moe_a2a) needs; one scratch may serve all calls of
 * one stream. */
uint64_t a2a_scratch(uint32_t a, const struct topology *topology, uint64_t block);

/* The same of calls with such rows; how many blocks the tables of one call have; and these, written
 * to the host's memory. */
uint64_t a2a_scratch_rows(uint32_t a, const struct topology *topology, struct a2a_rows rows);
uint64_t a2a_tables(uint32_t a, const struct topology *topology);
void a2a_fill_tables(uint32_t a, const struct topology *topology, struct a2a_rows rows,
                     struct row_block *to);

/* UNSUPPORTED where the algorithm does not apply. */
int a2a_open(uint32_t a, const struct a2a_call *call, struct a2a **out);

/* Once the caller's rows are other ones: the next run carries these.  On every rank; the stream is
 * idle. */
int a2a_rebuild(struct a2a *a2a);
int a2a_run(struct a2a *a2a, struct stream *stream);
void a2a_close(struct a2a *a2a);

#endif
