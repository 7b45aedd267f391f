/* Probes the machine, estimates what tuning its layers would save, and prints whether that pays. */
#include "plan_worth.h"

#include "host.h"
#include "json.h"
#include "launch.h"
#include "place.h"
#include "plan.h"
#include "progress.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "tables.h"
#include "text.h"
#include "worth_layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the machine */

/* Runs `moetune probe` where the ranks would run, with the products of this layer, and reads the
 * description that it prints. */
static int probe_ranks(const struct tune_options *o, const struct launch_where *where,
                       const struct moe_shape *shape, struct progress *progress,
                       struct cluster *out)
{
    enum { SILENCE_S = 300 };
    char per_node[16], per_rack[16], model_dim[16], hidden_dim[16], *text = NULL, line[4096];
    char *arguments[] = { "moetune",
                          "probe",
                          "--no-store",
                          "--quiet",
                          "--device",
                          (char *)o->setup.where.device,
                          "--ranks-per-node",
                          per_node,
                          "--ranks-per-rack",
                          per_rack,
                          "--dtype",
                          (char *)dtype_words[shape->dtype],
                          "--model-dim",
                          model_dim,
                          "--hidden-dim",
                          hidden_dim,
                          o->setup.where.oversubscribe ? "--oversubscribe" : NULL,
                          NULL };
    struct launched ranks;
    size_t size = 0;
    FILE *description = open_memstream(&text, &size);
    int rc, silent_s = 0;

    if (!description)
        return fail(ERR_NOMEM, "a description of the machine");
    snprintf(per_node, sizeof(per_node), "%u", o->setup.where.ranks_per_node);
    snprintf(per_rack, sizeof(per_rack), "%u", o->setup.where.ranks_per_rack);
    snprintf(model_dim, sizeof(model_dim), "%u", shape->model_dim);
    snprintf(hidden_dim, sizeof(hidden_dim), "%u", shape->hidden_dim);
    rc = launch_start(where, arguments, &ranks);
    while (!rc && silent_s < SILENCE_S) {
        int read = launch_read(&ranks, 1000, line, sizeof(line));

        if (read == ERR_LAUNCH) /* it has ended */
            break;
        silent_s = read ? silent_s + 1 : 0;
        progress_tick(progress);
        if (!read)
            fprintf(description, "%s\n", line);
    }
    if (!rc) {
        char failure[128] = "";

        launch_end(&ranks, silent_s < SILENCE_S, failure, sizeof(failure));
        fclose(description);
        description = NULL;
        log_enable(false); /* errors in half a description would not help */
        rc = cluster_parse(text, "probe", out);
        log_enable(true);
        if (rc || !out->ranks)
            rc = fail(ERR_LAUNCH, "the ranks could not be probed%s%s", *failure ? ": " : "",
                      failure);
        snprintf(out->backend, sizeof(out->backend), "sim");
    }
    if (description)
        fclose(description);
    free(text);
    return rc;
}

static bool is_model_known(const struct cluster *model)
{
    bool known;

    log_enable(false);
    known = !cluster_check_model(model, "probe");
    log_enable(true);
    return known;
}

/* ---- what is printed */

enum advice { WORTH_IT, NOT_WORTH_IT, CANNOT_TELL };
static const char *const advice_words[] = { "worth it", "not worth it", "cannot be told" };

/* Somebody waits for the answer, so it comes after this time, unless --budget gives more. */
static const double patience_s = 60;

/* Tuning pays if it saves at least this share of a step. */
static const double least_saving = .02;

static enum advice advise(const struct worth *worth)
{
    return worth->over_default.low >= least_saving   ? WORTH_IT
           : worth->over_default.high < least_saving ? NOT_WORTH_IT
                                                     : CANNOT_TELL;
}

/* Bounds of the time that tuning takes. */
struct tuning_time {
    double least_s, most_s;
};

/* Counts steps as `moetune plan` does, and adds the launches of the ranks, which take much of the
 * time if steps are short. */
static struct tuning_time tuning_time(const struct worth_layer *layer, const struct effort *effort,
                                      double steps_per_bucket)
{
    static const double error_factor = 2;
    double expected_s = layer->default_s * steps_per_bucket + layer->launch_s * effort->launches;

    return (struct tuning_time){ expected_s / error_factor, expected_s * error_factor };
}

