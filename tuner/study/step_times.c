/* Has modelled ranks run each plan once at each capacity. */
#include "step_times.h"

#include "crew.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sends an order to the ranks.  *ns is NAN if there is too little memory. */
static int send_order(struct crew *crew, const struct order *order, double *ns)
{
    struct reply reply;

    TRY(crew_do(crew, order, &reply));
    if (reply.state != TRIAL_OK && reply.state != TRIAL_NO_MEMORY)
        return fail(ERR_DEVICE, "a modelled step failed: %s", reply.message);
    *ns = reply.state == TRIAL_OK ? (double)reply.ns : NAN;
    return OK;
}

static int run_plans(const struct step_times_ask *a, struct step_times *t, struct crew *crew)
{
    struct order order = {
        .kind = ORDER_LAYER, .shape = *a->shape, .seed = a->seed, .memory_limit_bytes = INT64_MAX
    };
    double ns;

    TRY(load_text(a->load, order.load));
    TRY(send_order(crew, &order, &ns));
    order.kind = ORDER_STEP;
    for (size_t i = 0; i < t->count; i++)
        for (size_t arm = 0; arm < t->arm_count; arm++) {
            order.capacity = t->capacities[i];
            order.plan = t->arms[arm];
            TRY(send_order(crew, &order, &t->ns[i * t->arm_count + arm]));
        }
    return OK;
}

int step_times_open(const struct step_times_ask *ask, struct step_times *out)
{
    struct step_times times = { .arms = ask->arms, .arm_count = ask->arm_count };
    struct cluster silent = *ask->cluster;
    struct crew *crew = NULL;
    int rc = OK;

    cluster_remove_noise(&silent);
    times.capacities = malloc(ask->count * sizeof(*times.capacities));
    times.ns = malloc(ask->count * ask->arm_count * sizeof(*times.ns));
    TRY_OUT(times.capacities && times.ns
                ? OK
                : fail(ERR_NOMEM, "%zu modelled step times", ask->count * ask->arm_count));
    memcpy(times.capacities, ask->capacities, ask->count * sizeof(*times.capacities));
    qsort(times.capacities, ask->count, sizeof(*times.capacities), by_size);
    for (size_t i = 0; i < ask->count; i++) /* without repetitions */
        if (!times.count || times.capacities[times.count - 1] != times.capacities[i])
            times.capacities[times.count++] = times.capacities[i];
    TRY_OUT(crew_open(&(struct crew_setup){ .model = &silent, .seed = 1 }, &crew));
    TRY_OUT(run_plans(ask, &times, crew));
    *out = times;
    times = (struct step_times){ .count = 0 }; /* the caller has the arrays now */
out:
    crew_close(crew);
    step_times_close(&times);
    return rc;
}

void step_times_close(struct step_times *times)
{
    free(times->capacities);
    free(times->ns);
    *times = (struct step_times){ .count = 0 };
}

const double *step_times_at(const struct step_times *t, uint64_t capacity)
{
    size_t low = 0, high = t->count; /* the capacity's index is in [low, high) */

    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (t->capacities[middle] <= capacity)
            low = middle;
        else
            high = middle;
    }
    return t->ns + low * t->arm_count;
}
