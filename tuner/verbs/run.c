/* moetune run: measures and checks one layer under given plans on real ranks.  The ranks run this
 * verb themselves (place_run); they get no orders as the ranks of `tune` do (worker.h).  All plans
 * are open at once and are checked at the layer's own size, and only ranks know most of what is
 * printed. */
#include "run.h"
#include "account.h"
#include "allowance.h"
#include "baseline.h"
#include "common_rows.h"
#include "fault.h"
#include "gpu_list.h"
#include "judge.h"
#include "layer_options.h"
#include "machine.h"
#include "measure.h"
#include "model_engine.h"
#include "place.h"
#include "shape.h"
#include "speeds.h"
#include "stats.h"
#include "status.h"
#include "verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 256 };

const char *const run_routes_words[] = { "fresh", "known", "both", NULL };
const char *const run_changed_words[] = { "keep", "zero", NULL };

static const struct run_options defaults = {
    .where = PLACE_DEFAULTS,
    .layer = LAYER_DEFAULTS,
    .reps = 20,
    .warmup = 3,
    .seed = 1,
    .factor = NAN,
};

#define AT(field) offsetof(struct run_options, field)
static const struct option_row rows[] = {
    { "plan", "PLAN", OPTION_LIST, AT(plans),
      "a plan, as \"r=1 d=2 a=2dh\", or \"all\"; may be repeated" },
    { "reps", "N", OPTION_COUNT, AT(reps), "repetitions, interleaved over plans", .least = 1,
      .most = 1000000 },
    { "warmup", "N", OPTION_COUNT, AT(warmup), "steps before the first timed step", .least = 0,
      .most = 1000000 },
    { "check", NULL, OPTION_FLAG, AT(check),
      "compare every result with a plain reference (in a large layer: of some tokens)" },
    { "phases", NULL, OPTION_FLAG, AT(phases),
      "print where a step's time goes, and what the host issues in it" },
    { "routes", "WORD", OPTION_WORD, AT(routes),
      "where choices come from: fresh (the gate), known (a step before), both (and what known ones "
      "save)",
      run_routes_words },
    { "changed", "WORD", OPTION_WORD, AT(changed),
      "with known routes, the gate's gradient of tokens that would now choose others: keep, zero",
      run_changed_words },
    { "baseline", "LIST", OPTION_WORDS, AT(baseline),
      "also measure what other systems do in each plan: dense, rigid, naive; never chosen",
      baseline_words },
    GRAPHS_ROW(AT(graphs)),
    SEED_ROW(AT(seed)),
    JSON_ROW(AT(json)),

    { "layer", .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_TEXT, AT(shape),
      "the layer as text, as a table names it: \"E=8 k=2 T=4096 D=1024 H=4096\"" },
    { "capacity-factor", "F", OPTION_NUMBER, AT(factor),
      "capacity factor: F > 0: F; 0: what the step needs; F < 0: what it needs, at most -F [1]",
      .least = -1e6, .most = 1e6 },
    { "capacities", "LIST", OPTION_TEXT, AT(capacities),
      "instead a capacity for each expert: \"512,64*3\" is 512 rows for the first, 64 for three "
      "more" },
    { .kind = OPTION_GROUP, .offset = AT(load), .rows = load_rows },
    { "speeds", "LIST", OPTION_TEXT, AT(speeds),
      "speeds of the ranks for --shares speed, as \"1,1.5\" [what probe measured]" },
    { "balance", "A[,B]", OPTION_TEXT, AT(balance),
      "add a loss that keeps experts equally busy: its weight, and that of bilevel's second "
      "level" },

    { "sim", "FILE", OPTION_TEXT, AT(sim),
      "run on a modelled cluster and measure nothing. It has as many ranks as FILE or --ranks "
      "says" },
    { "where", .kind = OPTION_GROUP, .offset = AT(where), .rows = place_rows },
    { .kind = OPTION_GROUP, .offset = AT(where.virtual), .rows = virtual_rows },
    { NULL },
};
#undef AT

