/* Numbers and tables of rows per expert. */
#include "uneven.h"

#include "a2a.h"
#include "status.h"

#include <stdlib.h>

int uneven_open(const struct moe_shape *shape, const struct capacities *capacities,
                struct geometry *g, struct uneven *out)
{
    struct uneven u = { 0 };

    if (!capacities->rows) {
        *out = u;
        return OK;
    }
    u.capacity = calloc(shape->experts, sizeof(*u.capacity));
    u.before = calloc((size_t)geometry_experts(g, shape) + 1, sizeof(*u.before));
    u.seen = calloc((size_t)g->local + 1, sizeof(*u.seen));
    u.peers = calloc(g->peers, sizeof(*u.peers));
    if (!u.capacity || !u.before || !u.seen || !u.peers) {
        uneven_close(&u);
        return fail(ERR_NOMEM, "rows of %u experts", shape->experts);
    }
    geometry_divide(g, shape, capacities, u.before);
    for (uint32_t e = 0; e < shape->experts; e++)
        u.capacity[e] = capacities->rows[e];
    for (uint32_t l = 0; l <= g->local; l++)
        u.seen[l] = geometry_seen_before(g, l);
    for (uint32_t n = 0; n < g->peers; n++)
        u.peers[n] = geometry_peer_rows(g, n);
    u.rows = g->before[geometry_experts(g, shape)] * g->shares * g->chunks;
    *out = u;
    return OK;
}

void uneven_close(struct uneven *u)
{
    free(u->capacity);
    free(u->before);
    free(u->seen);
    free(u->peers);
    *u = (struct uneven){ 0 };
}

/* ---- The device's numbers, one after the other.  They are gone through twice: for where they
 * lie, and with memory of the host to write them to. */

struct image {
    uint64_t *host;     /* NULL: only places are wanted */
    const char *device; /* NULL: not even these, but how many there are */
    uint64_t words;
};

/* Where some of them lie, and where to write them; either may be NULL. */
struct row_place {
    const void *device;
    void *host;
};

static struct row_place take_words(struct image *image, uint64_t words)
{
    struct row_place place = {
        image->device ? image->device + image->words * sizeof(uint64_t) : NULL,
        image->host ? image->host + image->words : NULL,
    };

    image->words += words;
    return place;
}

static uint64_t *take_numbers(struct image *image, uint64_t count, const uint64_t **device)
{
    struct row_place place = take_words(image, count);

    *device = place.device;
    return place.host;
}

static void put_numbers(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                        struct image *image)
{
    uint32_t experts = geometry_experts(g, shape), first = geometry_first_expert(g, shape);
    uint64_t unit = (uint64_t)g->shares * g->chunks, *to;

    to = take_numbers(image, shape->experts, &u->capacities);
    for (uint32_t e = 0; to && e < shape->experts; e++)
        to[e] = u->capacity[e];
    to = take_numbers(image, (uint64_t)experts + 1, &u->first);
    for (uint32_t e = 0; to && e <= experts; e++)
        to[e] = g->before[e] * unit;
    to = take_numbers(image, experts, &u->room);
    for (uint32_t e = 0; to && e < experts; e++)
        to[e] = u->capacity[first + e] * g->sources;
    to = take_numbers(image, (uint64_t)g->local + 1, &u->local);
    for (uint32_t l = 0; to && l <= g->local; l++)
        to[l] = u->seen[l];
}

static struct row_block *take_table(struct image *image, uint64_t count, uint64_t rows,
                                    struct block_table *out)
{
    struct row_place place =
        take_words(image, count * (sizeof(struct row_block) / sizeof(uint64_t)));

    *out = (struct block_table){ place.device, count, rows };
    return place.host;
}

static void put_pack(struct uneven *u, const struct geometry *g, uint32_t experts, uint32_t i,
                     struct image *image)
{
    uint64_t each = (uint64_t)g->copies * g->shares;
    struct row_block *to =
        take_table(image, experts * each, geometry_before(g, experts) * each, &u->pack[i]);

