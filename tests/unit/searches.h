/* Makes searches for tests, and shapes whose experts are shared by a given number of ranks. */
#ifndef SEARCHES_H
#define SEARCHES_H

#include "check.h"

#include "history.h"
#include "status.h"

static inline struct search *search_for(const char *strategy, const struct moe_shape *shape,
                                        const struct moe_plan *arms, size_t count, uint32_t repeats)
{
    struct search_setup setup = {
        .shape = *shape, .arms = arms, .arm_count = count, .repeats = repeats, .seed = 42
    };
    struct search *search = NULL;

    CHECK(search_open(search_find(strategy), &setup, &search) == OK);
    return search;
}

static inline struct moe_shape shared_by(uint32_t slices)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 1,
                               .top_k = 1,
                               .model_dim = 64,
                               .hidden_dim = slices,
                               .ranks = slices,
                               .ranks_per_node = 1 };
}

#endif
