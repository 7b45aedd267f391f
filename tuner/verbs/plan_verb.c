/* moetune plan: prints what `tune` would do.  Without --worth it starts no ranks and measures
 * nothing. */
#include "buckets.h"
#include "exec_protocol.h"
#include "json.h"
#include "known.h"
#include "misses.h"
#include "own_space.h"
#include "plan.h"
#include "plan_worth.h"
#include "shape.h"
#include "space_file.h"
#include "space_print.h"
#include "status.h"
#include "store.h"
#include "tables.h"
#include "text.h"
#include "tune_options.h"
#include "verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a sweep of one layer is expected to need; a plain value. */
struct forecast {
    uint32_t ruled_out;    /* trials that need too much memory */
    int64_t memory_bytes;  /* per rank, for the largest plan that fits */
    double steps, seconds; /* expected */
    double error_factor;   /* by which the seconds may be wrong */
    uint32_t known;        /* measured buckets with an entry */
    uint64_t paper_trials;
};

/* Steps for each measured bucket: about 18 to search, 4 to compare with the default, and 3 to warm
 * up each of 8 plans. */
enum { STEPS_PER_ANCHOR = 18 + 4 + 3 * 8 };

/* The seconds of a forecast may be wrong by this factor, with and without measured entries. */
#define ERROR_MEASURED 1.5
#define ERROR_GUESSED 4.0

/* How wrong the search's estimates are, averaged over entries as logarithms. */
struct scale {
    double log_sum;
    uint32_t count;
    struct search *search;
    const struct layer_plans *space;
};

/* Adds by which factor the estimate is wrong for an entry whose default plan was measured. */
static int compare_default(void *self, const struct entry_row *entry)
{
    struct scale *scale = self;
    double estimate_us =
        search_estimate(scale->search, entry->capacity, scale->space->default_arm) * 1e-3;

    if (entry->inferred || !(entry->default_us > 0) || !(estimate_us > 0))
        return OK;
    scale->log_sum += log(entry->default_us / estimate_us);
    scale->count++;
    return OK;
}

/* Forecasts a sweep.  Its times are the search's estimates, scaled by measured times of the
 * default. */
static int forecast_layer(const struct tune_request *request, const struct layer_plans *space,
                          struct store *store, struct forecast *forecast)
{
    struct search_setup setup = { .shape = space->shape,
                                  .kept = load_kept,
                                  .load = space->load,
                                  .arms = space->arms,
                                  .arm_count = space->arm_count,
                                  .machine = request->machine,
                                  .seed = request->options->setup.seed };
    struct scale scale = { .space = space };
    int64_t cluster = 0, shape = 0;
    double measured_over_estimate = 1;
    int rc = OK;

    for (size_t i = 0; i < space->anchor_count; i++)
        for (size_t arm = 0; arm < space->arm_count; arm++) {
            int64_t bytes = layer_plans_bytes(space, (int)arm, space->anchors[i]);

            if (bytes > space->memory_limit_bytes)
                forecast->ruled_out++;
            else if (bytes > forecast->memory_bytes)
                forecast->memory_bytes = bytes;
        }
    TRY(search_open(search_find("guided"), &setup, &scale.search));
    if (store && store_find(store, &request->cluster, &space->shape, &cluster, &shape) == OK)
        rc = store_entries(store, cluster, shape, compare_default, &scale);
    if (scale.count)
        measured_over_estimate = exp(scale.log_sum / scale.count);
    forecast->known = scale.count;
    forecast->error_factor = scale.count ? ERROR_MEASURED : ERROR_GUESSED;
    for (size_t i = 0; i < space->anchor_count; i++) {
        uint64_t capacity = layer_plans_capacity(space, space->anchors[i]);

        forecast->steps += STEPS_PER_ANCHOR;
        forecast->seconds += STEPS_PER_ANCHOR * measured_over_estimate * 1e-9 *
                             search_estimate(scale.search, capacity, space->default_arm);
    }
    search_close(scale.search);
    return rc;
}

/* Columns for capacities, and for a range of keys with its class. */
enum { CAPACITY_WIDTH = 13, RANGE_WIDTH = 28 };

/* Prints a line for each bucket that the table lacks, in the order in which `tune` would measure
 * them. */