static int parse_plans(const struct run_options *o, const struct moe_shape *shape,
                       struct moe_plan *plans, size_t *count)
{
    const struct option_list *list = &o->plans;
    bool routes_known = o->routes != RUN_FRESH;
    size_t used = 0;

    for (int i = 0; i < list->count; i++) {
        struct moe_plan plan;

        /* All plans that apply, also to known routes and to unequal capacities. */
        if (!strcmp(list->items[i], "all")) {
            struct moe_plan *next_plans = plans + used;
            size_t unused = PLANS_MAX - used, listed = plan_list(shape, next_plans, unused);

            for (size_t j = 0; j < listed && j < unused; j++)
                if ((!routes_known || exec_supports_known_routes(shape, &next_plans[j])) &&
                    !(o->capacities && next_plans[j].r && plan_a2a_needs[next_plans[j].a].equal))
                    plans[used++] = next_plans[j];
            continue;
        }
        TRY(layer_options_plan(list->items[i], &plan));
        TRY(plan_check(&plan, shape));
        if (routes_known)
            TRY(exec_check_known_routes(shape, &plan));
        if (used == PLANS_MAX)
            return fail(ERR_ARGUMENT, "--plan: more than %d plans", PLANS_MAX);
        plans[used++] = plan_canonical(plan, shape);
    }
    if (!list->count)
        plans[used++] = plan_default(shape);
    *count = used;
    return OK;
}

/* Sets the largest capacity that the factor can lead to; for factor 0 that is the capacity if every
 * token chooses the same expert.  With --capacities it sets these; the caller frees *given. */
static int largest_capacities(const struct run_options *o, const struct moe_shape *shape,
                              uint64_t **given, struct capacities *out)
{
    *given = NULL;
    *out = (struct capacities){
        moe_capacity(o->factor, shape->top_k, shape->experts, shape->tokens, shape->tokens), NULL
    };
    if (!o->capacities)
        return OK;
    TRY(capacities_parse(o->capacities, shape->experts, shape->tokens, given));
    *out = capacities_of(*given, shape->experts);
    return OK;
}

/* Returns the bits of --baseline that apply to this plan.  Sets *why_not if one does not apply. */
static uint32_t fitting_baselines(const struct run_options *o, const struct moe_shape *shape,
                                  const struct moe_plan *plan, const struct capacities *capacities,
                                  const char **why_not)
{
    bool on_host = !o->sim && strcmp(gpus_device(o->where.device), "cuda") != 0;
    uint32_t fitting = 0;

    for (uint32_t bit = 1; bit <= o->baseline; bit <<= 1) {
        const char *why = baseline_refuses(o->baseline & bit, shape, plan, capacities,
                                           on_host ? (uint32_t)MOE_F32 : shape->dtype);

        if (why)
            *why_not = why;
        else
            fitting |= o->baseline & bit;
    }
    return fitting;
}

/* Baselines are counted from 0, which is the plan itself, to the highest bit. */
static uint32_t next_baseline(uint32_t bit)
{
    return bit ? bit << 1 : 1;
}

/* Refuses plans that need more memory than this machine has: every rank prepares all plans at once.
 */
