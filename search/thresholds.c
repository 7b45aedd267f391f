/* Finds the best switch points of a table by dynamic programming over its ranges, and estimates
 * what they lose by a bootstrap over the samples. */
#include "thresholds.h"

#include "distribution.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void threshold_cell_add(struct threshold_cell *cell, double ns)
{
    double above = log(ns) - cell->mean;

    cell->samples++;
    cell->mean += above / cell->samples;
    cell->squares += above * (log(ns) - cell->mean);
}

/* ---- the best sequence of plans (path) from the first range to the last */

/* The best path that ends with one plan after at most so many switches. */
struct path {
    double cost;
    uint64_t distance; /* summed over the ranges */
};

/* The memory of thresholds_find(). */
struct finder {
    const struct thresholds_problem *problem;
    bool *free;                        /* by range: it has no sample of any candidate */
    double *time;                      /* ns, by cell */
    struct path *paths, *paths_before; /* switches * plans + plan: up to this range, up to the one
                                        * before */
    uint32_t *from;        /* (range * (switches + 1) + switches) * plans + plan: the plan before */
    uint32_t *raised_axes; /* the different sets of raised axes */
    size_t sets, *best;    /* by set: the plan with the best path up to the range before */
    size_t *drawn;         /* by range: the plan chosen from one bootstrap draw */
};

static bool is_less(const struct path *a, const struct path *b)
{
    return a->cost < b->cost || (a->cost <= b->cost && a->distance < b->distance);
}

/* The cost of a plan in a range; infinite: it cannot be chosen there. */
static double cost_of(const struct finder *f, size_t range, size_t plan)
{
    size_t index = range * f->problem->plans + plan;
    const struct threshold_cell *cell = &f->problem->cells[index];

    if (!f->problem->plan[plan].candidate || cell->failed || !(cell->samples || f->free[range]))
        return INFINITY;
    return f->free[range] ? 0 : f->problem->weight[range] * f->time[index];
}

/* Finds for each set of raised axes the plan with the best path up to the range before. */
static void find_best_plans(struct finder *f, const struct path *before)
{
    const struct thresholds_problem *p = f->problem;

    for (size_t s = 0; s < f->sets; s++)
        f->best[s] = p->plans;
    for (size_t plan = 0; plan < p->plans; plan++)
        for (size_t s = 0; s < f->sets; s++)
            if (f->raised_axes[s] == p->plan[plan].raised_axes &&
                (f->best[s] == p->plans || is_less(&before[plan], &before[f->best[s]])))
                f->best[s] = plan;
}

/* Extends all paths by a range.  A path with at most k switches keeps the plan of the range before,
 * or comes from the best path with at most k - 1 switches.  The latter may have the same plan,
 * which does no harm. */
static void extend_paths(struct finder *f, size_t range)
{
    const struct thresholds_problem *p = f->problem;
    struct path *unused = f->paths_before;

    f->paths_before = f->paths;
    f->paths = unused;
    for (size_t switches = 0; switches <= p->switches; switches++) {
        if (switches)
            find_best_plans(f, f->paths_before + (switches - 1) * p->plans);
        for (size_t plan = 0; plan < p->plans; plan++) {
            struct path path = f->paths_before[switches * p->plans + plan];
            size_t from = plan;

            for (size_t set = 0; switches && set < f->sets; set++) {
                const struct path *switched =
                    &f->paths_before[(switches - 1) * p->plans + f->best[set]];

                if (!(f->raised_axes[set] & ~p->plan[plan].raised_axes) &&
                    is_less(switched, &path)) {
                    path = *switched;
                    from = f->best[set];
                }
            }
            path.cost += cost_of(f, range, plan);
            path.distance += p->plan[plan].distance;
            f->paths[switches * p->plans + plan] = path;
            f->from[(range * (p->switches + 1) + switches) * p->plans + plan] = (uint32_t)from;
        }
    }
}

