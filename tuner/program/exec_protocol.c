/* Tunes the layer of a program.  A program without a space is answered by the live tuner while it
 * runs; one with a declared space is tuned by one launch after the other. */
#include "exec_protocol.h"

#include "buckets.h"
#include "gpu_list.h"
#include "host.h"
#include "known.h"
#include "live.h"
#include "machine.h"
#include "misses.h"
#include "own_space.h"
#include "paste.h"
#include "plan.h"
#include "session.h"
#include "shape.h"
#include "status.h"
#include "tables.h"
#include "text.h"
#include "tune_launches.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
const char *const exec_protocol_help =
    "--exec: the program writes lines to the descriptor $MOETUNE_TO_FD, and reads\n"
    "the answer to each from $MOETUNE_FROM_FD.  Where a launcher closes descriptors,\n"
    "it uses the files $MOETUNE_TO and $MOETUNE_FROM.  One process speaks for all\n"
    "ranks; --ranks says how many ranks there are.  The program also finds\n"
    "  $MOETUNE_WINDOW         the width of a bucket\n"
    "  $MOETUNE_LAYER          the layer of the table (--shape, with its defaults)\n"
    "  $MOETUNE_LAUNCHER_ARGS  the value of --launcher-args\n"
    "Its lines, and the answers:\n"
    "  ask CAPACITY       plan r=1 d=2 a=linear\n"
    "                     Which plan runs at this capacity?\n"
    "  tell MICROSECONDS [memory=BYTES] [NAME=NUMBER ...]\n"
    "                     ok\n"
    "                     How long that step took on the slowest rank, what memory\n"
    "                     it needed (--max-memory), and numbers for --guard.\n"
    "  failed WHY         ok\n"
    "                     The plan cannot run; moetune does not ask for it again.\n"
    "  status             status decided 3 open 1 steps 208 tried 61\n"
    "                     How far is the tuning?\n"
    "The answer to any other line is \"error WHY\".  If the program ends, or falls\n"
    "silent for --trial-timeout, moetune starts it again.  A plan under which it\n"
    "ended twice, or fell silent once, is stored as failed.  Under the default plan\n"
    "that ends the run.\n"
    "\n"
    "With --space (moetune-spaces(7)) the program has axes of its own, and\n"
    "$MOETUNE_SPACE is the text of the space:\n"
    "  ask KEY [CLASS]    plan dispatcher=alltoall chunks=2, or end\n"
    "The answer \"end\" means that the launch has shown enough: the program ends, with\n"
    "exit code 0.  It may also end at any other time.\n"
    "Axes that need a restart keep their values during a launch.  $MOETUNE_PLAN has\n"
    "these values, and {dispatcher} in the command line becomes the axis's value.\n"
    "({{word}} becomes {word}; ${NAME} and {a,b} are left to the shell.)\n"
    "A launch gives a plan one sample: the mean of --launch-steps steps.  By default\n"
    "there are more steps if a start costs more, or if steps scatter more.  Launches\n"
    "of different plans take turns until all ranges that the program asks for are\n"
    "decided, or until --budget is spent.\n"
    "Programs may die by chance.  If four launches with some values of restart axes\n"
    "died, and no step with these values was ever timed, all plans with these values\n"
    "are stored as failed.  If four launches died under a plan, and more than twice\n"
    "as many as gave a sample, the plan is stored as failed.  If the first two\n"
    "launches die alike before the program wrote a line, the run ends.\n";
/* clang-format on */

/* After so many failures in a row, under plans that were not being tried, the run ends.  A plan
 * that fails while it is tried is not answered again, so it does not count. */
enum { FAILURES_MAX = 32 };
/* Under the default plan a program may die once in so many steps, by chance. */
enum { STEPS_PER_DEATH = 100 };

/* One run of exec_protocol(), which allocates and frees it. */
struct exec_protocol {
    const struct tune_options *options;
    struct tune_request request;
    char go_on_command[CAMPAIGN_COMMAND_BYTES];  /* the command that continues this run */
    char decide_command[CAMPAIGN_COMMAND_BYTES]; /* the command that spends more effort */
    char path[PATH_MAX];                         /* of the database */
    struct live *live;                           /* without a space */
    struct session session;
    struct measured_guard guards[OPTION_LIST_MAX];
    struct bucket_demand *demands; /* of --from-misses; NULL: all that the program asks for */
    size_t demand_count;
    struct launches_report report; /* with a space; its cluster and shape also without */
    uint32_t failures;             /* in a row, see FAILURES_MAX */
    uint32_t deaths;               /* under the default plan */
    char limits[1024]; /* the options that decide whether a plan fails, for the run's row */
};

