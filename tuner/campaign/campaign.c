/* Opens the database and the ranks that the options ask for, runs a verb on them, times its steps,
 * and closes everything. */
#include "campaign.h"

#include "account.h"
#include "common_rows.h"
#include "discover.h"
#include "doctor.h"
#include "fault.h"
#include "gpu_list.h"
#include "host.h"
#include "launch.h"
#include "plan.h"
#include "status.h"
#include "text.h"
#include "worker.h"
#include "world.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- options */

#define AT(field) offsetof(struct campaign_setup, field)
const struct option_row campaign_where_rows[] = {
    { "sim", "FILE", OPTION_TEXT, AT(sim),
      "run on a modelled cluster and measure nothing. It has as many ranks as FILE or --ranks "
      "says. Without --db the table goes to modelled.db, beside the default database" },
    { .kind = OPTION_GROUP, .offset = AT(where), .rows = place_rows },
    GRAPHS_ROW(AT(graphs)),
    { NULL },
};
const struct option_row campaign_limit_rows[] = {
    { "budget", "TIME", OPTION_TIME, AT(budget_s),
      "stop after a time as 90s, 10m or 2h; what is measured stays, and the table is usable. Ranks "
      "that were started here stop at once, but a run's first step gets 10 s more, or the budget "
      "again" },
    { "trial-timeout", "S", OPTION_NUMBER, AT(timeout_s),
      "seconds after which a trial counts as hung", .least = 0.001, .most = 1e6 },
    { "max-memory", "BYTES", OPTION_BYTES, AT(memory_limit_bytes),
      "memory limit per rank, as 512MiB or 2GiB [0.8 of the smallest free share of a rank]" },
    { NULL },
};
const struct option_row campaign_table_rows[] = {
    DB_ROW(AT(db)),
    { "steal", NULL, OPTION_FLAG, AT(steal),
      "take the database over from an owner that stopped writing" },
    { NULL },
};
#undef AT

int campaign_check(const struct campaign_setup *s)
{
    const struct place_setup *where = &s->where;
    const char *device;

    if (s->sim && where->hosts)
        return fail(ERR_ARGUMENT, "--sim does not go with hosts: a modelled cluster runs here");
    if (s->sim && (where->ranks_per_node || where->ranks_per_rack))
        return fail(ERR_ARGUMENT, "--sim does not go with --ranks-per-node or --ranks-per-rack: "
                                  "its file has both");
    if (where->virtual.ranks && (s->sim || launch_is_rank()))
        return fail(ERR_ARGUMENT, "--virtual-ranks goes neither with --sim nor under a launcher");
    if (where->hosts && launch_is_rank())
        return fail(ERR_ARGUMENT, "\"%s\": the launcher has started the ranks already",
                    where->hosts);
    device = s->sim ? "sim" : gpus_device(where->device);
    if (graphs_steps_are(s->graphs) && strcmp(device, "cuda") != 0)
        return engine_refuse_steps(graphs_steps_are(s->graphs), "device", device);
    return OK;
}

int64_t campaign_memory_limit(const struct campaign_setup *setup, const struct cluster *cluster)
{
    if (setup->memory_limit_bytes)
        return setup->memory_limit_bytes;
    return isnan(cluster->memory_gib) ? INT64_MAX : (int64_t)(cluster->memory_gib * 0x1p30);
}

/* ---- interrupts */

static volatile sig_atomic_t stop;

/* The first signal lets the running step end.  A second SIGINT exits at once.  Other signals may
 * arrive twice by accident: from the job system and again through a launcher. */
static void on_signal(int number)
{
    if (stop++ && number == SIGINT)
        _exit(75);
}

bool campaign_over(const struct campaign *c)
{
    return stop || (c->deadline_ns && host_clock_ns() >= c->deadline_ns);
}