static void print_misses(const struct tune_request *request, const struct misses *misses)
{
    const struct declaration *declaration = request->declared;
    int key_width = declaration ? RANGE_WIDTH : CAPACITY_WIDTH;

    if (!misses->count)
        printf("misses    none: everything that was asked for is in the table\n");
    else
        printf("bucket    %-*s   asked     share  entry     layer\n", key_width,
               declaration ? declaration->key : "capacity");
    for (size_t i = 0; i < misses->count; i++) {
        const struct miss *miss = &misses->list[i];
        const struct layer_plans *space = &request->spaces[miss->space];

        printf("%-9u %-*s %7" PRIu64 "  %6.1f %%  %-8s  %s\n", miss->bucket, key_width,
               BUCKETS_TEXT(buckets_of(&space->shape, space->window), miss->bucket, miss->bucket),
               miss->asked, 100 * miss->share, miss->why, SHAPE_TEXT(&space->shape));
    }
    printf("\n");
}

static void print_text(const struct tune_request *request, const struct layer_plans *space,
                       const struct forecast *forecast)
{
    printf("layer     %s\n", SHAPE_TEXT(&space->shape));
    printf("plans     %zu", space->arm_count);
    if (strchr(tune_axes(request->options), '=')) /* only some plans */
        printf(" of --axes %s", tune_axes(request->options));
    printf("; %u of %zu trials ruled out: more than %s per rank\n", forecast->ruled_out,
           space->arm_count * space->anchor_count, ACCOUNT_TEXT(space->memory_limit_bytes));
    if (tune_axes(request->options) != request->options->axes)
        printf("axes      r,d,a,e: a layer that drops nothing has no use for padding (e=sparse);\n"
               "          --axes r,d,a leaves e out\n");
    if (request->options->misses.count)
        printf("buckets   %zu of width %u: those that were asked for and are not there\n",
               space->anchor_count, space->window);
    else
        printf("buckets   %u to %u of width %u: %zu measured (%s), the rest inferred\n",
               space->first, space->last, space->window, space->anchor_count,
               request->effort->name);
    if (!forecast->memory_bytes) /* the caller reports that no plan fits */
        return;
    printf("memory    %s per rank for the largest plan\n", ACCOUNT_TEXT(forecast->memory_bytes));
    printf("steps     about %.0f; the Tutel paper's search takes %" PRIu64 " trials\n",
           forecast->steps, forecast->paper_trials);
    printf("time      %s to %s (%s)\n\n", DURATION_TEXT(forecast->seconds / forecast->error_factor),
           DURATION_TEXT(forecast->seconds * forecast->error_factor),
           forecast->known ? "from what is measured" : "a guess: nothing is measured yet");
}

static void print_json(const struct tune_request *request, const struct layer_plans *space,
                       const struct forecast *forecast, bool is_first)
{
    json_write(stdout, "%s{'shape': '%s', 'plans': [", is_first ? "" : ",\n",
               SHAPE_TEXT(&space->shape));
    for (size_t i = 0; i < space->arm_count; i++)
        json_write(stdout, "%s'%s'", i ? ", " : "", PLAN_TEXT(&space->arms[i]));
    json_write(stdout,
               "], 'axes': '%s', 'first_bucket': %u, 'last_bucket': %u, 'window': %u, "
               "'effort': '%s', 'measured_buckets': [",
               tune_axes(request->options), space->first, space->last, space->window,
               request->effort->name);
    for (size_t i = 0; i < space->anchor_count; i++)
        printf("%s%u", i ? ", " : "", space->anchors[i]);
    json_write(stdout,
               "], 'ruled_out': %u, 'memory_bytes': %" PRId64 ", 'memory_limit_bytes': %" PRId64
               ", 'steps': %.0f, 'paper_trials': %" PRIu64
               ", 'seconds_least': %.3f, 'seconds_most': %.3f, 'known_buckets': %u}",
               forecast->ruled_out, forecast->memory_bytes, space->memory_limit_bytes,
               forecast->steps, forecast->paper_trials, forecast->seconds / forecast->error_factor,
               forecast->seconds * forecast->error_factor, forecast->known);
}

/* Prints what the table of a declared space lacks.  Only the program knows what its plans take. */
static void print_declared(const struct tune_request *request, const struct misses *misses)
{
    char tag[DECLARATION_TAG_BYTES];

    if (!request->options->json) {
        print_misses(request, misses);
        printf("plans     %u of %s, which the program of --exec runs\n", request->declared->plans,
               declaration_tag(request->declared, tag));
        return;
    }
    for (size_t i = 0; i < misses->count; i++) {
        const struct miss *miss = &misses->list[i];
        const struct moe_shape *shape = &request->spaces[miss->space].shape;

        json_write(stdout, "%s\n {'shape': '%s', 'bucket': %u", i ? "," : "", SHAPE_TEXT(shape),
                   miss->bucket);
        tables_json_range(shape, miss->bucket, miss->bucket, stdout);
        json_write(stdout, ", 'asked': %" PRIu64 ", 'share': %g, 'entry': '%s'}", miss->asked,
                   miss->share, miss->why);
    }
}

