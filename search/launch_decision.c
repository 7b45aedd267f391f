/* Decides the launch values of a table: asks the ranges' searches what each launch may save, starts
 * those that may be best, and proves the best one against the default launch.  As in the header, a
 * launch is a set of launch values here, and a process is one start of the program with it. */
#include "launch_decision.h"

#include "array.h"
#include "status.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One sample: a step of a process under one plan in one range. */
struct step {
    int range, arm;
    double log_ns;
};

/* One process, from its start to its end. */
struct process {
    int launch;
    enum decision_purpose purpose;
    bool fresh;          /* it ran the plans that the present lineups compare */
    size_t first, count; /* its samples in steps[] */
};

/* The samples of one plan in one range. */
struct tally {
    double count, mean, squares; /* of log(ns); squares: sum of squares about the mean */
};

/* One range of the program's key. */
struct range {
    struct search *search; /* borrowed */
    double weight;
    struct tally *tally;        /* by arm; owned */
    double noise, own_variance; /* of a sample; of what a plan shares with no other */
};

/* The belief about a launch: the logarithm of its weighted time under its best live plans. */
struct launch_belief {
    bool runs; /* each range has a plan that can run */
    uint32_t processes;
    double log_ns, variance;
};

/* The plans that stand for a launch while it is compared.  They are fixed before the first process
 * that counts, so that no such process has helped to choose them. */
struct lineup {
    int launch;
    int *live; /* by range: the arm; owned */
};
enum { CANDIDATE_LAUNCH, DEFAULT_LAUNCH, LINEUPS };

struct launch_decision {
    struct launch_decision_setup setup;
    struct search_model model; /* of `search`: a way for its strategy to find this struct */
    struct search *search;     /* its arms are launches */
    struct decision decision;
    uint32_t *distance; /* by launch */
    struct range *ranges;
    size_t range_count;
    struct step *steps;
    size_t step_count;
    struct process *processes;
    size_t process_count;
    struct launch_belief *beliefs; /* by launch */
    bool beliefs_current;
    double cost; /* of a process, as a share of what a launch may save */

    bool has_lineups;
    struct lineup lineups[LINEUPS]; /* of the candidate and of the default launch; has_lineups: they
                                      are fixed */
    int fixed_arm;                  /* the best single plan of these two; -1: none */

    bool process_running;       /* the last of `processes` has not ended */
    bool *runs_there, *unshown; /* by arm */
};

/* The prior of the differences between processes of one launch: 2 %, which counts like so many
 * repeated launches. */
static const double usual_launch_sd = 0.02, usual_freedom = 4;

/* Plans or launches that differ by less are as good: the one nearest to the default is chosen. */
static const double as_good = 0.005;

/* ---- what launches are worth */

/* Estimates the noise of a range, and how far its plans lie from what the search believes.  The
 * search takes plans with similar values for similar, but a plan may be special. */
static void estimate_range_noise(struct range *r)
{
    static const double least_own_variance = 1e-4, prior_freedom = 2;
    double squares = prior_freedom * usual_launch_sd * usual_launch_sd, freedom = prior_freedom;
    double squared_distances = 0, inverse_counts = 0, arms = 0;

    for (size_t arm = 0; arm < r->search->setup.arm_count; arm++) {
        const struct tally *t = &r->tally[arm];

        if (!(t->count > 0))
            continue;
        squares += t->squares;
        freedom += t->count - 1;
        squared_distances += pow(t->mean - search_level(r->search, (int)arm).mean, 2);
        inverse_counts += 1 / t->count;
        arms++;
    }
    r->noise = squares / freedom;
    r->own_variance =
        arms > 0 ? fmax(least_own_variance, (squared_distances - r->noise * inverse_counts) / arms)
                 : least_own_variance;
}

/* The belief about a plan's log(ns): the search's, moved towards the plan's own mean. */
static struct normal level_of(const struct range *r, int arm)
{
    struct normal level = search_level(r->search, arm);
    double share;

    if (r->tally && r->tally[arm].count > 0) {
        share = r->tally[arm].count * r->own_variance /
                (r->tally[arm].count * r->own_variance + r->noise);
        level.mean += share * (r->tally[arm].mean - level.mean);
    }
    return level;
}