static int check_memory(const struct run_options *o, const struct moe_shape *shape,
                        const struct moe_plan *plans, size_t count, uint32_t neighbours,
                        const struct capacities *capacities)
{
    bool on_gpu = !strcmp(gpus_device(o->where.device), "cuda");
    struct account_machine machine = { .on_host = !on_gpu, .between = o->load.between };
    double bytes = (double)account_layer(shape, &machine), free_bytes;

    /* A plan with known routes needs a second executor, whose fresh step makes these routes. */
    for (size_t i = 0; i < count; i++) {
        uint32_t baselines =
            fitting_baselines(o, shape, &plans[i], capacities, &(const char *){ NULL });

        for (uint32_t bit = 0; bit <= baselines; bit = next_baseline(bit)) {
            machine.baseline = bit;
            if (!bit || baselines & bit)
                bytes += (!bit && o->routes != RUN_FRESH ? 2 : 1) *
                         (double)account_capacities(shape, &machine, &plans[i], capacities);
        }
    }
    if (o->check && !on_gpu)
        bytes +=
            (double)(reference_is_affordable(shape) ? reference_bytes(shape) : spot_bytes(shape));
    free_bytes =
        on_gpu ? machine_cluster("cuda", neighbours, neighbours).memory_gib * 0x1p30 * neighbours
               : (double)allowance_free_bytes();
    if (!(bytes * neighbours > free_bytes)) /* also true if the free memory is unknown */
        return OK;
    return fail(
        ERR_ARGUMENT,
        "%u ranks would need %.3g GiB here, %.3g GiB are free: fewer plans, tokens or ranks, "
        "or smaller dimensions",
        neighbours, bytes * neighbours * 0x1p-30, free_bytes * 0x1p-30);
}

static int check_options(const struct run_options *o, const struct moe_shape *shape,
                         uint32_t neighbours, struct moe_plan *plans, size_t *count)
{
    struct capacities capacities;
    uint32_t missing = o->baseline;
    const char *why = "";
    struct load *load;
    uint64_t *given;
    double weight[2];
    int rc = OK;

    if (o->where.virtual.ranks && o->check)
        return fail(ERR_ARGUMENT,
                    "--check does not go with --virtual-ranks: they send no real rows");
    if (!o->sim && strcmp(gpus_device(o->where.device), "cuda") != 0 && graphs_steps_are(o->graphs))
        return engine_refuse_steps(graphs_steps_are(o->graphs), "device",
                                   gpus_device(o->where.device));
    TRY(shape_check(shape));
    if (!shape_agrees(shape, o->shape))
        return fail(ERR_ARGUMENT,
                    "--shape \"%s\": the ranks here are W=%u m=%u rack=%u, without a space; "
                    "--ranks-per-node and --ranks-per-rack change that",
                    o->shape, shape->ranks, shape->ranks_per_node, shape->ranks_per_rack);
    if (o->speeds && shape->shares == MOE_SHARES_EQUAL)
        return fail(ERR_ARGUMENT, "--speeds goes with --shares speed, tokens or hidden");
    TRY(load_open(shape, shape_window(shape), o->seed, &o->load, &load));
    if (o->routes != RUN_FRESH && load_step_count(load) > 1)
        rc = fail(ERR_ARGUMENT, "--routes known or both: in the steps of --routing tokens choose "
                                "other experts each; known routes go with a file of one step");
    load_close(load);
    TRY(rc);
    if (o->balance)
        TRY(balance_parse(o->balance, shape, weight));
    if (o->changed && o->routes == RUN_FRESH)
        return fail(ERR_ARGUMENT, "--changed goes with --routes known or both");
    if (shape->order == MOE_ORDER_PRIORITY && o->routes != RUN_FRESH)
        return exec_check_known_routes(
            shape, &(struct moe_plan){ .struct_size = sizeof(*plans), .r = 1, .d = 1 });
    TRY(parse_plans(o, shape, plans, count));
    TRY(largest_capacities(o, shape, &given, &capacities));
    if (o->baseline && o->routes != RUN_FRESH)
        rc = fail(ERR_ARGUMENT, "--baseline goes with --routes fresh");
    for (size_t i = 0; i < *count && !rc; i++)
        missing &= ~fitting_baselines(o, shape, &plans[i], &capacities, &why);
    for (int i = 0; missing >> i && !rc; i++)
        if (missing >> i & 1)
            rc = fail(ERR_ARGUMENT, "--baseline %s: no plan here has it: %s", baseline_words[i],
                      why);
    if (!rc)
        rc = check_memory(o, shape, plans, *count, neighbours, &capacities);
    free(given);
    return rc;
}

