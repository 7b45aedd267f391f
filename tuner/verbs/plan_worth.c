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
    FILE *to = open_memstream(&text, &size);
    int rc, silent_s = 0;

    if (!to)
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
            fprintf(to, "%s\n", line);
    }
    if (!rc) {
        char how[128] = "";

        launch_end(&ranks, silent_s < SILENCE_S, how, sizeof(how));
        fclose(to);
        to = NULL;
        log_enable(false); /* errors in half a description would not help */
        rc = cluster_parse(text, "probe", out);
        log_enable(true);
        if (rc || !out->ranks)
            rc = fail(ERR_LAUNCH, "the ranks could not be probed%s%s", *how ? ": " : "", how);
        snprintf(out->backend, sizeof(out->backend), "sim");
    }
    if (to)
        fclose(to);
    free(text);
    return rc;
}

static bool is_known(const struct cluster *model)
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
static const double enough = .02;

static enum advice advise(const struct worth *w)
{
    return w->over_default.low >= enough   ? WORTH_IT
           : w->over_default.high < enough ? NOT_WORTH_IT
                                           : CANNOT_TELL;
}

/* Bounds of the time that tuning takes. */
struct tuning_time {
    double least_s, most_s;
};

/* Counts steps as `moetune plan` does, and adds the launches of the ranks, which take much of the
 * time if steps are short. */
static struct tuning_time tuning_time(const struct worth_layer *l, const struct effort *effort,
                                      double steps_per_bucket)
{
    static const double wide = 2;
    double s = l->default_s * steps_per_bucket + l->launch_s * effort->launches;

    return (struct tuning_time){ s / wide, s * wide };
}

static void print_advice(const struct worth *w, const struct layer_plans *space,
                         const struct tuning_time *t)
{
    enum advice advice = advise(w);
    const char *fixed = PLAN_TEXT(&space->arms[w->static_arm]);

    printf("advice    %s: ", advice_words[advice]);
    if (advice == WORTH_IT)
        printf("at least %.1f %% of each step are expected to be saved, and %s to\n"
               "          %s of training win back what tuning takes\n",
               100 * w->over_default.low, DURATION_TEXT(t->least_s / w->over_default.high),
               DURATION_TEXT(t->most_s / w->over_default.low));
    else if (advice == NOT_WORTH_IT)
        printf("at most %.1f %% of each step are expected to be saved\n",
               100 * w->over_default.high);
    else
        printf("between %.1f and %.1f %% of each step; only steps of more plans tell,\n"
               "          which moetune tune takes, --effort quick fewest\n",
               100 * w->over_default.low, 100 * w->over_default.high);
    if (advice != NOT_WORTH_IT && w->over_static.high < enough &&
        w->static_arm != space->default_arm)
        printf("          one plan does for all buckets: %s\n", fixed);
}

/* Returns what a table of this layer is expected to claim as a whole. */
static struct standing_row expected_standing(const struct worth *w, const struct layer_plans *space)
{
    return (struct standing_row){ .gain = w->over_default,
                                  .static_gain = w->over_static,
                                  .static_plan = space->arms[w->static_arm] };
}

static void print_text(const struct worth_layer *l, const struct layer_plans *space,
                       const struct cluster *machine, bool measured, const struct tuning_time *t)
{
    const struct worth *w = &l->worth;
    struct standing_row row = expected_standing(w, space);
    struct moe_plan usual = plan_default(&space->shape);
    bool typed = strcmp(machine->gemm_dtype, "unknown") != 0;
    char saves[STANDING_TEXT_BYTES];

    printf("layer     %s\n", SHAPE_TEXT(&space->shape));
    printf("machine   %s, %u ranks, %s%s%s\n", UTF8_LINE(machine->device), machine->ranks,
           measured ? "probed just now" : "as its description has it",
           typed ? ", products in " : "", typed ? machine->gemm_dtype : "");
    printf("modelled  %zu plans at %zu buckets\n", l->plans, l->buckets);
    if (l->steps)
        printf("steps     %u real ones of %u plans: modelled ratios were off by %.1f %%,\n"
               "          of other plans they are taken to be off by %.1f %%\n",
               l->steps, l->timed_plans, 100 * w->off, 100 * w->error);
    else
        printf("steps     none: modelled ratios are taken to be off by %.1f %%\n", 100 * w->error);
    standing_text(&row, &usual, saves);
    printf("\n%s\n", w->over_default.high > 0 ? standing_lines(saves)
                                              : "No plan but the default may be the fastest");
    printf("expected, not measured: %d of 100 such intervals hold what tuning then saves\n\n",
           WORTH_HOLDS);
    printf("tuning    %s to %s\n", DURATION_TEXT(t->least_s), DURATION_TEXT(t->most_s));
    print_advice(w, space, t);
    printf("\n");
}