/* ---- without a space: the live tuner answers */

static void learn_time(struct exec_protocol *v, const struct program_line *tell)
{
    struct session *s = &v->session;

    live_tell(v->live, tell->ns);
    s->progress.done = live_status(v->live).decided;
    s->progress.buckets = s->progress.done + live_status(v->live).open;
    s->progress.steps++;
    progress_show(&s->progress, "c=%" PRIu64 " %s %.3f ms", s->key, PLAN_WORDS(&s->plan),
                  (double)tell->ns * 1e-6);
}

/* Runs one launch, and answers each of its lines. */
static int run_launch(struct exec_protocol *v, struct launch_end *end)
{
    struct session *s = &v->session;
    struct program_line line;
    int rc = session_start(s, v->options->exec, NULL, false);

    while (!rc && !(rc = session_next(s, &line))) {
        struct moe_plan plan = MOE_PLAN_INIT;

        if ((line.word == LINE_TELL || line.word == LINE_FAILED) && line.memory_bytes)
            live_memory(v->live, line.memory_bytes);
        switch (line.word) {
        case LINE_ASK:
            live_ask(v->live, (uint32_t)line.key, &plan);
            session_answer(s, &plan);
            break;
        case LINE_TELL: learn_time(v, &line); break;
        case LINE_FAILED:
            rc = live_failed(v->live, s->failed_as, line.reason);
            rc = rc == UNSUPPORTED ? OK : rc; /* this failure does not count yet */
            break;
        case LINE_STATUS: session_status(s, live_status(v->live)); break;
        case LINE_NONE: break;
        }
    }
    return session_end(s, rc, end);
}

/* The program ended or fell silent in a step.  Blames the plan, unless it is the default plan or
 * the program may have died by chance. */
static int blame_plan(struct exec_protocol *v, const struct launch_end *end)
{
    struct session *s = &v->session;
    bool is_default = plan_is_default(&s->plan, &s->shape), was_sampled = v->live->pending.sampled;
    char why[LAUNCH_WHY_BYTES];
    int rc = UNSUPPORTED;

    launch_why(s, end, why);
    if (!is_default)
        rc = live_failed(v->live, end->hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why);
    else if (end->hung || ++v->deaths > 1 + s->progress.steps / STEPS_PER_DEATH)
        return fail(ERR_LAUNCH, "the default plan itself does not run: %s", why);
    note("c=%" PRIu64 " %s: %s%s", s->key, PLAN_WORDS(&s->plan), why,
         rc == UNSUPPORTED ? "; once more" : "");
    if (rc == UNSUPPORTED)
        return OK;
    v->failures = was_sampled ? 0 : v->failures + 1;
    return v->failures < FAILURES_MAX
               ? OK
               : fail(ERR_LAUNCH, "the program failed %d times in a row: %s", FAILURES_MAX, why);
}

/* What run_once() returns if the program must be started again. */
enum { START_AGAIN = UNSUPPORTED };

/* Runs one launch. */
static int run_once(struct exec_protocol *v)
{
    const struct session *s = &v->session;
    struct launch_end end;

    TRY(run_launch(v, &end));
    if (s->running) {
        TRY(blame_plan(v, &end));
        return START_AGAIN;
    }
    if (end.hung)
        return fail(ERR_LAUNCH, "the program fell silent outside of its steps");
    if (end.exit_code && s->asks)
        return fail(ERR_LAUNCH, "%s", end.how);
    if (end.exit_code)
        return fail(ERR_LAUNCH, "%s before it asked anything: %s", end.how,
                    TEXT_SHORT(v->options->exec, 300));
    if (s->asks)
        return OK;
    return fail(ERR_LAUNCH,
                "the program ended without asking anything: `moetune help tune` shows the lines "
                "that it writes and reads; --space FILE declares its own knobs");
}

/* ---- the tuning */

static double now_us(void *self)
{
    (void)self;
    return (double)host_clock_ns() * 1e-3;
}

/* Lists the buckets that trainers asked for and the table does not have.  UNSUPPORTED: there are
 * none. */
