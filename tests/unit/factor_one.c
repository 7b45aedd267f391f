/* Prints how long the plans of a modelled cluster's table take at the capacity of factor 1, in
 * percent of the default plan's time: for each entry whose bucket holds that capacity, not at the
 * bucket's edge. factor_one CLUSTER DATABASE */
#include "cluster.h"
#include "crew.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <stdio.h>

struct asking {
    struct store *store;
    struct crew *crew;
};

static int step_ns(struct crew *crew, const struct moe_shape *shape, struct moe_plan plan,
                   int64_t *ns)
{
    struct order order = {
        .kind = ORDER_LAYER, .shape = *shape, .seed = 1, .memory_limit_bytes = INT64_MAX
    };
    struct reply reply;

    TRY(crew_do(crew, &order, &reply));
    order.kind = ORDER_STEP;
    order.plan = plan;
    order.capacity = moe_capacity(1, shape->top_k, shape->experts, shape->tokens, 0);
    TRY(crew_do(crew, &order, &reply));
    *ns = reply.ns;
    return reply.state == TRIAL_OK ? OK : fail(ERR_DEVICE, "a modelled step: %s", reply.message);
}

static int compare(void *self, const struct entry_row *entry)
{
    const struct asking *a = self;
    char text[SHAPE_TEXT_BYTES], plan[PLAN_TEXT_BYTES];
    struct moe_shape shape;
    int64_t ns, default_ns;

    TRY(store_shape_get(a->store, entry->shape, &shape));
    if (entry->bucket !=
        moe_capacity(1, shape.top_k, shape.experts, shape.tokens, 0) / entry->window)
        return OK;
    TRY(step_ns(a->crew, &shape, entry->plan, &ns));
    TRY(step_ns(a->crew, &shape, plan_default(NULL), &default_ns));
    shape_format(&shape, text, sizeof(text));
    moe_plan_format(&entry->plan, plan, sizeof(plan));
    printf("%.2f %s R=%u %s\n", 100.0 * (double)ns / (double)default_ns, text, entry->window, plan);
    return OK;
}

int main(int count, char **arguments)
{
    struct asking a = { 0 };
    struct cluster cluster;
    int rc = count == 3 ? cluster_read(arguments[1], &cluster) : ERR_ARGUMENT;

    cluster_remove_noise(&cluster);
    if (!rc)
        rc = crew_open(&(struct crew_setup){ .model = &cluster, .seed = 1 }, &a.crew);
    if (!rc)
        rc = store_read(arguments[2], &a.store);
    if (!rc)
        rc = store_entries(a.store, 0, 0, compare, &a);
    store_close(a.store);
    crew_close(a.crew);
    return rc ? 1 : 0;
}