/* The best plan of a launch in a range; plans that ran go before others.  With `distance` it is the
 * plan nearest to the default among those that are as good within half a percent. */
static int live_arm_of(const struct range *r, const uint32_t *launch_of, int launch,
                       const uint32_t *distance)
{
    struct search *s = r->search;
    double best_mean = INFINITY;
    bool best_ran = false;
    int best = -1;

    for (int arm = 0; arm < (int)s->setup.arm_count; arm++) {
        double mean;

        if ((int)launch_of[arm] != launch || !s->usable[arm] || (best_ran && !s->count[arm]))
            continue;
        mean = level_of(r, arm).mean;
        if (best >= 0 && best_ran == (s->count[arm] > 0) && !(mean < best_mean))
            continue;
        best = arm;
        best_mean = mean;
        best_ran = s->count[arm] > 0;
    }
    for (int arm = 0; arm < (int)s->setup.arm_count && distance && best_ran; arm++)
        if ((int)launch_of[arm] == launch && s->usable[arm] && s->count[arm] &&
            distance[arm] < distance[best] && level_of(r, arm).mean < best_mean + as_good)
            best = arm;
    return best;
}

int launch_live_arm(struct search *search, const uint32_t *launch_of, int launch)
{
    return live_arm_of(&(struct range){ .search = search }, launch_of, launch, NULL);
}

struct launch_part launch_part_of(struct search *s, int arm, double weight)
{
    double log_ns = search_level(s, arm).mean, best_log_ns = log_ns;
    int best = arm;

    for (int other = 0; other < (int)s->setup.arm_count; other++)
        if (s->usable[other] && s->count[other] && search_level(s, other).mean < best_log_ns) {
            best_log_ns = search_level(s, other).mean;
            best = other;
        }
    return (struct launch_part){ weight, log_ns, best_log_ns,
                                 best == arm ? 0 : search_compare(s, best, arm).sd };
}

struct gain launch_price(const struct launch_part *parts, size_t count)
{
    double chosen_time = 0, best_time = 0, sd = 0, price;

    for (size_t i = 0; i < count; i++) {
        chosen_time += parts[i].weight * exp(parts[i].log_ns);
        best_time += parts[i].weight * exp(parts[i].best_log_ns);
        sd += parts[i].weight * exp(parts[i].best_log_ns) * parts[i].sd;
    }
    if (!(chosen_time > 0))
        return (struct gain)GAIN_UNKNOWN;
    price = 1 - best_time / chosen_time;
    sd /= chosen_time;
    return (struct gain){ price, fmax(0, price - 1.96 * sd), fmin(1, price + 1.96 * sd) };
}

int launch_choose(const double *totals, const uint32_t *distance, size_t count, int default_launch)
{
    double least = INFINITY;
    int best = -1;

    for (size_t launch = 0; launch < count; launch++)
        least = totals[launch] < least ? totals[launch] : least;
    for (int launch = 0; launch < (int)count; launch++) {
        if (!(totals[launch] <= least * (1 + as_good)))
            continue;
        if (launch == default_launch)
            return launch;
        if (best < 0 || distance[launch] < distance[best] ||
            (distance[launch] == distance[best] && totals[launch] < totals[best]))
            best = launch;
    }
    return best;
}

/* ---- beliefs about launches */

/* A time in a range, by its weight. */
static double weighted_ns(const struct launch_decision *c, size_t range, double log_ns)
{
    return c->ranges[range].weight * exp(log_ns);
}

static bool can_run(const struct launch_decision *c, size_t range, int arm, int launch)
{
    return (int)c->setup.launch_of[arm] == launch && c->ranges[range].search->usable[arm];
}

static int live_arm(const struct launch_decision *c, int launch, size_t range)
{
    return live_arm_of(&c->ranges[range], c->setup.launch_of, launch, c->setup.distance);
}

/* The variance that a process adds to the logarithm of all its times.  It is estimated from
 * successive processes of one launch that ran the same plans. */