static int list_demands(struct exec_protocol *v)
{
    struct misses misses;
    struct cluster cluster;
    struct store *store;
    int rc;

    TRY(exec_cluster(&v->request, &v->session.shape, &cluster));
    store = known_open(v->path, 0);
    rc = misses_list(&v->request, store, &cluster, &misses);
    store_close(store);
    TRY(rc);
    v->demands = calloc(misses.count + 1, sizeof(*v->demands));
    for (size_t i = 0; i < misses.count && v->demands; i++)
        v->demands[v->demand_count++] =
            (struct bucket_demand){ .bucket = misses.list[i].bucket, .asks = misses.list[i].asked };
    misses_free(&misses);
    if (!v->demands)
        return fail(ERR_NOMEM, "buckets that were asked for");
    return v->demand_count ? OK : UNSUPPORTED;
}

/* Tunes a program without a space. */
static int tune_live(struct exec_protocol *v, const struct table_setup *setup)
{
    size_t open = v->demand_count; /* buckets of --from-misses that are not decided */
    int rc;

    rc = live_open(setup, &v->live);
    if (!rc && !v->live->dictionary.store)
        rc = ERR_BUSY;
    while (!rc && (rc = run_once(v)) == START_AGAIN)
        rc = OK;
    for (uint32_t i = 0; !rc && open && i < v->live->buckets.count; i++) {
        const struct live_bucket *lb = v->live->buckets.items[i];

        open -= lb->state != LIVE_OPEN && bucket_demand(setup, lb->bucket.key.bucket);
    }
    if (!rc && open)
        note("%zu of %zu buckets are not decided: the program did not ask for them, or too seldom",
             open, v->demand_count);
    if (!rc || rc == ERR_CUT) {
        v->report.cluster = v->live->dictionary.cluster;
        v->report.shape = v->live->dictionary.shape;
    }
    live_close(v->live);
    return rc;
}

/* ---- what is printed at the end */

/* How many trials of each value of each axis ran and failed.  A plain value that borrows its space.
 */
struct outcomes {
    const struct declaration *space;
    uint32_t ran[DECLARATION_AXES_MAX][DECLARATION_VALUES_MAX];
    uint32_t failed[DECLARATION_AXES_MAX][DECLARATION_VALUES_MAX];
    size_t axis; /* with `value`: whose last failure is wanted */
    uint32_t value;
    struct trial_row last; /* that failure */
};

static int count_outcome(void *self, const struct trial_row *trial)
{
    struct outcomes *o = self;
    bool ran = trial->state == TRIAL_OK;

    if (trial->state == TRIAL_RUNNING || trial->state == TRIAL_RULED_OUT)
        return OK;
    for (size_t axis = 0; axis < o->space->axes; axis++) {
        uint32_t value = declaration_value(o->space, trial->key.plan.choice, axis);

        o->ran[axis][value] += ran;
        o->failed[axis][value] += !ran;
        if (!ran && axis == o->axis && value == o->value)
            o->last = *trial;
    }
    return OK;
}

/* Prints the values with which no plan ran in any bucket.  They may be misspelt, or need something
 * that is not installed. */
static int print_failures(struct store *store, const struct exec_protocol *v)
{
    const struct launches_report *r = &v->report;
    struct outcomes counts = { .space = v->request.declared }, failure;

    if (!counts.space)
        return OK;
    TRY(store_trials(store, r->cluster, r->shape, v->session.buckets.window, UINT32_MAX,
                     count_outcome, &counts));
    for (size_t axis = 0; axis < counts.space->axes; axis++)
        for (uint32_t value = 0; value < counts.space->axis[axis].values; value++) {
            uint32_t failed = counts.failed[axis][value];

            if (!failed || counts.ran[axis][value])
                continue;
            failure = (struct outcomes){ .space = counts.space, .axis = axis, .value = value };
            TRY(store_trials(store, r->cluster, r->shape, v->session.buckets.window, UINT32_MAX,
                             count_outcome, &failure));
            printf("failed    %s=%s, wherever it was tried (%" PRIu32 " trial%s): %s\n",
                   counts.space->axis[axis].name, counts.space->axis[axis].text[value], failed,
                   failed == 1 ? "" : "s", UTF8_LINE(failure.last.message));
        }
    return OK;
}

struct undecided {
    uint32_t window, count;
};

static int count_undecided(void *self, const struct entry_row *e)
{
    struct undecided *u = self;

    u->count += e->window == u->window && entry_is_undecided(e);
    return OK;
}

