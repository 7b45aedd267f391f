/* A cache of known routes: which experts the tokens of batches chose. It has a fixed size, and two
 * thresholds decide whether it is worth using. Independent of tables. */
#include "moelookup.h"

#include "status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { EXPERTS_MOST = 1 << 16, TOP_K_MOST = 64, ROOMS_MOST = 1 << 30, NONE = -1 };

/* What the cache holds of one batch. Rooms are linked in the order in which their batches were
 * put. */
struct batch_room {
    uint64_t key;
    uint32_t rows;
    int32_t next_in_slot; /* the next room of the same slot */
    int32_t older, newer;
};

/* The cache; moe_routes_close() frees it. */
struct moe_routes {
    struct moe_routes_options o;
    struct batch_room *rooms;
    int32_t *slots; /* the first room of each slot of the hash table */
    uint32_t slot_bits, taken;
    int32_t oldest, newest;
    uint16_t *ids;   /* (rooms, rows, k), as they were given */
    uint32_t *stamp; /* (E): the last token that had this expert */
    uint32_t token;
    uint64_t pass;
    bool on, full_noted;
};

/* ---- Opening. */

static int check_options(const struct moe_routes_options *o)
{
    if (o->experts < 1 || o->experts > EXPERTS_MOST)
        return fail(ERR_ARGUMENT, "routes: experts is %u: it must be from 1 to %d", o->experts,
                    EXPERTS_MOST);
    if (o->top_k < 1 || o->top_k > o->experts || o->top_k > TOP_K_MOST)
        return fail(ERR_ARGUMENT, "routes: top_k is %u: it must be from 1 to %u", o->top_k,
                    o->experts < TOP_K_MOST ? o->experts : TOP_K_MOST);
    if (o->rooms < 1 || o->rooms > ROOMS_MOST)
        return fail(ERR_ARGUMENT, "routes: rooms is %u: it must be from 1 to %d", o->rooms,
                    ROOMS_MOST);
    if (o->rows < 1 || o->rows > ROOMS_MOST)
        return fail(ERR_ARGUMENT, "routes: rows is %u: it must be from 1 to %d", o->rows,
                    ROOMS_MOST);
    if (o->on > 1000 || o->off > o->on)
        return fail(ERR_ARGUMENT,
                    "routes: on is %u and off %u: off must be from 0 to on, and that at most 1000",
                    o->on, o->off);
    return OK;
}

void moe_routes_close(struct moe_routes *routes)
{
    if (!routes)
        return;
    free(routes->rooms);
    free(routes->slots);
    free(routes->ids);
    free(routes->stamp);
    free(routes);
}

int moe_routes_open(const struct moe_routes_options *options, struct moe_routes **out)
{
    struct moe_routes_options o = MOE_ROUTES_OPTIONS_INIT;
    struct moe_routes *r;
    wide ids;

    if (!options || !out)
        return MOE_ERR_ARGUMENT;
    memcpy(&o, options,
           options->struct_size && options->struct_size < sizeof(o) ? options->struct_size
                                                                    : sizeof(o));
    o.struct_size = sizeof(o);
    TRY(check_options(&o));
    r = calloc(1, sizeof(*r));
    if (!r)
        return MOE_ERR_NOMEM;
    r->o = o;
    ids = (wide)o.rooms * o.rows * o.top_k;
    while ((uint32_t)1 << r->slot_bits < o.rooms)
        r->slot_bits++;
    if (ids <= SIZE_MAX / 4) {
        r->rooms = calloc(o.rooms, sizeof(*r->rooms));
        r->slots = malloc(sizeof(*r->slots) << r->slot_bits);
        r->ids = calloc((size_t)ids, sizeof(*r->ids));
        r->stamp = calloc(o.experts, sizeof(*r->stamp));
    }
    if (!r->rooms || !r->slots || !r->ids || !r->stamp) {
        moe_routes_close(r);
        return MOE_ERR_NOMEM;
    }
    for (size_t i = 0; i < (size_t)1 << r->slot_bits; i++)
        r->slots[i] = NONE;
    r->oldest = r->newest = NONE;
    *out = r;
    return MOE_OK;
}

/* ---- Rooms. */

static uint32_t slot_of(const struct moe_routes *r, uint64_t key)
{
    /* Multiplicative hashing: the upper bits of the product are the slot. */
    return r->slot_bits ? (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - r->slot_bits)) : 0;
}

static int32_t find_room(const struct moe_routes *r, uint64_t key)
{
    int32_t index = r->slots[slot_of(r, key)];

    while (index != NONE && r->rooms[index].key != key)
        index = r->rooms[index].next_in_slot;
    return index;
}

static uint16_t *ids_of(const struct moe_routes *r, int32_t index)
{
    return r->ids + (size_t)index * r->o.rows * r->o.top_k;
}

static void unlink_room(struct moe_routes *r, int32_t index)
{
    struct batch_room *room = &r->rooms[index];

    if (room->older == NONE)
        r->oldest = room->newer;
    else
        r->rooms[room->older].newer = room->newer;
    if (room->newer == NONE)
        r->newest = room->older;
    else
        r->rooms[room->newer].older = room->older;
}

