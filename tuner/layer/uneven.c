/* Computes numbers and tables of rows for experts with different numbers of rows. */
#include "uneven.h"

#include "status.h"

#include <stdlib.h>

int uneven_open(const struct moe_shape *shape, const struct capacities *capacities, bool counted,
                struct geometry *g, struct uneven *out)
{
    uint32_t experts = geometry_experts(g, shape), first = geometry_first_expert(g, shape);
    uint64_t unit = (uint64_t)g->shares * g->chunks;
    struct uneven u = { 0 };

    if (!capacities->rows && !counted) {
        *out = u;
        return OK;
    }
    u.rows = calloc(experts, sizeof(*u.rows));
    u.seen = calloc((size_t)g->chunks * (g->local + 1), sizeof(*u.seen));
    if (capacities->rows) {
        u.capacity = calloc(shape->experts, sizeof(*u.capacity));
        u.before = calloc((size_t)experts + 1, sizeof(*u.before));
    }
    if (!u.rows || !u.seen || (capacities->rows && (!u.capacity || !u.before))) {
        uneven_close(&u);
        return fail(ERR_NOMEM, "rows of %u experts", shape->experts);
    }
    if (capacities->rows) {
        geometry_divide(g, shape, capacities, u.before);
        for (uint32_t e = 0; e < shape->experts; e++)
            u.capacity[e] = capacities->rows[e];
    }
    /* Agreed rows are rounded up, so that all chunks are equal. */
    for (uint32_t e = 0; e < experts; e++)
        u.rows[e] = counted ? capacity_of(capacities, first + e) : geometry_rows_of(g, e) * unit;
    *out = u;
    return OK;
}

int uneven_count(struct uneven *u, const struct geometry *g, uint32_t experts)
{
    uint64_t *rows = calloc((size_t)g->peers * experts, sizeof(*rows));

    if (!rows)
        return fail(ERR_NOMEM, "rows of %u experts from %u ranks", experts, g->peers);
    free(u->rows);
    u->rows = rows;
    u->stride = experts;
    return OK;
}

void uneven_close(struct uneven *u)
{
    free(u->capacity);
    free(u->before);
    free(u->rows);
    free(u->seen);
    free(u->image);
    *u = (struct uneven){ 0 };
}

/* ---- Cuts */

static uint64_t rows_of_peer(const struct uneven *u, uint64_t peer, uint64_t expert)
{
    return u->rows[peer * u->stride + expert];
}

/* Where a chunk of a share begins among n rows. */
static uint64_t cut_begin(const struct geometry *g, uint64_t n, uint64_t share, uint64_t chunk)
{
    return n * (share * g->chunks + chunk) / ((uint64_t)g->shares * g->chunks);
}

static uint64_t cut_rows(const struct geometry *g, uint64_t n, uint64_t share, uint64_t chunk)
{
    return cut_begin(g, n, share, chunk + 1) - cut_begin(g, n, share, chunk);
}

/* Rows from one peer to another in a leg.  Peers are ordered by expert, then slice, then share. */
static uint64_t rows_between(const void *self, int from, int to)
{
    const struct uneven_leg *leg = self;
    const struct geometry *g = leg->geometry;
    uint64_t ranks_per_expert = (uint64_t)g->copies * g->shares, sum = 0;
    uint64_t source = (uint64_t)(leg->back ? to : from), peer = (uint64_t)(leg->back ? from : to);

    for (uint64_t local = 0; local < g->local; local++)
        sum += cut_rows(
            g, rows_of_peer(leg->uneven, source, peer / ranks_per_expert * g->local + local),
            peer % g->shares, leg->chunk);
    return sum;
}

struct a2a_rows uneven_rows(const struct uneven_leg *leg)
{
    return (struct a2a_rows){ rows_between, leg };
}

/* ---- The device's numbers, one after the other.  The same code runs to count them, to find their
 * addresses, and to write them to the host's copy. */

/* The state of one run. */
struct image {
    uint64_t *host;     /* NULL: do not write */
    const char *device; /* NULL: only count */
    uint64_t words;     /* so far */
};

/* Where some numbers lie in the device's memory, and where to write them; either may be NULL. */
struct row_place {
    const void *device;
    void *host;
};

static struct row_place reserve_words(struct image *image, uint64_t words)
{
    struct row_place place = {
        image->device ? image->device + image->words * sizeof(uint64_t) : NULL,
        image->host ? image->host + image->words : NULL,
    };

    image->words += words;
    return place;
}

static uint64_t *reserve_numbers(struct image *image, uint64_t count, const uint64_t **device)
{
    struct row_place place = reserve_words(image, count);

    *device = place.device;
    return place.host;
}

static struct row_block *reserve_table(struct image *image, uint64_t count, struct block_table *out)
{
    struct row_place place =
        reserve_words(image, count * (sizeof(struct row_block) / sizeof(uint64_t)));

    *out = (struct block_table){ .blocks = place.device, .host = place.host, .count = count };
    return place.host;
}

static void write_numbers(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                          struct image *image)
{
    uint32_t experts = geometry_experts(g, shape), first = geometry_first_expert(g, shape);
    const struct capacities agreed = uneven_capacities(u, g);
    uint64_t *numbers = reserve_numbers(image, shape->experts, &u->capacities);

    for (uint32_t e = 0; numbers && e < shape->experts; e++)
        numbers[e] = capacity_of(&agreed, e);
    numbers = reserve_numbers(image, (uint64_t)experts + 1, &u->first);
    u->total = 0;
    for (uint32_t e = 0; e <= experts; e++) {
        if (numbers)
            numbers[e] = u->total;
        u->total += e < experts ? rows_of_peer(u, g->self, e) : 0;
    }
    numbers = reserve_numbers(image, experts, &u->room);
    for (uint32_t e = 0; numbers && e < experts; e++)
        numbers[e] = capacity_of(&agreed, first + e) * g->sources;
}