static double difference_between_launches(const struct launch_decision *c, double *freedom)
{
    double squares = usual_launch_sd * usual_launch_sd * usual_freedom;

    *freedom = usual_freedom;
    for (size_t p = 1; p < c->process_count; p++) {
        const struct process *process = &c->processes[p], *earlier = NULL;
        double sum = 0, weights = 0;

        for (size_t q = p; q-- > 0 && !earlier;)
            if (c->processes[q].launch == process->launch)
                earlier = &c->processes[q];
        for (size_t range = 0; range < c->range_count && earlier; range++) {
            double distance = 0, weight = 0;
            uint32_t shared_steps = 0;

            for (size_t i = process->first; i < process->first + process->count; i++)
                for (size_t j = earlier->first; j < earlier->first + earlier->count; j++)
                    if (c->steps[i].range == (int)range && c->steps[j].range == (int)range &&
                        c->steps[i].arm == c->steps[j].arm) {
                        distance += c->steps[i].log_ns - c->steps[j].log_ns;
                        weight += weighted_ns(c, range, c->steps[j].log_ns);
                        shared_steps++;
                    }
            if (shared_steps) {
                sum += distance / shared_steps * weight / shared_steps;
                weights += weight / shared_steps;
            }
        }
        if (weights > 0) {
            squares += sum * sum / (weights * weights) / 2;
            *freedom += 1;
        }
    }
    return squares / *freedom;
}

static void update_beliefs(struct launch_decision *c)
{
    double freedom, launch_variance = difference_between_launches(c, &freedom);

    if (c->beliefs_current)
        return;
    c->beliefs_current = true;
    for (size_t range = 0; range < c->range_count; range++)
        estimate_range_noise(&c->ranges[range]);
    for (size_t launch = 0; launch < c->setup.launch_count; launch++)
        c->beliefs[launch] = (struct launch_belief){ .runs = c->range_count > 0 };
    for (size_t p = 0; p < c->process_count; p++)
        c->beliefs[c->processes[p].launch].processes += c->processes[p].count > 0;
    for (size_t launch = 0; launch < c->setup.launch_count; launch++) {
        struct launch_belief *belief = &c->beliefs[launch];
        double total = 0, summed_sd = 0, summed_variance = 0;

        for (size_t range = 0; range < c->range_count; range++) {
            int arm = c->ranges[range].weight > 0 ? live_arm(c, (int)launch, range) : 0;
            struct normal level;
            double part;

            if (!(c->ranges[range].weight > 0))
                continue;
            if (arm < 0) {
                belief->runs = false;
                break;
            }
            level = level_of(&c->ranges[range], arm);
            part = weighted_ns(c, range, level.mean);
            total += part;
            summed_sd += part * level.sd;
            summed_variance += part * part * level.sd * level.sd;
        }
        belief->log_ns = log(total);
        /* If a launch never ran, the beliefs of all ranges may be wrong by the same amount. */
        belief->variance =
            belief->processes
                ? fmax(launch_variance / belief->processes, summed_variance / (total * total))
                : summed_sd * summed_sd / (total * total) + launch_variance;
    }
}

/* ---- the strategy of the search among launches */

static struct launch_decision *launch_decision_of(const struct search *search)
{
    return (struct launch_decision *)search->setup.model->self;
}

static int launches_open(struct search *search)
{
    search->own = launch_decision_of(search);
    return OK;
}

static void launches_nothing(struct search *search)
{
    (void)search;
}

enum which_launches { ANY_LAUNCH, LAUNCHES_THAT_RAN };

/* The launch with the least expected time that can run, without `but`.  -1: none. */
static int best_launch(const struct search *search, enum which_launches which, int but)
{
    struct launch_decision *c = launch_decision_of(search);
    int best = -1;

    update_beliefs(c);
    for (int launch = 0; launch < (int)c->setup.launch_count; launch++)
        if (launch != but && search->usable[launch] && c->beliefs[launch].runs &&
            (which == ANY_LAUNCH || c->beliefs[launch].processes) &&
            (best < 0 || c->beliefs[launch].log_ns < c->beliefs[best].log_ns))
            best = launch;
    return best;
}

/* If better live plans may gain the best launch more than this share, it runs again. */
static const double live_worth = 0.004;

static double worth_of(const struct launch_decision *c)
{
    static const double least = 0.0005;

    return fmax(least, c->cost);
}

/* The expected gain of knowing the best live plan of a launch in each range, as a share of its
 * time. */
