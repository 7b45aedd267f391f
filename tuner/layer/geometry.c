/* Computes sizes and groups of ranks from shape, plan, rank and capacity; tuner/layer/README.md
 * explains the formulas. */
#include "geometry.h"

/* The geometry for r = 0, where tokens do not travel.  In MOE_LAYOUT_HIDDEN, weights are gathered
 * in d pieces. */
static struct geometry geometry_of_r0(const struct moe_shape *shape, uint32_t d, uint64_t capacity)
{
    struct group all = { 0, (int)shape->ranks };

    return (struct geometry){ .capacity = capacity,
                              .rows = capacity,
                              .chunk_rows = capacity,
                              .hidden = shape->hidden_dim,
                              .chunks = shape->layout == MOE_LAYOUT_HIDDEN ? d : 1,
                              .copies = 1,
                              .shares = 1,
                              .peers = 1,
                              .sources = 1,
                              .local = shape->experts,
                              .weights = all,
                              .bias2 = all };
}

struct geometry geometry_of(const struct moe_shape *shape, const struct moe_plan *plan, int rank,
                            uint64_t capacity)
{
    uint32_t slices = shape_slices(shape), r = plan->r;
    bool relayed = plan->a == MOE_A2A_RAIL;
    uint32_t peers = relayed ? shape->ranks_per_node : shape->ranks;
    uint32_t rank_of_expert, shares;
    uint64_t unit, source_rows;

    if (r == 0)
        return geometry_of_r0(shape, plan->d, capacity);
    rank_of_expert = (uint32_t)rank % slices; /* j: which rank of its expert */
    shares = slices / r;
    unit = (uint64_t)shares * plan->d;
    source_rows = capacity * (shape->ranks / peers);
    return (struct geometry){
        .capacity = capacity,
        .rows = (source_rows + unit - 1) / unit * unit,
        .chunk_rows = (source_rows + unit - 1) / unit,
        .hidden = shape->hidden_dim / r,
        .chunks = plan->d,
        .copies = r,
        .shares = shares,
        .peers = peers,
        .first_peer = rank - rank % (int)peers,
        .self = (uint32_t)rank % peers,
        .sources = shape->ranks / peers,
        .local = shape_local_experts(shape),
        .first = (uint32_t)rank % peers / slices * shape_local_experts(shape),
        .slice = rank_of_expert / shares,
        .weights = { rank - (int)(rank_of_expert % shares), (int)shares },
        .bias2 = { rank - (int)rank_of_expert, (int)slices },
    };
}

uint32_t geometry_experts(const struct geometry *g, const struct moe_shape *shape)
{
    return shape->experts / g->sources;
}

uint32_t geometry_first_expert(const struct geometry *g, const struct moe_shape *shape)
{
    return (uint32_t)g->first_peer / g->peers * geometry_experts(g, shape);
}

void geometry_divide(struct geometry *g, const struct moe_shape *shape,
                     const struct capacities *capacities, uint64_t *before)
{
    uint32_t experts = geometry_experts(g, shape), first = geometry_first_expert(g, shape);
    uint64_t unit = (uint64_t)g->shares * g->chunks;

    if (!capacities->rows)
        return;
    before[0] = 0;
    for (uint32_t e = 0; e < experts; e++) {
        uint64_t source_rows = capacities->rows[first + e] * g->sources;

        before[e + 1] = before[e] + (source_rows + unit - 1) / unit;
    }
    g->before = before;
}