/* ---- measuring in turns, so that a disturbance hits all plans alike */

/* Rounds of measurements.  Each round measures every turn once, in a random order. */
struct turns {
    struct measured_plan *subjects;
    int modes;            /* turns of each plan: its step modes */
    struct runner *known; /* measured beside a single plan; NULL: none */
    uint32_t rounds;
    int64_t *ns; /* results by turn and round; or in phases */
    struct phase_times *phases;
};

static int measure_rounds(struct turns *t, int count, uint64_t seed,
                          int (*turn)(struct turns *t, int which, uint32_t round))
{
    int *order = calloc((size_t)count, sizeof(*order));
    int rc = order && (t->ns || t->phases) ? OK : fail(ERR_NOMEM, "%u samples", t->rounds);

    TRY_OUT(world_settle(t->subjects->runner.rig->world, rc));
    for (uint32_t round = 0; round < t->rounds; round++) {
        measure_order(seed, round, count, order);
        for (int i = 0; i < count; i++)
            TRY_OUT(turn(t, order[i], round));
    }
out:
    free(order);
    return rc;
}

static int measure_step_turn(struct turns *t, int which, uint32_t round)
{
    return runner_step(&t->subjects[which / t->modes].runner, (enum step_mode)(which % t->modes),
                       &t->ns[(size_t)which * t->rounds + round]);
}

static int measure_steps(struct measured_plan *subjects, size_t count, const struct run_options *o)
{
    int modes = subjects[0].runner.rig->steps_are ? STEP_MODES + 1 : STEP_MODES;
    int turn_count = (int)count * modes, rc;
    struct turns t = { .subjects = subjects, .modes = modes, .rounds = o->reps };

    t.ns = calloc((size_t)turn_count * o->reps, sizeof(*t.ns));
    rc = measure_rounds(&t, turn_count, o->seed, measure_step_turn);
    for (int i = 0; i < turn_count && !rc; i++)
        subjects[i / modes].spread[i % modes] = spread_of(&t.ns[(size_t)i * o->reps], o->reps);
    free(t.ns);
    return rc;
}

static int measure_phase_turn(struct turns *t, int which, uint32_t round)
{
    return runner_phases(&t->subjects[which].runner, &t->phases[(size_t)which * t->rounds + round]);
}

/* Measures phases, at least so often that the times of each phase have an interval. */
static int measure_phases(struct measured_plan *subjects, size_t count, const struct run_options *o)
{
    uint32_t rounds = o->reps < PHASE_SAMPLES_LEAST ? PHASE_SAMPLES_LEAST : o->reps;
    struct turns t = { .subjects = subjects, .rounds = rounds };
    struct phase_times unused;
    int rc = OK;

    t.phases = calloc(count * rounds, sizeof(*t.phases));
    for (size_t i = 0; i < count && !rc; i++) /* makes the events */
        rc = runner_phases(&subjects[i].runner, &unused);
    if (!rc)
        rc = measure_rounds(&t, (int)count, o->seed, measure_phase_turn);
    for (size_t i = 0; i < count && !rc; i++)
        rc = phases_spread(&t.phases[i * rounds], rounds, &subjects[i].phases);
    free(t.phases);
    return rc;
}

/* ---- known routes */

/* Opens a runner that reuses the choices of the last step of `fresh`. */
static int open_known(struct runner *fresh, const struct run_options *o, struct runner *out)
{
    struct rig *rig = fresh->rig;
    struct runner known = { 0 };
    int rc;

    rig->routes = o->changed ? ROUTES_ZERO : ROUTES_KEEP;
    rc = runner_open(rig, &fresh->plan, &known);
    rig->routes = ROUTES_FRESH;
    if (!rc)
        rc = rig_set_known_routes(rig, fresh->exec, known.exec);
    if (rc)
        runner_close(&known);
    else
        *out = known;
    return rc;
}

