/* Answers the lines of a program that tunes its own layer, and deals with one that does not answer.
 */
#include "exec_protocol.h"

#include "child.h"
#include "gpu_list.h"
#include "host.h"
#include "live.h"
#include "machine.h"
#include "paste.h"
#include "plan.h"
#include "progress.h"
#include "status.h"
#include "tables.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const exec_protocol_help =
    "--exec: the program writes lines to the descriptor $MOETUNE_TO_FD and reads the answer to "
    "each\n"
    "from $MOETUNE_FROM_FD (or the files $MOETUNE_TO, $MOETUNE_FROM, where a launcher closes\n"
    "descriptors); $MOETUNE_WINDOW is the width of a bucket, $MOETUNE_LAYER the layer that the\n"
    "flags name, $MOETUNE_LAUNCHER_ARGS what --launcher-args says.  One process of it speaks,\n"
    "for all its ranks (--ranks says how many they are):\n"
    "  ask CAPACITY       plan r=1 d=2 a=linear      which plan to run at this capacity\n"
    "  tell MICROSECONDS  ok                         how long that step took, the slowest rank\n"
    "  failed WHY         ok                         it cannot be run: it is not asked for again\n"
    "  status             status decided 3 open 1 steps 208 tried 61\n"
    "Anything else is answered by \"error WHY\".  A program that twice ends, or once falls silent\n"
    "(--trial-timeout) under a plan makes that plan a row that says so, and is started again.\n";

enum { RESTARTS_MAX = 32, ERRORS_MAX = 100, LINE_BYTES = 16 + PLAN_TEXT_BYTES };
/* Between steps a program may do other things for longer than a step takes. */
static const double patience_between = 10;

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

struct exec_protocol {
    const struct tune_options *options;
    struct tune_request request;
    char path[PATH_MAX];
    struct live *live;
    struct child child;
    struct progress progress;
    bool running; /* a step, under `plan` */
    struct moe_plan plan;
    uint32_t capacity;
    uint32_t restarts, errors;
    uint64_t asked; /* since the program was started */
    int64_t heard_ns, deadline_ns;
};

/* ---- answers: one line each */

static int answer_error(struct exec_protocol *v, const char *why, char *answer)
{
    snprintf(answer, LINE_BYTES, "error %s", why);
    return ++v->errors < ERRORS_MAX
               ? OK
               : fail(ERR_FORMAT, "the program writes what is not understood: %s", why);
}

static int answer_ask(struct exec_protocol *v, const char *rest, char *answer)
{
    char *end;
    unsigned long long capacity = strtoull(rest, &end, 10);

    if (*rest < '0' || *rest > '9' || *end || capacity > UINT32_MAX)
        return answer_error(v, "ask CAPACITY: a number of rows is wanted", answer);
    v->capacity = (uint32_t)capacity;
    v->plan = (struct moe_plan)MOE_PLAN_INIT;
    if (v->request.declared)
        live_ask_in(v->live, declaration_bucket(v->request.declared, capacity, 0), v->capacity,
                    &v->plan);
    else
        live_ask(v->live, v->capacity, &v->plan);
    v->running = true;
    v->asked++;
    snprintf(answer, LINE_BYTES, "plan %s", PLAN_WORDS(&v->plan));
    return OK;
}

static int answer_tell(struct exec_protocol *v, const char *rest, char *answer)
{
    char *end;
    double us = strtod(rest, &end);

    if (!v->running)
        return answer_error(v, "tell: nothing was asked", answer);
    if (end == rest || *end || !(us > 0 && us < 1e12))
        return answer_error(v, "tell MICROSECONDS: a number above 0 is wanted", answer);
    live_tell(v->live, (int64_t)fmax(1, us * 1e3));
    v->running = false;
    v->progress.done = live_status(v->live).decided;
    progress_show(&v->progress, "c=%u %s %.3f ms", v->capacity, PLAN_WORDS(&v->plan), us * 1e-3);
    snprintf(answer, LINE_BYTES, "ok");
    return OK;
}

static int answer_failed(struct exec_protocol *v, const char *rest, char *answer)
{
    if (!v->running)
        return answer_error(v, "failed: nothing was asked", answer);
    live_failed(v->live, TRIAL_FAILED, *rest ? rest : "the program could not run it");
    v->running = false;
    snprintf(answer, LINE_BYTES, "ok");
    return OK;
}