static double gain_of_live_plans(const struct launch_decision *c, int launch)
{
    double total = 0, gains = 0;

    for (size_t range = 0; range < c->range_count; range++) {
        struct search *s = c->ranges[range].search;
        int live = c->ranges[range].weight > 0 ? live_arm(c, launch, range) : -1;
        double live_ns, best_gain = 0;

        if (live < 0)
            continue;
        live_ns = weighted_ns(c, range, level_of(&c->ranges[range], live).mean);
        for (int arm = 0; arm < (int)c->setup.arm_count; arm++) {
            struct normal over;

            if (arm == live || !can_run(c, range, arm, launch))
                continue;
            over = search_compare(s, arm, live);
            over.mean =
                level_of(&c->ranges[range], arm).mean - level_of(&c->ranges[range], live).mean;
            best_gain = fmax(best_gain, gain_of_learning(fmax(over.mean, 0), over.sd));
        }
        total += live_ns;
        gains += live_ns * best_gain;
    }
    return total > 0 ? gains / total : 0;
}

/* The launch with the highest expected gain beyond the margin, if its time and that of the best one
 * were known. */
static int launches_next(struct search *search)
{
    struct launch_decision *c = launch_decision_of(search);
    int default_launch = (int)c->setup.launch_of[c->setup.default_arm];
    int best = best_launch(search, LAUNCHES_THAT_RAN, -1), next = -1;
    double best_gain = worth_of(c);

    if (best < 0 || !c->beliefs[default_launch].processes)
        return c->beliefs[default_launch].runs && search->usable[default_launch]
                   ? default_launch
                   : best_launch(search, ANY_LAUNCH, -1);
    if (search->samples >= search->setup.limit)
        return SEARCH_DONE;
    for (int launch = 0; launch < (int)c->setup.launch_count; launch++) {
        const struct launch_belief *belief = &c->beliefs[launch];
        double gap = belief->log_ns - c->beliefs[best].log_ns, gain;

        if (launch == best || !search->usable[launch] || !belief->runs)
            continue;
        gain = gain_of_learning(fmax(gap, 0) + c->setup.margin,
                                sqrt(belief->variance + c->beliefs[best].variance));
        if (gain > best_gain) {
            best_gain = gain;
            next = launch;
        }
    }
    if (next >= 0 && c->beliefs[next].processes &&
        c->beliefs[best].variance > c->beliefs[next].variance)
        next = best;
    if (next < 0 && gain_of_live_plans(c, best) > live_worth)
        next = best;
    return next >= 0 ? next : SEARCH_DONE;
}

static void launches_tell(struct search *search, int launch, double log_ns, bool asked)
{
    (void)search, (void)launch, (void)log_ns, (void)asked;
}

static struct normal launches_level(struct search *search, int launch)
{
    struct launch_decision *c = launch_decision_of(search);

    update_beliefs(c);
    return (struct normal){ c->beliefs[launch].log_ns, sqrt(c->beliefs[launch].variance) };
}

static struct normal launches_compare(struct search *search, int launch, int other)
{
    struct normal a = launches_level(search, launch), b = launches_level(search, other);

    return (struct normal){ a.mean - b.mean, hypot(a.sd, b.sd) };
}

static void launches_verdict(struct search *search, struct search_result *out)
{
    out->winner = best_launch(search, LAUNCHES_THAT_RAN, -1);
    if (out->winner < 0)
        out->winner = best_launch(search, ANY_LAUNCH, -1);
    out->runner_up = best_launch(search, ANY_LAUNCH, out->winner);
}

static double launches_noise(const struct search *search, double *freedom)
{
    return difference_between_launches(launch_decision_of(search), freedom);
}

static const struct search_ops launches_ops = {
    .name = "launches",
    .open = launches_open,
    .close = launches_nothing,
    .begin = launches_nothing,
    .next = launches_next,
    .tell = launches_tell,
    .verdict = launches_verdict,
    .level = launches_level,
    .compare = launches_compare,
    .noise = launches_noise,
};

/* ---- memory */