static int route_by_gate(void *self)
{
    struct runner *fresh = self;

    return rig_route(fresh->rig, fresh->exec);
}

/* The turns of measure_known(): a fresh step, a known step, the gate alone. */
enum { FRESH, KNOWN, GATE, TURNS };

static int measure_known_turn(struct turns *t, int which, uint32_t round)
{
    struct runner *fresh = &t->subjects->runner;
    int64_t *ns = &t->ns[(size_t)which * t->rounds + round];
    struct measured measured;

    if (which != GATE)
        return runner_step(which == KNOWN ? t->known : fresh, STEP_BOTH, ns);
    TRY(measure_once(fresh->rig->world, fresh->rig->engine, NULL, route_by_gate, fresh, &measured));
    *ns = measured.ns;
    return OK;
}

static int measure_known(struct measured_plan *subject, const struct run_options *o, uint64_t seed)
{
    enum { WARMUP = 2 };
    struct rig *rig = subject->runner.rig;
    bool checks_all = o->check && reference_is_affordable(&rig->data.shape);
    bool checks_sample = o->check && !checks_all;
    struct runner known = { 0 };
    struct turns t = { .subjects = subject, .known = &known, .rounds = o->reps };
    size_t reps = o->reps;
    int64_t *fresh_ns = calloc((TURNS + 1) * reps, sizeof(*fresh_ns)), *known_ns, *gain_ppm;
    int rc;

    t.ns = fresh_ns;
    TRY_OUT(open_known(&subject->runner, o, &known));
    if (checks_all)
        TRY_OUT(rig_check(rig, known.exec, &subject->known.error));
    if (checks_sample)
        TRY_OUT(rig_overwrite_results(rig));
    TRY_OUT(runner_warm(&known, WARMUP));
    if (checks_sample)
        TRY_OUT(rig_check_some(rig, known.exec, &subject->known.error));
    subject->error = fmax(subject->error, subject->known.error);
    TRY_OUT(measure_rounds(&t, TURNS, seed, measure_known_turn));
    known_ns = fresh_ns + KNOWN * reps;
    gain_ppm = fresh_ns + TURNS * reps;
    /* The gain of each round must be computed first: spread_of() sorts the samples, and the rounds
     * are lost. */
    for (size_t i = 0; i < reps; i++)
        gain_ppm[i] = fresh_ns[i] ? (fresh_ns[i] - known_ns[i]) * 1000000 / fresh_ns[i] : 0;
    subject->known.gain_ppm = spread_of(gain_ppm, reps);
    subject->known.fresh = spread_of(fresh_ns, reps);
    subject->known.step = spread_of(known_ns, reps);
    subject->known.gate = spread_of(fresh_ns + GATE * reps, reps);
out:
    runner_close(&known);
    free(fresh_ns);
    return rc;
}

/* ---- plans */

static int open_subject(struct rig *rig, const struct moe_plan *plan, const struct run_options *o,
                        struct measured_plan *subject)
{
    struct runner fresh = { 0 };
    int rc;

    rig->baseline = subject->baseline;
    rc = runner_open(rig, plan, o->routes == RUN_KNOWN ? &fresh : &subject->runner);
    rig->baseline = 0;
    if (!rc && o->routes == RUN_KNOWN) {
        rc = runner_warm(&fresh, 1);
        if (!rc)
            rc = open_known(&fresh, o, &subject->runner);
        runner_close(&fresh);
    }
    return rc;
}

/* Prepares and warms a plan and checks its results.  If a whole check would take hours, it checks
 * some tokens. */
static int prepare_plan(struct rig *rig, const struct moe_plan *plan, const struct run_options *o,
                        struct measured_plan *subject)
{
    bool checks_all = o->check && reference_is_affordable(&rig->data.shape);
    bool checks_sample = o->check && !checks_all;
    /* The recorded steps that have this capacity, or the only step. */
    struct replay_steps steps = load_steps(rig->data.load, rig->capacity);
    int64_t dropped, sum = 0;
    double error;