static int answer_status(struct exec_protocol *v, const char *rest, char *answer)
{
    struct moetune_status s = live_status(v->live);

    (void)rest;
    snprintf(answer, LINE_BYTES, "status decided %u open %u steps %" PRIu64 " tried %" PRIu64,
             s.decided, s.open, s.steps, s.tried);
    return OK;
}

static const struct {
    const char *word;
    int (*answer)(struct exec_protocol *v, const char *rest, char *answer);
} questions[] = { { "ask", answer_ask },
                  { "tell", answer_tell },
                  { "failed", answer_failed },
                  { "status", answer_status } };

static int answer_line(struct exec_protocol *v, const char *line, char *answer)
{
    size_t word = strcspn(line, " ");

    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        if (strlen(questions[i].word) == word && !memcmp(questions[i].word, line, word))
            return questions[i].answer(v, line + word + (line[word] == ' '), answer);
    return answer_error(v, "ask, tell, failed or status is wanted", answer);
}

/* ---- one life of the program */

static bool out_of_patience(const struct exec_protocol *v)
{
    double limit_s = v->options->setup.timeout_s * (v->running ? 1 : patience_between);

    return (double)(host_clock_ns() - v->heard_ns) * 1e-9 > limit_s;
}

/* OK: it has ended, or hangs (*hung). */
static int listen(struct exec_protocol *v, bool *hung)
{
    char line[LINE_BYTES], answer[LINE_BYTES];

    *hung = false;
    for (;;) {
        bool ended = child_ended(&v->child); /* asked first: its last lines are still there */
        int rc = child_read(&v->child, line, sizeof(line));

        if (stop || (v->deadline_ns && host_clock_ns() >= v->deadline_ns))
            return ERR_CUT;
        if (rc == OK) {
            v->heard_ns = host_clock_ns();
            TRY(answer_line(v, line, answer));
            if (child_write(&v->child, answer))
                return fail(ERR_LAUNCH, "the program does not read what it is answered");
            continue;
        }
        if (ended || rc != UNSUPPORTED)
            return OK;
        *hung = out_of_patience(v);
        if (*hung)
            return OK;
        progress_tick(&v->progress);
    }
}

/* The program is gone, under a plan: that plan is to blame, unless it is the default one, or
 * something else may have killed the program. */
static int blame(struct exec_protocol *v, bool hung, const char *how)
{
    char why[200];
    int rc;

    if (hung)
        snprintf(why, sizeof(why), "silent for %g s", v->options->setup.timeout_s);
    else
        snprintf(why, sizeof(why), "the program: %.150s", how);
    progress_clear(&v->progress);
    rc = live_failed(v->live, hung ? TRIAL_TIMEOUT : TRIAL_CRASHED, why);
    v->running = false;
    note("c=%u %s: %s%s", v->capacity, PLAN_WORDS(&v->plan), why,
         rc == UNSUPPORTED ? "; once more" : "");
    if (rc == UNSUPPORTED)
        return OK;
    if (plan_is_default(&v->plan, &v->live->setup.shape))
        return fail(ERR_LAUNCH, "the default plan itself does not run");
    if (++v->restarts > RESTARTS_MAX)
        return fail(ERR_LAUNCH, "the program was started %d times", RESTARTS_MAX + 1);
    return OK;
}

/* UNSUPPORTED if the program has to be started again. */
static int judge_end(struct exec_protocol *v, bool hung, int exit_code, const char *how)
{
    if (v->running) {
        TRY(blame(v, hung, how));
        return UNSUPPORTED;
    }
    if (hung)
        return fail(ERR_LAUNCH, "the program is silent, and was not even running a step");
    if (exit_code)
        return fail(ERR_LAUNCH, "the program: %s", how);
    return v->asked ? OK : fail(ERR_LAUNCH, "the program ended without asking anything");
}

static int live_once(struct exec_protocol *v)
{
    const struct space *space = &v->request.spaces[0];
    char how[128] = "";
    struct child_job job = { v->options->exec, SHAPE_TEXT(&space->shape), space->window };
    int exit_code = 0, rc;
    bool hung = false;

    TRY(child_start(&job, &v->child));
    v->heard_ns = host_clock_ns();
    v->asked = 0;
    rc = listen(v, &hung);
    child_end(&v->child, &exit_code, how, sizeof(how));
    return rc ? rc : judge_end(v, hung, exit_code, how);
}