static void print_advice(const struct worth *worth, const struct layer_plans *space,
                         const struct tuning_time *tuning)
{
    enum advice advice = advise(worth);
    const char *fixed = PLAN_TEXT(&space->arms[worth->static_arm]);

    printf("advice    %s: ", advice_words[advice]);
    if (advice == WORTH_IT)
        printf("at least %.1f %% of each step are expected to be saved, and %s to\n"
               "          %s of training win back what tuning takes\n",
               100 * worth->over_default.low,
               DURATION_TEXT(tuning->least_s / worth->over_default.high),
               DURATION_TEXT(tuning->most_s / worth->over_default.low));
    else if (advice == NOT_WORTH_IT)
        printf("at most %.1f %% of each step are expected to be saved\n",
               100 * worth->over_default.high);
    else
        printf("between %.1f and %.1f %% of each step; only steps of more plans tell,\n"
               "          which moetune tune takes, --effort quick fewest\n",
               100 * worth->over_default.low, 100 * worth->over_default.high);
    if (advice != NOT_WORTH_IT && worth->over_static.high < least_saving &&
        worth->static_arm != space->default_arm)
        printf("          one plan does for all buckets: %s\n", fixed);
}

/* Returns what a table of this layer is expected to claim as a whole. */
static struct standing_row expected_standing(const struct worth *worth,
                                             const struct layer_plans *space)
{
    return (struct standing_row){ .gain = worth->over_default,
                                  .static_gain = worth->over_static,
                                  .static_plan = space->arms[worth->static_arm] };
}

static void print_text(const struct worth_layer *layer, const struct layer_plans *space,
                       const struct cluster *machine, bool is_probed,
                       const struct tuning_time *tuning)
{
    const struct worth *worth = &layer->worth;
    struct standing_row standing = expected_standing(worth, space);
    struct moe_plan default_plan = plan_default(&space->shape);
    bool has_type = strcmp(machine->gemm_dtype, "unknown") != 0;
    char saves[STANDING_TEXT_BYTES];

    printf("layer     %s\n", SHAPE_TEXT(&space->shape));
    printf("machine   %s, %u ranks, %s%s%s\n", UTF8_LINE(machine->device), machine->ranks,
           is_probed ? "probed just now" : "as its description has it",
           has_type ? ", products in " : "", has_type ? machine->gemm_dtype : "");
    printf("modelled  %zu plans at %zu buckets\n", layer->plans, layer->buckets);
    if (layer->steps)
        printf("steps     %u real ones of %u plans: modelled ratios were off by %.1f %%,\n"
               "          of other plans they are taken to be off by %.1f %%\n",
               layer->steps, layer->timed_plans, 100 * worth->off, 100 * worth->error);
    else
        printf("steps     none: modelled ratios are taken to be off by %.1f %%\n",
               100 * worth->error);
    standing_text(&standing, &default_plan, saves);
    printf("\n%s\n", worth->over_default.high > 0 ? standing_lines(saves)
                                                  : "No plan but the default may be the fastest");
    printf("expected, not measured: %d of 100 such intervals hold what tuning then saves\n\n",
           WORTH_HOLDS);
    printf("tuning    %s to %s\n", DURATION_TEXT(tuning->least_s), DURATION_TEXT(tuning->most_s));
    print_advice(worth, space, tuning);
    printf("\n");
}

static void print_json(const struct worth_layer *layer, const struct layer_plans *space,
                       const struct tuning_time *tuning, bool is_first)
{
    const struct worth *worth = &layer->worth;

    json_write(stdout,
               "%s{'shape': '%s', 'plans': %zu, 'buckets': %zu, 'steps': %u, 'timed_plans': %u, "
               "'off': %g, 'error': %g, 'holds': %g",
               is_first ? "" : ",\n", SHAPE_TEXT(&space->shape), layer->plans, layer->buckets,
               layer->steps, layer->timed_plans, worth->off, worth->error, WORTH_HOLDS * .01);
    json_write(stdout,
               ", 'gain': %g, 'gain_low': %g, 'gain_high': %g, 'static_gain': %g, "
               "'static_gain_low': %g, 'static_gain_high': %g, 'static_plan': '%s'",
               worth->over_default.value, worth->over_default.low, worth->over_default.high,
               worth->over_static.value, worth->over_static.low, worth->over_static.high,
               PLAN_TEXT(&space->arms[worth->static_arm]));
    json_write(stdout, ", 'seconds_least': %.3f, 'seconds_most': %.3f, 'advice': '%s'}",
               tuning->least_s, tuning->most_s, advice_words[advise(worth)]);
}

/* ---- the whole */

