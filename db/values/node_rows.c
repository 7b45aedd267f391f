/* Computes how many rows go to a node: on average under random routing, or by the measured need. */
#include "node_rows.h"

#include "shape.h"

#include <math.h>

/* Returns the chance that `chosen` draws from `all` things hit none of `some` of them. */
static double chance_of_none(double all, double some, uint32_t chosen)
{
    double chance = 1;

    for (uint32_t i = 0; i < chosen; i++)
        chance *= fmax(0, all - some - i) / fmax(1, all - i);
    return chance;
}

double shape_node_share(const struct moe_shape *shape, uint32_t nodes)
{
    double share = 1 - chance_of_none(shape->experts, (double)shape->experts / nodes, shape->top_k);

    if (!shape->groups)
        return share;
    return fmin(share, 1 - chance_of_none(shape->groups, fmax(1, (double)shape->groups / nodes),
                                          shape->group_limit));
}

static uint64_t round_up_to_even(uint64_t n)
{
    return n + n % 2;
}

uint64_t shape_node_rows(const struct moe_shape *shape, uint64_t tokens, uint64_t need,
                         uint64_t capacity)
{
    uint64_t slots = capacity * (shape->experts / shape_nodes(shape)), rows = need;
    uint64_t most = tokens < slots ? tokens : slots;
    /* The rows per expert if routing is balanced. */
    double filled = (double)shape->top_k * (double)tokens / shape->experts;

    if (!need)
        return round_up_to_even(most);
    if ((double)capacity > filled)
        rows = (uint64_t)ceil((double)need * (double)capacity / filled);
    return round_up_to_even(rows < most ? rows : most);
}

uint64_t shape_node_need(const struct moe_shape *shape, uint64_t tokens)
{
    return (uint64_t)ceil((double)tokens * shape_node_share(shape, shape_nodes(shape)));
}
