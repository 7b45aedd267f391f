/* The option rows of `tune` and `plan`, their checks, and the request that they make. */
#include "tune_options.h"

#include "common_rows.h"
#include "costs.h"
#include "declaration.h"
#include "gpu_list.h"
#include "misses.h"
#include "model_file.h"
#include "own_space.h"
#include "plan.h"
#include "shape.h"
#include "space_file.h"
#include "status.h"
#include "text.h"
#include "traffic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tune_options tune_defaults = {
    .setup = { CAMPAIGN_DEFAULTS, .seed = 1 },
    .layer = LAYER_DEFAULTS,
    .effort = 1,
    .repeats = 1,
    .max_factor = 8,
    .harm = 0.01,
    .margin = 0.01,
    .axes = "r,d,a",
};

const char *tune_axes(const struct tune_options *o)
{
    bool drops_nothing = !o->exec && !o->space && (o->load.routing.count || o->max_factor == 0);

    return o->axes == tune_defaults.axes && drops_nothing ? "r,d,a,e" : o->axes;
}

#define AT(field) offsetof(struct tune_options, field)
const struct option_row tune_rows[] = {
    { "layer", .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_LIST, AT(shapes),
      "the layer as text, as \"E=8 k=2 T=4096 D=1024 H=4096\"; may be repeated. Printed layers "
      "also have W (ranks) and m (ranks per node)" },
    { "model", "FILE", OPTION_LIST, AT(models),
      "read the layer from a Hugging Face config.json; options above replace its values" },
    { .kind = OPTION_GROUP, .offset = AT(load), .rows = load_rows },

    { "what to try", .kind = OPTION_GROUP },
    BUCKETS_ROW(AT(buckets), "tune the buckets LO to HI; bucket = floor(c/R)"),
    { "max-capacity-factor", "F", OPTION_NUMBER, AT(max_factor),
      "without --buckets: the buckets of capacity factors from 1 to F; 0: those in which --skew or "
      "--routing drops nothing" },
    TRAFFIC_ROW("from-misses", AT(misses),
                "instead of --buckets: what trainers asked for and the table lacked"),
    WINDOW_ROW(AT(window), "follows the layer: a power of two up to 128, at most an eighth of the "
                           "capacity at factor 1"),
    { "axes", "LIST", OPTION_TEXT, AT(axes),
      "axes to vary, of " PLAN_AXES
      "; others keep their defaults. a=linear:2dh tries only these values. e varies, too, if "
      "nothing is dropped (--routing, or factor 0)" },
    { "space", "FILE", OPTION_TEXT, AT(space),
      "tune the axes that FILE declares for the program of --exec, see moetune-spaces(7); "
      "\"moetune\": our own layer on all its axes" },
    { "launch", "LIST", OPTION_TEXT, AT(fixed),
      "axes that trainers cannot switch between buckets, as r,d; tune chooses one value of each, "
      "the best for the whole table" },
    { "static", NULL, OPTION_FLAG, AT(all_fixed),
      "trainers switch no axis: choose one plan for all buckets" },
    TRAFFIC_ROW(
        "traffic", AT(traffic),
        "with --static, --launch or --space: choose the launch that is best for this traffic"),
    { "search", "NAME", OPTION_WORD, AT(search),
      "search strategy: guided, paper, exhaustive, blind (see below)", search_words },
    { "harm", "SHARE", OPTION_NUMBER, AT(harm),
      "largest chance that a plan is slower than the default" },
    MARGIN_ROW(AT(margin), "how much faster a new plan must be to replace the entry's"),
    { "retune", NULL, OPTION_FLAG, AT(retune), "measure known buckets again" },
    SEED_ROW(AT(setup.seed)),

    { "where", .kind = OPTION_GROUP },
    { "cluster", NULL, OPTION_FLAG, AT(cluster), "tune on this machine (the default)" },
    { .kind = OPTION_GROUP, .offset = AT(setup), .rows = campaign_where_rows },
    { .kind = OPTION_GROUP, .offset = AT(setup.where.virtual), .rows = virtual_rows },
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "tune the layer of this program, which asks for plans and tells times (see `moetune help "
      "tune`)" },
    { "guard", "NAME>=X", OPTION_LIST, AT(guards),
      "with --exec: a plan fails if its step tells a NAME below X, or none; also NAME<=X; may be "
      "repeated" },
    { "launch-steps", "N", OPTION_COUNT, AT(launch_steps),
      "with --space: steps of a plan in one launch; their mean is one sample [5 to 100, what pays]",
      .least = 1, .most = TUNE_LAUNCH_STEPS_MAX },
    { "implementation", "TEXT", OPTION_TEXT, AT(implementation),
      "what runs the layer, as \"tutel 0.3, torch 2.3\"; each text has its own table" },

    { "phases", NULL, OPTION_FLAG, AT(setup.phases),
      "also store what each plan's step is made of, for `report`; takes 14 half steps more" },

    { "how long", .kind = OPTION_GROUP },
    { "effort", "WORD", OPTION_WORD, AT(effort),
      "how much to measure: quick, normal, thorough (see below)", effort_words },
    { "repeats", "N", OPTION_COUNT, AT(repeats),
      "samples per comparison (--search paper), or rounds (exhaustive)", .least = 1, .most = 1000 },
    { .kind = OPTION_GROUP, .offset = AT(setup), .rows = campaign_limit_rows },

    { "table", .kind = OPTION_GROUP, .offset = AT(setup), .rows = campaign_table_rows },
    { "repair", NULL, OPTION_FLAG, AT(setup.repair),
      "check the database, and rebuild a damaged one from its journal" },

    { "output", .kind = OPTION_GROUP },
    JSON_ROW(AT(json)),
    { "paste", NULL, OPTION_FLAG, AT(paste),
      "finish with C and Python lines that look the table up" },
    COLOR_ROW(AT(color)),
    QUIET_ROW(AT(setup.quiet)),
    { NULL },
};
#undef AT

