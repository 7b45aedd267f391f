/* How many rows go to a node: by chance, and by what ranks need. */
#include "node_rows.h"

#include "shape.h"

#include <math.h>

/* The chance that of `all`, of which `chosen` are drawn, none is one of `some`. */
static double none_of(double all, double some, uint32_t chosen)
{
    double none = 1;

    for (uint32_t i = 0; i < chosen; i++)
        none *= fmax(0, all - some - i) / fmax(1, all - i);
    return none;
}

double shape_node_share(const struct moe_shape *shape, uint32_t nodes)
{
    double share = 1 - none_of(shape->experts, (double)shape->experts / nodes, shape->top_k);

    if (!shape->groups)
        return share;
    return fmin(share, 1 - none_of(shape->groups, fmax(1, (double)shape->groups / nodes),
                                   shape->group_limit));
}

static uint64_t even(uint64_t n)
{
    return n + n % 2;
}

uint64_t shape_node_rows(const struct moe_shape *shape, uint64_t tokens, uint64_t need,
                         uint64_t capacity)
{
    uint64_t slots = capacity * (shape->experts / shape_nodes(shape)), rows = need;
    uint64_t most = tokens < slots ? tokens : slots;
    double filled = (double)shape->top_k * (double)tokens / shape->experts; /* if balanced */

    if (!need)
        return even(most);
    if ((double)capacity > filled)
        rows = (uint64_t)ceil((double)need * (double)capacity / filled);
    return even(rows < most ? rows : most);
}

uint64_t shape_node_need(const struct moe_shape *shape, uint64_t tokens)
{
    return (uint64_t)ceil((double)tokens * shape_node_share(shape, shape_nodes(shape)));
}