/* Prints the table, what to do with it, and the launches. */
static int print_result(struct exec_protocol *v)
{
    const struct launches_report *r = &v->report;
    struct store *store;
    struct undecided undecided = { .window = v->session.buckets.window };
    unsigned legend_words = 0;
    int rc;

    TRY(store_read(v->path, &store));
    if (v->options->json) {
        rc = tables_json(store, r->cluster, r->shape, NULL, &v->options->traffic, stdout);
        printf("\n");
        store_close(store);
        return rc < 0 ? rc : OK;
    }
    rc = tables_print(store, r->cluster, r->shape, v->session.buckets.window, &v->options->traffic,
                      &legend_words, stdout);
    if (rc == UNSUPPORTED)
        note("%s: nothing is decided yet", v->path);
    if (!rc)
        rc = store_entries(store, r->cluster, r->shape, count_undecided, &undecided);
    if (!rc) {
        printf("\n");
        tables_legend(legend_words, stdout);
        printf("\ntable     %s\n", v->path);
        rc = paste_next(&(struct tuned_table){
            .store = store,
            .path = v->path,
            .exec = v->options->exec,
            .space = v->options->space,
            .shape = &v->session.shape,
            .undecided = undecided.count,
            .decide = effort_words[v->options->effort + 1] ? v->decide_command : NULL });
    }
    if (rc == OK || rc == UNSUPPORTED) {
        int printed = print_failures(store, v);

        rc = printed ? printed : rc;
    }
    if (r->launches)
        printf("launches  %" PRIu32, r->launches);
    if (r->values > 1)
        printf(", with %" PRIu32 " sets of launch values", r->values);
    if (r->launches)
        printf("\n");
    if (*r->doubted)
        printf("undecided %s is probably %.1f %% faster than the default launch (chance %.0f %%)\n",
               r->doubted, 100 * r->doubt.gain, 100 * r->doubt.chance);
    if (r->given_up)
        note("%" PRIu32 " of %" PRIu32 " buckets are given up: the program did not run %" PRIu32
             " steps there in a launch (--launch-steps)",
             r->given_up, r->buckets, r->steps);
    if (!rc && v->options->paste)
        rc = paste_all(store, v->path, NULL);
    store_close(store);
    return rc < 0 ? rc : OK;
}

/* Tunes the program, with or without a space, and prints the result. */
static int tune_program(struct exec_protocol *v)
{
    /* Trying plans delays no training here, so it may take all the time. */
    static const double no_limit = INFINITY;
    const struct tune_options *options = v->options;
    const struct declaration *space = v->request.declared;
    const struct launches_report *report = &v->report;
    char cluster[CLUSTER_TEXT_BYTES];
    struct table_setup setup;
    int rc = OK, printed;

    if (options->launch_steps && !space)
        return fail(ERR_ARGUMENT,
                    "--launch-steps %" PRIu32 ": it is for a program that has a "
                    "space of its own",
                    options->launch_steps);
    if (options->retune && !space)
        return fail(ERR_ARGUMENT, "--exec does not go with --retune: without a --space, a bucket "
                                  "is measured again when the program's steps become slower");
    TRY(store_path(options->setup.db, STORE_TO_WRITE, v->path, sizeof(v->path)));
    cluster_format(&v->request.cluster, cluster, sizeof(cluster));
    if (options->misses.count)
        rc = list_demands(v);
    if (rc == UNSUPPORTED)
        note("everything that was asked for is in the table");
    if (rc)
        return rc == UNSUPPORTED ? OK : rc;
    setup = (struct table_setup){ .path = v->path,
                                  .command = v->limits,
                                  .shape = v->session.shape,
                                  .layer = options->implementation,
                                  .cluster = cluster,
                                  .axes = options->axes,
                                  .effort = v->request.effort,
                                  .window = v->session.buckets.window,
                                  .seed = (uint32_t)options->setup.seed,
                                  .store_flags = (options->setup.steal ? STORE_STEAL : 0u) |
                                                 (options->setup.repair ? STORE_REPAIR : 0u),
                                  .share = no_limit,
                                  .margin = options->margin,
                                  .harm = options->harm,
                                  .now_us = now_us,
                                  .demands = v->demands,
                                  .demand_count = v->demand_count };
    rc = space ? tune_launches(&v->session, &setup, options, &v->report) : tune_live(v, &setup);
    log_progress_clear();
    if (rc == ERR_LAUNCH && report->cluster)
        note("%s.  To go on: %s",
             v->session.progress.steps ? "what is measured is kept"
                                       : "no step was timed in this run",
             v->go_on_command);
    if ((rc && rc != ERR_CUT) || !report->cluster)
        return rc;
    printed = print_result(v);
    if (!rc && report->buckets && !report->decided)
        rc = fail(ERR_LAUNCH, "nothing is decided, and the same command would decide nothing");
    if (rc == ERR_CUT)
        note("cut off; what is measured is kept.  To go on: %s", v->go_on_command);
    return rc ? rc : printed;
}