/* A command that does not fit is cut at a word boundary. */
void campaign_command(char **argv, const char *once, const char *anew,
                      char command[CAMPAIGN_COMMAND_BYTES])
{
    size_t length = anew ? strlen(anew) : 0, size = CAMPAIGN_COMMAND_BYTES, used = 0,
           last_word_end = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &used);

    if (!out)
        return;
    fputs("moetune", out);
    for (int i = 0; argv[i]; i++) {
        if (once && !strcmp(argv[i], once))
            continue;
        if (anew && !strncmp(argv[i], anew, length) && argv[i][length] == '=')
            continue;
        if (anew && !strcmp(argv[i], anew) && argv[i + 1]) {
            i++; /* the next word is its value */
            continue;
        }
        fflush(out);
        last_word_end = used < size - 4 ? used : last_word_end;
        putc(' ', out);
        shell_word(argv[i], out);
    }
    fclose(out);
    if (text)
        text_put(command, size, "%.*s%s", (int)(used < size ? used : last_word_end), text,
                 used < size ? "" : " ...");
    free(text);
}

/* ---- ranks and database */

static void while_idle(void *self)
{
    struct campaign *c = self;

    store_heartbeat(c->store);
    progress_tick(&c->progress);
}

static int open_store(struct campaign *c)
{
    const struct campaign_setup *s = c->setup;
    unsigned flags = (s->steal ? STORE_STEAL : 0u) | (s->repair ? STORE_REPAIR : 0u) |
                     (s->sim ? STORE_RELAXED : 0u);
    struct findings found = { .count = 0 };
    struct store *known;

    TRY(store_path(s->db,
                   (s->existing ? STORE_TO_READ : STORE_TO_WRITE) | (s->sim ? STORE_MODELLED : 0),
                   c->path, sizeof(c->path)));
    if (s->existing) {
        TRY(store_read(c->path, &known));
        store_close(known);
    }
    TRY(store_open(c->path, flags, &c->store));
    if (s->sim || s->quiet)
        return OK;
    /* The quick checks of `moetune doctor`, so that the user knows before anything is measured. */
    doctor_database(c->path, &found);
    doctor_here(c->where.elsewhere || c->world ? 0 : c->where.ranks,
                !strcmp(virtual_kernels(&c->cluster), "cuda"), &found);
    for (int i = 0; i < found.count; i++)
        if (found.list[i].level == FINDING_WRONG)
            note("%s: %s (see moetune doctor)", found.list[i].what, found.list[i].effect);
    return OK;
}

static int open_and_run(struct campaign *c, const struct campaign_verb *verb)
{
    struct crew_setup crew = { .world = c->world,
                               .model = c->setup->sim ? &c->cluster : NULL,
                               .seed = c->setup->seed,
                               .where = c->where,
                               .ranks_per_node = c->setup->where.ranks_per_node,
                               .ranks_per_rack = c->setup->where.ranks_per_rack,
                               .device = c->setup->where.device,
                               .virtual = c->setup->where.virtual,
                               .timeout_s = c->setup->timeout_s,
                               .deadline_ns = c->deadline_ns,
                               .stop = &stop,
                               .idle = while_idle,
                               .self = c };
    int rc;

    progress_open(&c->progress, c->setup->quiet, "ranks start");
    c->progress.deadline_ns = c->deadline_ns;
    launch_on_stop(on_signal);
    rc = fault_setup(-1); /* reports a malformed MOETUNE_FAULT once, before every rank does */
    if (!rc)
        rc = open_store(c);
    if (c->world)
        rc = world_settle(c->world, rc);
    if (!rc)
        rc = crew_open(&crew, &c->crew);
    if (!rc)
        rc = verb->run(verb->self);
    crew_close(c->crew);
    store_close(c->store);
    return rc;
}

/* On every rank under a launcher: checks the options against the cluster.  Rank 0 prints messages
 * for all. */
