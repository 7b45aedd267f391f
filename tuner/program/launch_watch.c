/* Counts a launch's questions and steps. */
#include "launch_watch.h"

#include "stats.h"

#include <math.h>

/* So many times the least steps of a sample a launch goes on that looks which ranges there are, and
 * one that waits for a range to be asked for, or would like to see it. */
enum { LOOK = 8, WAIT = 32, PASS_BY = 2 };

void watched_reset(struct watched *r)
{
    r->asked = 0;
    r->steps = 0;
    r->learnt = false;
}

bool watched_step(struct watched *r, int64_t ns, uint32_t steps, int64_t *sample)
{
    r->ns[r->steps++] = ns;
    if (r->steps < steps)
        return false;
    *sample = watched_sample(r);
    return true;
}

int64_t watched_sample(struct watched *r)
{
    double values[TUNE_LAUNCH_STEPS_MAX], most, mean = 0, log_mean = 0;

    for (uint32_t i = 0; i < r->steps; i++)
        values[i] = (double)r->ns[i];
    most = 2 * median_of(values, r->steps);
    for (uint32_t i = 0; i < r->steps; i++) {
        values[i] = fmax(1, fmin(values[i], most));
        mean += values[i] / r->steps;
        log_mean += log(values[i]) / r->steps;
    }
    for (uint32_t i = 0; i < r->steps; i++)
        r->squares += pow(log(values[i]) - log_mean, 2);
    r->spare += r->steps - 1;
    r->samples++;
    r->steps = 0;
    r->learnt = true;
    r->missed = 0;
    return llround(mean);
}

bool watched_in_vain(struct watched *r)
{
    return !r->learnt && ++r->missed >= LAUNCH_PATIENCE;
}

bool watch_awaits(const struct launch_watch *w, const struct watched *r, size_t ranges,
                  bool on_occasion, uint64_t question)
{
    uint64_t rounds = (uint64_t)(on_occasion ? PASS_BY : WAIT) * w->least;

    return question - r->asked < rounds * ranges;
}

bool watch_looks(const struct launch_watch *w, uint64_t question)
{
    return (w->looking || w->newest) && question <= 2 * w->newest + (uint64_t)LOOK * w->least;
}

void watched_add(struct watched *all, const struct watched *r)
{
    all->samples += r->samples;
    all->spare += r->spare;
    all->squares += r->squares;
}
