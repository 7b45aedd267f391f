/* From the command line to layers, plans and limits. */
#include "tune_options.h"

#include "errands.h"
#include "interview.h"
#include "model_file.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tune_options defaults = {
    .layer = LAYER_DEFAULTS,
    .window = 128,
    .effort = 1,
    .repeats = 1,
    .seed = 1,
    .max_factor = 8,
    .margin = 0.03,
    .timeout_s = 120,
    .device = "auto",
    .search = "guided",
    .axes = "r,d,a",
};

#define AT(field) offsetof(struct tune_options, field)
static const struct option_row rows[] = {
    { "cluster", NULL, OPTION_FLAG, AT(cluster), "tune the machine this runs on (the default)",
      NULL },
    { "sim", "FILE", OPTION_TEXT, AT(sim), "tune a modelled cluster instead; measures nothing",
      NULL },
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks to start here (4, or what a launcher started)",
      NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "pretend that nodes hold M ranks",
      NULL },
    VIRTUAL_OPTION_ROWS(struct tune_options),
    LAYER_OPTION_ROWS(struct tune_options),
    { "shape", "TEXT", OPTION_LIST, AT(shapes),
      "a layer as \"E=8 k=2 T=4096 D=1024 H=4096\"; again for more", NULL },
    { "model", "FILE", OPTION_LIST, AT(models),
      "the layer of a Hugging Face config.json; again for more", NULL },
    { "buckets", "LO:HI", OPTION_TEXT, AT(buckets), "buckets of capacity, floor(c/R)", NULL },
    { "max-capacity-factor", "F", OPTION_NUMBER, AT(max_factor),
      "else: the buckets that factors from 1 to F reach", NULL },
    { "from-misses", "FILE", OPTION_LIST, AT(misses),
      "only what trainers asked for and did not find, as MOELOOKUP_RECORD has it (again: more)",
      NULL },
    { "window", "R", OPTION_COUNT, AT(window), "width of a bucket in rows", NULL },
    { "search", "NAME", OPTION_TEXT, AT(search), "guided, paper, exhaustive", NULL },
    { "repeats", "N", OPTION_COUNT, AT(repeats), "samples per comparison (paper), or rounds",
      NULL },
    { "effort", "WORD", OPTION_WORD, AT(effort), "quick, normal, thorough", effort_words },
    { "budget", "TIME", OPTION_TEXT, AT(budget), "stop after 90s, 10m, 2h; the table is usable",
      NULL },
    { "margin", "SHARE", OPTION_NUMBER, AT(margin),
      "adopt a plan that beats the default by more than this", NULL },
    { "axes", "LIST", OPTION_TEXT, AT(axes),
      "what may vary of r, d, a, ctas; the rest keeps its default", NULL },
    { "max-memory", "BYTES", OPTION_TEXT, AT(max_memory),
      "per rank, as 512MiB or 2GiB (0.8 of the least free share)", NULL },
    { "trial-timeout", "S", OPTION_NUMBER, AT(timeout_s), "seconds until a trial counts as hung",
      NULL },
    { "exec", "COMMAND", OPTION_TEXT, AT(exec),
      "tune the layer of this program, which asks and tells (below)", NULL },
    { "implementation", "TEXT", OPTION_TEXT, AT(implementation),
      "what runs it: \"tutel 0.3, torch 2.3\"; another text is another table", NULL },
    { "device", "NAME", OPTION_TEXT, AT(device),
      "auto (cuda where every rank has a GPU), host, cuda", NULL },
    { "launcher-args", "ARGS", OPTION_TEXT, AT(launcher_arguments),
      "more words for mpirun, blanks between", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or under $XDG_DATA_HOME)",
      NULL },
    { "retune", NULL, OPTION_FLAG, AT(retune), "measure again what is known", NULL },
    { "steal", NULL, OPTION_FLAG, AT(steal), "take the database from an owner that fell silent",
      NULL },
    { "repair", NULL, OPTION_FLAG, AT(repair), "rebuild a damaged database from its journal",
      NULL },
    { "seed", "N", OPTION_SEED, AT(seed), "of data and order", NULL },
    { "quiet", NULL, OPTION_FLAG, AT(quiet), "no progress", NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "print one JSON object", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static void print_help(const char *verb)
{
    bool tune = !strcmp(verb, "tune");

    printf(
        "usage: moetune %s [HOSTS] [options]\n\n%s\n\n", verb,
        tune
            ? "Measures plans on this machine and writes the best one of every capacity bucket "
              "to the\ndatabase.  Goes on where it was stopped.  `moetune --cluster` is the same.\n"
              "HOSTS: a file, or \"a:8,b:8\"; without it the ranks of the launcher or allocation, "
              "or of this machine."
            : "Says what `moetune tune` with the same options would try, how long it would "
              "take and how\nmuch memory it needs.  Measures nothing.");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nefforts:\n");
    for (size_t i = 0; effort_words[i]; i++)
        printf("  %-12s %s\n", efforts[i].name, efforts[i].summary);
    printf("searches:\n");
    for (size_t i = 0; search_strategies[i]; i++)
        printf("  %-12s %s\n", search_strategies[i]->name, search_strategies[i]->summary);
    if (tune)
        printf("\n%s", interview_help);
    printf("\nexample: moetune %s --experts 2 --model-dim 256 --hidden-dim 512 --budget 10m\n",
           verb);
}

struct tune_options tune_options_default(void)
{
    return defaults;
}

int tune_options_parse(const char *verb, int argc, char **argv, struct tune_options *out,
                       bool *help)
{
    struct tune_options o = defaults;
    int first = argc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, help));
    if (*help) {
        print_help(verb);
        return OK;
    }
    if (first < argc - 1)
        return fail(ERR_ARGUMENT,
                    "%s takes no argument \"%s\" (HOSTS is one: \"a:8,b:8\", or a file)", verb,
                    argv[first + 1]);
    o.hosts = first < argc ? argv[first] : NULL;
    if (o.exec && (o.hosts || o.sim || o.retune))
        return fail(ERR_ARGUMENT, "--exec goes with neither hosts nor --sim nor --retune: the "
                                  "program starts its own ranks");
    if (o.hosts && o.sim)
        return fail(ERR_ARGUMENT, "--sim and hosts: one of the two");
    *out = o;
    return OK;
}

