/* Lists the plans and buckets of one layer, and computes the memory that plans need. */
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
    const char *colon = end;

    if (*text >= '0' && *text <= '9' && *colon == ':') {
        last = strtoul(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9')
            end = (char *)text;
    }
    if (*text < '0' || *text > '9' || *end || last < first || last >= BUCKETS_MAX)
        return fail(ERR_ARGUMENT, "--buckets %s: write LO:HI, two numbers from 0 to %d", text,
                    BUCKETS_MAX - 1);
    *first_bucket = (uint32_t)first;
    *last_bucket = (uint32_t)last;
    return OK;
}

/* Lists the buckets to measure: so many per doubling of c (0: every bucket), and the last one.
 * Widely spaced ones come first, so that a sweep that is cut off has measured the whole range. */
static int list_anchors(struct layer_plans *plans, double per_octave)
{
    size_t buckets = plans->last - plans->first + 1;
    size_t stride = per_octave > 0 ? (size_t)ceil(per_octave) : 16;

    plans->anchors = malloc(buckets * sizeof(*plans->anchors));
    if (!plans->anchors)
        return fail(ERR_NOMEM, "%zu buckets", buckets);
    for (int fine = 0; fine < 2; fine++) { /* every stride-th one and the last; then the others */
        uint32_t b = plans->first;

        for (size_t i = 0;; i++) {
            double capacity = (double)layer_plans_capacity(plans, b) * exp2(1 / per_octave);
            uint32_t next = per_octave > 0 ? (uint32_t)(capacity / plans->window) : 0;

            if ((i % stride != 0 && b != plans->last) == fine)
                plans->anchors[plans->anchor_count++] = b;
            if (b == plans->last)
                break;
            b = next > b ? next : b + 1;
            b = b < plans->last ? b : plans->last;
        }
    }
    return OK;
}

int layer_plans_open(const struct moe_shape *shape, const struct layer_plans_setup *setup,
                     struct layer_plans *out)
{
    struct layer_plans plans = { .shape = *shape,
                                 .window = setup->window,
                                 .memory_limit_bytes = setup->memory_limit_bytes,
                                 .machine = setup->machine };
    struct moe_plan listed[SEARCH_ARMS_MAX], default_plan;
    int rc;

    TRY(shape_check(shape));
    if (shape->space)
        plans.last = (uint32_t)buckets_end(buckets_of(shape, 1)) - 1;
    if (setup->window < 1 || setup->window > 1 << 20)
        return fail(ERR_ARGUMENT, "--window %u: must be from 1 to %d", setup->window, 1 << 20);
    if (setup->buckets)
        TRY(layer_plans_buckets(setup->buckets, &plans.first, &plans.last));
    else if (!shape->space) {
        /* The buckets that capacity factors from 1 to max_factor reach, as the paper varies them.
         */
        uint64_t least_capacity = moe_capacity(1, shape->top_k, shape->experts, shape->tokens, 0),
                 most_capacity;

        if (setup->max_factor == 0 && !setup->needed)
            return fail(ERR_ARGUMENT, "--max-capacity-factor 0 needs --skew or --routing, which "
                                      "say how many rows experts need");
        if (setup->max_factor != 0 && (!(setup->max_factor >= 1) || setup->max_factor > 1e6))
            return fail(ERR_ARGUMENT, "--max-capacity-factor %g: must be 0, or from 1 to 1e6",
                        setup->max_factor);
        most_capacity = moe_capacity(setup->max_factor, shape->top_k, shape->experts, shape->tokens,
                                     setup->needed);
        most_capacity = most_capacity > least_capacity ? most_capacity : least_capacity;
        if (most_capacity / plans.window >= BUCKETS_MAX)
            return fail(ERR_ARGUMENT,
                        "--window %u: capacities up to %llu make more than %d buckets",
                        plans.window, (unsigned long long)most_capacity, BUCKETS_MAX);
        plans.first = (uint32_t)(least_capacity / plans.window);
        plans.last = (uint32_t)(most_capacity / plans.window);
    }
    /* A request may have many layers, so each has its own plans only, not the longest list. */
    TRY(arms_list(shape, &setup->arms, listed, &plans.arm_count));
    plans.arms = malloc(plans.arm_count * sizeof(*listed));
    if (!plans.arms)
        return fail(ERR_NOMEM, "the plans of a layer");
    memcpy(plans.arms, listed, plans.arm_count * sizeof(*listed));
    default_plan = plan_default(shape);
    plans.default_arm = layer_plans_arm(&plans, &default_plan);
    TRY_OUT(list_anchors(&plans, setup->effort->anchors_per_octave));
    *out = plans;
    return OK;
out:
    layer_plans_close(&plans);
    return rc;
}

void layer_plans_close(struct layer_plans *plans)
{
    load_close(plans->load);
    plans->load = NULL;
    free(plans->arms);
    plans->arms = NULL;
    free(plans->anchors);
    plans->anchors = NULL;
}

uint64_t layer_plans_capacity(const struct layer_plans *plans, uint32_t bucket)
{
    return buckets_key_of(buckets_of(&plans->shape, plans->window), bucket);
}

int64_t layer_plans_bytes(const struct layer_plans *plans, int arm, uint32_t bucket)
{
    return account_alone(&plans->shape, &plans->machine, &plans->arms[arm],
                         layer_plans_capacity(plans, bucket));
}

bool layer_plans_fits(const struct layer_plans *plans, int arm, uint32_t bucket)
{
    return layer_plans_bytes(plans, arm, bucket) <= plans->memory_limit_bytes;
}

int64_t layer_plans_least_bytes(const struct layer_plans *plans)
{
    int64_t least = plans->anchor_count ? INT64_MAX : 0; /* nothing is to be measured */

    for (size_t i = 0; i < plans->anchor_count; i++)
        for (size_t arm = 0; arm < plans->arm_count; arm++) {
            int64_t bytes = layer_plans_bytes(plans, (int)arm, plans->anchors[i]);

            least = bytes < least ? bytes : least;
        }
    return least;
}

uint64_t layer_plans_paper_trials(const struct layer_plans *plans)
{
    return (uint64_t)shape_paper_trials(&plans->shape) * (plans->last - plans->first + 1);
}

int layer_plans_arm(const struct layer_plans *plans, const struct moe_plan *plan)
{
    return arms_find(plans->arms, plans->arm_count, plan);
}
