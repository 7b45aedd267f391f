/* The words of baselines, and what they do not go with. */
#include "baseline.h"

#include <stddef.h>

const char *const baseline_words[] = { "dense", "rigid", "naive", NULL };

const char *baseline_refuses(uint32_t baseline, const struct moe_shape *shape,
                             const struct moe_plan *plan, const struct capacities *capacities,
                             uint32_t compute_type)
{
    if (!baseline)
        return NULL;
    if (plan->e == MOE_SPARSE || plan->a == MOE_A2A_RAIL)
        return "baselines are of padded experts whose rows go straight to them";
    if (capacities->rows)
        return "baselines are of experts that have equal capacities";
    if (baseline & BASELINE_DENSE && shape->combine == MOE_COMBINE_CHOICES)
        return "dense adds up a token's choices";
    if (baseline & BASELINE_NAIVE && plan->a != MOE_A2A_2DH)
        return "naive is another a=2dh";
    if (baseline & BASELINE_RIGID && !plan->r)
        return "with r=0 no rows arrive that rigid could leave where they are";
    if (baseline & (BASELINE_DENSE | BASELINE_RIGID) && shape->dtype != compute_type)
        return "dense and rigid multiply rows as they travel, and cores multiply f32 alone";
    return NULL;
}