/* Finds the best path and returns its cost; infinite: there is no path. */
static double find_path(struct finder *f, size_t *chosen, uint32_t *switches)
{
    const struct thresholds_problem *p = f->problem;
    size_t most_switches = p->switches, states = (most_switches + 1) * p->plans, count = 0,
           plan = 0;
    double cost;

    for (size_t i = 0; i < states; i++)
        f->paths[i] = (struct path){ cost_of(f, 0, i % p->plans), p->plan[i % p->plans].distance };
    for (size_t range = 1; range < p->ranges; range++)
        extend_paths(f, range);
    for (size_t i = 1; i < states; i++) {
        const struct path *best = &f->paths[count * p->plans + plan];

        /* A path with more switches must be cheaper. */
        if (i / p->plans == count ? is_less(&f->paths[i], best) : f->paths[i].cost < best->cost) {
            count = i / p->plans;
            plan = i % p->plans;
        }
    }
    cost = f->paths[count * p->plans + plan].cost;
    *switches = 0;
    for (size_t range = p->ranges; range-- > 0;) {
        size_t before =
            range ? f->from[(range * (most_switches + 1) + count) * p->plans + plan] : plan;

        chosen[range] = plan;
        if (before != plan) {
            ++*switches;
            count--;
        }
        plan = before;
    }
    return cost;
}

/* ---- what the switch points lose */

static bool is_judged(const struct finder *f, size_t range)
{
    const struct thresholds_problem *p = f->problem;
    size_t table = p->table[range];

    return p->weight[range] > 0 && !f->free[range] && table < p->plans &&
           p->cells[range * p->plans + table].samples;
}

/* Time / the table's time - 1, by the present times in f->time. */
static double regret_of(const struct finder *f, const size_t *chosen, double *table_cost)
{
    const struct thresholds_problem *p = f->problem;
    double cost = 0, table = 0;

    for (size_t range = 0; range < p->ranges; range++)
        if (is_judged(f, range)) {
            const double *time = &f->time[range * p->plans];

            cost += p->weight[range] * time[chosen[range]];
            table += p->weight[range] * time[p->table[range]];
        }
    *table_cost = table;
    return cost / table - 1;
}

/* A cell has few samples, so the scatter of all cells is the prior of its own; it counts like so
 * many samples. */
static const double usual_freedom = 4;

/* The variance of the mean of a cell's samples. */
static double variance_of(const struct threshold_cell *cell, double usual)
{
    return (usual_freedom * usual + cell->squares) / (usual_freedom + cell->samples - 1) /
           cell->samples;
}

/* The variance of the regret of the chosen plans, and its degrees of freedom (Satterthwaite).  A
 * range where the table's own plan was chosen adds nearly nothing. */
static double regret_variance(const struct finder *f, double usual, const size_t *chosen,
                              double *freedom)
{
    const struct thresholds_problem *p = f->problem;
    double table, ratio = regret_of(f, chosen, &table) + 1, sum = 0, spent = 0;

    for (size_t range = 0; range < p->ranges; range++) {
        const double *time = &f->time[range * p->plans];
        size_t compared[] = { chosen[range], p->table[range] };

        if (!is_judged(f, range))
            continue;
        for (int i = 0; i < (compared[0] == compared[1] ? 1 : 2); i++) {
            const struct threshold_cell *cell = &p->cells[range * p->plans + compared[i]];
            double slope = (compared[i] == compared[0]) - (compared[i] == compared[1]) * ratio,
                   variance;

            slope *= p->weight[range] * time[compared[i]] / table;
            variance = slope * slope * variance_of(cell, usual);
            sum += variance;
            spent += variance * variance / (usual_freedom + cell->samples - 1);
        }
    }
    *freedom = sum > 0 ? sum * sum / spent : 1;
    return sum;
}

static double normal_number(uint64_t index)
{
    static const uint64_t key = 0x746872657368;
    double radius = (double)((random_bits(key, 2 * index) >> 11) + 1) * 0x1p-53;
    double turn = (double)(random_bits(key, 2 * index + 1) >> 11) * 0x1p-53;

    return sqrt(-2 * log(radius)) * cos(6.283185307179586 * turn);
}

/* Estimates the regret.  Plans that were chosen by samples look better by these samples than they
 * are.  The bootstrap measures this bias: it chooses from samples drawn around the real ones, and
 * compares how good the choice looks with how good it is by the real ones.  The variance is the
 * mean over all draws.  That of the one real choice would be too small, above all where it equals
 * the table in most ranges. */
static struct gain find_regret(struct finder *f, const size_t *chosen)
{
    enum { DRAWS = 200 };
    const struct thresholds_problem *p = f->problem;
    struct gain regret = GAIN_UNKNOWN;
    double squares = 0, freedom = 0, usual, table, variance = 0, bias = 0, width, draw_freedom;
    size_t cells = p->ranges * p->plans;
    uint32_t switches;