void tune_tables(FILE *out)
{
    fprintf(out, "efforts:\n");
    for (size_t i = 0; effort_words[i]; i++)
        fprintf(out, "  %-12s %s\n", efforts[i].name, efforts[i].summary);
    fprintf(out, "searches:\n");
    for (size_t i = 0; search_strategies[i]; i++)
        fprintf(out, "  %-12s %s\n", search_strategies[i]->name, search_strategies[i]->summary);
}

static const char its_capacities[] = "the program says at which capacities it runs";
static const char its_ranks[] = "the program starts its own ranks";
static const char its_tokens[] = "its tokens, and what it computes between layers, are its own";
static const char its_steps[] = "which plans it runs, and how often, follows from its times";

/* Options that --exec cannot follow, and why. */
static const struct {
    const char *option, *why;
} not_with_exec[] = {
    { "buckets", its_capacities },
    { "max-capacity-factor", its_capacities },
    { "search", its_steps },
    { "repeats", its_steps },
    { "graphs", "its steps are its own" },
    { "phases", "what its steps are made of is its own" },
    { "skew", its_tokens },
    { "routing", its_tokens },
    { "between", its_tokens },
    { "sim", its_ranks },
    { "virtual-ranks", its_ranks },
    { "link", its_ranks },
    { "copy-ctas", its_ranks },
    { "oversubscribe", its_ranks },
};

/* Reads which axes trainers cannot switch: --launch, --static. */
static int read_fixed(const struct tune_options *o, uint32_t *fixed)
{
    const char *word = o->fixed;

    *fixed = o->all_fixed ? (1u << plan_axis_count) - 1 : 0;
    while (word && *word) {
        size_t length = strcspn(word, ","), axis = plan_axis_find(word, length);

        if (axis == plan_axis_count)
            return fail(ERR_ARGUMENT, "--launch: \"%.*s\" is not an axis; there are " PLAN_AXES,
                        (int)length, word);
        *fixed |= 1u << axis;
        word += length + (word[length] == ',');
    }
    return OK;
}