struct unit {
    const char *name;
    double factor;
};

/* "2GiB" with one of the units; an empty unit is the first. */
static int take_quantity(const char *option, const char *text, const struct unit *units,
                         size_t count, const char *wanted, double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end != text && isfinite(value) && value > 0)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(end, units[i].name)) {
                *out = value * units[i].factor;
                return OK;
            }
    return fail(ERR_ARGUMENT, "--%s %s: %s is wanted", option, text, wanted);
}

int tune_budget(const char *text, double *seconds)
{
    static const struct unit units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 } };

    if (!text)
        return OK;
    return take_quantity("budget", text, units, 3, "a time such as 90s, 10m or 2h", seconds);
}

static int take_memory(const char *text, int64_t *bytes)
{
    static const struct unit units[] = {
        { "", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }
    };
    double value = 0;

    if (!text)
        return OK;
    TRY(take_quantity("max-memory", text, units, 4, "a size such as 512MiB or 2GiB", &value));
    *bytes = value < 0x1p62 ? (int64_t)value : INT64_MAX;
    return OK;
}

static int check_numbers(const struct tune_options *o)
{
    if (!(o->margin >= 0 && o->margin < 1))
        return fail(ERR_ARGUMENT, "--margin %g: a share from 0 to 1 is wanted", o->margin);
    if (!(o->timeout_s > 0 && o->timeout_s < 1e6))
        return fail(ERR_ARGUMENT, "--trial-timeout %g: seconds above 0 are wanted", o->timeout_s);
    if (o->repeats < 1 || o->repeats > 1000)
        return fail(ERR_ARGUMENT, "--repeats %u: from 1 to 1000 is wanted", o->repeats);
    return OK;
}

/* The files name layers and buckets; --tokens alone may fill a gap. */
static int check_misses(const struct tune_options *o)
{
    struct layer_options standard = defaults.layer;

    standard.tokens = o->layer.tokens;
    if (o->misses.count && (o->models.count || o->shapes.count || o->buckets ||
                            o->window != defaults.window || o->max_factor != defaults.max_factor ||
                            memcmp(&standard, &o->layer, sizeof(standard)) != 0))
        return fail(ERR_ARGUMENT, "--from-misses takes layers, windows and buckets from the file: "
                                  "leave out what says something else");
    if (o->misses.count && o->retune)
        return fail(ERR_ARGUMENT, "--from-misses measures what is not known: no --retune");
    return OK;
}