static int prepare_ranks(struct campaign *c, const struct campaign_verb *verb)
{
    bool is_rank_0 = world_topology(c->world)->rank == 0;
    struct discovery found;
    int rc;

    if (!is_rank_0)
        launch_on_stop(SIG_IGN);
    TRY(place_check_started(&c->setup->where, c->world));
    TRY(discover(c->world, c->setup->where.device, c->setup->where.ranks_per_node, &found));
    log_enable(is_rank_0);
    rc = discovery_check(&found);
    if (!rc)
        rc = verb->prepare(verb->self, &found.cluster);
    log_enable(true);
    discovery_free(&found);
    TRY(world_settle(c->world, rc));
    return place_check_ready_started(&c->setup->where, c->world);
}

static int follow_rank_0(struct campaign *c)
{
    struct worker *worker = NULL;
    int rc = world_settle(c->world, OK);

    if (!rc)
        rc = worker_open(c->world, c->setup->where.device, &worker);
    if (!rc)
        rc = worker_follow(worker);
    worker_close(worker);
    return rc;
}

/* Under a launcher: rank 0 runs the verb, and the other ranks follow its orders. */
static int lead_ranks(struct campaign *c, const struct campaign_verb *verb)
{
    int rc;

    TRY(world_open((int)c->setup->where.ranks_per_node, (int)c->setup->where.ranks_per_rack,
                   &c->world));
    rc = prepare_ranks(c, verb);
    if (!rc && world_topology(c->world)->rank == 0)
        rc = open_and_run(c, verb);
    else if (!rc)
        rc = follow_rank_0(c);
    world_close(c->world);
    return rc;
}

/* Without a launcher: this process runs the verb and starts the ranks. */
static int lead_here(struct campaign *c, const struct campaign_verb *verb)
{
    struct cluster here = cluster_unknown();
    uint32_t gpus;
    int rc = OK;

    if (!c->setup->sim)
        rc = place_find(&c->setup->where, &c->hosts, &c->where, &here);
    gpus = rc || c->where.elsewhere ? 0 : (uint32_t)gpus_here().count;
    /* Ranks that share a GPU can only use the wire of copy engines. */
    if (graphs_steps_are(c->setup->graphs) && gpus && c->where.ranks > gpus)
        rc = engine_refuse_steps(graphs_steps_are(c->setup->graphs), "wire", "ce");
    if (!rc)
        rc = verb->prepare(verb->self, &here);
    if (!rc && !c->setup->sim)
        rc = place_check_ready(&c->setup->where, &c->where);
    if (!rc)
        rc = open_and_run(c, verb);
    hosts_free(&c->hosts);
    return rc;
}

int campaign_lead(struct campaign *c, const struct campaign_verb *verb)
{
    TRY(campaign_check(c->setup));
    c->begun_ns = host_clock_ns();
    if (c->setup->budget_s > 0)
        c->deadline_ns = c->begun_ns + (int64_t)(c->setup->budget_s * 1e9);
    return launch_is_rank() && !c->setup->sim ? lead_ranks(c, verb) : lead_here(c, verb);
}

int campaign_layer(struct campaign *c, const struct moe_shape *shape, const struct load *load,
                   int64_t memory_limit_bytes)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = *shape,
                           .seed = c->setup->seed,
                           .memory_limit_bytes = memory_limit_bytes,
                           .steps_are = c->steps_are,
                           .phases = c->setup->phases };
    struct reply reply;

    TRY(load_text(load, order.load));
    load_name(load, c->load);
    if (strcmp(c->load, order.load) != 0) /* a skew's name is its text already */
        TRY(store_load(c->store, c->load, order.load));
    TRY(crew_do(c->crew, &order, &reply));
    return reply.state == TRIAL_OK
               ? OK
               : fail(ERR_DEVICE, "the layer cannot be set up: %s", reply.message);
}

/* ---- the run's row */

