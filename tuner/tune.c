/* moetune tune: the main job, from options to the dictionary. */
#include "fault.h"
#include "host.h"
#include "json.h"
#include "launch.h"
#include "paste.h"
#include "plan.h"
#include "status.h"
#include "sweep.h"
#include "tables.h"
#include "tune_options.h"
#include "verbs.h"
#include "worker.h"
#include "world.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One run of the verb, in the process that owns the database. */
struct tuning {
    struct tune_request request;
    char path[PATH_MAX], command[1024];
    struct store *store;
    struct crew *crew;
    struct world *world; /* under a launcher; NULL: ranks are started here */
    struct run_row run;
    struct progress progress;
    struct sweep_setup setup;
    struct sweep_result results[TUNE_LAYERS_MAX];
    size_t swept;
    int64_t begun_ns;
};

static volatile sig_atomic_t stop;

/* The step under way is finished; a second signal does not wait for it. */
static void on_signal(int number)
{
    (void)number;
    if (stop++)
        _exit(75);
}

static void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

/* What to type to go on: words that a shell would take apart are quoted.  --retune has done its
 * work: what is not measured yet is stale. */
static void join_command(char **argv, char *text, size_t size)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-_=./:,+%@";
    size_t used = (size_t)snprintf(text, size, "moetune");

    for (int i = 0; argv[i] && used < size; i++) {
        bool plain;

        if (!strcmp(argv[i], "--retune"))
            continue;
        plain = *argv[i] && strspn(argv[i], harmless) == strlen(argv[i]);
        used += (size_t)snprintf(text + used, size - used, plain ? " %s" : " '%s'", argv[i]);
    }
}

static void idle(void *self)
{
    struct tuning *t = self;

    store_heartbeat(t->store);
    progress_tick(&t->progress);
}

static int open_crew(struct tuning *t)
{
    const struct tune_options *o = &t->request.options;
    struct crew_setup setup = { .ranks = t->request.cluster.ranks,
                                .ranks_per_node = o->ranks_per_node,
                                .device = o->device,
                                .timeout_s = o->timeout_s,
                                .idle = idle,
                                .self = t };

    if (o->sim)
        return crew_open_model(&t->request.cluster, o->seed, &t->crew);
    return t->world ? crew_open_around(t->world, &setup, &t->crew)
                    : crew_open_launched(&setup, &t->crew);
}

/* The same machine with another driver, library or environment: what is known is out of date.  Its
 * model numbers stay: a search only starts from them. */
static int compare_soft(struct tuning *t, const struct cluster *known)
{
    struct cluster renewed = t->request.cluster;

    if (cluster_same_soft(known, &renewed))
        return OK;
    for (size_t i = 0; i < cluster_field_count; i++) {
        char was[1100], is[1100];

        cluster_value(known, &cluster_fields[i], was, sizeof(was));
        cluster_value(&renewed, &cluster_fields[i], is, sizeof(is));
        if (cluster_fields[i].class == CLUSTER_SOFT && strcmp(was, is) != 0)
            note("%s was \"%s\" and is \"%s\": entries are stale and measured again",
                 cluster_fields[i].name, was, is);
    }
    TRY(store_expire(t->store, t->setup.cluster, 0, 0, 0, UINT32_MAX, "the machine changed"));
    cluster_take_model(&renewed, known);
    return store_cluster_renew(t->store, t->setup.cluster, &renewed);
}

static int begin_run(struct tuning *t)
{
    struct run_row *run = &t->run;
    struct cluster known;

    TRY(store_cluster(t->store, &t->request.cluster, &t->setup.cluster));
    TRY(store_cluster_get(t->store, t->setup.cluster, &known));
    TRY(compare_soft(t, &known));
    tune_request_learn(&t->request, &known);
    *run = (struct run_row){ .cluster = t->setup.cluster,
                             .state = RUN_RUNNING,
                             .started_s = time(NULL),
                             .seed = t->request.options.seed };
    snprintf(run->search, sizeof(run->search), "%s", t->request.strategy->name);
    snprintf(run->effort, sizeof(run->effort), "%s", t->request.effort->name);
    snprintf(run->command, sizeof(run->command), "%s", t->command);
    snprintf(run->version, sizeof(run->version), "%s", MOETUNE_VERSION);
    for (size_t i = 0; i < t->request.space_count; i++)
        run->buckets_planned += (uint32_t)t->request.spaces[i].anchor_count;
    TRY(store_run_begin(t->store, run));
    return store_commit(t->store);
}

