/* Gathered weights that several layers share (w=cache): of d pieces there is room for two, of a
 * single one for that.  A step uses pieces forwards, layer by layer, then backwards; the next that
 * is not there is fetched as soon as a room is free, under what is computed meanwhile.  Where the
 * passes turn round, what the forward pass used last is there. */
#ifndef CACHE_H
#define CACHE_H

#include "weights.h"

enum { CACHE_ROOMS = 2 };

struct cache {
    struct weights **layers; /* of each layer; NULL: there is no cache */
    uint32_t count, pieces, rooms;
    bool train;
    struct event *used[CACHE_ROOMS]; /* what a room holds may be overwritten */
};

/* Pieces that have room at a time. */
static inline uint32_t cache_rooms(uint32_t pieces)
{
    return pieces < CACHE_ROOMS ? pieces : CACHE_ROOMS;
}

/* layers[i] become borrowed; the array is copied. */
int cache_open(struct cache *cache, struct device *device, struct weights *const *layers,
               uint32_t count);
void cache_close(struct cache *cache); /* a zeroed one is fine */

/* At the beginning of a step: fetches what has room. */
int cache_begin(struct cache *cache, struct engine *engine);

/* A piece of a layer, in a pass. */
struct cache_use {
    uint32_t layer, piece;
    bool backward;
};

/* Before what is computed with it and after: the compute stream waits for it, and converts it; the
 * next is fetched in its place.  In the order of the step. */
int cache_take(struct cache *cache, struct engine *engine, struct cache_use use);
int cache_give(struct cache *cache, struct engine *engine, struct cache_use use);

#endif