    TRY(open_subject(rig, plan, o, subject));
    for (uint32_t i = 0; i < steps.count && checks_all; i++) {
        TRY(rig_replay(rig, steps.first + i));
        TRY(rig_check(rig, subject->runner.exec, &error));
        subject->error = fmax(subject->error, error);
    }
    TRY(rig_replay(rig, steps.first));
    if (checks_sample)
        TRY(rig_overwrite_results(rig));
    TRY(runner_warm(&subject->runner, o->warmup + 1));
    if (checks_sample)
        TRY(rig_check_some(rig, subject->runner.exec, &subject->error));
    TRY(rig_balance(rig, subject->runner.exec, &subject->balance));

    /* Count the dropped choices of all ranks, averaged over these steps. */
    if (steps.count == 1)
        return rig_dropped(rig, subject->runner.exec, &subject->dropped);
    for (uint32_t i = 0; i < steps.count; i++) {
        TRY(rig_replay(rig, steps.first + i));
        TRY(runner_warm(&subject->runner, 1));
        TRY(rig_dropped(rig, subject->runner.exec, &dropped));
        sum += dropped;
    }
    subject->dropped = (sum + steps.count / 2) / steps.count;
    return OK;
}

/* Whether this rank prints: rank 0, or the one rank that stands for all. */
static bool is_printing(const struct world *world, const struct run_options *o)
{
    return o->sim || o->where.virtual.ranks || world_topology(world)->rank == 0;
}

/* Measures all plans, each followed by its baselines, and prints their times. */
static int run_plans(struct rig *rig, const struct moe_plan *plans, size_t plan_count,
                     const struct run_options *o)
{
    const struct capacities capacities = rig_capacities(rig);
    struct measured_plan *subjects = calloc(plan_count * (1 + BASELINE_COUNT), sizeof(*subjects));
    const char *why_not;
    size_t count = 0;
    int rc = world_settle(rig->world, subjects ? OK : fail(ERR_NOMEM, "%zu plans", plan_count));

    for (size_t i = 0; i < plan_count && !rc; i++) {
        uint32_t baselines =
            fitting_baselines(o, &rig->data.shape, &plans[i], &capacities, &why_not);

        for (uint32_t bit = 0; bit <= baselines && !rc; bit = next_baseline(bit))
            if (!bit || baselines & bit) {
                subjects[count].baseline = bit;
                rc = prepare_plan(rig, &plans[i], o, &subjects[count++]);
            }
    }
    if (!rc)
        rc = measure_steps(subjects, count, o);
    for (size_t i = 0; i < count && o->routes == RUN_BOTH && !rc; i++)
        rc = measure_known(&subjects[i], o, o->seed + i);
    if (!rc && o->phases)
        rc = measure_phases(subjects, count, o);
    if (!rc && is_printing(rig->world, o))
        run_print(rig, subjects, count, o);
    for (size_t i = 0; subjects && i < count; i++)
        runner_close(&subjects[i].runner);
    free(subjects);
    return rc;
}