static int check_fixed(const struct tune_options *o)
{
    const char *option = o->all_fixed ? "--static" : "--launch";
    uint32_t fixed;

    if ((o->fixed || o->all_fixed) && o->exec)
        return fail(ERR_ARGUMENT,
                    "--exec does not go with %s: the space of the program says which axes need "
                    "a restart",
                    option);
    TRY(read_fixed(o, &fixed));
    if (o->all_fixed && o->fixed)
        return fail(ERR_ARGUMENT, "--static does not go with --launch: it fixes all axes");
    if (o->traffic.count && o->exec && !o->space)
        return fail(ERR_ARGUMENT,
                    "--exec does not go with --traffic: without a --space nothing is chosen for "
                    "all capacities together");
    if (o->traffic.count && !fixed && !o->exec)
        return fail(ERR_ARGUMENT,
                    "--traffic weights buckets to choose one launch: it needs --static, --launch, "
                    "or --exec with a --space");
    if (fixed && o->misses.count)
        return fail(ERR_ARGUMENT,
                    "%s does not go with --from-misses: it chooses one launch for the "
                    "whole table",
                    option);
    return OK;
}

void tune_fixed_text(const struct tune_request *request, char text[FIXED_AXES_BYTES])
{
    *text = 0;
    for (size_t axis = 0; axis < plan_axis_count; axis++)
        if (request->fixed >> axis & 1)
            text_add(text, FIXED_AXES_BYTES, "%s%s", *text ? "," : "", plan_axes[axis].name);
}

int tune_options_check(struct tune_options *o, const char *hosts)
{
    struct layer_options defaults = tune_defaults.layer;
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count = options_flatten(tune_rows, rows);

    /* A space declares all axes, and all ranges of its key. */
    if (o->space && strcmp(o->axes, tune_defaults.axes) != 0)
        return fail(ERR_ARGUMENT, "--space does not go with --axes: the space has its own axes");
    if (o->space && o->window && strcmp(o->space, own_space_name) != 0)
        return fail(ERR_ARGUMENT, "--space does not go with --window: the file has the ranges of "
                                  "its key");
    if (o->guards.count && !o->exec)
        return fail(ERR_ARGUMENT, "--guard %s needs --exec", o->guards.items[0]);
    if (o->launch_steps != tune_defaults.launch_steps && !o->space)
        return fail(ERR_ARGUMENT, "--launch-steps %u needs --exec with a --space", o->launch_steps);
    TRY(check_fixed(o));
    o->setup.where.hosts = hosts;
    if (o->exec)
        TRY(layer_options_single(&o->layer));
    if (o->exec && hosts)
        return fail(ERR_ARGUMENT, "--exec does not go with hosts: %s", its_ranks);
    for (size_t i = 0; i < count && o->exec; i++)
        for (size_t k = 0; k < sizeof(not_with_exec) / sizeof(not_with_exec[0]); k++)
            if (!strcmp(rows[i].name, not_with_exec[k].option) &&
                option_is_given(&rows[i], o, &tune_defaults))
                return fail(ERR_ARGUMENT, "--exec does not go with --%s: %s", rows[i].name,
                            not_with_exec[k].why);
    TRY(campaign_check(&o->setup));
    /* A chance of 0 would prove no plan, and one of 0.5 every second plan: surely a typing error.
     */
    if (!(o->harm > 0 && o->harm < 0.5))
        return fail(ERR_ARGUMENT, "--harm %g: must be above 0 and below 0.5", o->harm);
    if (!(o->margin >= 0 && o->margin < 1))
        return fail(ERR_ARGUMENT, "--margin %g: must be from 0 to below 1", o->margin);
    if (!o->misses.count)
        return OK;
    /* The files name layers and buckets, so of the layer's options only --tokens is allowed: the
     * files may lack it.  A program has one layer; --shape chooses among several with its space. */
    defaults.tokens = o->layer.tokens;
    if (o->exec && !o->space)
        return fail(ERR_ARGUMENT,
                    "--exec does not go with --from-misses: without a --space, %s",
                    its_capacities);
    if (o->models.count || o->shapes.count > (o->space ? 1 : 0) || o->buckets ||
        o->window != tune_defaults.window || o->max_factor != tune_defaults.max_factor ||
        memcmp(&defaults, &o->layer, sizeof(defaults)) != 0)
        return fail(ERR_ARGUMENT, "--from-misses takes layers, widths and buckets from the file: "
                                  "leave out options that name them");
    if (o->retune)
        return fail(ERR_ARGUMENT, "--from-misses does not go with --retune: it measures only "
                                  "buckets without an entry");
    return OK;
}

