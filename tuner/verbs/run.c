/* moetune run: one layer under given plans, measured and checked on real ranks. */
#include "account.h"
#include "allowance.h"
#include "baseline.h"
#include "common_rows.h"
#include "fault.h"
#include "gpu_list.h"
#include "layer_options.h"
#include "machine.h"
#include "measure.h"
#include "model_engine.h"
#include "place.h"
#include "run_print.h"
#include "run_steps.h"
#include "runner.h"
#include "shape.h"
#include "speeds.h"
#include "stats.h"
#include "status.h"
#include "verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 256 };

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
    { "plan", "PLAN", OPTION_LIST, AT(plans), "\"r=1 d=2 a=2dh\"; again for more, or \"all\"" },
    { "reps", "N", OPTION_COUNT, AT(reps), "repetitions, interleaved over plans", .least = 1,
      .most = 1000000 },
    { "warmup", "N", OPTION_COUNT, AT(warmup), "steps before the first is timed", .least = 0,
      .most = 1000000 },
    { "check", NULL, OPTION_FLAG, AT(check),
      "compare every result with a plain reference (of a large layer: of some tokens)" },
    { "phases", NULL, OPTION_FLAG, AT(phases),
      "where a step's time goes, and what the host issues in it" },
    { "routes", "WORD", OPTION_WORD, AT(routes),
      "choices: fresh from the gate, known from a step before, or both and what that gains",
      run_routes_words },
    { "changed", "WORD", OPTION_WORD, AT(changed),
      "known routes, tokens that would choose others: keep their gate's gradient, or zero",
      run_changed_words },
    { "baseline", "LIST", OPTION_WORDS, AT(baseline),
      "beside each plan what other systems do in it: baselines are measured, never chosen",
      baseline_words },
    GRAPHS_ROW(AT(graphs)),
    SEED_ROW(AT(seed)),
    JSON_ROW(AT(json)),

    { "layer", .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "capacity-factor", "F", OPTION_NUMBER, AT(factor),
      "capacity: F > 0 static, 0 what is needed, F < 0 needed, at most -F [1]", .least = -1e6,
      .most = 1e6 },
    { "capacities", "LIST", OPTION_TEXT, AT(capacities),
      "instead one for each expert: \"512,64*3\" is 512 rows of the first, 64 of three more" },
    { .kind = OPTION_GROUP, .offset = AT(load), .rows = load_rows },
    { "speeds", "LIST", OPTION_TEXT, AT(speeds),
      "of the ranks, for --shares speed: \"1,1.5\" [what probe measured]" },
    { "balance", "A[,B]", OPTION_TEXT, AT(balance),
      "with a loss that keeps experts equally busy: its weight, and that of bilevel's second "
      "level" },

    { "sim", "FILE", OPTION_TEXT, AT(sim),
      "a modelled cluster instead, of as many ranks as it says or --ranks; measures nothing" },
    { "where", .kind = OPTION_GROUP, .offset = AT(where), .rows = place_rows },
    { .kind = OPTION_GROUP, .offset = AT(where.virtual), .rows = virtual_rows },
    { NULL },
};
#undef AT

/* All that apply, to known routes and to capacities of experts too. */
static size_t list_all(const struct run_options *o, const struct moe_shape *shape, bool known,
                       struct moe_plan *plans, size_t room)
{
    size_t n = plan_list(shape, plans, room), kept = 0;

    n = n > room ? room : n;
    for (size_t i = 0; i < n; i++)
        if ((!known || exec_can_know(shape, &plans[i])) &&
            !(o->capacities && plans[i].r && plan_a2a_needs[plans[i].a].equal))
            plans[kept++] = plans[i];
    return kept;
}

static int parse_plans(const struct run_options *o, const struct moe_shape *shape,
                       struct moe_plan *plans, size_t *count)
{
    const struct option_list *list = &o->plans;
    bool known = o->routes != RUN_FRESH;
    size_t n = 0;

    for (int i = 0; i < list->count; i++) {
        struct moe_plan plan;

        if (!strcmp(list->items[i], "all")) {
            n += list_all(o, shape, known, plans + n, PLANS_MAX - n);
            continue;
        }
        TRY(layer_options_plan(list->items[i], &plan));
        TRY(plan_check(&plan, shape));
        if (known)
            TRY(exec_check_known(shape, &plan));
        if (n == PLANS_MAX)
            return fail(ERR_ARGUMENT, "more than %d plans", PLANS_MAX);
        plans[n++] = plan_canonical(plan, shape);
    }
    if (!list->count)
        plans[n++] = plan_default(shape);
    *count = n;
    return OK;
}