static int sweep_all(struct tuning *t)
{
    int rc = OK;

    t->progress.buckets = t->run.buckets_planned;
    for (size_t i = 0; i < t->request.space_count && !rc; i++) {
        if (t->request.space_count > 1)
            snprintf(t->progress.layer, sizeof(t->progress.layer), "layer %zu/%zu, ", i + 1,
                     t->request.space_count);
        rc = sweep_layer(&t->setup, &t->request.spaces[i], &t->results[i]);
        if (!rc || rc == ERR_CUT)
            t->swept = i + 1;
    }
    return rc;
}

/* ---- what is said at the end */

static void print_share(const char *name, double share, FILE *to)
{
    if (isfinite(share))
        fprintf(to, "%s%.1f %%", name, share * 100);
    else
        fprintf(to, "%s-", name);
}

static void print_layer_result(const struct tuning *t, size_t i)
{
    const struct sweep_result *r = &t->results[i];
    char plan[PLAN_TEXT_BYTES] = "-";

    if (isfinite(r->static_gain))
        moe_plan_format(&r->static_plan, plan, sizeof(plan));
    printf("\nbuckets   %u measured now, %u known before, %u inferred", r->measured, r->known,
           r->inferred);
    if (r->failed_trials)
        printf("; %u trials failed", r->failed_trials);
    if (r->ruled_out)
        printf("; %u ruled out by memory", r->ruled_out);
    print_share("\ngain      over the default plan ", r->gain, stdout);
    print_share(", over the best static plan ", r->static_gain, stdout);
    printf(" (%s)\n", plan);
}

static uint64_t paper_trials(const struct tuning *t)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < t->request.space_count; i++)
        sum += space_paper_trials(&t->request.spaces[i]);
    return sum;
}

static int print_text(struct tuning *t)
{
    char took[32];

    for (size_t i = 0; i < t->swept; i++) {
        int64_t shape;
        int rc;

        TRY(store_shape(t->store, &t->request.spaces[i].shape, &shape));
        rc = tables_print(t->store, t->setup.cluster, shape, false, stdout);
        if (rc < 0)
            return rc;
        if (rc == OK)
            print_layer_result(t, i);
        printf("\n");
    }
    progress_duration((double)(host_clock_ns() - t->begun_ns) * 1e-9, took, sizeof(took));
    printf("steps     %" PRIu64 " for the search, %" PRIu64 " against the default, %" PRIu64
           " to warm up, in %s;\n          the paper's search takes %" PRIu64
           " trials for these buckets\n",
           t->run.samples_search, t->run.samples_default, t->run.samples_warm, took,
           paper_trials(t));
    printf("table     %s\n", t->path);
    if (!t->request.options.sim)
        return paste_print(t->path, t->request.spaces, t->request.space_count, stdout);
    printf("          MODELLED: these rows never answer for a real cluster\n");
    return OK;
}

static int print_json(struct tuning *t)
{
    char digest[SHA256_HEX_BYTES];

    TRY(paste_digest(t->path, digest));
    printf("{\"state\": \"%s\", \"digest\": \"%s\", \"db\": ", run_state_words[t->run.state],
           digest);
    json_quote(t->path, stdout);
    printf(", \"seconds\": %.3f, \"search_steps\": %" PRIu64 ", \"contest_steps\": %" PRIu64
           ", \"warm_steps\": %" PRIu64 ", \"paper_trials\": %" PRIu64 ",\n\"layers\": [",
           (double)(host_clock_ns() - t->begun_ns) * 1e-9, t->run.samples_search,
           t->run.samples_default, t->run.samples_warm, paper_trials(t));
    for (size_t i = 0; i < t->swept; i++) {
        const struct sweep_result *r = &t->results[i];

        printf("%s\n {\"measured\": %u, \"known\": %u, \"inferred\": %u, \"failed\": %u, "
               "\"ruled_out\": %u, \"gain\": ",
               i ? "," : "", r->measured, r->known, r->inferred, r->failed_trials, r->ruled_out);
        printf(isfinite(r->gain) ? "%.6f" : "null", r->gain);
        printf(", \"static_gain\": ");
        printf(isfinite(r->static_gain) ? "%.6f}" : "null}", r->static_gain);
    }
    printf("],\n\"tables\": ");
    tables_json(t->store, t->setup.cluster, 0, stdout);
    printf("}\n");
    return OK;
}