/* Runs the layer under all plans.  speeds: of the ranks, or NULL. */
static int run_layer(struct world *world, struct engine *engine, const struct moe_shape *shape,
                     const double *speeds, const struct moe_plan *plans, size_t count,
                     const struct run_options *o)
{
    struct data data = {
        .shape = *shape, .seed = o->seed, .speeds = speeds, .between = o->load.between
    };
    struct capacities capacities;
    uint64_t *given = NULL;
    struct load *load = NULL;
    struct rig *rig = NULL;
    double balance[2];
    int rc;

    if (o->balance)
        TRY(balance_parse(o->balance, shape, balance));
    data.balance = o->balance ? balance : NULL;
    log_enable(is_printing(world, o)); /* every rank would report the same */
    rc = engine_check_steps(engine, graphs_steps_are(o->graphs));
    log_enable(true);
    TRY(rc);
    TRY(world_settle(world, load_open(shape, shape_window(shape), o->seed, &o->load, &load)));
    data.load = load_counts(load);
    TRY_OUT(rig_open(world, engine, &data, NULL, o->factor, &rig));
    rig->steps_are = graphs_steps_are(o->graphs);
    rc = largest_capacities(o, shape, &given, &capacities);
    if (!rc && given)
        rc = rig_set_capacities(rig, given);
    TRY_OUT(world_settle(world, rc));
    rc = run_plans(rig, plans, count, o);
out:
    free(given);
    rig_close(rig);
    load_close(load);
    return rc;
}

/* ---- where it runs: on ranks, on one rank that stands for all, or on a model */

/* Finds the rank that stands for all.  With unequal capacities it is the one with most rows. */
static int fullest_rank(const struct run_options *o, const struct moe_shape *shape, int *rank)
{
    struct capacities capacities;
    uint64_t *given;

    TRY(largest_capacities(o, shape, &given, &capacities));
    *rank = capacities_fullest(&capacities, shape);
    free(given);
    return OK;
}

/* Returns the shape of the layer on the real ranks, or on the virtual ones. */
static struct moe_shape shape_on(const struct run_options *o, const char *device, uint32_t ranks,
                                 uint32_t per_node)
{
    const struct place_setup *where = &o->where;
    struct rank_layout placement = { ranks, per_node, where->ranks_per_rack };

    if (where->virtual.ranks) {
        placement.ranks = where->virtual.ranks;
        placement.per_node = where->ranks_per_node ? where->ranks_per_node : placement.ranks;
    }
    return layer_options_shape(&o->layer, placement, gpus_dtype(device));
}

static int on_rank(struct world *world, const void *options)
{
    const struct run_options *o = options;
    const struct topology *topology = world_topology(world);
    struct world *layer_world = world; /* with --virtual-ranks the virtual world of this rank */
    struct moe_shape shape;
    const char *device;
    struct moe_plan plans[PLANS_MAX];
    struct engine engine = { 0 };
    double *speeds = NULL;
    size_t count;
    int rank, rc;

    TRY(gpus_agree_device(world, o->where.device, &device));
    shape = shape_on(o, device, (uint32_t)topology->ranks, (uint32_t)topology->ranks_per_node);
    log_enable(topology->rank == 0); /* every rank would report the same error */
    rc = check_options(o, &shape, (uint32_t)world_neighbours(world), plans, &count);
    log_enable(true);
    TRY(world_settle(world, rc));
    TRY(world_settle(world, fault_setup(topology->rank)));
    /* Count the machine's cores before the engine binds to a share of them. */
    if (shape.shares != MOE_SHARES_EQUAL)
        TRY(speeds_agree(world, o->speeds, &o->where, shape.ranks, &speeds));
    if (o->where.virtual.ranks) {
        rc = fullest_rank(o, &shape, &rank);
        if (!rc)
            rc = virtual_open(&o->where.virtual, o->where.ranks_per_node, o->where.ranks_per_rack,
                              rank, device, &layer_world, &engine);
    } else {
        rc = engine_open(world, device, NULL, &engine);
    }
    if (!rc) {
        rc = run_layer(layer_world, &engine, &shape, speeds, plans, count, o);
        engine_close(&engine);
    }
    if (layer_world != world)
        world_close(layer_world);
    free(speeds);
    return rc;
}

/* Finds errors in plans and sizes before any rank is started. */
static int check_before_launch(const struct launch_where *where, const void *options)
{
    const struct run_options *o = options;
    uint32_t per_node = o->where.ranks_per_node ? o->where.ranks_per_node : where->ranks_per_node;
    struct moe_shape shape = shape_on(o, gpus_device(o->where.device), where->ranks, per_node);
    struct moe_plan plans[PLANS_MAX];
    size_t count;

    TRY(layer_options_single(&o->layer));
    TRY(layer_options_check(&shape));
    return check_options(o, &shape, where->ranks, plans, &count);
}