/* Refuses options that do not go with --worth. */
static int check_options(const struct tune_options *o)
{
    if (o->space || o->exec)
        return fail(ERR_ARGUMENT,
                    "--worth does not go with --space: only the program knows what its plans take");
    if (o->misses.count)
        return fail(ERR_ARGUMENT, "--worth does not go with --from-misses: name the layer");
    if (o->setup.where.virtual.ranks)
        return fail(ERR_ARGUMENT, "--worth does not go with --virtual-ranks: their links are given "
                                  "by --link and cannot be probed");
    if (o->layer.shares != NOT_GIVEN)
        return fail(ERR_ARGUMENT, "--worth does not go with --shares: it models equal ranks");
    if (launch_is_rank() && !o->setup.sim)
        return fail(ERR_ARGUMENT, "--worth starts ranks of its own, and this is a rank of a "
                                  "launcher: run it without one, HOSTS names other hosts");
    return OK;
}

static void tick_progress(void *self)
{
    progress_tick(self);
}

static int print_layers(const struct tune_request *request, const struct cluster *model,
                        const struct launch_where *where, double steps_per_bucket,
                        struct progress *progress)
{
    const struct tune_options *o = request->options;
    struct crew_setup setup = { .where = *where,
                                .ranks_per_node = o->setup.where.ranks_per_node,
                                .ranks_per_rack = o->setup.where.ranks_per_rack,
                                .device = o->setup.where.device,
                                .timeout_s = o->setup.timeout_s,
                                .idle = tick_progress,
                                .self = progress,
                                .deadline_ns = progress->deadline_ns };
    struct crew *crew = NULL;
    int rc = o->setup.sim ? OK : crew_open(&setup, &crew);

    if (o->json)
        printf("[");
    for (size_t i = 0; i < request->space_count && !rc; i++) {
        const struct layer_plans *space = &request->spaces[i];
        struct worth_layer layer;
        struct tuning_time tuning;

        rc = worth_layer(model, crew, progress, request, space, &layer);
        if (rc)
            break;
        log_progress_clear();
        tuning = tuning_time(&layer, request->effort, steps_per_bucket);
        if (o->json)
            print_json(&layer, space, &tuning, i == 0);
        else
            print_text(&layer, space, model, !o->setup.sim, &tuning);
        fflush(stdout);
    }
    if (o->json)
        printf("]\n");
    crew_close(crew);
    return rc;
}

int worth_print(const struct tune_options *o, double steps_per_bucket)
{
    struct cluster here = cluster_unknown(), model;
    struct launch_where where = { .ranks = 0 };
    struct hosts hosts = { .count = 0 };
    struct tune_request request = { .options = NULL };
    double budget_s = o->setup.budget_s > 0 ? o->setup.budget_s : patience_s;
    struct progress progress;
    bool none_fits;
    int rc;

    progress_open(&progress, o->setup.quiet, "the machine is probed");
    progress.deadline_ns = host_clock_ns() + (int64_t)(budget_s * 1e9);
    log_enable(!launch_is_later_rank()); /* all ranks of a launcher would report the same */
    rc = check_options(o);
    log_enable(true);
    TRY(rc);
    rc = o->setup.sim ? OK : place_find(&o->setup.where, &hosts, &where, &here);
    if (!rc && !o->setup.sim)
        rc = place_check_ready(&o->setup.where, &where);
    if (!rc) /* errors of the layer are found before anything is measured */
        rc = tune_request_make(o, &here, &request);
    if (!rc)
        rc = tune_request_fits(&request, &none_fits);
    if (!rc && o->setup.sim) {
        model = request.cluster;
    } else if (!rc) {
        const struct moe_shape *shape = &request.spaces[0].shape;

        if (!o->setup.quiet)
            note("probes the machine, then times plans; %s in all", DURATION_TEXT(budget_s));
        rc = probe_ranks(o, &where, shape, &progress, &model);
        /* Other programs may have disturbed the probe: repeat it once before that is an error. */
        if (!rc && !is_model_known(&model))
            rc = probe_ranks(o, &where, shape, &progress, &model);
        if (!rc)
            rc = cluster_check_model(&model, "what probe measured");
        for (size_t i = 1; i < request.space_count && !rc; i++)
            if (!cluster_multiplies(&model, request.spaces[i].shape.dtype))
                rc = fail(ERR_ARGUMENT,
                          "--worth probes products of one type: ask for layers in %s "
                          "and for those in %s one after the other",
                          model.gemm_dtype, dtype_words[request.spaces[i].shape.dtype]);
        tune_request_learn(&request, &model);
    }
    if (!rc)
        rc = print_layers(&request, &model, &where, steps_per_bucket, &progress);
    if (request.options)
        tune_request_free(&request);
    hosts_free(&hosts);
    return rc;
}
