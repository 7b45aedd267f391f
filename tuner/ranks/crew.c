/* Sends orders to ranks that it started, that a launcher started, or that are modelled, and
 * recognises ranks that hang or died. */
#include "crew.h"

#include "fault.h"
#include "host.h"
#include "launch.h"
#include "modelled_ranks.h"
#include "status.h"
#include "text.h"
#include "worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* crew.h says what one is. */
struct crew {
    struct crew_setup setup;
    struct worker *worker;           /* rank 0 of ranks that a launcher started; NULL: others */
    struct modelled_ranks *modelled; /* NULL: ranks are real */
    struct launched ranks;           /* ranks that the crew started */
    bool answered;                   /* the ranks have replied at least once since their launch */
    bool lost;                       /* they died, hung or broke; the next launch replaces them */
    int64_t started_ns;              /* when the launch began, on the host clock */
    int64_t launch_ns;               /* how long it took until the first reply; 0: none yet */
    struct order layer;              /* the last ORDER_LAYER, for the next launch */
    bool has_layer;
    bool layer_is_set; /* the running ranks got `layer` */
    uint64_t steps;    /* timed so far */
    int64_t opened_ns; /* on the host clock */
};

int crew_open(const struct crew_setup *setup, struct crew **out)
{
    struct crew *crew = calloc(1, sizeof(*crew));
    int rc = crew ? OK : fail(ERR_NOMEM, "a crew");

    TRY(rc);
    crew->setup = *setup;
    crew->opened_ns = host_clock_ns();
    if (setup->model)
        rc = modelled_ranks_open(setup->model, setup->seed, &crew->modelled);
    else if (setup->world)
        rc = worker_open(setup->world, setup->device, &crew->worker);
    if (rc)
        free(crew);
    else
        *out = crew;
    return rc;
}

/* Launches ranks that run `moetune serve`. */
static int start_ranks(struct crew *crew)
{
    const struct virtual_options *virtual = &crew->setup.virtual;
    char per_node[16], per_rack[16], ranks[16], ctas[16];
    char *arguments[] = { "moetune",
                          "serve",
                          "--ranks-per-node",
                          per_node,
                          "--ranks-per-rack",
                          per_rack,
                          "--device",
                          (char *)crew->setup.device,
                          virtual->ranks ? "--virtual-ranks" : NULL,
                          ranks,
                          "--copy-ctas",
                          ctas,
                          "--link",
                          (char *)(virtual->link ? virtual->link : ""),
                          NULL };

    if (crew->lost)
        fault_next_ranks();
    crew->lost = false;
    snprintf(per_node, sizeof(per_node), "%u", crew->setup.ranks_per_node);
    snprintf(per_rack, sizeof(per_rack), "%u", crew->setup.ranks_per_rack);
    snprintf(ranks, sizeof(ranks), "%u", virtual->ranks);
    snprintf(ctas, sizeof(ctas), "%u", virtual->ctas);
    crew->answered = crew->layer_is_set = false;
    crew->started_ns = host_clock_ns();
    return launch_start(&crew->setup.where, arguments, &crew->ranks);
}

/* Ends ranks that hang or died, and makes the reply that they did not send. */
static void end_lost_ranks(struct crew *crew, enum trial_state state, const char *why,
                           struct reply *reply)
{
    char ending[128] = "";

    launch_end(&crew->ranks, false, ending, sizeof(ending));
    crew->lost = true;
    *reply = (struct reply){ .state = state, .broken = true };
    if (state == TRIAL_TIMEOUT)
        text_put(reply->message, sizeof(reply->message), "%s", why);
    else
        text_put(reply->message, sizeof(reply->message), "%s: %s", why, ending);
}

/* The first reply waits for the launcher, too, so its time limit is longer. */
enum { LAUNCH_S = 60 };

static double time_limit_s(const struct crew *crew)
{
    return crew->setup.timeout_s + (crew->answered ? 0 : LAUNCH_S);
}

/* Has a signal stopped the whole job?  A batch system signals every process at once, so the plan
 * that was running is not to blame. */
static bool is_stopped(const struct crew *crew)
{
    return crew->setup.stop && *crew->setup.stop;
}

/* Waits for the next reply; notes other lines that ranks print.  ERR_CUT: the deadline passed;
 * UNSUPPORTED: no reply within the time limit; ERR_LAUNCH: the ranks ended, or the job is stopped.
 */
static int await_reply(struct crew *crew, struct reply *reply)
{
    static const int64_t first_ns = 10000000000;
    int64_t deadline = host_clock_ns() + (int64_t)(time_limit_s(crew) * 1e9);
    int64_t budget_ns = crew->setup.deadline_ns - crew->opened_ns;
    int64_t budget_end_ns = crew->setup.deadline_ns;
    char line[WORK_LINE_BYTES];
    int rc;

    /* Every run shall make progress, so its first step gets the whole budget once more, or
     * first_ns. */
    if (!crew->steps)
        budget_end_ns += budget_ns > first_ns ? budget_ns : first_ns;
    for (;;) {
        rc = launch_read(&crew->ranks, 1000, line, sizeof(line));
        if (rc == OK && !reply_parse(line, reply)) {
            if (!crew->answered)
                crew->launch_ns = host_clock_ns() - crew->started_ns;
            crew->answered = true;
            return OK;
        }
        if (rc == OK)
            note("a rank printed: %s", TEXT_SHORT(line, 200));
        if (rc == ERR_LAUNCH || (is_stopped(crew) && !crew->answered))
            return ERR_LAUNCH; /* during a launch there is no step to finish */
        if (crew->setup.deadline_ns && host_clock_ns() >= budget_end_ns)
            return ERR_CUT; /* even in the middle of the order */
        if (host_clock_ns() > deadline)
            return UNSUPPORTED;
        if (crew->setup.idle)
            crew->setup.idle(crew->setup.self);
    }
}