static int finish(struct tuning *t, int rc)
{
    int said;

    progress_clear(&t->progress);
    t->run.state = !rc ? RUN_COMPLETE : (rc == ERR_CUT ? RUN_INTERRUPTED : RUN_FAILED);
    snprintf(t->run.now, sizeof(t->run.now), "%s", run_state_words[t->run.state]);
    said = store_run_update(t->store, &t->run);
    if (!said)
        said = store_publish(t->store);
    if (!said && (!rc || rc == ERR_CUT))
        said = t->request.options.json ? print_json(t) : print_text(t);
    fflush(stdout);
    if (rc == ERR_CUT)
        note("%s; what is measured is kept.  To go on: %s",
             stop ? "interrupted" : "the budget is spent", t->command);
    return rc ? rc : said;
}

static int run(struct tuning *t)
{
    const struct tune_options *o = &t->request.options;

    TRY(begin_run(t));
    t->setup = (struct sweep_setup){
        .store = t->store,
        .crew = t->crew,
        .cluster = t->setup.cluster,
        .strategy = t->request.strategy,
        .effort = t->request.effort,
        .machine = t->request.machine,
        .margin = o->margin,
        .seed = o->seed,
        .repeats = o->repeats,
        .keep_bytes = t->request.memory_limit_bytes,
        .retune = o->retune,
        .deadline_ns =
            t->request.budget_s > 0 ? t->begun_ns + (int64_t)(t->request.budget_s * 1e9) : 0,
        .stop = &stop,
        .progress = &t->progress,
        .run = &t->run,
    };
    return finish(t, sweep_all(t));
}

static int open_store(struct tuning *t)
{
    const struct tune_options *o = &t->request.options;
    unsigned flags = (o->steal ? STORE_STEAL : 0u) | (o->repair ? STORE_REPAIR : 0u) |
                     (o->sim ? STORE_RELAXED : 0u);

    TRY(store_path(o->db, true, t->path, sizeof(t->path)));
    return store_open(t->path, flags, &t->store);
}

static int tune(struct tuning *t)
{
    int rc;

    t->begun_ns = host_clock_ns();
    progress_open(&t->progress, t->request.options.quiet);
    catch_signals();
    TRY(fault_setup(-1)); /* ranks find a malformed MOETUNE_FAULT too; here it is said once */
    rc = t->world ? world_settle(t->world, open_store(t)) : open_store(t);
    if (!rc)
        rc = open_crew(t);
    if (!rc)
        rc = run(t);
    crew_close(t->crew);
    store_close(t->store);
    return rc;
}

/* Under a launcher: rank 0 tunes, the others do what it says. */
static int tune_on_ranks(struct tuning *t)
{
    const struct topology *topology;
    struct worker *worker = NULL;
    int rc;

    TRY(world_open((int)t->request.options.ranks_per_node, &t->world));
    topology = world_topology(t->world);
    log_only(topology->rank == 0);
    rc = tune_request_make(&t->request.options, (uint32_t)topology->ranks,
                           (uint32_t)topology->ranks_per_node, &t->request);
    log_only(true);
    rc = world_settle(t->world, rc);
    if (!rc && topology->rank == 0)
        rc = tune(t);
    else if (!rc && !(rc = world_settle(t->world, OK)))
        if (!(rc = worker_open(t->world, t->request.options.device, &worker)))
            rc = worker_follow(worker);
    worker_close(worker);
    world_close(t->world);
    return rc;
}

static int tune_here(struct tuning *t)
{
    const struct tune_options *o = &t->request.options;
    uint32_t ranks = o->ranks ? o->ranks : 4;
    uint32_t per_node = o->ranks_per_node ? o->ranks_per_node : ranks;

    if (ranks > 4096)
        return fail(ERR_ARGUMENT, "--ranks %u: at most 4096 can be started on one machine", ranks);
    if (ranks % per_node)
        return fail(ERR_ARGUMENT, "--ranks-per-node %u does not divide %u ranks", per_node, ranks);
    if (strcmp(o->device, "host") != 0)
        return fail(ERR_ARGUMENT, "no device \"%s\" in this build: it has host", o->device);
    TRY(tune_request_make(o, ranks, per_node, &t->request));
    return tune(t);
}

int tune_main(int argc, char **argv)
{
    struct tuning *t = calloc(1, sizeof(*t));
    bool help = false;
    int rc = t ? OK : fail(ERR_NOMEM, "the tuner");

    if (!rc)
        rc = tune_options_parse("tune", argc, argv, &t->request.options, &help);
    if (!rc && !help) {
        /* For `moetune --cluster` argv[0] is the program itself. */
        join_command(strcmp(argv[0], "tune") ? argv + 1 : argv, t->command, sizeof(t->command));
        rc = launch_is_rank() && !t->request.options.sim ? tune_on_ranks(t) : tune_here(t);
        tune_request_free(&t->request);
    }
    free(t);
    return rc;
}