/* Runs on a modelled cluster.  One rank stands for all, as when `tune` models equal ranks. */
static int run_modelled(const struct run_options *o)
{
    const struct place_setup *where = &o->where;
    struct moe_plan plans[PLANS_MAX];
    struct engine engine = { 0 };
    struct world *world = NULL;
    struct cluster cluster;
    struct moe_shape shape;
    size_t count;
    int rank, rc;

    if (where->ranks_per_node || where->ranks_per_rack || where->virtual.ranks ||
        where->launcher_arguments || strcmp(where->device, "auto") != 0 || launch_is_rank())
        return fail(ERR_ARGUMENT, "--sim is one process, and its file says how many ranks a node "
                                  "has: no hosts, launcher or other ranks");
    if (o->check)
        return fail(ERR_ARGUMENT, "--check: modelled ranks have no results");
    if (!(o->factor > 0) && o->load.skew == 0 && !o->load.routing.count)
        return fail(ERR_ARGUMENT,
                    "--capacity-factor %g: modelled ranks do not know the rows that experts need: "
                    "give --skew or --routing, or a factor above 0",
                    o->factor);
    TRY(layer_options_single(&o->layer));
    TRY(cluster_read_model(o->sim, where->ranks, &cluster));
    shape = layer_options_shape(&o->layer, cluster_layout(&cluster),
                                gpus_dtype(virtual_device(&cluster)));
    TRY(cluster_check_multiplies(&cluster, shape.dtype));
    if (shape.shares != MOE_SHARES_EQUAL)
        return fail(ERR_ARGUMENT, "--shares %s: run models equal ranks, tune --sim others",
                    shares_words[shape.shares]);
    TRY(check_options(o, &shape, 0, plans,
                      &count)); /* 0: modelled ranks need no memory of this machine */
    TRY(fullest_rank(o, &shape, &rank));
    rc = model_engine_open(&cluster, rank, o->seed, &world, &engine);
    if (!rc)
        rc = run_layer(world, &engine, &shape, NULL, plans, count, o);
    engine_close(&engine);
    world_close(world);
    return rc;
}

static int verb_run(const struct verb_call *call, void *options)
{
    struct run_options *o = options;

    if (o->capacities && !isnan(o->factor))
        return fail(ERR_ARGUMENT,
                    "--capacities and --capacity-factor %g both set the capacity: give one of them",
                    o->factor);
    if (isnan(o->factor))
        o->factor = 1;
    if (o->shape) {
        struct rank_layout placement = { o->where.ranks ? o->where.ranks : NOT_GIVEN, NOT_GIVEN,
                                         NOT_GIVEN };

        TRY(layer_options_text(o->shape, &o->layer, &placement));
        if (!o->where.virtual.ranks && placement.ranks != NOT_GIVEN)
            o->where.ranks = placement.ranks;
    }
    if (o->sim)
        return run_modelled(o);
    return place_run(
        &o->where, call,
        &(struct place_verb){
            .check = check_before_launch, .on_rank = on_rank, .options = o, .measures = true });
}

const struct verb run_verb = {
    .name = "run",
    .summary = "run one layer under given plans: where the time of a step goes",
    .about = "Runs one MoE layer on real ranks and prints where the time of a step goes.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes =
        "With --layers each layer reads the output of the layer before. Then --check compares each "
        "layer with the reference for that input. The products of --between stand for what a model "
        "computes between its MoE layers; weights can travel meanwhile. A plan with w=cache "
        "gathers the weights into one buffer for all layers, forward and again backward.",
    .example = "run --ranks 4 --experts 2 --plan all --check",
    .run = verb_run,
};