int campaign_recognise(struct campaign *c)
{
    struct cluster known;
    int64_t id;

    /* How steps are launched is part of the cluster's environment.  GRAPHS_AUTO: as in the entries
     * that the table has. */
    c->steps_are = graphs_steps_are(c->setup->graphs);
    if (c->setup->graphs == GRAPHS_AUTO && !store_cluster_find(c->store, &c->cluster, &id)) {
        TRY(store_cluster_get(c->store, id, &known));
        c->steps_are = cluster_steps_are(&known);
    }
    cluster_add_steps(&c->cluster, c->steps_are);
    /* The memory that is free now does not identify the cluster. */
    if (!c->setup->sim)
        c->cluster.memory_gib = NAN;
    return recognise(c->store, &c->cluster, &c->cluster_id);
}

static double host_us(void *self)
{
    (void)self;
    return (double)host_clock_ns() * 1e-3;
}

int campaign_begin(struct campaign *c, const char *search, const char *effort, uint32_t buckets)
{
    static const struct run_pace pace = { .commit_every_us = 5e4,
                                          .publish_share = 0.05,
                                          .alive_every_us = 2e6 };

    c->run = (struct run){
        .store = c->store, .row = { .buckets_planned = buckets }, .pace = pace, .now_us = host_us
    };
    c->progress.buckets = buckets;
    return run_begin(&c->run, c->cluster_id, c->setup->seed, search, effort, c->command);
}

int campaign_first_run(const struct campaign *c, int64_t *run)
{
    return run_first(c->store, c->cluster_id, c->command, true, run);
}

int campaign_finish(struct campaign *c, int rc, int (*print)(void *self), void *self)
{
    const char *why = stop               ? "interrupted"
                      : campaign_over(c) ? "the budget is spent"
                                         : "a host is gone";
    int printed;

    log_progress_clear();
    printed = run_end(&c->run, rc, rc == ERR_CUT ? why : NULL, true);
    if (!printed && (!rc || rc == ERR_CUT))
        printed = print(self);
    fflush(stdout);
    if (rc == ERR_CUT)
        note("%s; what is measured is kept.  To go on: %s", c->run.row.now, c->command);
    return rc ? rc : printed;
}

void campaign_print_heat(const struct campaign *c, FILE *to)
{
    char text[HEAT_TEXT_BYTES];

    heat_text(&c->heat, text);
    if (*text)
        fprintf(to, "clocks    %s\n", text);
    if (heat_is_worrying(&c->heat))
        note("%s: heat or power holds a GPU's clock back (see moetune doctor)", text);
    heat_others_text(&c->heat, text);
    if (*text)
        fprintf(to, "others    %s\n", text);
}

/* ---- durability */

/* Without `now` it publishes so seldom that this takes at most a twentieth of the time. */
int campaign_publish(struct campaign *c, bool now)
{
    c->run.unpublished = true;
    return run_publish(&c->run, host_us(NULL), now);
}

/* ---- one trial on the ranks */

int attempt_rule_out(struct campaign *c, struct attempt *a, int64_t bytes,
                     int64_t memory_limit_bytes)
{
    struct trial_row *trial = &a->trial;

    a->usable = false;
    if (trial->id && trial->state == TRIAL_RULED_OUT)
        return OK;
    trial->run = c->run.row.id;
    TRY(store_trial_begin(c->store, trial));
    trial->state = TRIAL_RULED_OUT;
    trial->memory_bytes = bytes;
    snprintf(trial->message, sizeof(trial->message), "needs %s per rank, %s are allowed",
             ACCOUNT_TEXT(bytes), ACCOUNT_TEXT(memory_limit_bytes));
    return store_trial_update(c->store, trial);
}

static int record_result(struct campaign *c, struct attempt *a, const struct reply *reply)
{
    struct trial_row *trial = &a->trial;

    if (reply->state == TRIAL_OK && reply->compute_ns) {
        trial->memory_bytes = reply->memory_bytes;
        trial->sent_bytes = reply->sent_bytes;
        trial->messages = reply->messages;
        trial->node_rows = reply->node_rows;
        trial->compute_ns = reply->compute_ns;
        trial->comm_ns = reply->comm_ns;
        trial->state = TRIAL_OK;
        TRY(store_trial_update(c->store, trial));
        return reply->phases[PHASE_TOTAL].ns ? store_phases(c->store, trial->id, reply->phases)
                                             : OK;
    }
    return ledger_end(c->store, a, reply->state, reply->message);
}

