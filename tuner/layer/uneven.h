/* What a step needs where experts have rows of their own: numbers and tables of copies, made once
 * from what the ranks agreed on, for all layers and both directions. */
#ifndef UNEVEN_H
#define UNEVEN_H

#include "arena.h"
#include "device.h"
#include "geometry.h"
#include "topology.h"

/* A table in the device's memory, and the rows that it copies. */
struct block_table {
    const struct row_block *blocks;
    uint64_t count, rows;
};

struct uneven {
    /* In the host's memory, owned; NULL: experts are alike, and nothing below is there. */
    uint64_t *capacity, *before; /* (E), and what struct geometry has */
    uint64_t *seen;              /* (local + 1) rows of a chunk before each local expert */
    uint64_t *peers;             /* rows of a chunk for each rank among which tokens travel */
    /* In the device's. */
    const uint64_t *capacities; /* (E) */
    const uint64_t *first;      /* (experts + 1) where each one's rows begin before they leave */
    const uint64_t *room;       /* (experts) of these, how many are ever filled */
    const uint64_t *local;      /* (local + 1) as `seen` */
    struct block_table pack[PLAN_MAX_D], unpack[PLAN_MAX_D], arrange, restore;
    const struct row_block *go, *come; /* of an all-to-all that needs some */
    uint64_t rows;                     /* of all experts before they leave */
    uint64_t words;                    /* of all that is the device's */
};

/* Numbers of the host, and the geometry divided by them. */
int uneven_open(const struct moe_shape *shape, const struct capacities *capacities,
                struct geometry *geometry, struct uneven *out);
void uneven_close(struct uneven *uneven); /* a zeroed one is fine */

static inline struct capacities uneven_capacities(const struct uneven *u, const struct geometry *g)
{
    return (struct capacities){ g->capacity, u->capacity };
}

/* Cuts the device's memory. */
void uneven_layout(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                   uint32_t algorithm, const struct topology *topology, struct arena *arena);

/* After the layout with real memory. */
int uneven_fill(struct uneven *uneven, const struct moe_shape *shape, const struct geometry *g,
                uint32_t algorithm, const struct topology *topology, struct device *device);

#endif