static int open_session(struct exec_protocol *v)
{
    const struct tune_options *o = v->options;
    struct session *s = &v->session;
    bool fits;

    *s = (struct session){ .shape = v->request.spaces[0].shape,
                           .buckets =
                               buckets_of(&v->request.spaces[0].shape, v->request.spaces[0].window),
                           .silence_s = o->setup.timeout_s,
                           .may_repeat_ask = !v->request.declared,
                           .memory_bytes = o->setup.memory_limit_bytes,
                           .guards = v->guards };
    for (int i = 0; i < o->guards.count; i++)
        TRY(guard_parse(o->guards.items[i], &v->guards[s->guard_count++]));
    /* A failure counts only for runs with the same limits, so their text must not be cut. */
    fits = text_put(v->limits, sizeof(v->limits), "tune --exec --trial-timeout %g",
                    o->setup.timeout_s);
    if (o->setup.memory_limit_bytes)
        fits &= text_add(v->limits, sizeof(v->limits), " --max-memory %lld",
                         (long long)o->setup.memory_limit_bytes);
    for (int i = 0; i < o->guards.count; i++)
        fits &= text_add(v->limits, sizeof(v->limits), " --guard '%s'", o->guards.items[i]);
    if (!fits)
        return fail(ERR_ARGUMENT, "--guard: all guards together have more than %zu letters",
                    sizeof(v->limits) - 1);
    if (o->setup.budget_s > 0)
        s->deadline_ns = host_clock_ns() + (int64_t)(o->setup.budget_s * 1e9);
    progress_open(&s->progress, o->setup.quiet, "the program starts");
    s->progress.deadline_ns = s->deadline_ns;
    session_catch_signals();
    return OK;
}

/* Returns the number of ranks without --ranks.  A program whose options name no layer is one
 * process. */
static uint32_t default_ranks(const struct tune_options *o)
{
    bool layer_named = !layer_options_none(&o->layer) || o->models.count || o->shapes.count;

    return layer_named || !o->space || !strcmp(o->space, own_space_name) ? 4 : 1;
}

struct cluster exec_machine(const struct tune_options *options)
{
    const struct place_setup *where = &options->setup.where;
    uint32_t ranks = where->ranks ? where->ranks : default_ranks(options);
    uint32_t per_node = where->ranks_per_node ? where->ranks_per_node : ranks;
    struct cluster here = machine_cluster(gpus_device(where->device), ranks, per_node);

    here.ranks_per_rack = where->ranks_per_rack;
    return here;
}

int exec_cluster(const struct tune_request *r, const struct moe_shape *shape, struct cluster *out)
{
    char text[CLUSTER_TEXT_BYTES];

    cluster_format(&r->cluster, text, sizeof(text));
    return live_cluster(&(struct table_setup){ .shape = *shape,
                                               .layer = r->options->implementation,
                                               .cluster = text },
                        out);
}

/* Refuses a request of several layers. */
static int require_one_layer(const struct tune_request *r)
{
    if (r->space_count == 1)
        return OK;
    for (size_t i = 0; i < r->space_count && r->options->misses.count; i++)
        note("recorded: %s", SHAPE_TEXT(&r->spaces[i].shape));
    return fail(ERR_ARGUMENT, "--exec tunes one layer%s",
                r->options->misses.count ? "; --shape says which of the recorded ones" : "");
}

int exec_protocol(const struct tune_options *options, char **argv)
{
    struct cluster here = exec_machine(options);
    struct exec_protocol *v = calloc(1, sizeof(*v));
    int rc;

    if (!v)
        return fail(ERR_NOMEM, "a program to tune");
    v->options = options;
    /* --retune has made entries stale; it must not do so again when the run goes on. */
    campaign_command(argv, "--retune", NULL, v->go_on_command);
    campaign_command(argv, "--retune", "--effort", v->decide_command);
    if (!options->setup.where.ranks)
        note("without --ranks the table is for a program of %u rank%s", here.ranks,
             here.ranks == 1 ? "" : "s");
    TRY_OUT(tune_request_make(options, &here, &v->request));
    TRY_OUT(require_one_layer(&v->request));
    if (options->setup.where.launcher_arguments)
        setenv("MOETUNE_LAUNCHER_ARGS", options->setup.where.launcher_arguments, 1);
    TRY_OUT(open_session(v));
    rc = tune_program(v);
out:
    tune_request_free(&v->request);
    free(v->demands);
    free(v);
    return rc;
}