/* ---- the whole of it */

static double now_us(void *self)
{
    (void)self;
    return (double)host_clock_ns() * 1e-3;
}

/* Nothing is at stake but time: as much is tried as is asked for. */
static const double no_limit = 1e9;

static int open_live(struct exec_protocol *v)
{
    const struct tune_options *o = v->options;
    char cluster[CLUSTER_TEXT_BYTES];
    struct live_setup setup = { .path = v->path,
                                .shape = v->request.spaces[0].shape,
                                .layer = o->implementation,
                                .cluster = cluster,
                                .axes = o->axes,
                                .effort = v->request.effort,
                                .window = v->request.spaces[0].window,
                                .seed = (uint32_t)o->setup.seed,
                                .store_flags = (o->setup.steal ? STORE_STEAL : 0u) |
                                               (o->setup.repair ? STORE_REPAIR : 0u),
                                .share = no_limit,
                                .margin = o->margin,
                                .harm = o->harm,
                                .now_us = now_us };

    cluster_format(&v->request.cluster, cluster, sizeof(cluster));
    TRY(live_open(&setup, &v->live));
    return v->live->dictionary.store ? OK : ERR_BUSY;
}

static int print(struct exec_protocol *v, int64_t cluster, int64_t shape)
{
    uint32_t window = v->request.spaces[0].window;
    struct store *store;
    int rc;

    TRY(store_read(v->path, &store));
    if (v->options->json) {
        rc = tables_json(store, cluster, shape, stdout);
        printf("\n");
    } else {
        rc = tables_print(store, cluster, shape, window, stdout);
        if (rc == UNSUPPORTED)
            note("%s: nothing is decided yet; the same command goes on", v->path);
        else if (!rc)
            printf("\ntable     %s\n", v->path);
        if (!rc && v->options->paste)
            rc = paste_all(store, v->path, stdout);
    }
    store_close(store);
    return rc < 0 ? rc : OK;
}

static int hold(struct exec_protocol *v)
{
    int64_t cluster, shape;
    int rc, said;

    TRY(store_path(v->options->setup.db, true, v->path, sizeof(v->path)));
    rc = open_live(v);
    while (!rc && (rc = live_once(v)) == UNSUPPORTED)
        rc = OK;
    if (!v->live)
        return rc;
    cluster = v->live->dictionary.cluster;
    shape = v->live->dictionary.shape;
    live_close(v->live);
    progress_clear(&v->progress);
    if (rc && rc != ERR_CUT)
        return rc;
    said = print(v, cluster, shape);
    if (rc == ERR_CUT)
        note("cut off; what is measured is kept, and the same command goes on");
    return rc ? rc : said;
}

int exec_protocol(const struct tune_options *options)
{
    const struct place_setup *where = &options->setup.where;
    uint32_t ranks = where->ranks ? where->ranks : 4;
    uint32_t per_node = where->ranks_per_node ? where->ranks_per_node : ranks;
    struct cluster here = machine_cluster(gpus_device(where->device), ranks, per_node);
    struct exec_protocol *v = calloc(1, sizeof(*v));
    int rc;

    here.ranks_per_rack = where->ranks_per_rack;
    if (!v)
        return fail(ERR_NOMEM, "an exec_protocol");
    v->options = options;
    TRY_OUT(tune_request_make(options, &here, &v->request));
    if (v->request.space_count != 1)
        TRY_OUT(fail(ERR_ARGUMENT, "--exec: one layer at a time"));
    if (options->setup.budget_s > 0)
        v->deadline_ns = host_clock_ns() + (int64_t)(options->setup.budget_s * 1e9);
    progress_open(&v->progress, options->setup.quiet);
    v->progress.deadline_ns = v->deadline_ns;
    if (where->launcher_arguments)
        setenv("MOETUNE_LAUNCHER_ARGS", where->launcher_arguments, 1);
    signal(SIGPIPE, SIG_IGN);
    launch_on_stop(on_signal);
    rc = hold(v);
out:
    tune_request_free(&v->request);
    free(v);
    return rc;
}
