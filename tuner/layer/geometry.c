/* Sizes and groups of ranks that follow from shape, plan, rank and capacity; tuner/layer/README.md
 * explains the formulas. */
#include "geometry.h"

static struct geometry stay_home(const struct moe_shape *shape, uint64_t capacity)
{
    struct group all = { 0, (int)shape->ranks };

    return (struct geometry){ .capacity = capacity,
                              .rows = capacity,
                              .chunk_rows = capacity,
                              .hidden = shape->hidden_dim,
                              .chunks = 1,
                              .copies = 1,
                              .shares = 1,
                              .peers = 1,
                              .local = shape->experts,
                              .weights = all,
                              .bias2 = all };
}

struct geometry geometry_of(const struct moe_shape *shape, const struct moe_plan *plan, int rank,
                            uint64_t capacity)
{
    uint32_t slices = shape_slices(shape), r = plan->r;
    uint32_t place, shares;
    uint64_t unit;

    if (r == 0)
        return stay_home(shape, capacity);
    place = (uint32_t)rank % slices; /* j: which rank of its expert */
    shares = slices / r;
    unit = (uint64_t)shares * plan->d;
    return (struct geometry){
        .capacity = capacity,
        .rows = (capacity + unit - 1) / unit * unit,
        .chunk_rows = (capacity + unit - 1) / unit,
        .hidden = shape->hidden_dim / r,
        .chunks = plan->d,
        .copies = r,
        .shares = shares,
        .peers = shape->ranks,
        .local = shape_local_experts(shape),
        .slice = place / shares,
        .weights = { rank - (int)(place % shares), (int)shares },
        .bias2 = { rank - (int)place, (int)slices },
    };
}