static void append_room(struct moe_routes *r, int32_t index)
{
    r->rooms[index].older = r->newest;
    r->rooms[index].newer = NONE;
    if (r->newest == NONE)
        r->oldest = index;
    else
        r->rooms[r->newest].newer = index;
    r->newest = index;
}

/* Returns a room for a new key: a free one, else that of the batch that was put longest ago. */
static int32_t take_room(struct moe_routes *r, uint64_t key)
{
    uint32_t slot = slot_of(r, key);
    int32_t index, *link;

    if (r->taken < r->o.rooms) {
        index = (int32_t)r->taken++;
    } else {
        if (!r->full_noted)
            note("routes: all %u rooms are taken: each new batch now replaces the one that was put "
                 "longest ago",
                 r->o.rooms);
        r->full_noted = true;
        index = r->oldest;
        unlink_room(r, index);
        link = &r->slots[slot_of(r, r->rooms[index].key)];
        while (*link != index)
            link = &r->rooms[*link].next_in_slot;
        *link = r->rooms[index].next_in_slot;
    }
    r->rooms[index].key = key;
    r->rooms[index].next_in_slot = r->slots[slot];
    r->slots[slot] = index;
    append_room(r, index);
    return index;
}

/* ---- Tokens. */

/* Returns a number that is no expert's stamp yet. */
static uint32_t next_token(struct moe_routes *r)
{
    if (!++r->token) {
        memset(r->stamp, 0, r->o.experts * sizeof(*r->stamp));
        r->token = 1;
    }
    return r->token;
}

/* Returns whether every id is an expert's, and no token has an expert twice. */
static bool ids_usable(struct moe_routes *r, const int32_t *ids, uint32_t rows)
{
    uint32_t k = r->o.top_k;

    for (uint32_t t = 0; t < rows; t++) {
        uint32_t token = next_token(r);

        for (uint32_t i = 0; i < k; i++) {
            uint32_t id = (uint32_t)ids[(size_t)t * k + i];

            if (id >= r->o.experts || r->stamp[id] == token)
                return false;
            r->stamp[id] = token;
        }
    }
    return true;
}

/* Returns whether both lists have the same experts. Neither has an expert twice, so counting the
 * common ones is enough. */
static bool has_same_experts(struct moe_routes *r, const uint16_t *old, const int32_t *ids)
{
    uint32_t k = r->o.top_k, token = 0, common = 0;

    for (uint32_t i = 0; i < k && old[i] == ids[i]; i++)
        common++;
    if (common == k)
        return true;
    token = next_token(r);
    for (uint32_t i = 0; i < k; i++)
        r->stamp[old[i]] = token;
    common = 0;
    for (uint32_t i = 0; i < k; i++)
        common += r->stamp[ids[i]] == token;
    return common == k;
}

int moe_routes_put(struct moe_routes *r, uint64_t key, const int32_t *ids, uint32_t rows,
                   uint32_t top_k, uint64_t *same, uint64_t *compared)
{
    uint64_t same_tokens = 0;
    uint32_t compared_tokens = 0;
    uint16_t *stored_ids;
    int32_t index;

    if (!r || !ids || !rows || rows > r->o.rows || top_k != r->o.top_k || !ids_usable(r, ids, rows))
        return MOE_ERR_ARGUMENT;
    index = find_room(r, key);
    if (index == NONE) {
        index = take_room(r, key);
    } else {
        compared_tokens = r->rooms[index].rows == rows ? rows : 0;
        unlink_room(r, index);
        append_room(r, index);
    }
    stored_ids = ids_of(r, index);
    for (uint32_t t = 0; t < compared_tokens; t++)
        same_tokens += has_same_experts(r, stored_ids + (size_t)t * top_k, ids + (size_t)t * top_k);
    for (size_t i = 0; i < (size_t)rows * top_k; i++)
        stored_ids[i] = (uint16_t)ids[i];
    r->rooms[index].rows = rows;
    if (same)
        *same = same_tokens;
    if (compared)
        *compared = compared_tokens;
    return MOE_OK;
}

int moe_routes_get(const struct moe_routes *r, uint64_t key, int32_t *ids, size_t room,
                   uint32_t *rows)
{
    const uint16_t *stored_ids;
    size_t count;
    int32_t index;

    if (!r || !ids || !rows)
        return MOE_ERR_ARGUMENT;
    index = find_room(r, key);
    if (index == NONE) {
        *rows = 0;
        return MOE_OK;
    }
    count = (size_t)r->rooms[index].rows * r->o.top_k;
    if (room < count)
        return MOE_ERR_ARGUMENT;
    stored_ids = ids_of(r, index);
    for (size_t i = 0; i < count; i++)
        ids[i] = stored_ids[i];
    *rows = r->rooms[index].rows;
    return MOE_OK;
}

/* ---- On or off. */

int moe_routes_decide(struct moe_routes *r, uint64_t pass, uint64_t same, uint64_t total,
                      uint32_t *on)
{
    if (!r || !on || same > total || pass < r->pass)
        return MOE_ERR_ARGUMENT;
    r->pass = pass;
    if (!total) {
        /* nothing was compared, so nothing changes */
    } else if (r->on) {
        r->on = (wide)same * 1000 >= (wide)r->o.off * total;
    } else {
        r->on = pass >= r->o.first_pass && (wide)same * 1000 >= (wide)r->o.on * total;
    }
    *on = r->on;
    return MOE_OK;
}
