/* Uses of a step are numbered: of n pieces in all, 0 to n - 1 forwards, n to 2 n - 1 backwards. */
#include "cache.h"

#include "status.h"

#include <assert.h>
#include <stdlib.h>

static uint32_t pieces_of(const struct cache *c)
{
    return c->count * c->pieces;
}

static uint32_t number_of(const struct cache *c, struct cache_use use)
{
    uint32_t forward = use.layer * c->pieces + use.piece;

    return use.backward ? 2 * pieces_of(c) - 1 - forward : forward;
}

static struct cache_use use_of(const struct cache *c, uint32_t number)
{
    bool backward = number >= pieces_of(c);
    uint32_t forward = backward ? 2 * pieces_of(c) - 1 - number : number;

    return (struct cache_use){ forward / c->pieces, forward % c->pieces, backward };
}

/* It is not what the forward pass left. */
static bool is_fetched(const struct cache *c, uint32_t number)
{
    return number < pieces_of(c) || number >= pieces_of(c) + c->rooms;
}

int cache_open(struct cache *c, struct device *device, struct weights *const *layers,
               uint32_t count)
{
    c->layers = calloc(count, sizeof(struct weights *));
    if (!c->layers)
        return fail(ERR_NOMEM, "a cache of %u layers", count);
    for (uint32_t i = 0; i < count; i++)
        c->layers[i] = layers[i];
    c->count = count;
    c->pieces = layers[0]->piece_count;
    c->rooms = cache_rooms(c->pieces);
    assert(c->pieces % c->rooms == 0); /* a use and the one that takes its room are so far apart */
    c->train = layers[0]->layer->shape.pass == MOE_TRAIN;
    for (uint32_t i = 0; i < c->rooms; i++)
        TRY(event_open(device, &c->used[i]));
    return OK;
}

void cache_close(struct cache *c)
{
    for (uint32_t i = 0; i < CACHE_ROOMS; i++)
        event_close(c->used[i]);
    free(c->layers);
    *c = (struct cache){ 0 };
}

int cache_begin(struct cache *c, struct engine *engine)
{
    for (uint32_t i = 0; i < c->rooms; i++) {
        struct cache_use use = use_of(c, i);

        TRY(weights_fetch(c->layers[use.layer], engine, use.piece));
    }
    return OK;
}

int cache_take(struct cache *c, struct engine *engine, struct cache_use use)
{
    if (!is_fetched(c, number_of(c, use)))
        return OK;
    return weights_ready(c->layers[use.layer], engine, use.piece);
}

int cache_give(struct cache *c, struct engine *engine, struct cache_use use)
{
    uint32_t next = number_of(c, use) + c->rooms, all = pieces_of(c) * (c->train ? 2 : 1);
    struct event *used = c->used[use.piece % c->rooms];
    struct cache_use then;

    if (next >= all || !is_fetched(c, next))
        return OK;
    then = use_of(c, next);
    TRY(event_record(used, engine->compute));
    TRY(event_wait(used, engine->comm));
    return weights_fetch(c->layers[then.layer], engine, then.piece);
}
