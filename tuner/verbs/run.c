/* moetune run: one layer under given plans, measured and checked on real ranks. */
#include "account.h"
#include "allowance.h"
#include "common_rows.h"
#include "fault.h"
#include "gpu_list.h"
#include "layer_options.h"
#include "machine.h"
#include "measure.h"
#include "place.h"
#include "runner.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 256 };

struct run_options {
    struct place_setup where;
    struct layer_options layer;
    uint32_t reps, warmup;
    uint64_t seed;
    double factor, skew;
    const char *routing;
    struct option_list plans;
    bool check, phases, json;
    uint32_t graphs;
};

static const struct run_options defaults = {
    .where = PLACE_DEFAULTS,
    .layer = LAYER_DEFAULTS,
    .reps = 20,
    .warmup = 3,
    .seed = 1,
    .factor = 1,
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
    { "phases", NULL, OPTION_FLAG, AT(phases), "what the host issues in a step, and for how long" },
    GRAPHS_ROW(AT(graphs)),
    SEED_ROW(AT(seed)),
    JSON_ROW(AT(json)),

    { "layer", .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "capacity-factor", "F", OPTION_NUMBER, AT(factor),
      "capacity: F > 0 static, 0 what is needed, F < 0 needed, at most -F", .least = -1e6,
      .most = 1e6 },
    { "skew", "X", OPTION_NUMBER, AT(skew),
      "largest over mean of the tokens per expert, 1 to E/k [as random tokens choose]", .least = 1,
      .most = 1e6 },
    { "routing", "FILE", OPTION_TEXT, AT(routing),
      "tokens per expert as a trainer recorded them, see moetune-tables(7)" },

    { "where", .kind = OPTION_GROUP, .offset = AT(where), .rows = place_rows },
    { .kind = OPTION_GROUP, .offset = AT(where.virtual), .rows = virtual_rows },
    { NULL },
};
#undef AT

/* One plan under measurement. */
struct subject {
    struct runner runner;
    struct spread spread[STEP_MODES + 1]; /* the last where the others are graphs */
    int64_t dropped;
    double error; /* of the check, as a share of what is allowed */
};

static int parse_plans(const struct option_list *list, const struct moe_shape *shape,
                       struct moe_plan *plans, size_t *count)
{
    size_t n = 0;

    for (int i = 0; i < list->count; i++) {
        struct moe_plan plan;

        if (!strcmp(list->items[i], "all")) {
            n += plan_list(shape, plans + n, PLANS_MAX - n);
            n = n > PLANS_MAX ? PLANS_MAX : n;
            continue;
        }
        TRY(layer_options_plan(list->items[i], &plan));
        TRY(plan_check(&plan, shape));
        if (n == PLANS_MAX)
            return fail(ERR_ARGUMENT, "more than %d plans", PLANS_MAX);
        plans[n++] = plan_canonical(plan);
    }
    if (!list->count)
        plans[n++] = plan_default();
    *count = n;
    return OK;
}

/* All plans are prepared at once, on every rank of this machine. */
static int check_memory(const struct run_options *o, const struct moe_shape *shape,
                        const struct moe_plan *plans, size_t count, uint32_t neighbours)
{
    bool on_gpu = !strcmp(gpus_device(o->where.device), "cuda");
    struct account_machine machine = { .on_host = !on_gpu };
    /* The largest that the rule can give; for factor 0 every token may choose the same expert. */
    uint64_t capacity =
        moe_capacity(o->factor, shape->top_k, shape->experts, shape->tokens, shape->tokens);
    double bytes = (double)account_layer(shape, &machine), there;

    for (size_t i = 0; i < count; i++)
        bytes += (double)account_plan(shape, &machine, &plans[i], capacity);
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

    TRY(load_open(shape, o->seed, o->skew, o->routing, &load));
    load_close(load);
    return OK;
}

