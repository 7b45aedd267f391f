/* The data files of all-to-alls against each other. */
#include "contrast.h"
#include "series.h"

#include <math.h>

static void a2a_row(struct series *s, const struct trial_facts *base, uint32_t other_a2a)
{
    struct moe_plan twin = base->row.key.plan;
    const struct spread *a = &base->steps, *b;
    const struct trial_facts *other;

    twin.a = other_a2a;
    other = facts_trial(s->layer, base->row.key.bucket, &twin);
    if (!other || !trial_usable(other))
        return;
    b = &other->steps;
    series_row(s, base->row.capacity,
               (const double[]){
                   (double)b->median_ns / (double)a->median_ns,
                   (double)b->low_ns / (double)a->high_ns, (double)b->high_ns / (double)a->low_ns,
                   (double)base->row.sent_bytes / 1024 / fmax(1, (double)base->row.messages),
                   twin.r },
               5);
    series_row_end(s, a->count + b->count,
                   contrast_trial(base).throttled + contrast_trial(other).throttled);
}

static void a2a_blocks(struct series *s, uint32_t base, uint32_t other)
{
    for (uint32_t d = 1; d <= PLAN_MAX_D; d *= 2) {
        char name[32];

        snprintf(name, sizeof(name), "d=%u", d);
        series_block(s, name);
        for (size_t i = 0; i < s->layer->trial_count; i++) {
            const struct trial_facts *t = &s->layer->trials[i];

            if (trial_usable(t) && t->row.key.plan.d == d && t->row.key.plan.r != 0 &&
                t->row.key.plan.a == base)
                a2a_row(s, t, other);
        }
    }
}

void series_a2a(struct series *s)
{
    a2a_blocks(s, MOE_A2A_LINEAR, MOE_A2A_2DH);
}

void series_3dh(struct series *s)
{
    a2a_blocks(s, MOE_A2A_2DH, MOE_A2A_3DH);
}

void series_rail(struct series *s)
{
    a2a_blocks(s, MOE_A2A_LINEAR, MOE_A2A_RAIL);
}