static int find_strategy(const char *name, const struct search_ops **out)
{
    char known[128] = "";

    *out = search_find(name);
    if (*out)
        return OK;
    for (size_t i = 0; search_strategies[i]; i++)
        snprintf(known + strlen(known), sizeof(known) - strlen(known), " %s",
                 search_strategies[i]->name);
    return fail(ERR_ARGUMENT, "--search %s: one of%s is wanted", name, known);
}

/* Guesses for CPU ranks; each may be wrong by a factor of e and the search copes. */
static const struct search_machine cpu_guess = { .message_s = 5e-6,
                                                 .bytes_per_s_between = 1e9,
                                                 .bytes_per_s_inside = 3e9,
                                                 .copy_bytes_per_s = 5e9,
                                                 .flops = 4e10,
                                                 .launch_s = 2e-5 };

/* And for GPUs: an A100 with NVLink and 200 Gb/s is below them, a B200 above. */
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

static double known_or(double value, double factor, double guess)
{
    return isnan(value) ? guess : value * factor;
}

static struct search_machine machine_guess(const struct cluster *c)
{
    struct search_machine g = *guess_for(c);

    g.message_s = known_or(c->message_inside_us, 1e-6, g.message_s);
    g.message_s = known_or(c->message_between_us, 1e-6, g.message_s);
    g.bytes_per_s_between = known_or(c->bandwidth_between_gbs, 1e9, g.bytes_per_s_between);
    g.bytes_per_s_inside = known_or(c->bandwidth_inside_gbs, 1e9, g.bytes_per_s_inside);
    g.copy_bytes_per_s = known_or(c->memory_gbs, 1e9, g.copy_bytes_per_s);
    g.flops = known_or(c->gemm_gflops, 1e9, g.flops);
    g.launch_s = known_or(c->launch_us, 1e-6, g.launch_s);
    return g;
}

int tune_cluster(const char *sim, const struct cluster *here, struct cluster *out)
{
    if (!sim) {
        *out = *here;
        return OK;
    }
    TRY(cluster_read(sim, out));
    /* What `probe` prints of a real machine is replayed as a model of it: its rows are modelled. */
    snprintf(out->backend, sizeof(out->backend), "sim");
    return cluster_check_model(out, sim);
}

int tune_memory(const char *given, const struct cluster *cluster, int64_t *bytes)
{
    *bytes = isnan(cluster->memory_gib) ? INT64_MAX : (int64_t)(cluster->memory_gib * 0x1p30);
    return take_memory(given, bytes);
}

static bool knows_ctas(const struct cluster *c)
{
    return !strncmp(c->comm_library, "NCCL", 4) ||
           (!strcmp(c->backend, "virtual") && !strcmp(virtual_kernels(c), "cuda"));
}

/* A modelled cluster says nothing of how a library does it. */
static bool has_library_a2a(const struct cluster *c)
{
    int major = 0, minor = 0;

    return !strcmp(c->backend, "cuda") &&
           sscanf(c->comm_library, "NCCL %d.%d", &major, &minor) == 2 &&
           (major > 2 || (major == 2 && minor >= 28));
}

int tune_request_add(struct tune_request *r, const struct moe_shape *shape, uint32_t window,
                     const char *buckets, const struct traffic_layer *asked)
{
    struct space_setup setup = { .window = window,
                                 .buckets = buckets,
                                 .max_factor = r->options.max_factor,
                                 .axes = r->options.axes,
                                 .memory_limit_bytes = r->memory_limit_bytes,
                                 .computes_f32 = !strcmp(virtual_kernels(&r->cluster), "host"),
                                 .library_a2a = has_library_a2a(&r->cluster),
                                 .knows_ctas = knows_ctas(&r->cluster),
                                 .effort = r->effort };

    if (r->space_count == TUNE_LAYERS_MAX)
        return fail(ERR_ARGUMENT, "more than %d layers", TUNE_LAYERS_MAX);
    TRY(space_open(shape, &setup, &r->spaces[r->space_count]));
    r->asked[r->space_count++] = asked;
    return OK;
}

static int add_space(struct tune_request *r, const struct moe_shape *shape)
{
    return tune_request_add(r, shape, r->options.window, r->options.buckets, NULL);
}