/* The largest that the rule can give, for factor 0 as if every token chose the same expert; or what
 * is given for each, which the caller frees. */
static int most_capacities(const struct run_options *o, const struct moe_shape *shape,
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

/* Of the baselines that are asked for, those that this plan has. */
static uint32_t baselines_of(const struct run_options *o, const struct moe_shape *shape,
                             const struct moe_plan *plan, const struct capacities *capacities,
                             const char **why_not)
{
    bool on_host = !o->sim && strcmp(gpus_device(o->where.device), "cuda") != 0;
    uint32_t found = 0;

    for (uint32_t bit = 1; bit <= o->baseline; bit <<= 1) {
        const char *why = baseline_refuses(o->baseline & bit, shape, plan, capacities,
                                           on_host ? (uint32_t)MOE_F32 : shape->dtype);

        if (why)
            *why_not = why;
        else
            found |= o->baseline & bit;
    }
    return found;
}

/* Each is one of some plan. */
static int check_baselines(const struct run_options *o, const struct moe_shape *shape,
                           const struct moe_plan *plans, size_t count,
                           const struct capacities *capacities)
{
    uint32_t missing = o->baseline;
    const char *why = "";

    if (o->baseline && o->routes != RUN_FRESH)
        return fail(ERR_ARGUMENT, "--baseline goes with --routes fresh");
    for (size_t i = 0; i < count; i++)
        missing &= ~baselines_of(o, shape, &plans[i], capacities, &why);
    for (int i = 0; missing; i++, missing >>= 1)
        if (missing & 1)
            return fail(ERR_ARGUMENT, "--baseline %s: no plan here has it: %s", baseline_words[i],
                        why);
    return OK;
}

/* All plans are prepared at once, on every rank of this machine. */
static int check_memory(const struct run_options *o, const struct moe_shape *shape,
                        const struct moe_plan *plans, size_t count, uint32_t neighbours,
                        const struct capacities *capacities)
{
    bool on_gpu = !strcmp(gpus_device(o->where.device), "cuda");
    struct account_machine machine = { .on_host = !on_gpu, .between = o->load.between };
    double bytes = (double)account_layer(shape, &machine), there;

    /* Known routes come from a fresh executor beside theirs. */
    for (size_t i = 0; i < count; i++) {
        uint32_t baselines = baselines_of(o, shape, &plans[i], capacities, &(const char *){ NULL });

        machine.baseline = 0;
        bytes += (o->routes == RUN_FRESH ? 1 : 2) *
                 (double)account_capacities(shape, &machine, &plans[i], capacities);
        for (uint32_t bit = 1; bit <= baselines; bit <<= 1) {
            machine.baseline = baselines & bit;
            if (machine.baseline)
                bytes += (double)account_capacities(shape, &machine, &plans[i], capacities);
        }
    }
    if (o->check && !on_gpu)
        bytes += (double)(reference_is_bearable(shape) ? reference_bytes : spot_bytes)(shape);
    there = on_gpu
                ? machine_cluster("cuda", neighbours, neighbours).memory_gib * 0x1p30 * neighbours
                : (double)allowance_free_bytes();
    if (!(bytes * neighbours > there)) /* or it is not known what is there */
        return OK;
    return fail(
        ERR_ARGUMENT,
        "%u ranks would need %.3g GiB here, %.3g GiB are free: fewer plans, tokens or ranks, "
        "or smaller dimensions",
        neighbours, bytes * neighbours * 0x1p-30, there * 0x1p-30);
}

static int check_load(const struct run_options *o, const struct moe_shape *shape)
{
    struct load *load;
    int rc;

    TRY(load_open(shape, shape_window(shape), o->seed, &o->load, &load));
    rc = o->routes == RUN_FRESH ? OK : run_steps_check_known(load);
    load_close(load);
    return rc;
}

static int check_balance(const struct run_options *o, const struct moe_shape *shape)
{
    double weight[2];

    return o->balance ? balance_parse(o->balance, shape, weight) : OK;
}

static int check_options(const struct run_options *o, const struct moe_shape *shape,
                         uint32_t neighbours, struct moe_plan *plans, size_t *count)
{
    struct capacities capacities;
    uint64_t *given;
    int rc;

    if (o->where.virtual.ranks && o->check)
        return fail(ERR_ARGUMENT, "--check: what virtual ranks would send is not there");
    if (!o->sim && o->graphs == GRAPHS_ON && strcmp(gpus_device(o->where.device), "cuda") != 0)
        return engine_refuse_graphs("device", gpus_device(o->where.device));
    TRY(shape_check(shape));
    if (o->speeds && shape->shares == MOE_SHARES_EQUAL)
        return fail(ERR_ARGUMENT, "--speeds goes with --shares speed, tokens or hidden");
    TRY(check_load(o, shape));
    TRY(check_balance(o, shape));
    if (o->changed && o->routes == RUN_FRESH)
        return fail(ERR_ARGUMENT, "--changed goes with --routes known or both");
    if (shape->order == MOE_ORDER_PRIORITY && o->routes != RUN_FRESH)
        return exec_check_known(
            shape, &(struct moe_plan){ .struct_size = sizeof(*plans), .r = 1, .d = 1 });
    TRY(parse_plans(o, shape, plans, count));
    TRY(most_capacities(o, shape, &given, &capacities));
    rc = check_baselines(o, shape, plans, *count, &capacities);
    if (!rc)
        rc = check_memory(o, shape, plans, *count, neighbours, &capacities);
    free(given);
    return rc;
}

/* A rank that stands for all of them is alone, whichever it is. */
static bool speaks(const struct world *world, const struct run_options *o)
{
    return o->sim || o->where.virtual.ranks || world_topology(world)->rank == 0;
}

static int measure_all(struct subject *subjects, int count, const struct run_options *o)
{
    int modes = subjects[0].runner.rig->graphs ? STEP_MODES + 1 : STEP_MODES;
    int n = count * modes, *order = calloc((size_t)n, sizeof(*order)), rc;
    int64_t *samples = calloc((size_t)n * o->reps, sizeof(*samples));

    rc = order && samples ? OK : fail(ERR_NOMEM, "%u samples", o->reps);
    TRY_OUT(world_settle(subjects[0].runner.rig->world, rc));
    for (uint32_t round = 0; round < o->reps; round++) {
        measure_order(o->seed, round, n, order);
        for (int i = 0; i < n; i++)
            TRY_OUT(runner_step(&subjects[order[i] / modes].runner,
                                (enum step_mode)(order[i] % modes),
                                &samples[(size_t)order[i] * o->reps + round]));
    }
    for (int i = 0; i < n; i++)
        subjects[i / modes].spread[i % modes] = spread_of(&samples[(size_t)i * o->reps], o->reps);
out:
    free(order);
    free(samples);
    return rc;
}

static int open_runner(struct rig *rig, const struct moe_plan *plan, uint32_t baseline,
                       struct runner *out)
{
    int rc;

    rig->baseline = baseline;
    rc = runner_open(rig, plan, out);
    rig->baseline = 0;
    return rc;
}

/* Prepared and warm; checked in all its results, or in those of some tokens where all would take
 * hours. */
static int prepare(struct rig *rig, const struct moe_plan *plan, const struct run_options *o,
                   struct subject *s)
{
    bool whole = o->check && reference_is_bearable(&rig->data.shape);

    if (o->routes == RUN_KNOWN)
        TRY(run_routes_open(rig, plan, run_routes_of(o->changed), &s->runner));
    else
        TRY(open_runner(rig, plan, s->baseline, &s->runner));
    if (whole)
        TRY(run_steps_check(rig, &s->runner, &s->error));
    TRY(rig_replay(rig, load_steps(rig->data.load, rig->capacity).first));
    if (o->check && !whole)
        TRY(rig_spoil(rig));
    TRY(runner_warm(&s->runner, o->warmup + 1));
    if (o->check && !whole)
        TRY(rig_check_some(rig, s->runner.exec, &s->error));
    TRY(rig_balance(rig, s->runner.exec, &s->balance));
    return run_steps_dropped(rig, &s->runner, &s->dropped);
}

/* A plan, and behind it its baselines. */
static int prepare_plan(struct rig *rig, const struct moe_plan *plan, const struct run_options *o,
                        struct subject *subjects, size_t *count)
{
    const struct capacities capacities = rig_capacities(rig);
    const char *why;
    uint32_t baselines = baselines_of(o, &rig->data.shape, plan, &capacities, &why);

    TRY(prepare(rig, plan, o, &subjects[(*count)++]));
    for (uint32_t bit = 1; bit <= baselines; bit <<= 1) {
        if (!(baselines & bit))
            continue;
        subjects[*count].baseline = bit;
        TRY(prepare(rig, plan, o, &subjects[(*count)++]));
    }
    return OK;
}

static int run_plans(struct rig *rig, const struct moe_plan *plans, size_t plan_count,
                     const struct run_options *o)
{
    struct subject *subjects = calloc(plan_count * (1 + BASELINE_COUNT), sizeof(*subjects));
    size_t count = 0;
    int rc = world_settle(rig->world, subjects ? OK : fail(ERR_NOMEM, "%zu plans", plan_count));

    for (size_t i = 0; i < plan_count && !rc; i++)
        rc = prepare_plan(rig, &plans[i], o, subjects, &count);
    if (!rc)
        rc = measure_all(subjects, (int)count, o);
    if (!rc && o->routes == RUN_BOTH)
        rc = run_routes(subjects, count, run_routes_of(o->changed), o->check, o->reps, o->seed);
    if (!rc && o->phases)
        rc = run_phases(subjects, count, o->reps, o->seed);
    if (!rc && speaks(rig->world, o))
        run_print(rig, subjects, count, o);
    for (size_t i = 0; subjects && i < count; i++)
        runner_close(&subjects[i].runner);
    free(subjects);
    return rc;
}

static int set_capacities(struct rig *rig, const struct run_options *o)
{
    struct capacities capacities;
    uint64_t *given;
    int rc;

    if (!o->capacities)
        return OK;
    TRY(most_capacities(o, &rig->data.shape, &given, &capacities));
    rc = rig_set_capacities(rig, given);
    free(given);
    return rc;
}

static int run_data(struct world *world, struct engine *engine, const struct data *data,
                    const struct moe_plan *plans, size_t count, const struct run_options *o)
{
    struct rig *rig;
    int rc;

    TRY(rig_open(world, engine, data, NULL, o->factor, &rig));
    rig->graphs = o->graphs == GRAPHS_ON;
    rc = world_settle(world, set_capacities(rig, o));
    if (!rc)
        rc = run_plans(rig, plans, count, o);
    rig_close(rig);
    return rc;
}

/* speeds: of the ranks, or NULL. */
static int run_layer(struct world *world, struct engine *engine, const struct moe_shape *shape,
                     const double *speeds, const struct moe_plan *plans, size_t count,
                     const struct run_options *o)
{
    struct data data = {
        .shape = *shape, .seed = o->seed, .speeds = speeds, .between = o->load.between
    };
    double balance[2];
    struct load *load = NULL;
    int rc;

    if (o->balance)
        TRY(balance_parse(o->balance, shape, balance));
    data.balance = o->balance ? balance : NULL;
    log_only(speaks(world, o)); /* every rank finds the same */
    rc = o->graphs == GRAPHS_ON ? engine_check_graphs(engine) : OK;
    log_only(true);
    TRY(rc);
    TRY(world_settle(world, load_open(shape, shape_window(shape), o->seed, &o->load, &load)));
    data.load = load_counts(load);
    rc = run_data(world, engine, &data, plans, count, o);
    load_close(load);
    return rc;
}

/* The rank that stands for all: where experts differ, the one that they keep busy longest. */
static int fullest_rank(const struct run_options *o, const struct moe_shape *shape, int *rank)
{
    struct capacities capacities;
    uint64_t *given;

    TRY(most_capacities(o, shape, &given, &capacities));
    *rank = capacities_fullest(&capacities, shape);
    free(given);
    return OK;
}

/* The engine of a rank, or of one that stands for many: then *world becomes theirs. */
static int open_engine(struct world **world, const struct run_options *o, const char *device,
                       const struct moe_shape *shape, struct engine *engine)
{
    const struct place_setup *where = &o->where;
    int rank;

    if (where->virtual.ranks) {
        TRY(fullest_rank(o, shape, &rank));
        return virtual_open(&where->virtual, where->ranks_per_node, where->ranks_per_rack, rank,
                            device, world, engine);
    }
    return engine_open(*world, device, NULL, engine);
}

/* The shape of the layer on the ranks that are there, or on those that one stands for. */
static struct moe_shape shape_on(const struct run_options *o, const char *device, uint32_t ranks,
                                 uint32_t per_node)
{
    const struct place_setup *where = &o->where;
    struct rank_layout on = { ranks, per_node, where->ranks_per_rack };

    if (where->virtual.ranks) {
        on.ranks = where->virtual.ranks;
        on.per_node = where->ranks_per_node ? where->ranks_per_node : on.ranks;
    }
    return layer_options_shape(&o->layer, on, gpus_dtype(device));
}

static int on_rank(struct world *world, const void *options)
{
    const struct run_options *o = options;
    const struct topology *t = world_topology(world);
    struct world *theirs = world;
    struct moe_shape shape;
    const char *device;
    struct moe_plan plans[PLANS_MAX];
    struct engine engine = { 0 };
    double *speeds = NULL;
    size_t count;
    int rc;

    TRY(gpus_agree_device(world, o->where.device, &device));
    shape = shape_on(o, device, (uint32_t)t->ranks, (uint32_t)t->ranks_per_node);
    log_only(t->rank == 0); /* every rank finds the same fault in the same options */
    rc = check_options(o, &shape, (uint32_t)world_neighbours(world), plans, &count);
    log_only(true);
    TRY(world_settle(world, rc));
    TRY(world_settle(world, fault_setup(t->rank)));
    /* The machine's cores are counted before the engine takes a share of them. */
    if (shape.shares != MOE_SHARES_EQUAL)
        TRY(speeds_agree(world, o->speeds, &o->where, shape.ranks, &speeds));
    rc = open_engine(&theirs, o, device, &shape, &engine);
    if (!rc) {
        rc = run_layer(theirs, &engine, &shape, speeds, plans, count, o);
        engine_close(&engine);
    }
    if (theirs != world)
        world_close(theirs);
    free(speeds);
    return rc;
}

/* What is wrong with plans and sizes is found before any rank is started. */
static int check(const struct launch_where *where, const void *options)
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

/* One rank stands for all, as where `tune` models equal ranks. */
static int check_sim(const struct run_options *o)
{
    const struct place_setup *where = &o->where;

    if (where->ranks_per_node || where->ranks_per_rack || where->virtual.ranks ||
        where->launcher_arguments || strcmp(where->device, "auto") != 0 || launch_is_rank())
        return fail(ERR_ARGUMENT, "--sim is one process, and its file says how many ranks a node "
                                  "has: no hosts, launcher or other ranks");
    if (o->check)
        return fail(ERR_ARGUMENT, "--check: modelled ranks have no results");
    if (!(o->factor > 0))
        return fail(ERR_ARGUMENT,
                    "--capacity-factor %g: modelled ranks do not know how many rows "
                    "are needed; above 0 is wanted",
                    o->factor);
    return OK;
}

static int run_modelled(const struct run_options *o)
{
    struct moe_plan plans[PLANS_MAX];
    struct engine engine = { 0 };
    struct world *world = NULL;
    struct cluster cluster;
    struct moe_shape shape;
    size_t count;
    int rank, rc;

    TRY(check_sim(o));
    TRY(layer_options_single(&o->layer));
    TRY(cluster_read_model(o->sim, o->where.ranks, &cluster));
    shape = layer_options_shape(&o->layer, cluster_layout(&cluster),
                                gpus_dtype(virtual_device(&cluster)));
    if (shape.shares != MOE_SHARES_EQUAL)
        return fail(ERR_ARGUMENT, "--shares %s: run models equal ranks, tune --sim others",
                    shares_words[shape.shares]);
    TRY(check_options(o, &shape, 0, plans, &count)); /* 0: nobody takes memory of this machine */
    TRY(fullest_rank(o, &shape, &rank));
    rc = model_engine_open(&cluster, rank, o->seed, &world, &engine);
    if (!rc)
        rc = run_layer(world, &engine, &shape, NULL, plans, count, o);
    engine_close(&engine);
    world_close(world);
    return rc;
}

static int run(const struct verb_call *call, void *options)
{
    struct run_options *o = options;

    if (o->capacities && !isnan(o->factor))
        return fail(ERR_ARGUMENT,
                    "--capacities and --capacity-factor %g both say how many rows "
                    "experts take: one of them is wanted",
                    o->factor);
    if (isnan(o->factor))
        o->factor = 1;
    if (o->sim)
        return run_modelled(o);
    return place_run(&o->where, call, &(struct place_verb){ check, on_rank, o, true });
}

const struct verb run_verb = {
    .name = "run",
    .summary = "run one layer under given plans: where the time of a step goes",
    .about = "Runs one MoE layer on real ranks and prints where the time of a step goes.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Of several layers each reads what the one before gave; --check compares each with\n"
             "what it must make of that. --between stands for what a model computes between\n"
             "its MoE layers: behind it weights can travel. A plan with w=cache gathers them\n"
             "into one room for all layers, forwards and again backwards.\n",
    .example = "run --ranks 4 --experts 2 --plan all --check",
    .run = run,
};
