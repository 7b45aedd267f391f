/* The one rule by which an entry's own numbers forbid its plan. */
#include "claim.h"

#include <math.h>

/* A number that can be no time counts as unknown. */
static double time_of(double us)
{
    return us > 0 && isfinite(us) ? us : (double)NAN;
}

/* Returns whether all three numbers are known and in order. An interval without ends is in order,
 * too. */
static bool is_interval(const struct gain *g)
{
    if (isnan(g->low) && isnan(g->high))
        return true;
    return isfinite(g->low) && isfinite(g->high) && g->low <= g->value && g->value <= g->high;
}

const struct claim_fault *claim_fault(const struct claim *c)
{
    static const struct claim_fault
        crossed = { "low_us", "is above high_us" },
        too_much = { "gain", "is no share below 1" },
        outside = { "gain", "is not between gain_low and gain_high" },
        no_bound = { "bound", "is below 0" },
        no_gain = { "gain", "says that the plan is not faster than the default" },
        slower = { "time_us", "says that the plan is not faster than the default" },
        unsaid = { "gain", "is not known, and the plan is said to be faster than the default" };
    double gain = c->gain.value, time_us = time_of(c->time_us);
    double default_us = time_of(c->default_us);

    if (c->low_us > c->high_us)
        return &crossed;
    if (isinf(gain) || gain > 1)
        return &too_much;
    if (!is_interval(&c->gain))
        return &outside;
    if (c->bound < 0)
        return &no_bound;
    if (c->pooled > 0)
        return NULL;
    if (gain <= 0)
        return &no_gain;
    if (time_us > default_us || (isnan(gain) && time_us >= default_us))
        return &slower;
    return c->faster && isnan(gain) && isnan(time_us - default_us) ? &unsaid : NULL;
}