static int add_text(struct tune_request *r, const char *text)
{
    struct moe_shape shape =
        layer_options_shape(&r->options.layer, r->cluster.ranks, r->cluster.ranks_per_node);
    uint32_t experts = shape.experts;

    if (shape_parse(text, &shape))
        return ERR_ARGUMENT;
    if (shape.ranks != r->cluster.ranks || shape.ranks_per_node != r->cluster.ranks_per_node)
        return fail(ERR_ARGUMENT, "--shape \"%s\": here are W=%u m=%u; leave them out", text,
                    r->cluster.ranks, r->cluster.ranks_per_node);
    if (shape.experts != experts && !strstr(text, "k=") && r->options.layer.top_k == LAYER_FOLLOWS)
        shape.top_k = shape.experts > 1 ? 2 : 1;
    return add_space(r, &shape);
}

static int add_model(struct tune_request *r, const char *file)
{
    struct layer_options layer = r->options.layer;
    struct moe_shape shape;

    TRY(model_file_read(file, &layer));
    shape = layer_options_shape(&layer, r->cluster.ranks, r->cluster.ranks_per_node);
    return add_space(r, &shape);
}

static int add_layers(struct tune_request *r)
{
    const struct tune_options *o = &r->options;

    if (o->misses.count)
        return errands_spaces(r);
    for (int i = 0; i < o->models.count; i++)
        TRY(add_model(r, o->models.items[i]));
    for (int i = 0; i < o->shapes.count; i++)
        TRY(add_text(r, o->shapes.items[i]));
    return r->space_count ? OK : add_text(r, "");
}

int tune_request_make(const struct tune_options *options, const struct cluster *here,
                      struct tune_request *out)
{
    struct tune_request r = { .options = *options, .effort = &efforts[options->effort] };
    int rc;

    TRY(check_numbers(options));
    TRY(check_misses(options));
    TRY(find_strategy(options->search, &r.strategy));
    TRY(tune_budget(options->budget, &r.budget_s));
    TRY(tune_cluster(options->sim, here, &r.cluster));
    r.machine = machine_guess(&r.cluster);
    TRY(tune_memory(options->max_memory, &r.cluster, &r.memory_limit_bytes));
    r.spaces = calloc(TUNE_LAYERS_MAX, sizeof(*r.spaces));
    r.asked = calloc(TUNE_LAYERS_MAX, sizeof(*r.asked));
    TRY_OUT(r.spaces && r.asked ? OK : fail(ERR_NOMEM, "the layers"));
    TRY_OUT(add_layers(&r));
    *out = r;
    return OK;
out:
    tune_request_free(&r);
    return rc;
}

/* Of one message among so many: what it costs to send, and its part of the exchange's latency. */
static double message_us(double latency_us, double message_us, double half_kib,
                         double bandwidth_gbs, uint32_t messages)
{
    return latency_us / messages + fmax(message_us, half_kib * 1.024 / bandwidth_gbs);
}

void tune_request_learn(struct tune_request *request, const struct cluster *known)
{
    struct search_machine *g = &request->machine;
    const struct search_machine *guess = guess_for(known);
    uint32_t others = known->ranks > 1 ? known->ranks - 1 : 1;
    double us;

    if (request->options.sim)
        return;
    *g = machine_guess(known);
    us = known->nodes > 1
             ? message_us(known->latency_between_us, known->message_between_us,
                          known->half_between_kib, known->bandwidth_between_gbs, others)
             : message_us(known->latency_inside_us, known->message_inside_us,
                          known->half_inside_kib, known->bandwidth_inside_gbs, others);
    g->message_s = known_or(us, 1e-6, guess->message_s);
    /* What a chunk costs is handing it from stream to stream, of which launches are the least. */
    g->launch_s = fmax(g->launch_s, guess->launch_s);
}

uint64_t tune_paper_trials(const struct tune_request *r, size_t number)
{
    const struct space *space = &r->spaces[number];

    return r->options.misses.count
               ? (uint64_t)shape_paper_trials(&space->shape) * space->anchor_count
               : space_paper_trials(space);
}

void tune_request_free(struct tune_request *request)
{
    while (request->space_count)
        space_close(&request->spaces[--request->space_count]);
    free(request->spaces);
    request->spaces = NULL;
    free(request->asked);
    request->asked = NULL;
    traffic_free(&request->traffic);
}
