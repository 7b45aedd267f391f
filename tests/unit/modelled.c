/* Fills the table of modelled.h with step times of the sim back end. */
#include "modelled.h"

#include "arms.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "surface.h"

#include <math.h>
#include <stdlib.h>

int modelled_open(const char *cluster_file, const struct moe_shape *shape, uint32_t first,
                  uint32_t step, uint32_t count, struct modelled *out)
{
    struct moe_plan default_plan = plan_default(NULL);
    uint64_t *capacities = calloc(count, sizeof(*capacities));
    struct cluster cluster;
    int rc;

    *out = (struct modelled){ .shape = *shape, .first = first, .step = step, .count = count };
    TRY_OUT(capacities ? OK : fail(ERR_NOMEM, "%u capacities", count));
    TRY_OUT(cluster_read(cluster_file, &cluster));
    out->shape.ranks = cluster.ranks;
    out->shape.ranks_per_node = cluster.ranks_per_node;
    TRY_OUT(arms_list(&out->shape, &(struct arms_setup){ .axes = "r,d,a" }, out->arms,
                      &out->arm_count));
    out->default_arm = arms_find(out->arms, out->arm_count, &default_plan);
    for (uint32_t i = 0; i < count; i++)
        capacities[i] = first + (uint64_t)i * step;
    TRY_OUT(step_times_open(&(struct step_times_ask){ .cluster = &cluster,
                                                      .shape = &out->shape,
                                                      .seed = 1,
                                                      .arms = out->arms,
                                                      .arm_count = out->arm_count,
                                                      .capacities = capacities,
                                                      .count = count },
                            &out->times));
out:
    free(capacities);
    return rc;
}

void modelled_close(struct modelled *m)
{
    step_times_close(&m->times);
}

double modelled_ns(const struct modelled *m, uint32_t capacity, int arm)
{
    return step_times_at(&m->times, capacity)[arm];
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