/* Makes the tables of pack and unpack: between `home`, where an expert's rows lie together, and
 * packed rows, where those for each rank lie together. */
static void write_pack(struct uneven *u, const struct geometry *g, uint32_t experts, uint32_t chunk,
                       struct image *image)
{
    uint64_t ranks_per_expert = (uint64_t)g->copies * g->shares, home = 0, sent = 0, shared = 0;
    struct block_table *pack = &u->pack[chunk], *unpack = &u->unpack[chunk];
    struct row_block *next_pack = reserve_table(image, experts * ranks_per_expert, pack);
    struct row_block *next_unpack = reserve_table(image, (uint64_t)experts * g->shares, unpack);

    for (uint64_t e = 0; e < experts; e++) {
        uint64_t rows = rows_of_peer(u, g->self, e), slice_rows = 0;

        for (uint64_t share = 0; share < g->shares; share++)
            slice_rows += cut_rows(g, rows, share, chunk);
        for (uint64_t place = 0; place < ranks_per_expert; place++) {
            uint64_t share = place % g->shares, begin = home + cut_begin(g, rows, share, chunk);

            if (next_pack)
                *next_pack++ = (struct row_block){ .first = sent, .from = begin, .to = sent };
            if (next_unpack && place < g->shares)
                *next_unpack++ = (struct row_block){ shared, sent, begin, slice_rows };
            shared += place < g->shares ? cut_rows(g, rows, share, chunk) : 0;
            sent += cut_rows(g, rows, share, chunk);
        }
        home += rows;
    }
    pack->rows = sent;
    unpack->rows = shared;
}

/* Makes the tables of arrange and restore: between (peers, local), as received, and (local, peers),
 * for experts. */
static void write_arrange(struct uneven *u, const struct geometry *g, uint32_t chunk,
                          struct image *image)
{
    uint64_t count = (uint64_t)g->local * g->peers, row = 0;
    uint64_t share = g->self % g->shares;
    uint64_t *seen = u->seen + (uint64_t)chunk * (g->local + 1);
    struct row_block *arrange = reserve_table(image, count, &u->arrange[chunk]);
    struct row_block *restore = reserve_table(image, count, &u->restore[chunk]);

    for (uint64_t local = 0; local < g->local; local++) {
        seen[local] = row;
        for (uint64_t peer = 0; peer < g->peers; peer++) {
            if (arrange)
                arrange[local * g->peers + peer] = (struct row_block){ .first = row, .to = row };
            row += cut_rows(g, rows_of_peer(u, peer, g->first + local), share, chunk);
        }
    }
    seen[g->local] = u->arrange[chunk].rows = u->restore[chunk].rows = row;
    row = 0;
    for (uint64_t peer = 0; arrange && peer < g->peers; peer++)
        for (uint64_t local = 0; local < g->local; local++) {
            struct row_block *block = &arrange[local * g->peers + peer];

            block->from = row;
            restore[peer * g->local + local] = (struct row_block){ row, block->to, row, 0 };
            row += cut_rows(g, rows_of_peer(u, peer, g->first + local), share, chunk);
        }
}

static void write_all(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                      uint32_t algorithm, const struct topology *topology, struct image *image)
{
    uint32_t experts = geometry_experts(g, shape);
    uint64_t tables = g->peers > 1 ? a2a_tables(algorithm, topology) : 0;
    uint64_t *local;

    write_numbers(u, shape, g, image);
    for (uint32_t i = 0; i < g->chunks; i++) {
        write_pack(u, g, experts, i, image);
        write_arrange(u, g, i, image);
        for (int back = 0; back < 2; back++) {
            struct uneven_leg leg = { u, g, i, back };
            struct block_table table;
            struct row_block *leg_table = reserve_table(image, tables, &table);

            if (back)
                u->returns[i] = table.blocks;
            else
                u->sends[i] = table.blocks;
            if (leg_table && tables)
                a2a_fill_tables(algorithm, topology, uneven_rows(&leg), leg_table);
        }
    }
    local = reserve_numbers(image, g->chunks * ((uint64_t)g->local + 1), &u->local);
    for (uint64_t i = 0; local && i < g->chunks * ((uint64_t)g->local + 1); i++)
        local[i] = u->seen[i];
}

void uneven_layout(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                   uint32_t algorithm, const struct topology *topology, struct arena *arena)
{
    struct image image = { .words = 0 };

    if (!uneven_applies(u))
        return;
    write_all(u, shape, g, algorithm, topology, &image);
    u->words = image.words;
    image = (struct image){ .device = arena_alloc(arena, image.words, sizeof(uint64_t)) };
    write_all(u, shape, g, algorithm, topology, &image);
}

int uneven_fill(struct uneven *u, const struct moe_shape *shape, const struct geometry *g,
                uint32_t algorithm, const struct topology *topology, struct device *device)
{
    struct image image = { .device = (const char *)u->capacities };

    if (!uneven_applies(u))
        return OK;
    if (!u->image)
        u->image = calloc(u->words, sizeof(*u->image));
    if (!u->image)
        return fail(ERR_NOMEM, "tables of %llu numbers", (unsigned long long)u->words);
    image.host = u->image;
    write_all(u, shape, g, algorithm, topology, &image);
    return device_upload(device, (void *)u->capacities, u->image, u->words * sizeof(*u->image));
}