/* Guesses for CPU ranks.  The search allows for errors of a factor of e. */
static const struct search_machine cpu_guess = { .message_s = 5e-6,
                                                 .bytes_per_s_between = 1e9,
                                                 .bytes_per_s_inside = 3e9,
                                                 .copy_bytes_per_s = 5e9,
                                                 .flops = 4e10,
                                                 .launch_s = 2e-5 };

/* Guesses for GPUs.  An A100 with NVLink and 200 Gb/s is slower, a B200 faster. */
static const struct search_machine gpu_guess = { .message_s = 5e-6,
                                                 .bytes_per_s_between = 3e10,
                                                 .bytes_per_s_inside = 2e11,
                                                 .copy_bytes_per_s = 1.5e12,
                                                 .flops = 1.5e14,
                                                 .launch_s = 1e-5 };

static const struct search_machine *guess_for(const struct cluster *c)
{
    return strcmp(virtual_kernels(c), "cuda") ? &cpu_guess : &gpu_guess;
}

int tune_cluster(const struct campaign_setup *setup, const struct cluster *here,
                 struct cluster *out)
{
    if (!setup->sim) {
        *out = *here;
        return OK;
    }
    return cluster_read_model(setup->sim, setup->where.ranks, out);
}

struct account_machine tune_machine(const struct cluster *cluster)
{
    return (struct account_machine){ .on_host = !strcmp(virtual_kernels(cluster), "host"),
                                     .checks = backend_is_real(cluster->backend) };
}

int tune_request_add(struct tune_request *r, const struct moe_shape *shape, uint32_t window,
                     const char *buckets, const struct traffic_layer *asked)
{
    const struct tune_options *o = r->options;
    bool ctas =
        !strncmp(r->cluster.comm_library, "NCCL", 4) ||
        (!strcmp(r->cluster.backend, "virtual") && !strcmp(virtual_kernels(&r->cluster), "cuda"));
    struct protocols protocols = cluster_protocols(&r->cluster);
    struct layer_plans_setup setup = {
        .window = window ? window : shape_window(shape),
        .buckets = buckets,
        .max_factor = o->max_factor,
        .arms = { .axes = r->own ? own_space_axes(ctas, protocols.usual) : tune_axes(o),
                  .library_a2a = cluster_has_library_a2a(&r->cluster),
                  .knows_ctas = ctas,
                  .protocols = protocols,
                  .foreign = o->exec,
                  .padded = r->own || graphs_steps_are(o->setup.graphs) },
        .memory_limit_bytes = r->memory_limit_bytes,
        .machine = tune_machine(&r->cluster),
        .effort = r->effort
    };
    char text[LOAD_TEXT_BYTES], own[DECLARATION_TEXT_BYTES + 1];
    struct layer_plans *plans = &r->spaces[r->space_count];
    struct moe_plan usual = plan_default(shape);
    struct load *load = NULL;
    int rc;

    if (r->space_count == TUNE_LAYERS_MAX)
        return fail(ERR_ARGUMENT, "more than %d layers", TUNE_LAYERS_MAX);
    TRY(layer_options_check(shape));
    if (o->setup.sim && !shape->space)
        TRY(cluster_check_multiplies(&r->cluster, shape->dtype));
    if (shape->space) /* the default plan must be legal, because every plan is compared with it */
        TRY(plan_check(&usual, shape));
    /* T=0 means "any number of tokens", which only the layer of a program can have. */
    if (!shape->tokens && !o->exec)
        return fail(ERR_ARGUMENT,
                    "%s: a step without tokens cannot be timed: name the tokens of a rank with "
                    "--tokens",
                    SHAPE_TEXT(shape));
    TRY(load_open(shape, setup.window, o->setup.seed, &o->load, &load));
    setup.needed = load_counts(load) ? load_most(load) : 0;
    rc = layer_plans_open(shape, &setup, plans);
    if (rc) {
        load_close(load);
        return rc;
    }
    plans->load = load;
    r->asked[r->space_count++] = asked;
    /* A file of moetune's own space must be the one of this layer. */
    if (r->own && r->file_space) {
        TRY(own_space_text(plans, own));
        if (strcmp(own, r->file_space->text) != 0)
            return fail(ERR_ARGUMENT,
                        "the file's space %s is not the one of this layer (%s): `moetune "
                        "plan --space %s` prints that",
                        r->file_space->name, SHAPE_TEXT(&plans->shape), own_space_name);
    }
    plans->machine.between = load_between(plans->load);
    /* If the load's text does not fit into the database, it fails before anything is measured. */
    return load_text(plans->load, text);
}