    for (uint64_t e = 0; to && e < experts; e++)
        for (uint64_t place = 0; place < each; place++) {
            uint64_t at = geometry_sent_row(g, e, place);

            *to++ = (struct row_block){ at, geometry_home_row(g, e, place % g->shares, i), at, 0 };
        }
}

static void put_unpack(struct uneven *u, const struct geometry *g, uint32_t experts, uint32_t i,
                       struct image *image)
{
    struct row_block *to = take_table(image, (uint64_t)experts * g->shares,
                                      geometry_before(g, experts) * g->shares, &u->unpack[i]);
    uint64_t at = 0;

    for (uint64_t e = 0; to && e < experts; e++)
        for (uint64_t share = 0; share < g->shares; share++) {
            uint64_t rows = geometry_rows_of(g, e);

            *to++ = (struct row_block){ at, geometry_sent_row(g, e, share),
                                        geometry_home_row(g, e, share, i), g->shares * rows };
            at += rows;
        }
}

/* (peers, local) of blocks as they are received, (local, peers) as experts see them. */
static void put_arrange(struct uneven *u, const struct geometry *g, struct image *image)
{
    uint64_t count = (uint64_t)g->local * g->peers, own = geometry_local_rows(g);
    struct row_block *arrange = take_table(image, count, u->seen[g->local], &u->arrange);
    struct row_block *restore = take_table(image, count, u->seen[g->local], &u->restore);

    for (uint64_t l = 0; arrange && l < g->local; l++)
        for (uint64_t peer = 0; peer < g->peers; peer++) {
            uint64_t rows = geometry_rows_of(g, g->first + l);
            uint64_t received = peer * own + u->seen[l] / g->peers;
            uint64_t seen = u->seen[l] + peer * rows;

            arrange[l * g->peers + peer] = (struct row_block){ seen, received, seen, 0 };
            restore[peer * g->local + l] = (struct row_block){ received, seen, received, 0 };
        }
}

static void put_all(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                    uint32_t algorithm, const struct topology *topology, struct image *image)
{
    uint32_t experts = geometry_experts(g, shape);
    uint64_t tables = g->peers > 1 ? a2a_tables(algorithm, topology) : 0;
    struct block_table table;
    struct row_block *go, *come;

    put_numbers(u, shape, g, image);
    for (uint32_t i = 0; i < g->chunks; i++) {
        put_pack(u, g, experts, i, image);
        put_unpack(u, g, experts, i, image);
    }
    put_arrange(u, g, image);
    go = take_table(image, tables, 0, &table);
    u->go = table.blocks;
    come = take_table(image, tables, 0, &table);
    u->come = table.blocks;
    if (go && tables) {
        a2a_fill_tables(algorithm, topology, u->peers, false, go);
        a2a_fill_tables(algorithm, topology, u->peers, true, come);
    }
}

void uneven_layout(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                   uint32_t algorithm, const struct topology *topology, struct arena *arena)
{
    struct image image = { NULL, NULL, 0 };

    if (!u->capacity)
        return;
    put_all(u, shape, g, algorithm, topology, &image);
    u->words = image.words;
    image = (struct image){ NULL, arena_take(arena, image.words, sizeof(uint64_t)), 0 };
    put_all(u, shape, g, algorithm, topology, &image);
}

int uneven_fill(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                uint32_t algorithm, const struct topology *topology, struct device *device)
{
    struct image image = { NULL, (const char *)u->capacities, 0 };
    int rc;

    if (!u->capacity)
        return OK;
    image.host = calloc(u->words, sizeof(*image.host));
    if (!image.host)
        return fail(ERR_NOMEM, "tables of %llu numbers", (unsigned long long)u->words);
    put_all(u, shape, g, algorithm, topology, &image);
    rc = device_upload(device, (void *)u->capacities, image.host, u->words * sizeof(*image.host));
    free(image.host);
    return rc;
}
