/* The best size of a sample of two stages: launches, and steps in them. */
#include "launch_cost.h"

#include <math.h>

void launch_cost_started(struct launch_cost *c, int64_t now_ns)
{
    c->started_ns = now_ns;
    c->asked_ns = c->told_ns = 0;
}

void launch_cost_asked(struct launch_cost *c, int64_t now_ns)
{
    if (!c->asked_ns)
        c->asked_ns = now_ns;
}

void launch_cost_told(struct launch_cost *c, int64_t now_ns)
{
    c->told_ns = now_ns;
}

void launch_cost_ended(struct launch_cost *c, int64_t now_ns)
{
    int64_t inside_ns = c->told_ns - c->asked_ns;

    if (!c->told_ns || now_ns < 0)
        return;
    c->inside_ns += (double)inside_ns;
    c->outside_ns += (double)(now_ns - c->started_ns - inside_ns);
}

/* Samples of n steps cost o + n c each and have the variance l^2 + v / n.  Those say most for their
 * cost that make (o + n c) (l^2 + v / n) least, with n = sqrt(o v / c) / l; around that it is
 * nearly flat, and small samples can be spent where they matter. */
uint32_t launch_pace(const struct launch_cost *c, const struct watched *ranges)
{
    static const double luck = 0.02; /* l: of log(ns) between launches */
    /* Before steps are known, as if so many had scattered by so much. */
    static const double guessed = 4, guess = 0.05;
    static const double dearer = 1.25; /* than the least */
    double v = (ranges->squares + guessed * guess * guess) / (guessed + ranges->spare);
    double of_launch, of_step, least, best;
    uint32_t n = LAUNCH_STEPS_LEAST;

    if (!ranges->samples || !(c->inside_ns > 0))
        return n;
    of_launch = c->outside_ns / ranges->samples;
    of_step = c->inside_ns / (double)(ranges->samples + ranges->spare);
    least = pow(luck * sqrt(of_launch) + sqrt(of_step * v), 2);
    best = sqrt(of_launch * v / of_step) / luck;
    while (n < fmin(best, TUNE_LAUNCH_STEPS_MAX) &&
           (of_launch + n * of_step) * (luck * luck + v / n) > dearer * least)
        n++;
    return n;
}