/* Adds a layer in each of the layouts and shares that the options name.  Equal shares are always
 * among them, so that `tune` can report if they are faster. */
static int add_layer(struct tune_request *r, const struct layer_options *layer)
{
    struct layer_options with = *layer, each[LAYER_SETTINGS_MAX];
    size_t count;

    if (with.shares != NOT_GIVEN)
        with.shares |= 1u << MOE_SHARES_EQUAL;
    count = layer_options_settings(&with, each);
    for (size_t i = 0; i < count; i++) {
        struct moe_shape shape = layer_options_shape(&each[i], cluster_layout(&r->cluster),
                                                     gpus_dtype(virtual_device(&r->cluster)));

        shape.space = r->declared ? r->declared->id : 0;
        if (r->declared && layer_options_none(&each[i]))
            shape_set_none(&shape);
        TRY(tune_request_add(r, &shape, r->options->window, r->options->buckets, NULL));
    }
    return OK;
}

static int add_layers(struct tune_request *r)
{
    const struct tune_options *o = r->options;
    struct rank_layout here = cluster_layout(&r->cluster);
    struct layer_options layer;
    const char *device;
    bool example;

    if (o->misses.count)
        return misses_add_layers(r);
    for (int i = 0; i < o->models.count; i++) {
        layer = o->layer;
        TRY(model_file_read(o->models.items[i], &layer));
        TRY(add_layer(r, &layer));
    }
    for (int i = 0; i < o->shapes.count; i++) {
        const char *text = o->shapes.items[i];
        struct rank_layout on = { NOT_GIVEN, NOT_GIVEN, NOT_GIVEN };

        layer = o->layer;
        TRY(layer_options_text(text, &layer, &on));
        if ((on.ranks != NOT_GIVEN && on.ranks != here.ranks) ||
            (on.per_node != NOT_GIVEN && on.per_node != here.per_node) ||
            (on.per_rack != NOT_GIVEN && on.per_rack != here.per_rack))
            return fail(ERR_ARGUMENT,
                        "--shape \"%s\": this cluster has W=%u m=%u rack=%u; leave them "
                        "out (--ranks-per-rack sets racks)",
                        text, here.ranks, here.per_node, here.per_rack);
        TRY(add_layer(r, &layer));
    }
    if (r->space_count)
        return OK;
    /* The layer that other options name; an example if they name none. */
    layer = o->layer;
    device = strcmp(r->cluster.backend, "virtual") ? virtual_device(&r->cluster) : "virtual";
    example = !o->exec && layer_options_example(device, r->cluster.ranks, &layer);
    TRY(add_layer(r, &layer));
    if (example)
        note("no layer is named (--shape, or --model config.json): this tunes an example");
    return OK;
}

