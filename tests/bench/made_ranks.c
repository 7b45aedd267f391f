/* A crew (tuner/ranks/crew.h) that answers each order from made-up times. */
#include "made_ranks.h"

#include "crew.h"
#include "noise.h"
#include "plan.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made_ranks made_ranks;

enum { OPEN_MOST = 1 << 14 };

struct crew {
    struct moe_shape shape;
    bool has_layer;
    uint32_t launch;
    uint64_t *open; /* plans at capacities that were prepared in this launch, by their numbers */
    size_t open_count;
};

/* One number for a plan of a layer at a capacity in a launch. */
static uint64_t number_of(const struct moe_shape *shape, const struct moe_plan *plan,
                          uint64_t capacity, uint32_t launch)
{
    uint64_t number = random_bits(launch, capacity);
    char layer[SHAPE_TEXT_BYTES];

    shape_format(shape, layer, sizeof(layer));
    for (const char *c = layer; *c; c++)
        number = random_bits(number, (uint64_t)*c);
    for (const char *c = PLAN_TEXT(plan); *c; c++)
        number = random_bits(number, (uint64_t)*c);
    return number;
}

double made_luck(const struct moe_shape *shape, const struct moe_plan *plan, uint64_t capacity,
                 uint32_t launch)
{
    if (!(made_ranks.luck > 0))
        return 0;
    return made_ranks.luck * normal_draw(made_ranks.seed, number_of(shape, plan, capacity, launch));
}

/* Before the first step of a plan three warm it. */
static bool prepare(struct crew *crew, uint64_t number)
{
    for (size_t i = 0; i < crew->open_count; i++)
        if (crew->open[i] == number)
            return false;
    if (crew->open_count < OPEN_MOST)
        crew->open[crew->open_count++] = number;
    return true;
}

static void step(struct crew *crew, const struct order *order, struct reply *reply)
{
    const struct moe_plan *plan = &order->plan;
    double ns = made_ranks.true_ns(made_ranks.self, &crew->shape, plan, order->capacity);
    uint64_t key = ~made_ranks.seed;

    if (isnan(ns)) {
        reply->state = TRIAL_FAILED;
        snprintf(reply->message, sizeof(reply->message), "there is no such plan");
        return;
    }
    if (prepare(crew, number_of(&crew->shape, plan, order->capacity, crew->launch))) {
        reply->warm_steps = 3;
        reply->compute_ns = (int64_t)(.7 * ns);
        reply->comm_ns = (int64_t)(.3 * ns);
    }
    ns *= exp(made_luck(&crew->shape, plan, order->capacity, crew->launch) +
              made_ranks.noise * normal_draw(key, order->sample));
    if (uniform_draw(key + 1, order->sample) < made_ranks.outliers)
        ns *= 3;
    reply->ns = (int64_t)ns;
    reply->memory_bytes = reply->sent_bytes = 1 << 20;
    reply->messages = 1;
}

/* ---- in place of crew.h */

int __wrap_crew_open(const struct crew_setup *setup, struct crew **out);
void __wrap_crew_close(struct crew *crew);
int __wrap_crew_do(struct crew *crew, const struct order *order, struct reply *reply);
int __wrap_crew_relaunch(struct crew *crew, uint32_t number);
int64_t __wrap_crew_launch_ns(const struct crew *crew);

int __wrap_crew_open(const struct crew_setup *setup, struct crew **out)
{
    struct crew *crew = calloc(1, sizeof(*crew));

    (void)setup;
    if (crew)
        crew->open = calloc(OPEN_MOST, sizeof(*crew->open));
    if (!crew || !crew->open) {
        free(crew);
        return fail(ERR_NOMEM, "a crew");
    }
    *out = crew;
    return OK;
}

void __wrap_crew_close(struct crew *crew)
{
    if (crew)
        free(crew->open);
    free(crew);
}

int __wrap_crew_do(struct crew *crew, const struct order *order, struct reply *reply)
{
    *reply = (struct reply){ .state = TRIAL_OK };
    if (order->kind == ORDER_LAYER) {
        crew->shape = order->shape;
        crew->has_layer = true;
        crew->open_count = 0;
    } else if (order->kind == ORDER_STEP && crew->has_layer) {
        step(crew, order, reply);
    } else if (order->kind == ORDER_STEP) {
        reply->state = TRIAL_FAILED;
    }
    return OK;
}

int __wrap_crew_relaunch(struct crew *crew, uint32_t number)
{
    crew->launch = number;
    crew->open_count = 0;
    return OK;
}

int64_t __wrap_crew_launch_ns(const struct crew *crew)
{
    (void)crew;
    return made_ranks.launch_ns;
}
