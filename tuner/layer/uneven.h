/* Numbers and tables for experts with different numbers of rows, in both directions of a trip.
 * Either ranks agree on the rows before the step, and the tables are made once for all layers.  Or
 * rows are counted in each step (counted.c), and each layer makes its own tables.
 *
 * The rows that a rank has for an expert are cut into the shares and chunks of the plan.  Of n
 * rows, cut j of u begins at n j/u, rounded down; so cuts differ by at most one row. */
#ifndef UNEVEN_H
#define UNEVEN_H

#include "a2a.h"
#include "arena.h"
#include "device.h"
#include "geometry.h"
#include "topology.h"

/* A table for the kernel move_rows. */
struct block_table {
    const struct row_block *blocks, *host; /* in the device's memory; the same in the host's */
    uint64_t count, rows;                  /* number of blocks, and of all rows */
};

/* Number of rows of block n. */
static inline uint64_t block_rows(const struct block_table *table, uint64_t n)
{
    return (n + 1 < table->count ? table->host[n + 1].first : table->rows) - table->host[n].first;
}

/* These numbers and tables.  uneven_open() and uneven_layout() make them; uneven_close() frees the
 * host's memory. */
struct uneven {
    /* In the host's memory, owned.  `rows` NULL: all experts are equal, and nothing else is set. */
    uint64_t *capacity; /* (E) agreed capacities; NULL: all have the geometry's */
    uint64_t *before;   /* for struct geometry */
    uint64_t *rows;     /* (peers or 1, experts) rows of each peer for each expert */
    uint64_t stride;    /* from one peer's rows to the next one's; 0: all peers have the same */
    uint64_t *seen;     /* (chunks, local + 1) rows of a chunk before each local expert */
    uint64_t *image;    /* the host's copy of all `words` numbers below */
    /* In the device's memory. */
    const uint64_t *capacities; /* (E) */
    const uint64_t *first;      /* (experts + 1) where each expert's rows begin in `home` */
    const uint64_t *room;       /* (experts) most rows of each that are filled */
    const uint64_t *local;      /* a copy of `seen` */
    struct block_table pack[PLAN_MAX_D], unpack[PLAN_MAX_D];
    struct block_table arrange[PLAN_MAX_D], restore[PLAN_MAX_D];
    const struct row_block *sends[PLAN_MAX_D],
        *returns[PLAN_MAX_D]; /* of all-to-alls with tables */
    uint64_t total;           /* rows in `home` */
    uint64_t words;           /* numbers in the device's memory */
};

/* Allocates the host's numbers, and divides the geometry by them.  counted: each step counts its
 * rows; before the first step, the numbers are the largest possible. */
int uneven_open(const struct moe_shape *shape, const struct capacities *capacities, bool counted,
                struct geometry *geometry, struct uneven *out);
/* Gives each peer its own numbers of rows, which are 0 until the caller sets `rows`. */
int uneven_count(struct uneven *uneven, const struct geometry *geometry, uint32_t experts);
void uneven_close(struct uneven *uneven); /* a zeroed one is fine */

/* True where experts have different numbers of rows. */
static inline bool uneven_applies(const struct uneven *u)
{
    return u->rows;
}

/* The agreed capacities. */
static inline struct capacities uneven_capacities(const struct uneven *u, const struct geometry *g)
{
    return (struct capacities){ g->capacity, u->capacity };
}

/* Where each local expert's rows of a chunk begin; the array is in the host's memory. */
static inline const uint64_t *uneven_seen(const struct uneven *u, const struct geometry *g,
                                          uint32_t chunk)
{
    return u->seen + (uint64_t)chunk * (g->local + 1);
}

/* Where each local expert's rows of a chunk begin; the array is in the device's memory. */
static inline const uint64_t *uneven_local(const struct uneven *u, const struct geometry *g,
                                           uint32_t chunk)
{
    return u->local + (uint64_t)chunk * (g->local + 1);
}

/* One chunk's all-to-all, to the experts or back: the argument of its a2a_rows. */
struct uneven_leg {
    const struct uneven *uneven;
    const struct geometry *geometry;
    uint32_t chunk;
    bool back;
};

/* The numbers of rows of this all-to-all; `leg` is borrowed. */
struct a2a_rows uneven_rows(const struct uneven_leg *leg);

/* Places the numbers and tables in the device's memory. */
void uneven_layout(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                   uint32_t algorithm, const struct topology *topology, struct arena *arena);

/* Computes and uploads all numbers and tables.  Must be called after the layout with memory, and
 * again after `rows` have changed; only the first call allocates. */
int uneven_fill(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                uint32_t algorithm, const struct topology *topology, struct device *device);

#endif