    regret.value = regret_of(f, chosen, &table);
    for (size_t i = 0; i < cells; i++)
        if (p->cells[i].samples) {
            squares += p->cells[i].squares;
            freedom += p->cells[i].samples - 1;
        }
    if (!(freedom > 0))
        return regret;
    usual = squares / freedom;
    regret_variance(f, usual, chosen, &freedom);
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        double apparent;

        for (size_t i = 0; i < cells; i++)
            if (p->cells[i].samples)
                f->time[i] = exp(p->cells[i].mean + normal_number(draw * cells + i) *
                                                        sqrt(variance_of(&p->cells[i], usual)));
        find_path(f, f->drawn, &switches);
        apparent = regret_of(f, f->drawn, &table);
        for (size_t i = 0; i < cells; i++)
            f->time[i] = exp(p->cells[i].mean);
        bias += (apparent - regret_of(f, f->drawn, &table)) / DRAWS;
        variance += regret_variance(f, usual, f->drawn, &draw_freedom) / DRAWS;
    }
    width = student_quantile(freedom, STATED) * sqrt(variance);
    regret.value -= bias;
    regret.low = regret.value - width;
    regret.high = regret.value + width;
    return regret;
}

/* ---- the whole */

static void finder_close(struct finder *f)
{
    free(f->free);
    free(f->time);
    free(f->paths);
    free(f->paths_before);
    free(f->from);
    free(f->raised_axes);
    free(f->best);
    free(f->drawn);
}

static int finder_open(struct finder *f, const struct thresholds_problem *p)
{
    size_t states = (p->switches + 1) * p->plans, cells = p->ranges * p->plans;

    *f = (struct finder){ .problem = p,
                          .free = calloc(p->ranges, sizeof(*f->free)),
                          .time = calloc(cells, sizeof(*f->time)),
                          .paths = calloc(states, sizeof(*f->paths)),
                          .paths_before = calloc(states, sizeof(*f->paths_before)),
                          .from = calloc(p->ranges * states, sizeof(*f->from)),
                          .raised_axes = calloc(p->plans, sizeof(*f->raised_axes)),
                          .best = calloc(p->plans, sizeof(*f->best)),
                          .drawn = calloc(p->ranges, sizeof(*f->drawn)) };
    if (!f->free || !f->time || !f->paths || !f->paths_before || !f->from || !f->raised_axes ||
        !f->best || !f->drawn) {
        finder_close(f);
        return fail(ERR_NOMEM, "switch points of %zu plans", p->plans);
    }
    for (size_t range = 0; range < p->ranges; range++) {
        f->free[range] = true;
        for (size_t plan = 0; plan < p->plans; plan++) {
            const struct threshold_cell *cell = &p->cells[range * p->plans + plan];

            f->time[range * p->plans + plan] = cell->samples ? exp(cell->mean) : 0;
            if (p->plan[plan].candidate && cell->samples && !cell->failed)
                f->free[range] = false;
        }
    }
    for (size_t plan = 0; plan < p->plans; plan++) {
        size_t s = 0;

        while (s < f->sets && f->raised_axes[s] != p->plan[plan].raised_axes)
            s++;
        f->raised_axes[s] = p->plan[plan].raised_axes;
        f->sets += s == f->sets;
    }
    return OK;
}

int thresholds_find(const struct thresholds_problem *problem, struct thresholds *inout)
{
    struct finder f;
    double judged = 0, all = 0;

    TRY(finder_open(&f, problem));
    inout->cost = find_path(&f, inout->chosen, &inout->switches);
    inout->same = isfinite(inout->cost);
    for (size_t range = 0; range < problem->ranges; range++) {
        bool counts = is_judged(&f, range);

        judged += counts ? problem->weight[range] : 0;
        all += problem->weight[range];
        inout->same = inout->same && (!counts || inout->chosen[range] == problem->table[range]);
    }
    inout->judged = judged / all;
    inout->regret = (struct gain)GAIN_UNKNOWN;
    if (judged > 0 && inout->same) /* exactly 0, without an estimate */
        inout->regret = (struct gain){ 0, 0, 0 };
    else if (judged > 0 && isfinite(inout->cost))
        inout->regret = find_regret(&f, inout->chosen);
    finder_close(&f);
    return isfinite(inout->cost) ? OK : UNSUPPORTED;
}