int launch_decision_open(const struct launch_decision_setup *setup, struct launch_decision **out)
{
    struct launch_decision *c = calloc(1, sizeof(*c));
    struct decision_setup decision;
    struct search_setup search;
    size_t launches = setup->launch_count;
    int rc = OK;

    if (!c)
        return fail(ERR_NOMEM, "a choice of launches");
    c->setup = *setup;
    c->model.self = c;
    c->fixed_arm = -1;
    c->distance = malloc(launches * sizeof(*c->distance));
    c->beliefs = calloc(launches, sizeof(*c->beliefs));
    c->runs_there = calloc(2 * setup->arm_count, sizeof(bool));
    if (!c->distance || !c->beliefs || !c->runs_there) {
        rc = fail(ERR_NOMEM, "a choice of launches");
        goto out;
    }
    c->unshown = c->runs_there + setup->arm_count;
    for (size_t launch = 0; launch < launches; launch++)
        c->distance[launch] = UINT32_MAX;
    for (size_t arm = 0; arm < setup->arm_count; arm++) {
        uint32_t launch = setup->launch_of[arm],
                 distance = setup->distance ? setup->distance[arm] : 0;

        c->distance[launch] = distance < c->distance[launch] ? distance : c->distance[launch];
    }
    search =
        (struct search_setup){ .arm_count = launches, .model = &c->model, .seed = setup->seed };
    /* As many processes as three of each launch, the later pairs included.  Few launches get more,
     * because this would be too few processes to tell them apart. */
    search.limit =
        (uint32_t)launches +
        2 * (uint32_t)(launches > 2 * PAIRS_LEAST ? launches - PAIRS_LEAST : PAIRS_LEAST);
    TRY_OUT(search_open(&launches_ops, &search, &c->search));
    c->search->setup.worth = worth_of(c);
    decision = (struct decision_setup){ .search = c->search,
                                        .default_arm = (int)setup->launch_of[setup->default_arm],
                                        .incumbent = -1,
                                        .harm = setup->harm,
                                        .margin = setup->margin,
                                        .patience = 2 * PAIRS_LEAST, /* more while it pays */
                                        .distance = setup->distance ? c->distance : NULL,
                                        .launched = true };
    decision_open(&c->decision, &decision);
    *out = c;
    return OK;
out:
    launch_decision_close(c);
    return rc;
}

void launch_decision_close(struct launch_decision *c)
{
    if (!c)
        return;
    search_close(c->search);
    for (int i = 0; i < LINEUPS; i++)
        free(c->lineups[i].live);
    for (size_t r = 0; r < c->range_count; r++)
        free(c->ranges[r].tally);
    free(c->distance);
    free(c->ranges);
    free(c->steps);
    free(c->processes);
    free(c->beliefs);
    free(c->runs_there);
    free(c);
}

/* ---- lineups: what is compared */

/* The plan of the two compared launches that is best for all ranges together. */
static int best_fixed(const struct launch_decision *c)
{
    double least_time = INFINITY;
    int best = c->setup.default_arm;

    for (int arm = 0; arm < (int)c->setup.arm_count; arm++) {
        int launch = (int)c->setup.launch_of[arm];
        double time = 0;

        if (launch != c->lineups[CANDIDATE_LAUNCH].launch &&
            launch != c->lineups[DEFAULT_LAUNCH].launch)
            continue;
        for (size_t range = 0; range < c->range_count && time < INFINITY; range++)
            if (c->ranges[range].weight > 0)
                time += c->ranges[range].search->usable[arm]
                            ? weighted_ns(c, range, level_of(&c->ranges[range], arm).mean)
                            : INFINITY;
        if (time < least_time) {
            least_time = time;
            best = arm;
        }
    }
    return best;
}

/* Fixes the plans that the candidate and the default launch run from now on. */
static void fix_lineups(struct launch_decision *c)
{
    int launches[LINEUPS];

    launches[DEFAULT_LAUNCH] = c->decision.setup.default_arm;
    if (!c->search->usable[launches[DEFAULT_LAUNCH]])
        launches[DEFAULT_LAUNCH] = c->decision.winner; /* there is nothing to compare it with */
    launches[CANDIDATE_LAUNCH] =
        c->decision.proof_count ? c->decision.proofs[0].arm : launches[DEFAULT_LAUNCH];
    for (int i = 0; i < LINEUPS; i++) {
        c->lineups[i].launch = launches[i];
        for (size_t r = 0; r < c->range_count; r++)
            c->lineups[i].live[r] = live_arm(c, launches[i], r);
    }
    c->fixed_arm = best_fixed(c);
    c->has_lineups = true;
}

