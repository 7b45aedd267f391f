/* A table of the sim back end's step times. */
#include "modelled.h"

#include "arms.h"
#include "crew.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>

static int measure(struct modelled *m, struct crew *crew)
{
    struct order order = {
        .kind = ORDER_LAYER, .shape = m->shape, .seed = 1, .memory_limit_bytes = INT64_MAX
    };
    struct reply reply;

    TRY(crew_do(crew, &order, &reply));
    order.kind = ORDER_STEP;
    for (uint32_t i = 0; i < m->count; i++)
        for (size_t arm = 0; arm < m->arm_count; arm++) {
            order.capacity = m->first + (uint64_t)i * m->step;
            order.plan = m->arms[arm];
            TRY(crew_do(crew, &order, &reply));
            if (reply.state != TRIAL_OK)
                return fail(ERR_DEVICE, "a modelled step: %s", reply.message);
            m->ns[i * m->arm_count + arm] = (double)reply.ns;
        }
    return OK;
}

int modelled_open(const char *cluster_file, const struct moe_shape *shape, uint32_t first,
                  uint32_t step, uint32_t count, struct modelled *out)
{
    struct moe_plan default_plan = plan_default(NULL);
    struct cluster cluster;
    struct crew *crew = NULL;
    int rc;

    *out = (struct modelled){ .shape = *shape, .first = first, .step = step, .count = count };
    TRY(cluster_read(cluster_file, &cluster));
    cluster.noise_percent = cluster.outlier_percent = cluster.drift_percent = 0;
    out->shape.ranks = cluster.ranks;
    out->shape.ranks_per_node = cluster.ranks_per_node;
    TRY(arms_list(&out->shape, &(struct arms_setup){ .axes = "r,d,a" }, out->arms,
                  &out->arm_count));
    out->default_arm = arms_find(out->arms, out->arm_count, &default_plan);
    out->ns = calloc(count * out->arm_count, sizeof(*out->ns));
    if (!out->ns)
        return fail(ERR_NOMEM, "modelled times");
    rc = crew_open(&(struct crew_setup){ .model = &cluster, .seed = 1 }, &crew);
    if (!rc)
        rc = measure(out, crew);
    crew_close(crew);
    return rc;
}

void modelled_close(struct modelled *m)
{
    free(m->ns);
    m->ns = NULL;
}

double modelled_ns(const struct modelled *m, uint32_t capacity, int arm)
{
    uint32_t i = (capacity - m->first) / m->step;

    return m->ns[(i < m->count ? i : m->count - 1) * m->arm_count + (size_t)arm];
}

int modelled_arm(const struct modelled *m, const struct moe_plan *plan)
{
    return arms_find(m->arms, m->arm_count, plan);
}

int modelled_best_static(const struct modelled *m, const uint32_t *trace, uint32_t steps)
{
    double least = INFINITY;
    int best = -1;

    for (size_t arm = 0; arm < m->arm_count; arm++) {
        double sum = 0;

        for (uint32_t i = 0; i < steps; i++)
            sum += modelled_ns(m, trace[i], (int)arm);
        if (sum < least) {
            least = sum;
            best = (int)arm;
        }
    }
    return best;
}

uint32_t modelled_wander(const struct modelled *m, uint64_t seed, uint32_t step, uint32_t steps)
{
    double turns = 6.283185307179586 * 3 * step / steps;
    double place =
        0.5 - 0.35 * cos(turns) + 0.1 * sin(7.3 * turns) + 0.03 * normal_draw(seed, step);
    double last = (double)(m->first + (m->count - 1) * m->step);
    double capacity = m->first * pow(last / m->first, fmax(0, fmin(1, place)));

    return m->first + ((uint32_t)capacity - m->first) / m->step * m->step;
}