static void print_json(const struct worth_layer *l, const struct layer_plans *space,
                       const struct tuning_time *t, bool first)
{
    const struct worth *w = &l->worth;

    json_write(stdout,
               "%s{'shape': '%s', 'plans': %zu, 'buckets': %zu, 'steps': %u, 'timed_plans': %u, "
               "'off': %g, 'error': %g, 'holds': %g",
               first ? "" : ",\n", SHAPE_TEXT(&space->shape), l->plans, l->buckets, l->steps,
               l->timed_plans, w->off, w->error, WORTH_HOLDS * .01);
    json_write(stdout,
               ", 'gain': %g, 'gain_low': %g, 'gain_high': %g, 'static_gain': %g, "
               "'static_gain_low': %g, 'static_gain_high': %g, 'static_plan': '%s'",
               w->over_default.value, w->over_default.low, w->over_default.high,
               w->over_static.value, w->over_static.low, w->over_static.high,
               PLAN_TEXT(&space->arms[w->static_arm]));
    json_write(stdout, ", 'seconds_least': %.3f, 'seconds_most': %.3f, 'advice': '%s'}", t->least_s,
               t->most_s, advice_words[advise(w)]);
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

static void idle(void *self)
{
    progress_tick(self);
}

static int print_layers(const struct tune_request *r, const struct cluster *model,
                        const struct launch_where *where, double steps_per_bucket,
                        struct progress *progress)
{
    const struct tune_options *o = r->options;
    struct crew_setup setup = { .where = *where,
                                .ranks_per_node = o->setup.where.ranks_per_node,
                                .ranks_per_rack = o->setup.where.ranks_per_rack,
                                .device = o->setup.where.device,
                                .timeout_s = o->setup.timeout_s,
                                .idle = idle,
                                .self = progress,
                                .deadline_ns = progress->deadline_ns };
    struct crew *real = NULL;
    int rc = o->setup.sim ? OK : crew_open(&setup, &real);

    if (o->json)
        printf("[");
    for (size_t i = 0; i < r->space_count && !rc; i++) {
        const struct layer_plans *space = &r->spaces[i];
        struct worth_layer l;
        struct tuning_time t;

        rc = worth_layer(model, real, progress, r, space, &l);
        if (rc)
            break;
        log_progress_clear();
        t = tuning_time(&l, r->effort, steps_per_bucket);
        if (o->json)
            print_json(&l, space, &t, i == 0);
        else
            print_text(&l, space, model, !o->setup.sim, &t);
        fflush(stdout);
    }
    if (o->json)
        printf("]\n");
    crew_close(real);
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
    bool none;
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
        rc = tune_request_fits(&request, &none);
    if (!rc && o->setup.sim) {
        model = request.cluster;
    } else if (!rc) {
        const struct moe_shape *shape = &request.spaces[0].shape;

        if (!o->setup.quiet)
            note("probes the machine, then times plans; %s in all", DURATION_TEXT(budget_s));
        rc = probe_ranks(o, &where, shape, &progress, &model);
        /* Other programs may have disturbed the probe: repeat it once before that is an error. */
        if (!rc && !is_known(&model))
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