/* Sends an order to ranks that the crew started, and handles every way to get no reply. */
static int send_order(struct crew *crew, const struct order *order, struct reply *reply)
{
    char line[WORK_LINE_BYTES];
    int rc;

    order_format(order, line);
    rc = launch_write(&crew->ranks, line);
    if (!rc)
        rc = await_reply(crew, reply);
    if (rc == ERR_CUT) {
        end_lost_ranks(crew, TRIAL_TIMEOUT, "the budget is spent", reply);
        return rc;
    }
    crew->steps += !rc && order->kind == ORDER_STEP && reply->state == TRIAL_OK;
    if (rc == UNSUPPORTED) {
        snprintf(line, sizeof(line), "no answer within %g s (--trial-timeout)", time_limit_s(crew));
        end_lost_ranks(crew, TRIAL_TIMEOUT, line, reply);
    } else if (rc) {
        end_lost_ranks(crew, TRIAL_CRASHED, "lost the ranks", reply);
    } else if (reply->broken) {
        launch_end(&crew->ranks, true, NULL, 0);
        crew->lost = true;
    }
    if (rc == ERR_LAUNCH && is_stopped(crew))
        return ERR_CUT;
    if (rc && !crew->answered) {
        launch_reach(&crew->setup.where);
        return fail(ERR_LAUNCH, "the ranks did not start: %s", reply->message);
    }
    /* If a host is gone, the plan is not to blame, and the run cannot go on without it. */
    return rc && launch_reach(&crew->setup.where) ? ERR_CUT : OK;
}

/* Handles SIGALRM on rank 0 of a launcher's ranks: ends this process, and with it the job. */
static void exit_on_hang(int number)
{
    static const char text[] =
        "moetune: the ranks hang: no answer within --trial-timeout.  Run the same command "
        "again: it goes on, and after three attempts it skips that trial\n";

    (void)number;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(1);
    _exit(75);
}

/* Executes an order on running or modelled ranks. */
static int run_order(struct crew *crew, const struct order *order, struct reply *reply)
{
    crew->layer_is_set |= order->kind == ORDER_LAYER;
    if (!crew->modelled)
        return send_order(crew, order, reply);
    modelled_ranks_do(crew->modelled, order, reply);
    return OK;
}

int crew_do(struct crew *crew, const struct order *order, struct reply *reply)
{
    int rc;

    if (order->kind == ORDER_LAYER) {
        crew->layer = *order;
        crew->has_layer = true;
    }
    if (crew->setup.world) {
        /* This process is one of the ranks, so it cannot survive if they hang: the job then ends,
         * and can be resumed. */
        signal(SIGALRM, exit_on_hang);
        alarm((unsigned)crew->setup.timeout_s + 1);
        rc = worker_lead(crew->worker, order, reply);
        alarm(0);
        TRY(rc);
        return reply->broken ? fail(ERR_WIRE, "the ranks cannot go on: %s", reply->message) : OK;
    }
    if (!crew->modelled && !crew->ranks.pid)
        TRY(start_ranks(crew));
    if (order->kind != ORDER_LAYER && crew->has_layer && !crew->layer_is_set) {
        TRY(run_order(crew, &crew->layer, reply));
        if (reply->state != TRIAL_OK)
            return OK;
    }
    return run_order(crew, order, reply);
}

static void end_ranks(struct crew *crew)
{
    struct order quit = { .kind = ORDER_QUIT };
    char line[WORK_LINE_BYTES];

    order_format(&quit, line);
    launch_end(&crew->ranks, launch_write(&crew->ranks, line) == OK, NULL, 0);
}

int crew_relaunch(struct crew *crew, uint32_t number)
{
    if (crew->setup.world)
        return UNSUPPORTED;
    if (crew->modelled)
        modelled_ranks_relaunch(crew->modelled, number);
    if (crew->ranks.pid)
        end_ranks(crew);
    crew->layer_is_set = false;
    return OK;
}

int64_t crew_launch_ns(const struct crew *crew)
{
    return crew->launch_ns;
}

void crew_close(struct crew *crew)
{
    struct order quit = { .kind = ORDER_QUIT };
    struct reply reply;

    if (!crew)
        return;
    if (crew->worker)
        worker_lead(crew->worker, &quit, &reply);
    worker_close(crew->worker);
    modelled_ranks_close(crew->modelled);
    if (crew->ranks.pid)
        end_ranks(crew);
    free(crew);
}
