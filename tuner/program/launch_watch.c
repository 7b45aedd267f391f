/* Counts a launch's questions and steps. */
#include "launch_watch.h"

#include "stats.h"

/* So many times the steps of a sample a launch goes on that looks which ranges there are, and one
 * that waits for a range to be asked for. */
enum { LOOK = 8, WAIT = 32 };

void watched_reset(struct watched *r)
{
    r->asked = 0;
    r->steps = 0;
    r->learnt = false;
}

bool watched_step(struct watched *r, int64_t ns, uint32_t steps, int64_t *sample)
{
    double values[TUNE_LAUNCH_STEPS_MAX];

    r->ns[r->steps++] = ns;
    if (r->steps < steps)
        return false;
    for (uint32_t i = 0; i < r->steps; i++)
        values[i] = (double)r->ns[i];
    *sample = (int64_t)median_of(values, r->steps);
    r->steps = 0;
    r->learnt = true;
    r->missed = 0;
    return true;
}

bool watched_in_vain(struct watched *r)
{
    return !r->learnt && ++r->missed >= LAUNCH_PATIENCE;
}

bool watch_awaits(const struct launch_watch *w, const struct watched *r, size_t ranges,
                  uint64_t question)
{
    return question - r->asked < (uint64_t)WAIT * w->steps * ranges;
}

bool watch_looks(const struct launch_watch *w, uint64_t question)
{
    return (w->looking || w->newest) && question <= 2 * w->newest + (uint64_t)LOOK * w->steps;
}