static int print_all(struct tune_request *request, struct store *store)
{
    struct misses misses = { 0 };
    struct cluster table_cluster;

    if (request->options->misses.count) {
        table_cluster = request->cluster; /* the cluster under which the table is stored */
        if (request->declared)
            TRY(exec_cluster(request, &request->spaces[0].shape, &table_cluster));
        TRY(misses_list(request, store, &table_cluster, &misses));
    }
    if (request->options->json)
        printf("[");
    if (request->declared)
        print_declared(request, &misses);
    else if (request->options->misses.count && !request->options->json)
        print_misses(request, &misses);
    misses_free(&misses);
    for (size_t i = 0; i < request->space_count && !request->declared; i++) {
        struct forecast forecast = { .paper_trials = tune_paper_trials(request, i) };

        TRY(forecast_layer(request, &request->spaces[i], store, &forecast));
        if (request->options->json)
            print_json(request, &request->spaces[i], &forecast, i == 0);
        else
            print_text(request, &request->spaces[i], &forecast);
    }
    if (request->options->json)
        printf("]\n");
    return OK;
}

/* Prints the plans of each layer as the text of a space file. */
static int print_own_space(const struct tune_request *request)
{
    char text[DECLARATION_TEXT_BYTES + 1];
    const struct declaration *declaration;

    for (size_t i = 0; i < request->space_count; i++) {
        TRY(own_space_text(&request->spaces[i], text));
        if (request->options->json) {
            TRY(declaration_register(text, &declaration));
            space_print_json(declaration, stdout);
        } else {
            printf("%s# %s\n%s", i ? "\n" : "", SHAPE_TEXT(&request->spaces[i].shape), text);
        }
    }
    return OK;
}

static int verb_plan(const struct verb_call *call, void *options)
{
    struct tune_options *o = options;
    struct cluster here = cluster_unknown(), stored;
    const struct declaration *declared;
    struct tune_request request;
    struct launch_where where;
    struct hosts hosts;
    struct store *store;
    bool none_fits;
    int rc;

    TRY(tune_options_check(o, call->arguments[0]));
    if (o->worth)
        return worth_print(o, STEPS_PER_ANCHOR);
    if (o->space && strcmp(o->space, own_space_name) != 0 && !o->misses.count) {
        /* The layer does not matter: only the program knows what its plans take. */
        TRY(space_file_read(o->space, &declared));
        (o->json ? space_print_json : space_print)(declared, stdout);
        return OK;
    }
    if (o->space && o->misses.count) {
        here = exec_machine(o);
    } else if (!o->setup.sim) {
        rc = place_find(&o->setup.where, &hosts, &where, &here);
        hosts_free(&hosts);
        TRY(rc);
    }
    TRY(tune_request_make(o, &here, &request));
    if (request.own) {
        rc = print_own_space(&request);
        tune_request_free(&request);
        return rc;
    }
    store = known_open(o->setup.db, o->setup.sim ? STORE_MODELLED : 0);
    if (known_cluster_read(store, &request.cluster, &stored))
        tune_request_learn(&request, &stored);
    rc = print_all(&request, store);
    if (!rc && !request.declared) {
        fflush(stdout);
        rc = tune_request_fits(&request, &none_fits);
    }
    store_close(store);
    tune_request_free(&request);
    return rc;
}

/* The rows of `tune`, for the same struct, and one more. */
static const struct option_row rows[] = {
    { "what to print", .kind = OPTION_GROUP },
    { "worth", NULL, OPTION_FLAG, offsetof(struct tune_options, worth),
      "estimate whether tuning pays: probe the machine and time some steps, in a minute; with "
      "--sim: model them" },
    { .kind = OPTION_GROUP, .rows = tune_rows },
    { NULL },
};

const struct verb plan_verb = {
    .name = "plan",
    .summary = "print what tune would do, and how long; --worth: if it pays",
    .arguments = "[HOSTS]",
    .most = 1,
    .about =
        "Prints what `moetune tune` with the same options would try, how long it would take and "
        "how much memory it needs. Measures nothing. With --worth it measures for a minute. Then "
        "it prints what tuning is expected to save, between which bounds, and whether that pays.",
    .rows = rows,
    .defaults = &tune_defaults,
    .options_size = sizeof(tune_defaults),
    .tables = tune_tables,
    .example = "plan --worth --experts 2 --model-dim 256 --hidden-dim 512",
    .run = verb_plan,
};
