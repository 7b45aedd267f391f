/* How alike the moods at two steps are, and where a mood has turned: found by adding up how much
 * slower than expected the last steps were. */
#include "mood.h"

#include <math.h>
#include <stdlib.h>

/* Standard deviations of log time; a stretch's is that of a burst of 1.3 to 2. */
static const double wander_sd = 0.03, wander_steps = 40, burst_sd = 0.45;

double mood_covariance(struct moment a, struct moment b)
{
    double v = wander_sd * wander_sd * exp(-abs(a.step - b.step) / wander_steps);

    return a.stretch && a.stretch == b.stretch ? v + burst_sd * burst_sd : v;
}

/* How many standard deviations a common shift is away from none; and how large it must be. */
static const double turn_deviations = 3.7, turn_least = 0.08;
/* One slow step is an outlier, and says no more than this; none is faster than it should be. */
static const double outlier_deviations = 3;
enum { LOOK_BACK = 12 };

/* How many deviations all steps since are off by, if they are off by the same; 0: by too little. */
struct shift {
    double weights, sum;
};

static double deviations_of(const struct shift *s)
{
    return fabs(s->sum) > turn_least * s->weights ? fabs(s->sum) / sqrt(s->weights) : 0;
}

static void add_step(struct shift *shift, const struct surprise *s)
{
    shift->weights += 1 / s->variance;
    shift->sum += fmin(s->above, outlier_deviations * sqrt(s->variance)) / s->variance;
}

/* That the mood has turned is shown only by plans that are known from before, because a model may
 * be wrong.  The other plans also tell when it turned. */
int mood_turn(const struct surprise *steps, size_t count)
{
    struct shift known = { 0, 0 }, all = { 0, 0 };
    double most = 0;
    bool shown = false;
    int turn = -1;

    for (size_t k = 1; k <= count && k <= LOOK_BACK; k++) {
        const struct surprise *s = &steps[count - k];

        if (!s->first)
            add_step(&known, s);
        add_step(&all, s);
        shown |= known.weights > 0 && deviations_of(&known) > turn_deviations;
        if (shown && deviations_of(&all) > most) {
            most = deviations_of(&all);
            turn = (int)(count - k);
        }
    }
    return turn;
}