/* Ends the comparison: its processes no longer count. */
static void drop_lineups(struct launch_decision *c)
{
    c->has_lineups = false;
    c->decision.chosen = false;
    c->decision.proof_count = 0;
    for (size_t p = 0; p < c->process_count; p++)
        c->processes[p].fresh = false;
}

static const struct lineup *lineup_of(const struct launch_decision *c, int launch)
{
    for (int i = 0; i < LINEUPS && c->has_lineups; i++)
        if (c->lineups[i].launch == launch)
            return &c->lineups[i];
    return NULL;
}

struct normal launch_decision_level(const struct launch_decision *c, int range, int arm)
{
    return level_of(&c->ranges[range], arm);
}

int launch_decision_live_arm(const struct launch_decision *c, int launch, int range)
{
    const struct lineup *lineup = lineup_of(c, launch);

    return lineup ? lineup->live[range] : live_arm(c, launch, (size_t)range);
}

static const struct step *find_step(const struct launch_decision *c, const struct process *p,
                                    size_t range, int arm)
{
    for (size_t i = p->first; i < p->first + p->count; i++)
        if (c->steps[i].range == (int)range && c->steps[i].arm == arm)
            return &c->steps[i];
    return NULL;
}

/* The weighted time of a process under the plans `live` (by range), or under one plan,
 * `fixed_arm`, if that is not -1.  `range`: in this range only; -1: in all.  NAN: the process has
 * not run them. */
static double total_of(const struct launch_decision *c, const struct process *p, const int *live,
                       int fixed_arm, int range)
{
    double total = 0;

    for (size_t index = 0; index < c->range_count; index++) {
        const struct step *step;

        if (!(c->ranges[index].weight > 0) || (range >= 0 && range != (int)index))
            continue;
        step = find_step(c, p, index, fixed_arm >= 0 ? fixed_arm : live[index]);
        if (!step)
            return NAN;
        total += weighted_ns(c, index, step->log_ns);
    }
    return total;
}

/* ---- ranges */

int launch_decision_add(struct launch_decision *c, struct search *search, double weight)
{
    struct range added = { .search = search, .weight = weight };

    for (int i = 0; i < LINEUPS; i++) {
        int *longer = realloc(c->lineups[i].live, (c->range_count + 1) * sizeof(*longer));

        if (!longer)
            return fail(ERR_NOMEM, "a range");
        c->lineups[i].live = longer;
    }
    added.tally = calloc(c->setup.arm_count, sizeof(*added.tally));
    if (!added.tally)
        return fail(ERR_NOMEM, "plans of a range");
    ARRAY_APPEND(c->ranges, c->range_count, added);
    c->beliefs_current = false;
    if (weight > 0)
        drop_lineups(c); /* the comparison has one range more */
    return (int)c->range_count - 1;
}

void launch_decision_set_weight(struct launch_decision *c, int range, double weight)
{
    c->ranges[range].weight = weight;
    c->beliefs_current = false;
    drop_lineups(c);
}

void launch_decision_set_cost(struct launch_decision *c, double share)
{
    c->cost = share;
    c->search->setup.worth = worth_of(c);
}

/* ---- launches */

static bool has_weight(const struct launch_decision *c)
{
    for (size_t r = 0; r < c->range_count; r++)
        if (c->ranges[r].weight > 0)
            return true;
    return false;
}

/* Excludes launches that have no plan to run in some range that counts. */
static void update_usable(struct launch_decision *c)
{
    int default_launch = c->decision.setup.default_arm;

    update_beliefs(c);
    for (int launch = 0; launch < (int)c->setup.launch_count; launch++) {
        if (c->search->usable[launch] == c->beliefs[launch].runs)
            continue;
        c->search->usable[launch] = c->beliefs[launch].runs;
        if (launch == default_launch || launch == c->decision.winner)
            drop_lineups(c);
    }
}

int launch_decision_next(struct launch_decision *c, enum decision_purpose *purpose)
{
    int next;

    if (!has_weight(c))
        return DECISION_DONE;
    c->beliefs_current = false;
    update_usable(c);
    next = decision_next(&c->decision, purpose);
    if (next != DECISION_DONE && *purpose == DECISION_SAFETY && !c->has_lineups)
        fix_lineups(c);
    return next;
}

