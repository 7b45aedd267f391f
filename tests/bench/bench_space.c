/* Measures how good a search without a cost model is, on made-up spaces whose truth is known.  Its
 * rivals get as many steps: random plans and successive halving.  Another rival is a pass over all
 * plans.
 *
 *     bench_space [--spaces N] [--seed N] [plans]...
 *
 * Regret: the true time of the plan chosen over that of the best plan, minus 1. */
#include "made_space.h"
#include "random.h"
#include "surface.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double noise_sd = 0.05;

/* A noisy clock: the n-th step of a run. */
struct clock {
    uint64_t seed, steps;
};

static double timed(struct clock *clock, const struct made_space *space, size_t plan)
{
    return space->ns[plan] * exp(noise_sd * normal_draw(clock->seed, clock->steps++));
}

static double regret(const struct made_space *space, size_t plan)
{
    return space->ns[plan] / space->best_ns - 1;
}

static double run_blind(const struct made_space *space, uint64_t seed, uint64_t *steps)
{
    struct search_setup setup = { .points = &space->points,
                                  .arm_count = space->points.count,
                                  .seed = seed };
    struct clock clock = { seed, 0 };
    struct search *search;
    int arm;
    double found;

    if (search_open(search_find("blind"), &setup, &search))
        exit(1);
    search_begin(search, 1, NULL, false);
    while ((arm = search_next(search)) != SEARCH_DONE)
        search_tell(search, arm, (int64_t)timed(&clock, space, (size_t)arm));
    found = regret(space, (size_t)search_result(search).winner);
    search_close(search);
    *steps = clock.steps;
    return found;
}

static void shuffle(uint64_t seed, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = random_bits(seed, i) % i, kept = order[i - 1];

        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* A different plan at each step, the fastest step's wins; with as many steps as plans, all of them.
 */
static double run_random(const struct made_space *space, uint64_t seed, uint64_t steps)
{
    size_t order[SEARCH_ARMS_MAX], best = 0;
    struct clock clock = { seed, 0 };
    double least = INFINITY;

    shuffle(seed, order, space->points.count);
    for (uint64_t i = 0; i < steps; i++) {
        size_t plan = order[i % space->points.count];
        double ns = timed(&clock, space, plan);

        if (ns < least) {
            least = ns;
            best = plan;
        }
    }
    return regret(space, best);
}

/* Where so many plans begin, and each round half of them go on: how many steps that takes. */
static uint64_t halving_steps(size_t plans)
{
    uint64_t steps = 0;

    for (; plans > 1; plans = (plans + 1) / 2)
        steps += plans;
    return steps;
}

struct rated {
    size_t plan;
    double sum, count;
};

static int by_rate(const void *a, const void *b)
{
    const struct rated *x = a, *y = b;
    double left = x->sum / x->count, right = y->sum / y->count;

    return (left > right) - (left < right);
}

/* Successive halving over as many plans as the steps allow. */
static double run_halving(const struct made_space *space, uint64_t seed, uint64_t steps)
{
    size_t order[SEARCH_ARMS_MAX], left = 1;
    struct rated rated[SEARCH_ARMS_MAX];
    struct clock clock = { seed, 0 };

    shuffle(seed, order, space->points.count);
    while (left < space->points.count && halving_steps(left + 1) <= steps)
        left++;
    for (size_t i = 0; i < left; i++)
        rated[i] = (struct rated){ order[i], 0, 0 };
    /* What is over goes to the last two. */
    for (; left > 1; left = (left + 1) / 2) {
        do
            for (size_t i = 0; i < left; i++) {
                rated[i].sum += log(timed(&clock, space, rated[i].plan));
                rated[i].count++;
            }
        while (left == 2 && clock.steps + 2 <= steps);
        qsort(rated, left, sizeof(*rated), by_rate);
    }
    return regret(space, rated[0].plan);
}

struct sums {
    double plans, steps, regret, worst, random, halving, pass, lost, seconds;
};

static void run_space(uint64_t seed, size_t plans, struct sums *sums)
{
    static struct made_space space;
    clock_t began;
    uint64_t steps;
    double found;

    made_space_open(seed, plans, &space);
    began = clock();
    found = run_blind(&space, seed, &steps);
    sums->seconds += (double)(clock() - began) / CLOCKS_PER_SEC;
    if (getenv("BENCH_SHOW") && found > atof(getenv("BENCH_SHOW")))
        printf("    seed %llu regret %.3f steps %llu\n", (unsigned long long)seed, found,
               (unsigned long long)steps);
    sums->plans += (double)space.points.count;
    sums->steps += (double)steps;
    sums->regret += found;
    sums->worst = fmax(sums->worst, found);
    sums->random += run_random(&space, seed ^ 11, steps);
    sums->halving += run_halving(&space, seed ^ 12, steps);
    sums->pass += run_random(&space, seed ^ 13, space.points.count);
    made_space_close(&space);
}

static void run_size(size_t plans, size_t spaces, uint64_t seed)
{
    struct sums s = { 0 };
    double n = (double)spaces;

    for (size_t i = 0; i < spaces; i++)
        run_space(seed + i, plans, &s);
    printf("%8.0f %8.1f %7.2f   %8.2f %8.2f   %8.2f %8.2f %8.2f   %6.3f\n", s.plans / n,
           s.steps / n, s.steps / s.plans, 100 * s.regret / n, 100 * s.worst, 100 * s.halving / n,
           100 * s.random / n, 100 * s.pass / n, s.seconds / n);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = { 10, 30, 100, 300, 1000, 2000 };
    size_t spaces = 40;
    uint64_t seed = 1;
    bool named = false;

    printf("regret in %% of the best plan's time, noise %g %%; halving and random: of as many "
           "steps\n\n%8s %8s %7s   %8s %8s   %8s %8s %8s   %6s\n",
           100 * noise_sd, "plans", "steps", "share", "regret", "worst", "halving", "random",
           "a pass", "CPU s");
    for (int i = 1; i < argc; i++)
        if (i + 1 < argc && !strcmp(argv[i], "--spaces"))
            spaces = (size_t)atoi(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = (uint64_t)atoll(argv[++i]);
        else {
            run_size((size_t)atoi(argv[i]), spaces, seed);
            named = true;
        }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !named; i++)
        run_size(sizes[i], spaces, seed);
    return 0;
}
