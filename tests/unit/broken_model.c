/* Wraps the functions between a search and its cost model, and breaks what they return. */
#include "broken_model.h"

#include "costs.h"
#include "plan.h"
#include "posterior.h"

#include <math.h>

struct model_defect model_defect;

static bool is_hit(const struct moe_plan *plan)
{
    switch (model_defect.scope) {
    case NOBODY: return false;
    case ONE_ARM: return plan_equal(plan, &model_defect.arm);
    case FAMILY: return plan->r == model_defect.arm.r;
    case ALL_BUT_ONE: return !plan_equal(plan, &model_defect.arm);
    case ALL: break;
    }
    return true;
}

/* A time of 1 ms stays what it is when the order is reversed. */
static double broken(double log_ns, const struct moe_plan *plan)
{
    if (!is_hit(plan))
        return log_ns;
    return model_defect.kind == REVERSED ? 2 * log(1e6) - log_ns : log_ns + model_defect.added;
}

double __real_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan);
double __wrap_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan);
double __wrap_costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                           const struct moe_plan *plan)
{
    return broken(__real_costs_log_ns(costs, constants, capacity, plan), plan);
}

double __real_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient);
double __wrap_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient);
double __wrap_costs_gradient(const struct costs *costs, const double *constants, double capacity,
                             const struct moe_plan *plan, double *gradient)
{
    double log_ns = __real_costs_gradient(costs, constants, capacity, plan, gradient);

    for (int i = 0; i < COST_CONSTANTS && is_hit(plan); i++)
        gradient[i] =
            model_defect.kind == REVERSED ? -gradient[i] : gradient[i] + 0 * model_defect.added;
    return broken(log_ns, plan);
}

void __real_posterior_renew(struct posterior *posterior);
void __wrap_posterior_renew(struct posterior *posterior);
void __wrap_posterior_renew(struct posterior *posterior)
{
    __real_posterior_renew(posterior);
    for (size_t i = 0; i < posterior->process.arms; i++) {
        double *mean = &posterior->process.mean[i];

        if (is_hit(&model_defect.arms[i]))
            *mean = model_defect.kind == REVERSED ? -*mean : *mean + model_defect.added;
    }
}

void __real_likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void __wrap_likeness_table_set(struct likeness_table *table, const struct likeness *likeness);
void __wrap_likeness_table_set(struct likeness_table *table, const struct likeness *likeness)
{
    __real_likeness_table_set(table, likeness);
    if (model_defect.scope == ALL && model_defect.kind == ADDED)
        table->factor[0][0] *= exp(model_defect.added);
}