void launch_decision_begin(struct launch_decision *c, int launch, enum decision_purpose purpose)
{
    struct process *longer = realloc(c->processes, (c->process_count + 1) * sizeof(*longer));

    c->process_running = longer != NULL;
    if (!longer)
        return;
    c->processes = longer;
    if (purpose == DECISION_SAFETY && !c->has_lineups) { /* a recorded process of a comparison */
        enum decision_purpose recorded_purpose;

        (void)launch_decision_next(c, &recorded_purpose);
        if (!c->has_lineups)
            fix_lineups(c);
    } else if (purpose == DECISION_SEARCH && c->has_lineups) {
        drop_lineups(c);
    }
    c->processes[c->process_count++] = (struct process){ .launch = launch,
                                                         .purpose = purpose,
                                                         .fresh = purpose == DECISION_SAFETY,
                                                         .first = c->step_count };
}

int launch_decision_next_arm(struct launch_decision *c, int range, bool *needed)
{
    const struct process *process = &c->processes[c->process_count - 1];
    const struct lineup *lineup =
        process->purpose == DECISION_SAFETY ? lineup_of(c, process->launch) : NULL;
    struct search *s = c->ranges[range].search;
    int needed_arms[3] = { -1, -1, -1 }; /* the live plan, the default, the best single plan */

    *needed = true;
    if (!c->process_running || !(c->ranges[range].weight > 0))
        return -1;
    needed_arms[0] = lineup ? lineup->live[range] : live_arm(c, process->launch, (size_t)range);
    if (process->launch == (int)c->setup.launch_of[c->setup.default_arm])
        needed_arms[1] = c->setup.default_arm;
    if (lineup && c->fixed_arm >= 0 && (int)c->setup.launch_of[c->fixed_arm] == process->launch)
        needed_arms[2] = c->fixed_arm;
    for (int i = 0; i < 3; i++)
        if (needed_arms[i] >= 0 && s->usable[needed_arms[i]] &&
            !find_step(c, process, (size_t)range, needed_arms[i]))
            return needed_arms[i];
    *needed = false;
    if (process->purpose != DECISION_SEARCH)
        return -1;
    for (int arm = 0; arm < (int)c->setup.arm_count; arm++) {
        c->runs_there[arm] = can_run(c, (size_t)range, arm, process->launch);
        c->unshown[arm] = c->runs_there[arm] && !find_step(c, process, (size_t)range, arm);
    }
    return search_next_within(s, c->runs_there, c->unshown);
}

int launch_decision_tell(struct launch_decision *c, int range, int arm, int64_t ns)
{
    struct step step = { range, arm, log((double)(ns > 0 ? ns : 1)) };
    struct tally *t = &c->ranges[range].tally[arm];
    double from_mean = step.log_ns - t->mean;

    t->count++;
    t->mean += from_mean / t->count;
    t->squares += from_mean * (step.log_ns - t->mean);
    c->beliefs_current = false;
    if (c->process_running) {
        ARRAY_APPEND(c->steps, c->step_count, step);
        c->processes[c->process_count - 1].count++;
    }
    search_tell_unasked(c->ranges[range].search, arm, ns);
    return OK;
}

void launch_decision_drop(struct launch_decision *c, int range, int arm)
{
    search_drop(c->ranges[range].search, arm, true);
    c->beliefs_current = false;
    for (int i = 0; i < LINEUPS && c->has_lineups; i++)
        if (c->lineups[i].live[range] == arm) {
            drop_lineups(c);
            return;
        }
    if (arm == c->fixed_arm)
        c->fixed_arm = -1;
}

int launch_decision_end(struct launch_decision *c)
{
    struct process *process = &c->processes[c->process_count - 1];
    const struct lineup *lineup = lineup_of(c, process->launch);
    double total;

    if (!c->process_running)
        return fail(ERR_NOMEM, "processes of a choice");
    c->process_running = false;
    c->beliefs_current = false;
    update_beliefs(c);
    if (process->purpose == DECISION_SEARCH && process->count && c->beliefs[process->launch].runs)
        decision_tell(&c->decision, DECISION_SEARCH, process->launch,
                      llround(exp(c->beliefs[process->launch].log_ns)));
    if (process->purpose == DECISION_SEARCH || !lineup)
        return OK;
    total = total_of(c, process, lineup->live, -1, -1);
    if (total > 0)
        decision_tell(&c->decision, DECISION_SAFETY, process->launch, llround(total));
    else
        process->fresh = false;
    return OK;
}

