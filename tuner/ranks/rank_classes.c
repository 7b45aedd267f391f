/* Sorts ranks by their speed. */
#include "rank_classes.h"

#include <math.h>

static double slowest_of(const double *speeds, uint32_t ranks)
{
    double slowest = speeds[0];

    for (uint32_t q = 1; q < ranks; q++)
        slowest = fmin(slowest, speeds[q]);
    return slowest;
}

static void note_class(struct rank_classes *list, struct rank_class one)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i].pace == one.pace)
            return;
    list->at[list->count++] = one;
}

struct rank_classes rank_classes_of(const struct moe_shape *shape, const double *speeds,
                                    uint32_t ranks)
{
    struct rank_classes list = { .count = 0 };
    double slowest;

    if (shape->shares == MOE_SHARES_EQUAL || !speeds)
        return (struct rank_classes){ .at = { { .rank = 0, .pace = 1 } }, .count = 1 };
    slowest = slowest_of(speeds, ranks);
    for (uint32_t q = 0; q < ranks; q++)
        note_class(&list, (struct rank_class){ (int)q, speeds[q] / slowest });
    return list;
}

struct cluster cluster_at_pace(struct cluster c, double pace)
{
    c.gemm_gflops *= pace;
    c.memory_gbs *= pace;
    c.launch_us /= pace;
    return c;
}
