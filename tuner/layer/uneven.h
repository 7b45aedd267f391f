/* What a step needs where experts have rows of their own: numbers and tables of copies, for both
 * directions.  Either the rows were agreed before the step, and the tables are made once for all
 * layers; or they are counted in it (counted.c), and each layer makes its own anew.
 *
 * The rows that a rank has for an expert are cut into the shares and chunks of the plan.  Of n rows
 * cut j of u begins at n j/u, rounded down: cuts differ by one row at most. */
#ifndef UNEVEN_H
#define UNEVEN_H

#include "a2a.h"
#include "arena.h"
#include "device.h"
#include "geometry.h"
#include "topology.h"

/* A table in the device's memory, the same one in the host's, and the rows that it copies. */
struct block_table {
    const struct row_block *blocks, *host;
    uint64_t count, rows;
};

/* Of the host's: the rows of one of them. */
static inline uint64_t block_rows(const struct block_table *table, uint64_t n)
{
    return (n + 1 < table->count ? table->host[n + 1].first : table->rows) - table->host[n].first;
}

struct uneven {
    /* In the host's memory, owned.  `rows` NULL: experts are alike, and nothing below is there. */
    uint64_t *capacity; /* (E) that were agreed; NULL: all have the geometry's */
    uint64_t *before;   /* what struct geometry has of these */
    uint64_t *rows;     /* (peers or 1, experts) that a peer has for each expert */
    uint64_t stride;    /* from one peer's to the next one's; 0: all have as many */
    uint64_t *seen;     /* (chunks, local + 1) rows of a chunk before each local expert */
    uint64_t *image;    /* `words` numbers, as the device has them */
    /* In the device's. */
    const uint64_t *capacities; /* (E) */
    const uint64_t *first;      /* (experts + 1) where each one's rows begin before they leave */
    const uint64_t *room;       /* (experts) of these, how many are ever filled */
    const uint64_t *local;      /* as `seen` */
    struct block_table pack[PLAN_MAX_D], unpack[PLAN_MAX_D];     /* (experts, ranks of one), ... */
    struct block_table arrange[PLAN_MAX_D], restore[PLAN_MAX_D]; /* (local, peers), turned */
    const struct row_block *go[PLAN_MAX_D], *come[PLAN_MAX_D];   /* of all-to-alls that need some */
    uint64_t total;                                              /* rows before they leave */
    uint64_t words;                                              /* of all that is the device's */
};

/* Numbers of the host, and the geometry divided by them.  counted: rows are counted in each step;
 * until they are, there are as many as there is room for. */
int uneven_open(const struct moe_shape *shape, const struct capacities *capacities, bool counted,
                struct geometry *geometry, struct uneven *out);
/* From here on each rank has rows of its own: none, until `rows` are set. */
int uneven_count(struct uneven *uneven, const struct geometry *geometry, uint32_t experts);
void uneven_close(struct uneven *uneven); /* a zeroed one is fine */

static inline bool uneven_applies(const struct uneven *u)
{
    return u->rows;
}

static inline struct capacities uneven_capacities(const struct uneven *u, const struct geometry *g)
{
    return (struct capacities){ g->capacity, u->capacity };
}

/* Where each local expert's rows of a chunk begin: in the host's memory, and in the device's. */
static inline const uint64_t *uneven_seen(const struct uneven *u, const struct geometry *g,
                                          uint32_t chunk)
{
    return u->seen + (uint64_t)chunk * (g->local + 1);
}

static inline const uint64_t *uneven_local(const struct uneven *u, const struct geometry *g,
                                           uint32_t chunk)
{
    return u->local + (uint64_t)chunk * (g->local + 1);
}

/* Of one chunk's all-to-all, there or back: what a2a_rows asks. */
struct uneven_leg {
    const struct uneven *uneven;
    const struct geometry *geometry;
    uint32_t chunk;
    bool back; /* a rank gives back what it got */
};

struct a2a_rows uneven_rows(const struct uneven_leg *leg);

/* Cuts the device's memory. */
void uneven_layout(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                   uint32_t algorithm, const struct topology *topology, struct arena *arena);

/* After the layout with real memory, and whenever `rows` are other ones: then nothing is allocated.
 */
int uneven_fill(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                uint32_t algorithm, const struct topology *topology, struct device *device);

#endif