/* ---- the result */

static struct gain gain_of(const struct pairs *pairs, double launch_variance, double freedom)
{
    struct scatter scatter;
    struct mean mean;

    if (pairs->count < 2)
        return (struct gain)GAIN_UNKNOWN;
    scatter_of(pairs, 1, &scatter);
    scatter_know_within(&scatter, launch_variance, fmin(6, freedom));
    mean = pairs_mean(pairs, &scatter);
    mean.further = 0; /* the gain is for processes on average, not for one further process */
    return range_gain(mean_range(&mean, STATED));
}

/* Pairs of the chosen launch under its live plans with one plan for all ranges.  If that is a plan
 * of the same launch, both come from one process; else the n-th fresh processes of the two launches
 * are a pair.  `range`: in this range only; -1: in all, weighted. */
static struct pairs pairs_with(const struct launch_decision *c, const struct lineup *chosen,
                               int arm, int range)
{
    bool same_launch = (int)c->setup.launch_of[arm] == chosen->launch;
    struct pairs pairs = { 0 };
    size_t next_other = 0;

    for (size_t i = 0; i < c->process_count; i++) {
        const struct process *p = &c->processes[i], *partner;
        double live_time, arm_time;

        if (!p->fresh || p->launch != chosen->launch)
            continue;
        for (; !same_launch && next_other < c->process_count; next_other++)
            if (c->processes[next_other].fresh &&
                c->processes[next_other].launch == (int)c->setup.launch_of[arm])
                break;
        if (!same_launch && next_other == c->process_count)
            break;
        partner = same_launch ? p : &c->processes[next_other++];
        live_time = total_of(c, p, chosen->live, -1, range);
        arm_time = total_of(c, partner, NULL, arm, range);
        if (live_time > 0 && arm_time > 0)
            pairs_add(&pairs, log(live_time / arm_time), 0);
    }
    return pairs;
}

struct gain launch_decision_gain(const struct launch_decision *c, int range)
{
    double freedom, launch_variance = difference_between_launches(c, &freedom);
    struct pairs pairs;

    if (!c->has_lineups)
        return (struct gain)GAIN_UNKNOWN;
    pairs = pairs_with(c, &c->lineups[CANDIDATE_LAUNCH], c->setup.default_arm, range);
    return gain_of(&pairs, 2 * launch_variance, freedom);
}

bool launch_decision_result(struct launch_decision *c, struct launch_result *out)
{
    struct launch_result r = { .over_default = GAIN_UNKNOWN,
                               .over_fixed = GAIN_UNKNOWN,
                               .fixed_arm = c->fixed_arm };
    struct decision_result decided;
    const struct paired_proof *proof;
    const struct lineup *chosen;
    double freedom, launch_variance;

    if (!has_weight(c))
        return false;
    c->beliefs_current = false;
    update_usable(c);
    if (!decision_result(&c->decision, &decided))
        return false;
    r.launch = decided.arm;
    r.word = decided.word;
    r.doubt = decided.doubt;
    r.launches = (uint32_t)c->process_count;
    launch_variance = difference_between_launches(c, &freedom);
    proof = decision_proof(&c->decision);
    chosen = lineup_of(c, r.launch);
    if (r.launch == c->decision.setup.default_arm)
        r.over_default = (struct gain){ 0, 0, 0 };
    if (proof && proof->arm == r.launch) {
        struct pairs pairs = proof_pairs(proof);

        r.pairs = pairs.count;
        r.over_default = gain_of(&pairs, 2 * launch_variance, freedom);
    }
    if (chosen && c->fixed_arm >= 0) {
        struct pairs pairs = pairs_with(c, chosen, c->fixed_arm, -1);
        bool same = (int)c->setup.launch_of[c->fixed_arm] == r.launch;

        /* Two plans of one process share part of its difference; nobody knows how much. */
        r.over_fixed = gain_of(&pairs, 2 * launch_variance, same ? 0 : freedom);
    }
    *out = r;
    return true;
}
