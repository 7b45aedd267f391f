/* Lists the plans and buckets of one layer, and what memory plans need. */
#include "layer_plans.h"

#include "buckets.h"
#include "declaration.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MAX = 1 << 20 };

int layer_plans_buckets(const char *text, uint32_t *first_bucket, uint32_t *last_bucket)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), last = first;
    const char *at = end;

    if (*text >= '0' && *text <= '9' && *at == ':') {
        last = strtoul(at + 1, &end, 10);
        if (at[1] < '0' || at[1] > '9')
            end = (char *)text;
    }
    if (*text < '0' || *text > '9' || *end || last < first || last >= BUCKETS_MAX)
        return fail(ERR_ARGUMENT, "--buckets %s: \"LO:HI\" is wanted, from 0 to %d", text,
                    BUCKETS_MAX - 1);
    *first_bucket = (uint32_t)first;
    *last_bucket = (uint32_t)last;
    return OK;
}

/* Lists the buckets to measure, so many per doubling of c (0: every bucket), and the last one.  A
 * sweep that is cut off has seen the whole range: that is why coarse ones come first. */
static int list_anchors(struct layer_plans *space, double per_octave)
{
    size_t room = space->last - space->first + 1;
    size_t stride = per_octave > 0 ? (size_t)ceil(per_octave) : 16;

    space->anchors = malloc(room * sizeof(*space->anchors));
    if (!space->anchors)
        return fail(ERR_NOMEM, "%zu buckets", room);
    for (int fine = 0; fine < 2; fine++) {
        uint32_t b = space->first;

        for (size_t i = 0;; i++) {
            double capacity = (double)layer_plans_capacity(space, b) * exp2(1 / per_octave);
            uint32_t next = per_octave > 0 ? (uint32_t)(capacity / space->window) : 0;

            if ((i % stride != 0 && b != space->last) == fine)
                space->anchors[space->anchor_count++] = b;
            if (b == space->last)
                break;
            b = next > b ? next : b + 1;
            b = b < space->last ? b : space->last;
        }
    }
    return OK;
}

int layer_plans_open(const struct moe_shape *shape, const struct layer_plans_setup *setup,
                     struct layer_plans *out)
{
    struct layer_plans space = { .shape = *shape,
                                 .window = setup->window,
                                 .memory_limit_bytes = setup->memory_limit_bytes,
                                 .machine = setup->machine };
    struct moe_plan plans[SEARCH_ARMS_MAX], default_plan;
    int rc;

    TRY(shape_check(shape));
    if (shape->space)
        space.last = (uint32_t)buckets_end(buckets_of(shape, 1)) - 1;
    if (setup->window < 1 || setup->window > 1 << 20)
        return fail(ERR_ARGUMENT, "--window %u: from 1 to %d is wanted", setup->window, 1 << 20);
    if (setup->buckets)
        TRY(layer_plans_buckets(setup->buckets, &space.first, &space.last));
    else if (!shape->space) {
        /* The buckets that capacity factors from 1 to max_factor reach, as the paper varies them.
         */
        uint64_t least = moe_capacity(1, shape->top_k, shape->experts, shape->tokens, 0), most;

        if (setup->max_factor == 0 && !setup->needed)
            return fail(ERR_ARGUMENT, "--max-capacity-factor 0: how many rows experts need is "
                                      "what --skew or --routing says");
        if (setup->max_factor != 0 && (!(setup->max_factor >= 1) || setup->max_factor > 1e6))
            return fail(ERR_ARGUMENT, "--max-capacity-factor %g: 0, or from 1 to 1e6, is wanted",
                        setup->max_factor);
        most = moe_capacity(setup->max_factor, shape->top_k, shape->experts, shape->tokens,
                            setup->needed);
        most = most > least ? most : least;
        if (most / space.window >= BUCKETS_MAX)
            return fail(ERR_ARGUMENT, "capacities up to %llu make more than %d buckets of width %u",
                        (unsigned long long)most, BUCKETS_MAX, space.window);
        space.first = (uint32_t)(least / space.window);
        space.last = (uint32_t)(most / space.window);
    }
    /* A request has room for many layers: each keeps the plans it has, not the most there may be.
     */
    TRY(arms_list(shape, &setup->arms, plans, &space.arm_count));
    space.arms = malloc(space.arm_count * sizeof(*plans));
    if (!space.arms)
        return fail(ERR_NOMEM, "the plans of a layer");
    memcpy(space.arms, plans, space.arm_count * sizeof(*plans));
    default_plan = plan_default(shape);
    space.default_arm = layer_plans_arm(&space, &default_plan);
    TRY_OUT(list_anchors(&space, setup->effort->anchors_per_octave));
    *out = space;
    return OK;
out:
    layer_plans_close(&space);
    return rc;
}

void layer_plans_close(struct layer_plans *space)
{
    load_close(space->load);
    space->load = NULL;
    free(space->arms);
    space->arms = NULL;
    free(space->anchors);
    space->anchors = NULL;
}

uint64_t layer_plans_capacity(const struct layer_plans *space, uint32_t bucket)
{
    return buckets_capacity(buckets_of(&space->shape, space->window), bucket);
}

int64_t layer_plans_bytes(const struct layer_plans *space, int arm, uint32_t bucket)
{
    return account_alone(&space->shape, &space->machine, &space->arms[arm],
                         layer_plans_capacity(space, bucket));
}

bool layer_plans_fits(const struct layer_plans *space, int arm, uint32_t bucket)
{
    return layer_plans_bytes(space, arm, bucket) <= space->memory_limit_bytes;
}

int64_t layer_plans_least_bytes(const struct layer_plans *space)
{
    int64_t least = space->anchor_count ? INT64_MAX : 0; /* nothing is to be measured */

    for (size_t i = 0; i < space->anchor_count; i++)
        for (size_t arm = 0; arm < space->arm_count; arm++) {
            int64_t bytes = layer_plans_bytes(space, (int)arm, space->anchors[i]);

            least = bytes < least ? bytes : least;
        }
    return least;
}

uint64_t layer_plans_paper_trials(const struct layer_plans *space)
{
    return (uint64_t)shape_paper_trials(&space->shape) * (space->last - space->first + 1);
}

int layer_plans_arm(const struct layer_plans *space, const struct moe_plan *plan)
{
    return arms_find(space->arms, space->arm_count, plan);
}
