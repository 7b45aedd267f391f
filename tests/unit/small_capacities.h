/* Makes controllers of capacities for a few experts, with options and counts drawn by a key. */
#ifndef SMALL_CAPACITIES_H
#define SMALL_CAPACITIES_H

#include "check.h"

#include "moelookup.h"
#include "random.h"

#include <stdlib.h>

enum { EXPERTS_MOST = 8, STEPS = 60 };

static inline struct moe_capacities_options options_of(uint32_t experts, uint32_t ranks,
                                                       uint32_t most)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;

    o.experts = experts;
    o.ranks = ranks;
    o.most = most;
    return o;
}

static inline struct moe_capacities *open_with(const struct moe_capacities_options *o)
{
    struct moe_capacities *c = NULL;

    if (moe_capacities_open(o, &c))
        abort();
    return c;
}

static inline struct moe_capacities_state state_at(struct moe_capacities *c, uint64_t step,
                                                   const uint32_t **rows)
{
    struct moe_capacities_state state = MOE_CAPACITIES_STATE_INIT;

    CHECK(moe_capacities_at(c, step, rows, &state) == MOE_OK);
    return state;
}

static inline struct moe_capacities_options random_options(uint64_t key)
{
    static const uint32_t sizes[][2] = { { 1, 1 }, { 4, 2 }, { 6, 3 }, { 8, 2 },
                                         { 8, 8 }, { 2, 8 }, { 8, 4 }, { 5, 1 } };
    const uint32_t *size = sizes[random_below(key, 0, 8)];
    struct moe_capacities_options o = options_of(size[0], size[1], 20 + random_below(key, 1, 60));

    o.start = random_below(key, 2, o.most + 1);
    o.grid = 1 + random_below(key, 3, 9);
    o.hold = 1 + random_below(key, 4, 9);
    o.gap = 1 + random_below(key, 5, 7);
    o.low = random_below(key, 6, 1000);
    o.slack = random_below(key, 7, 3) * random_below(key, 8, 300);
    o.drops = random_below(key, 9, 4) ? random_below(key, 10, 40000) : 0;
    o.delta = 1 + random_below(key, 11, 4);
    return o;
}

static inline void random_counts(uint64_t key, uint64_t step, uint32_t experts, uint32_t *counts)
{
    uint32_t level = random_below(key, step / 12, 40);

    for (uint32_t e = 0; e < experts; e++)
        counts[e] = random_below(key ^ e, step, 3)
                        ? 1 + random_below(key ^ e, step + 99, 20 + level)
                        : random_below(key ^ e, step + 7, 3);
    counts[step % experts] |= 1;
}

static inline void *saved(const struct moe_capacities *c, size_t *size)
{
    void *bytes;

    CHECK(!moe_capacities_save(c, NULL, size));
    bytes = malloc(*size);
    CHECK(bytes && !moe_capacities_save(c, bytes, size));
    return bytes;
}

#endif