/* Reads --launch and --traffic.  Traffic of other layers fails here, before anything is measured.
 */
static int read_weights(struct tune_request *r)
{
    const struct option_list *files = &r->options->traffic;

    TRY(read_fixed(r->options, &r->fixed));
    for (int i = 0; i < files->count; i++)
        TRY(traffic_read(files->items[i], &r->weights));
    for (size_t i = 0; i < r->space_count && files->count; i++) {
        const struct layer_plans *plans = &r->spaces[i];
        size_t buckets = (size_t)plans->last + 1;
        double *weights = calloc(buckets, sizeof(*weights));
        int rc = weights
                     ? traffic_weights(&r->weights, &plans->shape, plans->window, weights, buckets)
                     : fail(ERR_NOMEM, "%zu buckets", buckets);

        free(weights);
        TRY(rc);
    }
    return OK;
}

int tune_request_make(const struct tune_options *options, const struct cluster *here,
                      struct tune_request *out)
{
    struct tune_request r = { .options = options,
                              .strategy = search_strategies[options->search],
                              .effort = &efforts[options->effort] };
    int rc;

    r.own = options->space && !strcmp(options->space, own_space_name);
    if (options->space && !r.own) {
        TRY(space_file_read(options->space, &r.file_space));
        r.own = !strcmp(r.file_space->name, own_space_name);
        r.declared = r.own ? NULL : r.file_space;
    }
    TRY(tune_cluster(&options->setup, here, &r.cluster));
    r.machine = known_machine(&r.cluster, guess_for(&r.cluster));
    r.memory_limit_bytes = campaign_memory_limit(&options->setup, &r.cluster);
    r.spaces = calloc(TUNE_LAYERS_MAX, sizeof(*r.spaces));
    r.asked = calloc(TUNE_LAYERS_MAX, sizeof(*r.asked));
    TRY_OUT(r.spaces && r.asked ? OK : fail(ERR_NOMEM, "the layers"));
    TRY_OUT(add_layers(&r));
    TRY_OUT(read_weights(&r));
    *out = r;
    return OK;
out:
    tune_request_free(&r);
    return rc;
}

int tune_request_fits(const struct tune_request *r, bool *none)
{
    const char *how = r->options->setup.memory_limit_bytes ? "allowed" : "free";
    int rc = OK;

    *none = r->space_count > 0;
    for (size_t i = 0; i < r->space_count; i++) {
        int64_t least = layer_plans_least_bytes(&r->spaces[i]);

        if (least <= r->memory_limit_bytes) {
            *none = false;
            continue;
        }
        rc = fail(ERR_NOMEM, "nothing fits: the smallest plan needs %s per rank, %s are %s (%s)",
                  ACCOUNT_TEXT(least), ACCOUNT_TEXT(r->memory_limit_bytes), how,
                  SHAPE_TEXT(&r->spaces[i].shape));
    }
    return rc;
}

void tune_request_learn(struct tune_request *request, const struct cluster *known)
{
    struct search_machine *g = &request->machine;
    const struct search_machine *guess = guess_for(known);

    if (request->options->setup.sim)
        return;
    *g = known_machine(known, guess);
    /* A chunk costs at least a hand-over between streams, which is more than a measured launch. */
    g->launch_s = fmax(g->launch_s, guess->launch_s);
}

uint64_t tune_paper_trials(const struct tune_request *r, size_t number)
{
    const struct layer_plans *plans = &r->spaces[number];

    return r->options->misses.count
               ? (uint64_t)shape_paper_trials(&plans->shape) * plans->anchor_count
               : layer_plans_paper_trials(plans);
}

void tune_request_free(struct tune_request *request)
{
    while (request->space_count)
        layer_plans_close(&request->spaces[--request->space_count]);
    free(request->spaces);
    request->spaces = NULL;
    free(request->asked);
    request->asked = NULL;
    traffic_free(&request->traffic);
    traffic_free(&request->weights);
}
