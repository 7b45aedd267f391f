/* Three ways to reach the ranks (started here, around us, modelled), and one way to find out that
 * they are lost. */
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

struct crew {
    struct crew_setup setup;
    struct worker *worker;           /* in this process, of ranks around us */
    struct modelled_ranks *modelled; /* in this process */
    struct launched ranks;
    bool reached; /* the ranks have answered once since they were started */
    bool lost; /* they died, hung, or could do no more: those that are started next replace them */
    int64_t started_ns, launch_ns; /* on the host clock; from then on until that answer, 0: none */
    struct order layer;            /* the last ORDER_LAYER, for ranks that are started later */
    bool has_layer;
    bool ranks_know; /* the ranks that run know it */
    uint64_t steps;  /* that were timed */
    int64_t opened_ns;
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

static int start(struct crew *crew)
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
    crew->reached = crew->ranks_know = false;
    crew->started_ns = host_clock_ns();
    return launch_start(&crew->setup.where, arguments, &crew->ranks);
}

static void lose(struct crew *crew, enum trial_state state, const char *why, struct reply *reply)
{
    char how[128] = "";

    launch_end(&crew->ranks, false, how, sizeof(how));
    crew->lost = true;
    *reply = (struct reply){ .state = state, .broken = true };
    if (state == TRIAL_TIMEOUT)
        text_put(reply->message, sizeof(reply->message), "%s", why);
    else
        text_put(reply->message, sizeof(reply->message), "%s: %s", why, how);
}

/* The first answer waits for a launcher too, which a trial's time limit says nothing about. */
enum { LAUNCH_S = 60 };

static double patience_s(const struct crew *crew)
{
    return crew->setup.timeout_s + (crew->reached ? 0 : LAUNCH_S);
}

/* A batch system signals every process of a job at once: what the ranks were at is not to blame. */
static bool stopped(const struct crew *crew)
{
    return crew->setup.stop && *crew->setup.stop;
}

/* The next reply among whatever else ranks print. */
static int await(struct crew *crew, struct reply *reply)
{
    static const int64_t first_ns = 10000000000;
    int64_t deadline = host_clock_ns() + (int64_t)(patience_s(crew) * 1e9);
    int64_t budget_ns = crew->setup.deadline_ns - crew->opened_ns;
    int64_t spent_at = crew->setup.deadline_ns;
    char line[WORK_LINE_BYTES];
    int rc;

    /* Every run is to get on, so its first step may take as long again as the budget, or first_ns.
     */
    if (!crew->steps)
        spent_at += budget_ns > first_ns ? budget_ns : first_ns;
    for (;;) {
        rc = launch_read(&crew->ranks, 1000, line, sizeof(line));
        if (rc == OK && !reply_parse(line, reply)) {
            if (!crew->reached)
                crew->launch_ns = host_clock_ns() - crew->started_ns;
            crew->reached = true;
            return OK;
        }
        if (rc == OK)
            note("a rank says: %s", TEXT_SHORT(line, 200));
        if (rc == ERR_LAUNCH || (stopped(crew) && !crew->reached))
            return ERR_LAUNCH; /* while they are being started there is no step to finish */
        if (crew->setup.deadline_ns && host_clock_ns() >= spent_at)
            return ERR_CUT; /* however long the order may still take */
        if (host_clock_ns() > deadline)
            return UNSUPPORTED;
        if (crew->setup.idle)
            crew->setup.idle(crew->setup.self);
    }
}

static int tell(struct crew *crew, const struct order *order, struct reply *reply)
{
    char line[WORK_LINE_BYTES];
    int rc;

    order_format(order, line);
    rc = launch_write(&crew->ranks, line);
    if (!rc)
        rc = await(crew, reply);
    if (rc == ERR_CUT) {
        lose(crew, TRIAL_TIMEOUT, "the budget is spent", reply);
        return rc;
    }
    crew->steps += !rc && order->kind == ORDER_STEP && reply->state == TRIAL_OK;
    if (rc == UNSUPPORTED) {
        snprintf(line, sizeof(line), "no answer within %g s (--trial-timeout)", patience_s(crew));
        lose(crew, TRIAL_TIMEOUT, line, reply);
    } else if (rc) {
        lose(crew, TRIAL_CRASHED, "lost the ranks", reply);
    } else if (reply->broken) {
        launch_end(&crew->ranks, true, NULL, 0);
        crew->lost = true;
    }
    if (rc == ERR_LAUNCH && stopped(crew))
        return ERR_CUT;
    if (rc && !crew->reached) {
        launch_reach(&crew->setup.where);
        return fail(ERR_LAUNCH, "the ranks did not start: %s", reply->message);
    }
    /* A host that is gone says nothing of the plan, and without it nothing can go on. */
    return rc && launch_reach(&crew->setup.where) ? ERR_CUT : OK;
}

static void give_up(int number)
{
    static const char text[] =
        "moetune: no answer within --trial-timeout: the ranks hang.  The same "
        "command goes on; after three attempts without that trial\n";

    (void)number;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(1);
    _exit(75);
}

/* Hands an order to ranks that run. */
static int hand_over(struct crew *crew, const struct order *order, struct reply *reply)
{
    crew->ranks_know |= order->kind == ORDER_LAYER;
    if (!crew->modelled)
        return tell(crew, order, reply);
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
        /* Nobody outlives ranks that hang when this is one of them: the job ends, and can be
         * resumed. */
        signal(SIGALRM, give_up);
        alarm((unsigned)crew->setup.timeout_s + 1);
        rc = worker_lead(crew->worker, order, reply);
        alarm(0);
        TRY(rc);
        return reply->broken ? fail(ERR_WIRE, "the ranks can do no more: %s", reply->message) : OK;
    }
    if (!crew->modelled && !crew->ranks.pid)
        TRY(start(crew));
    if (order->kind != ORDER_LAYER && crew->has_layer && !crew->ranks_know) {
        TRY(hand_over(crew, &crew->layer, reply));
        if (reply->state != TRIAL_OK)
            return OK;
    }
    return hand_over(crew, order, reply);
}

static void end(struct crew *crew)
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
        end(crew);
    crew->ranks_know = false;
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
        end(crew);
    free(crew);
}