static int check_options(const struct run_options *o, const struct moe_shape *shape,
                         uint32_t neighbours, struct moe_plan *plans, size_t *count)
{
    if (o->where.virtual.ranks && o->check)
        return fail(ERR_ARGUMENT, "--check: what virtual ranks would send is not there");
    if (o->graphs == GRAPHS_ON && strcmp(gpus_device(o->where.device), "cuda") != 0)
        return engine_refuse_graphs("device", gpus_device(o->where.device));
    TRY(shape_check(shape));
    TRY(check_load(o, shape));
    TRY(parse_plans(&o->plans, shape, plans, count));
    return check_memory(o, shape, plans, *count, neighbours);
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

/* The part of the shorter of compute and communication that disappears when both run together. */
static double hidden_share(const struct subject *s)
{
    double both = (double)s->spread[STEP_BOTH].median_ns;
    double compute = (double)s->spread[STEP_COMPUTE].median_ns;
    double comm = (double)s->spread[STEP_COMM].median_ns;

    return s->runner.messages ? (compute + comm - both) / fmin(compute, comm) : NAN;
}

static void print_graphs(const struct subject *subjects, size_t count)
{
    printf("\nsteps above are CUDA graphs; against the same launch by launch\n\n"
           "%-18s %9s %9s %9s %9s\n",
           "plan", "nodes", "host", "step", "eager");
    for (size_t i = 0; i < count; i++) {
        const struct subject *x = &subjects[i];
        char name[PLAN_TEXT_BYTES];

        moe_plan_format(&x->runner.plan, name, sizeof(name));
        printf("%-18s %9" PRIu64 " %9.3f %9.3f %9.3f\n", name, x->runner.graphs[STEP_BOTH]->nodes,
               (double)x->runner.replay_host_ns * 1e-6,
               (double)x->spread[STEP_BOTH].median_ns * 1e-6,
               (double)x->spread[STEP_EAGER].median_ns * 1e-6);
    }
}

static void print_phases(const struct subject *subjects, size_t count)
{
    printf("\nissued by the host in one step, before it waits\n\n%-18s %9s %9s %9s %9s\n", "plan",
           "kernels", "events", "exchanges", "host");
    for (size_t i = 0; i < count; i++) {
        const struct issued *x = &subjects[i].runner.issued;
        char name[PLAN_TEXT_BYTES];

        moe_plan_format(&subjects[i].runner.plan, name, sizeof(name));
        printf("%-18s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9.3f\n", name, x->kernels, x->events,
               x->exchanges, (double)x->host_ns * 1e-6);
    }
}

/* Of a check that a plan has passed. */
static const char *check_word(const struct rig *rig, const struct run_options *o)
{
    return !o->check ? "" : reference_is_bearable(&rig->data.shape) ? "ok" : "some tokens ok";
}

static int widest_plan(const struct subject *subjects, size_t count)
{
    size_t widest = 18;

    for (size_t i = 0; i < count; i++) {
        size_t width = strlen(PLAN_TEXT(&subjects[i].runner.plan));

        widest = width > widest ? width : widest;
    }
    return (int)widest;
}

static void print_text(const struct rig *rig, const struct subject *subjects, size_t count,
                       const struct run_options *o)
{
    const struct moe_shape *s = &rig->data.shape;
    uint32_t window = shape_window(s);
    int wide = widest_plan(subjects, count);

    printf("layer     E=%u k=%u T=%u D=%u H=%u %s %s %s on %u ranks", s->experts, s->top_k,
           s->tokens, s->model_dim, s->hidden_dim, dtype_words[s->dtype], pass_words[s->pass],
           activation_words[s->activation], s->ranks);
    printf(s->ranks_per_node ? " (%u per node)\n" : " (nodes differ)\n", s->ranks_per_node);
    printf("capacity  c=%" PRIu64 " (f=%g), bucket %" PRIu64 " of width %u; %" PRId64 " of %" PRIu64
           " choices dropped\n",
           rig->capacity, o->factor, rig->capacity / window, window, subjects[0].dropped,
           (uint64_t)s->tokens * s->ranks * s->top_k);
    if (rig->data.load)
        printf("load      max/mean %.3g of the tokens per expert\n", load_skew(rig->data.load));
    printf("times     ms, largest over the ranks, median of %u interleaved repetitions\n\n",
           o->reps);
    printf("%-*s %9s %19s %9s %9s %7s %9s %9s %s\n", wide, "plan", "step", "95 % interval",
           "compute", "comm", "hidden", "sent MiB", "mem MiB", o->check ? "check" : "");
    for (size_t i = 0; i < count; i++) {
        const struct subject *x = &subjects[i];
        char hidden[16] = "-";

        if (!isnan(hidden_share(x)))
            snprintf(hidden, sizeof(hidden), "%.2f", hidden_share(x));
        printf("%-*s %9.3f %9.3f-%9.3f %9.3f %9.3f %7s %9.3f %9.3f %s\n", wide,
               PLAN_TEXT(&x->runner.plan), (double)x->spread[STEP_BOTH].median_ns * 1e-6,
               (double)x->spread[STEP_BOTH].low_ns * 1e-6,
               (double)x->spread[STEP_BOTH].high_ns * 1e-6,
               (double)x->spread[STEP_COMPUTE].median_ns * 1e-6,
               (double)x->spread[STEP_COMM].median_ns * 1e-6, hidden,
               (double)x->runner.sent_bytes * 0x1p-20, (double)x->runner.memory_bytes * 0x1p-20,
               check_word(rig, o));
    }
    if (o->phases)
        print_phases(subjects, count);
    if (rig->graphs)
        print_graphs(subjects, count);
}

static void print_spread(const char *name, const struct spread *s)
{
    printf("\"%s\": {\"median_ns\": %" PRId64 ", \"min_ns\": %" PRId64 ", \"p95_ns\": %" PRId64
           ", \"low_ns\": %" PRId64 ", \"high_ns\": %" PRId64 "}, ",
           name, s->median_ns, s->min_ns, s->p95_ns, s->low_ns, s->high_ns);
}

static void print_json(const struct rig *rig, const struct subject *subjects, size_t count,
                       const struct run_options *o)
{
    const struct moe_shape *s = &rig->data.shape;
    uint32_t window = shape_window(s);

    printf("{\"shape\": {\"experts\": %u, \"top_k\": %u, \"tokens\": %u, \"model_dim\": %u, "
           "\"hidden_dim\": %u, \"ranks\": %u, \"ranks_per_node\": %u, \"dtype\": \"%s\", "
           "\"pass\": \"%s\", \"activation\": \"%s\"},\n",
           s->experts, s->top_k, s->tokens, s->model_dim, s->hidden_dim, s->ranks,
           s->ranks_per_node, dtype_words[s->dtype], pass_words[s->pass],
           activation_words[s->activation]);
    printf(" \"capacity_factor\": %g, \"capacity\": %" PRIu64
           ", \"window\": %u, \"bucket\": %" PRIu64 ", \"dropped\": %" PRId64
           ", \"reps\": %u, \"seed\": %" PRIu64 ",\n",
           o->factor, rig->capacity, window, rig->capacity / window, subjects[0].dropped, o->reps,
           o->seed);
    if (rig->data.load)
        printf(" \"skew\": %.6g,\n", load_skew(rig->data.load));
    printf(" \"plans\": [");
    for (size_t i = 0; i < count; i++) {
        const struct subject *x = &subjects[i];

        printf("%s\n  {\"plan\": \"%s\", ", i ? "," : "", PLAN_TEXT(&x->runner.plan));
        print_spread("step", &x->spread[STEP_BOTH]);
        print_spread("compute", &x->spread[STEP_COMPUTE]);
        print_spread("comm", &x->spread[STEP_COMM]);
        if (rig->graphs) {
            print_spread("eager", &x->spread[STEP_EAGER]);
            printf("\"graph_nodes\": %" PRIu64 ", \"graph_host_ns\": %" PRId64 ", ",
                   x->runner.graphs[STEP_BOTH]->nodes, x->runner.replay_host_ns);
        }
        if (isnan(hidden_share(x)))
            printf("\"hidden_share\": null, ");
        else
            printf("\"hidden_share\": %.4f, ", hidden_share(x));
        printf("\"sent_bytes\": %" PRId64 ", \"messages\": %" PRId64 ", \"memory_bytes\": %" PRId64,
               x->runner.sent_bytes, x->runner.messages, x->runner.memory_bytes);
        if (o->phases)
            printf(", \"kernels\": %" PRId64 ", \"events\": %" PRId64 ", \"exchanges\": %" PRId64
                   ", \"host_ns\": %" PRId64,
                   x->runner.issued.kernels, x->runner.issued.events, x->runner.issued.exchanges,
                   x->runner.issued.host_ns);
        if (o->check)
            printf(", \"check\": \"ok\", \"checked\": \"%s\", \"error_share\": %.6f",
                   reference_is_bearable(&rig->data.shape) ? "everything" : "some tokens",
                   x->error);
        printf("}");
    }
    printf("\n ]}\n");
}

/* Prepared and warm; checked in all its results, or in those of some tokens where all would take
 * hours. */
static int prepare(struct rig *rig, const struct moe_plan *plan, const struct run_options *o,
                   struct subject *s)
{
    bool whole = o->check && reference_is_bearable(&rig->data.shape);

    TRY(runner_open(rig, plan, &s->runner));
    if (whole)
        TRY(rig_check(rig, s->runner.exec, &s->error));
    if (o->check && !whole)
        TRY(rig_spoil(rig));
    TRY(runner_warm(&s->runner, o->warmup + 1));
    if (o->check && !whole)
        TRY(rig_check_some(rig, s->runner.exec, &s->error));
    return rig_dropped(rig, s->runner.exec, &s->dropped);
}

static int run_plans(struct rig *rig, const struct moe_plan *plans, size_t count,
                     const struct run_options *o)
{
    struct subject *subjects = calloc(count, sizeof(*subjects));
    int rc = world_settle(rig->world, subjects ? OK : fail(ERR_NOMEM, "%zu plans", count));

    for (size_t i = 0; i < count && !rc; i++)
        rc = prepare(rig, &plans[i], o, &subjects[i]);
    if (!rc)
        rc = measure_all(subjects, (int)count, o);
    if (!rc && world_topology(rig->world)->rank == 0)
        (o->json ? print_json : print_text)(rig, subjects, count, o);
    for (size_t i = 0; subjects && i < count; i++)
        runner_close(&subjects[i].runner);
    free(subjects);
    return rc;
}

static int run_data(struct world *world, struct engine *engine, const struct data *data,
                    const struct moe_plan *plans, size_t count, const struct run_options *o)
{
    struct rig *rig;
    int rc;

    TRY(rig_open(world, engine, data, NULL, o->factor, &rig));
    rig->graphs = o->graphs == GRAPHS_ON;
    rc = run_plans(rig, plans, count, o);
    rig_close(rig);
    return rc;
}

static int run_layer(struct world *world, struct engine *engine, const struct moe_shape *shape,
                     const struct moe_plan *plans, size_t count, const struct run_options *o)
{
    struct data data = { .shape = *shape, .seed = o->seed };
    struct load *load = NULL;
    int rc;

    log_only(world_topology(world)->rank == 0); /* every rank finds the same */
    rc = o->graphs == GRAPHS_ON ? engine_check_graphs(engine) : OK;
    log_only(true);
    TRY(rc);
    TRY(world_settle(world, load_open(shape, o->seed, o->skew, o->routing, &load)));
    data.load = load;
    rc = run_data(world, engine, &data, plans, count, o);
    load_close(load);
    return rc;
}

/* The engine of a rank, or of one that stands for many: then *world becomes theirs. */
static int open_engine(struct world **world, const struct run_options *o, const char *device,
                       struct engine *engine)
{
    const struct place_setup *where = &o->where;

    if (where->virtual.ranks)
        return virtual_open(&where->virtual, where->ranks_per_node, device, world, engine);
    return engine_open(*world, device, NULL, engine);
}

/* The shape of the layer on the ranks that are there, or on those that one stands for. */
static struct moe_shape shape_on(const struct run_options *o, const char *device, uint32_t ranks,
                                 uint32_t per_node)
{
    const struct place_setup *where = &o->where;

    if (where->virtual.ranks) {
        ranks = where->virtual.ranks;
        per_node = where->ranks_per_node ? where->ranks_per_node : ranks;
    }
    return layer_options_shape(&o->layer, ranks, per_node, gpus_dtype(device));
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
    size_t count;
    int rc;

    TRY(gpus_agree_device(world, o->where.device, &device));
    shape = shape_on(o, device, (uint32_t)t->ranks, (uint32_t)t->ranks_per_node);
    log_only(t->rank == 0); /* every rank finds the same fault in the same options */
    rc = check_options(o, &shape, (uint32_t)world_neighbours(world), plans, &count);
    log_only(true);
    TRY(world_settle(world, rc));
    TRY(world_settle(world, fault_setup(t->rank)));
    TRY(open_engine(&theirs, o, device, &engine));
    rc = run_layer(theirs, &engine, &shape, plans, count, o);
    engine_close(&engine);
    if (theirs != world)
        world_close(theirs);
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

    return check_options(o, &shape, where->ranks, plans, &count);
}

static int run(const struct verb_call *call, void *options)
{
    struct run_options *o = options;

    return place_run(&o->where, call, &(struct place_verb){ check, on_rank, o, true });
}

const struct verb run_verb = {
    .name = "run",
    .summary = "run one layer under given plans: where the time of a step goes",
    .about = "Runs one MoE layer on real ranks and prints where the time of a step goes.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "run --ranks 4 --experts 2 --plan all --check",
    .run = run,
};