/* So many disturbed steps in a row, of one plan or of the machine, do not count.  A longer
 * disturbance counts as the way the machine runs. */
enum { SET_ASIDE_MOST = 4 };
/* The wait after the n-th disturbed step in a row is 2^n times as long. */
static const unsigned shortest_wait_us = 25000;

static int record_sample(struct campaign *c, struct attempt *attempt, struct sample_row *sample,
                         struct campaign_step *out)
{
    bool disturbed =
        sample->gpu.throttled != SAMPLE_FREE || heat_lost_much(sample->ns, sample->lost_ns);

    if (disturbed)
        sample->gpu.throttled = attempt->held_back < SET_ASIDE_MOST && c->held_back < SET_ASIDE_MOST
                                    ? SAMPLE_SET_ASIDE
                                    : SAMPLE_DISTURBED;
    attempt->held_back = disturbed ? attempt->held_back + 1 : 0;
    c->held_back = disturbed ? c->held_back + 1 : 0;
    snprintf(sample->load, sizeof(sample->load), "%s", c->load);
    heat_add(&c->heat, sample);
    TRY(ledger_sample(c->store, attempt, sample, &out->counts));
    /* Waits longer each time, 50 ms to 0.4 s: an immediate step would be disturbed again. */
    if (!out->counts && !c->setup->sim)
        usleep(shortest_wait_us << (attempt->held_back > c->held_back ? attempt->held_back
                                                                      : c->held_back));
    return OK;
}

/* Shows a step on the progress line, before and after it runs.  A plan's first step takes longer,
 * because it is set up and checked. */
static void show_step(struct campaign *c, const struct attempt *a, const char *what)
{
    text_put(c->run.row.now, sizeof(c->run.row.now), "bucket %u (c=%" PRIu64 ") %s",
             a->trial.key.bucket, a->trial.capacity, PLAN_TEXT(&a->trial.key.plan));
    progress_show(&c->progress, "%s%s", c->run.row.now, what);
}

int attempt_step(struct campaign *c, struct attempt *a, enum sample_kind kind, uint32_t round,
                 struct campaign_step *out)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = a->trial.capacity,
                           .plan = a->trial.key.plan };
    struct reply reply;
    double now_us;
    char took[32];
    int64_t number;
    int rc;

    TRY(ledger_begin(c->store, c->run.row.id, a, false));
    TRY(store_next_sample(c->store, &number));
    order.sample = (uint64_t)number;
    show_step(c, a, "");
    rc = crew_do(c->crew, &order, &reply);
    if (!rc && ledger_may_repeat(a, reply.state))
        rc = crew_do(c->crew, &order, &reply);
    if (rc == ERR_CUT)
        TRY(ledger_undo_begin(c->store, a));
    TRY(rc);
    TRY(record_result(c, a, &reply));
    *out = (struct campaign_step){ .ns = reply.state == TRIAL_OK ? reply.ns : 0 };
    c->run.row.samples_warm += reply.warm_steps;
    if (out->ns) {
        if (kind == SAMPLE_SEARCH)
            c->run.row.samples_search++;
        else
            c->run.row.samples_default++;
        TRY(record_sample(c, a,
                          &(struct sample_row){ .kind = kind,
                                                .round = round,
                                                .ns = out->ns,
                                                .gpu = reply.gpu,
                                                .lost_ns = reply.lost_ns,
                                                .run = c->run.row.id },
                          out));
    }
    now_us = host_us(NULL);
    rc = run_stay_alive(&c->run, now_us);
    if (rc == OK)
        rc = store_run_update(c->store, &c->run.row);
    if (rc < 0)
        return rc;
    TRY(run_commit(&c->run, now_us));
    c->progress.steps++;
    text_put(took, sizeof(took), " %.3f ms", (double)out->ns * 1e-6);
    show_step(c, a, took);
    return OK;
}
