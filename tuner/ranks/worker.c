/* Executes orders on one rank.  Prepared plans stay open until memory is short. */
#include "worker.h"

#include "account.h"
#include "fault.h"
#include "gpu_list.h"
#include "model_engine.h"
#include "nvml.h"
#include "own_cores.h"
#include "plan.h"
#include "random.h"
#include "relay.h"
#include "search.h"
#include "shape.h"
#include "sim.h"
#include "status.h"
#include "text.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNERS_MAX = 64 };

/* worker.h says what one is.  `runners` are the prepared plans of the open layer `rig`. */
struct worker {
    struct world *world;
    bool owns_world, phases; /* phases: time them, as the layer's order says */
    uint32_t steps_are;      /* enum steps_are of this layer */
    struct engine engine;
    struct data data;
    const double *speeds; /* of modelled ranks, borrowed; NULL: the layer's load has them */
    struct load *load;    /* of `data`; NULL: no load was given */
    struct rig *rig;
    struct rig *check_rig; /* where plans are checked, all at one capacity with one reference */
    struct account_machine machine;
    int64_t ranks_on_device;            /* ranks that share its memory, this one included */
    int64_t memory_limit_bytes;         /* of the layer and all its plans together */
    uint32_t launch;                    /* of modelled ranks: the number of the launch */
    struct runner runners[RUNNERS_MAX]; /* most recently used first */
    int runner_count;
    struct moe_plan checked_plans[SEARCH_ARMS_MAX];
    int checked_count;
    struct nvml *nvml;         /* of this rank's GPU; NULL: not known */
    int clock_seen_max_mhz;    /* the highest clock seen so far */
    struct disturbance *watch; /* of this rank's cores; NULL: modelled, or on a GPU */
    char message[200];         /* the last failure on this rank */
};

/* A log_hook that stores the message for the reply, without line ends and bars. */
static void store_message(void *self, const char *line)
{
    struct worker *worker = self;

    text_put(worker->message, sizeof(worker->message), "%s", line);
    for (char *c = worker->message; *c; c++)
        if (*c == '\n' || *c == '|')
            *c = ' ';
}

static void read_device(struct worker *worker)
{
    const struct engine *engine = &worker->engine;
    struct gpus gpus;
    int own_gpu;

    worker->machine = (struct account_machine){
        .on_host = engine->device->computes_f32,
        .checks = !engine->device->modelled && !engine->wire->pretends,
        .cache_bytes = engine->device->cache_bytes,
    };
    worker->ranks_on_device = world_neighbours(worker->world);
    if (!engine->device->asynchronous)
        return;
    gpus = gpus_here();
    own_gpu = gpus_own(&gpus);
    if (gpus.count)
        worker->ranks_on_device = (worker->ranks_on_device + gpus.count - 1) / gpus.count;
    if (own_gpu >= 0)
        worker->nvml = nvml_open(gpus.list[own_gpu].bus);
}

/* Watches this rank's cores for disturbances.  Collective: all ranks are watched, or none. */
static int open_watch(struct world *world, struct worker *worker)
{
    double cores;

    if (worker->engine.device->asynchronous)
        return OK;
    TRY(own_cores(world, &cores));
    return world_settle(world, disturbance_open(cores, &worker->watch));
}

int worker_open(struct world *world, const char *device, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    int rc = worker ? OK : fail(ERR_NOMEM, "a worker");

    /* Return freed memory to the system; by default glibc keeps larger and larger pieces. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    if (!rc) {
        worker->world = world;
        rc = fault_setup(world_topology(world)->rank);
    }
    TRY_OUT(world_settle(world, rc));
    TRY_OUT(gpus_agree_device(world, device, &device));
    TRY_OUT(engine_open(world, device, NULL, &worker->engine));
    TRY_OUT(open_watch(world, worker));
    read_device(worker);
    *out = worker;
    return OK;
out:
    worker_close(worker);
    return rc;
}

int worker_open_model(const struct cluster *cluster, int rank, const double *speeds, uint64_t seed,
                      struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    int rc = worker ? OK : fail(ERR_NOMEM, "a worker");

    TRY_OUT(rc);
    worker->owns_world = true;
    worker->speeds = speeds;
    TRY_OUT(fault_setup(0));
    TRY_OUT(model_engine_open(cluster, rank, seed, &worker->world, &worker->engine));
    read_device(worker);
    *out = worker;
    return OK;
out:
    worker_close(worker);
    return rc;
}

int worker_open_virtual(const struct virtual_options *virtual, uint32_t ranks_per_node,
                        uint32_t ranks_per_rack, const char *device, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    int rc = worker ? fault_setup(0) : fail(ERR_NOMEM, "a worker");

    TRY_OUT(rc);
    TRY_OUT(virtual_open(virtual, ranks_per_node, ranks_per_rack, 0, device, &worker->world,
                         &worker->engine));
    worker->owns_world = true;
    read_device(worker);
    TRY_OUT(open_watch(worker->world, worker));
    *out = worker;
    return OK;
out:
    worker_close(worker);
    return rc;
}

/* Closes what can be opened again: prepared plans, and the rig for checks. */
static void close_reopenable(struct worker *worker)
{
    while (worker->runner_count)
        runner_close(&worker->runners[--worker->runner_count]);
    rig_close(worker->check_rig);
    worker->check_rig = NULL;
}

static void close_layer(struct worker *worker)
{
    close_reopenable(worker);
    rig_close(worker->rig);
    worker->rig = NULL;
    load_close(worker->load);
    worker->load = NULL;
    worker->data.load = NULL;
    worker->data.speeds = worker->machine.speeds = NULL;
    worker->checked_count = 0;
}

void worker_close(struct worker *worker)
{
    if (!worker)
        return;
    close_layer(worker);
    nvml_close(worker->nvml);
    disturbance_close(worker->watch);
    engine_close(&worker->engine);
    if (worker->owns_world)
        world_close(worker->world);
    free(worker);
}

void worker_relaunch(struct worker *worker, uint32_t number)
{
    close_layer(worker);
    worker->launch = number;
}

static int open_rig(struct worker *worker, const struct data *data, struct rig **out)
{
    TRY(rig_open(worker->world, &worker->engine, data, NULL, 1, out));
    (*out)->steps_are = worker->steps_are;
    return OK;
}

static int fail_memory(const char *what, int64_t needed, int64_t available, const char *how)
{
    return fail(ERR_NOMEM, "%s needs %s per rank, %s are %s", what, ACCOUNT_TEXT(needed),
                ACCOUNT_TEXT(available), how);
}

/* Checks, before `needed` bytes are allocated, that they are free on every rank.  Collective.
 * Without this check the kernel might kill the rank, and others with it. */
static int check_free_memory(struct worker *worker, const char *what, int64_t needed)
{
    int64_t negative_free;

    TRY(world_barrier(worker->world)); /* memory that other ranks closed is free now */
    negative_free = -(device_free_bytes(worker->engine.device) / worker->ranks_on_device);
    TRY(world_max(worker->world, &negative_free, 1)); /* gives the least free memory */
    return needed > -negative_free ? fail_memory(what, needed, -negative_free, "free") : OK;
}

/* Frees what can be opened again, and what the wire keeps for other plans and layers: that may be
 * enough.  UNSUPPORTED: there was nothing to free, and the message about the lack stays. */
static int free_reopenable(struct worker *worker)
{
    bool has_any = worker->runner_count || worker->check_rig;
    int trimmed;

    close_reopenable(worker);
    trimmed = wire_trim(worker->engine.wire);
    if (trimmed == UNSUPPORTED && has_any)
        trimmed = OK;
    if (!trimmed)
        worker->message[0] = 0; /* drop the message of the attempt that lacked memory */
    return trimmed;
}

static int open_layer(struct worker *worker, int64_t bytes)
{
    TRY(check_free_memory(worker, "the layer", bytes));
    return open_rig(worker, &worker->data, &worker->rig);
}

static int set_layer(struct worker *worker, const struct order *order)
{
    int64_t bytes;
    int rc, freed;

    close_layer(worker);
    worker->steps_are = order->steps_are;
    worker->phases = order->phases;
    TRY(engine_check_steps(&worker->engine, order->steps_are));
    TRY(world_settle(worker->world,
                     load_open_text(&order->shape, order->seed, order->load, &worker->load)));
    worker->data = (struct data){ .shape = order->shape,
                                  .seed = order->seed,
                                  .load = load_counts(worker->load),
                                  .between = load_between(worker->load),
                                  .speeds = load_speeds(worker->load) ? load_speeds(worker->load)
                                                                      : worker->speeds };
    worker->memory_limit_bytes = order->memory_limit_bytes;
    if (order->shape.shares != MOE_SHARES_EQUAL && !worker->data.speeds)
        return fail(ERR_ARGUMENT,
                    "shares=%s: the speeds of these ranks (%u) are not known: "
                    "`moetune probe` measures them",
                    shares_words[order->shape.shares], order->shape.ranks);
    worker->machine.speeds = worker->data.speeds;
    worker->machine.between = worker->data.between;
    bytes = account_layer(&order->shape, &worker->machine);
    if (bytes > worker->memory_limit_bytes)
        return fail_memory("the layer", bytes, worker->memory_limit_bytes, "allowed");
    rc = open_layer(worker, bytes);
    if (rc != ERR_NOMEM)
        return rc;
    freed = free_reopenable(worker);
    if (freed)
        return freed < 0 ? freed : rc;
    return open_layer(worker, bytes);
}

static bool was_checked(const struct worker *worker, const struct moe_plan *plan)
{
    for (int i = 0; i < worker->checked_count; i++)
        if (plan_equal(&worker->checked_plans[i], plan))
            return true;
    return false;
}

/* Compares a plan with the reference, once per plan and layer. */
static int check_plan(struct worker *worker, const struct moe_plan *plan)
{
    /* The check runs without the load, for which a smaller layer may have too few columns.
     * rig_check_some() checks with the load. */
    struct data data = { .shape = reference_shape(worker->data.shape),
                         .seed = worker->data.seed,
                         .speeds = worker->data.speeds };
    struct runner runner = { 0 };
    double error;
    int rc;

    if (!worker->machine.checks || was_checked(worker, plan))
        return OK;
    if (!worker->check_rig) {
        TRY(open_rig(worker, &data, &worker->check_rig));
        rig_set_capacity(worker->check_rig, reference_capacity(&data.shape));
    }
    TRY(runner_open(worker->check_rig, plan, &runner));
    rc = rig_check(worker->check_rig, runner.exec, &error);
    runner_close(&runner);
    if (!rc && worker->checked_count < SEARCH_ARMS_MAX)
        worker->checked_plans[worker->checked_count++] = *plan;
    return rc;
}

static void move_to_front(struct worker *worker, int i)
{
    struct runner runner = worker->runners[i];

    memmove(worker->runners + 1, worker->runners, (size_t)i * sizeof(runner));
    worker->runners[0] = runner;
}

/* Closes plans until the order's plan has room.  Only agreed numbers decide, so all ranks close the
 * same plans. */
static int make_room(struct worker *worker, const struct order *order)
{
    const struct moe_shape *shape = &worker->data.shape;
    const struct account_machine *machine = &worker->machine;
    int64_t layer = account_layer(shape, machine), check = 0;
    int64_t needed = account_alone(shape, machine, &order->plan, order->capacity);

    for (int i = 0; i < worker->runner_count; i++)
        needed = account_sum(needed, worker->runners[i].memory_bytes - layer);
    while (worker->runner_count &&
           (needed > worker->memory_limit_bytes || worker->runner_count == RUNNERS_MAX)) {
        needed -= worker->runners[worker->runner_count - 1].memory_bytes - layer;
        runner_close(&worker->runners[--worker->runner_count]);
    }
    if (!was_checked(worker, &order->plan))
        check = account_check(shape, machine, &order->plan);
    return check_free_memory(
        worker, "this plan",
        account_sum(check, account_plan(shape, machine, &order->plan, order->capacity)));
}

static int measure_phases(const struct worker *worker, struct runner *runner, struct reply *reply)
{
    struct phase_times samples[PHASE_SAMPLES_LEAST];
    struct phase_spreads spreads;

    if (!worker->phases)
        return OK;
    /* The first call allocates what time stamps need; its times do not count. */
    TRY(runner_phases(runner, &samples[0]));
    for (int i = 0; i < PHASE_SAMPLES_LEAST; i++)
        TRY(runner_phases(runner, &samples[i]));
    TRY(world_settle(worker->world, phases_spread(samples, PHASE_SAMPLES_LEAST, &spreads)));
    for (int i = 0; i < PHASE_COUNT; i++)
        reply->phases[i] = (struct phase_time){ spreads.of[i].median_ns, spreads.of[i].low_ns,
                                                spreads.of[i].high_ns };
    reply->warm_steps += 2 * (PHASE_SAMPLES_LEAST + 1);
    return OK;
}

/* Opens and warms up a plan; warm-up steps also time compute alone and communication alone, once
 * each.
 */
static int open_plan(struct worker *worker, const struct order *order, struct reply *reply)
{
    struct runner runner = { 0 };
    double error;
    int rc;

    TRY(make_room(worker, order));
    rig_set_capacity(worker->rig, order->capacity);
    TRY(runner_open(worker->rig, &order->plan, &runner));
    TRY_OUT(check_plan(worker, &order->plan));
    if (worker->machine.checks)
        TRY_OUT(rig_overwrite_results(worker->rig));
    TRY_OUT(runner_warm(&runner, 1));
    /* Check the result of the warm-up step, at the layer's real size. */
    if (worker->machine.checks)
        TRY_OUT(rig_check_some(worker->rig, runner.exec, &error));
    TRY_OUT(runner_step(&runner, STEP_COMPUTE, &reply->compute_ns));
    TRY_OUT(runner_step(&runner, STEP_COMM, &reply->comm_ns));
    reply->warm_steps += 3;
    TRY_OUT(measure_phases(worker, &runner, reply));
    worker->runners[worker->runner_count++] = runner;
    move_to_front(worker, worker->runner_count - 1);
    return OK;
out:
    runner_close(&runner);
    return rc;
}

/* Opens the order's plan unless it is open, and makes it the first of `runners`. */
static int prepare_steps(struct worker *worker, const struct order *order, struct reply *reply)
{
    int64_t alone =
        account_alone(&worker->data.shape, &worker->machine, &order->plan, order->capacity);
    int rc, freed;

    for (int i = 0; i < worker->runner_count; i++)
        if (worker->runners[i].capacity == order->capacity &&
            plan_equal(&worker->runners[i].plan, &order->plan)) {
            move_to_front(worker, i);
            return OK;
        }
    if (alone > worker->memory_limit_bytes)
        return fail_memory("this plan", alone, worker->memory_limit_bytes, "allowed");
    rc = open_plan(worker, order, reply);
    if (rc != ERR_NOMEM)
        return rc;
    freed = free_reopenable(worker);
    if (freed)
        return freed < 0 ? freed : rc;
    reply->warm_steps = 0;
    return open_plan(worker, order, reply);
}

/* Finds out what disturbed the step, right after it, while the GPU's clock is still the same.  If
 * one rank does not know its clock, the slowest clock is not known. */
static int read_disturbances(struct worker *worker, struct reply *reply)
{
    bool fault_hot = fault_hit("throttle"), fault_disturbed = fault_hit("disturb");
    enum { NEGATIVE_CLOCK, THROTTLED, SLOWED_BY_FAULT, DISTURBED_BY_FAULT, AGREED };
    int clock_mhz = nvml_clock_mhz(worker->nvml);
    /* A quarter below the highest clock seen so far: the clock has not risen yet, or something else
     * than heat and power holds it down. */
    bool slow = clock_mhz >= 0 && 4 * clock_mhz < 3 * worker->clock_seen_max_mhz;
    bool throttled = !slow && nvml_throttled(worker->nvml);
    int64_t agreed[AGREED] = {
        [NEGATIVE_CLOCK] = -(int64_t)clock_mhz, /* its largest is the slowest clock */
        [THROTTLED] = fault_hot || slow || throttled,
        [SLOWED_BY_FAULT] = fault_hot || fault_disturbed,
        [DISTURBED_BY_FAULT] = fault_disturbed,
    };

    if (clock_mhz > worker->clock_seen_max_mhz)
        worker->clock_seen_max_mhz = clock_mhz;
    /* All ranks return here, or none. */
    if (!worker->engine.device->asynchronous && !fault_expected("throttle") &&
        !fault_expected("disturb"))
        return OK;
    TRY(world_max(worker->world, agreed, AGREED));
    reply->gpu.clock_mhz = agreed[NEGATIVE_CLOCK] < 0 ? (uint32_t)-agreed[NEGATIVE_CLOCK] : 0;
    reply->gpu.throttled = (uint32_t)agreed[THROTTLED];
    if (agreed[SLOWED_BY_FAULT])
        reply->ns *= 2;
    if (agreed[DISTURBED_BY_FAULT])
        reply->lost_ns = reply->ns / 2;
    return OK;
}

/* A number for each plan of each layer at each capacity in each launch, by which a modelled rank
 * draws its difference between launches.  It is made from texts, so that later axes and words of a
 * layer leave it unchanged. */
static uint64_t launch_noise_seed(const struct worker *worker, const struct order *order)
{
    uint64_t number = random_bits(worker->launch, order->capacity);
    char layer[SHAPE_TEXT_BYTES];

    shape_format(&worker->data.shape, layer, sizeof(layer));
    for (const char *c = layer; *c; c++)
        number = random_bits(number, (uint64_t)*c);
    for (const char *c = PLAN_TEXT(&order->plan); *c; c++)
        number = random_bits(number, (uint64_t)*c);
    return number;
}

static int execute_order(struct worker *worker, const struct order *order, struct reply *reply)
{
    struct runner *runner = worker->runners;
    struct measured step;

    if (order->kind == ORDER_QUIT)
        return OK;
    if (order->kind == ORDER_LAYER)
        return set_layer(worker, order);
    if (!worker->rig)
        return fail(ERR_ARGUMENT, "no layer is set up");
    if (worker->engine.device->modelled) {
        sim_set_launch(worker->engine.device, launch_noise_seed(worker, order));
        if (order->sample)
            sim_set_step(worker->engine.device, order->sample);
    }
    TRY(prepare_steps(worker, order, reply));
    reply->memory_bytes = runner->memory_bytes;
    reply->sent_bytes = runner->sent_bytes;
    reply->messages = runner->messages;
    reply->node_rows = (int64_t)relay_rows(runner->exec);
    TRY(runner_step_watched(runner, worker->watch, &step));
    reply->ns = step.ns;
    reply->lost_ns = step.lost_ns;
    return read_disturbances(worker, reply);
}

static enum trial_state trial_state_of(int rc)
{
    switch (rc) {
    case OK: return TRIAL_OK;
    case ERR_NOMEM: return TRIAL_NO_MEMORY;
    case ERR_WRONG: return TRIAL_WRONG;
    default: return TRIAL_FAILED;
    }
}

/* Writes the message of the first rank that has one into the reply. */
static void gather_message(struct worker *worker, struct reply *reply)
{
    size_t ranks = (size_t)world_topology(worker->world)->ranks,
           message_bytes = sizeof(worker->message);
    char *messages = calloc(ranks, message_bytes);
    int rc = world_settle(worker->world, messages ? OK : ERR_NOMEM);

    if (!rc)
        rc = world_gather(worker->world, worker->message, messages, message_bytes);
    for (size_t q = 0; q < ranks && !rc && !*reply->message; q++)
        if (messages[q * message_bytes])
            text_put(reply->message, sizeof(reply->message), "rank %zu: %s", q,
                     messages + q * message_bytes);
    free(messages);
}

void worker_do(struct worker *worker, const struct order *order, struct reply *reply)
{
    int rc;

    *reply = (struct reply){ 0 };
    worker->message[0] = 0;
    log_to(store_message, worker);
    rc = execute_order(worker, order, reply);
    log_to(NULL, NULL);
    reply->state = trial_state_of(rc);
    if (rc)
        gather_message(worker, reply);
    reply->broken = world_alarmed(worker->world) || rc == ERR_WIRE || rc == ERR_DEVICE;
}

uint64_t worker_kernels(const struct worker *worker)
{
    return worker->engine.device->kernels;
}

/* Rank 0 sends the order to all other ranks; only ORDER_LAYER sends a load. */
static int share_order(struct worker *worker, struct order *order)
{
    TRY(world_receive_order(worker->world, order, offsetof(struct order, load)));
    return order->kind == ORDER_LAYER
               ? world_receive_order(worker->world, order->load, sizeof(order->load))
               : OK;
}

int worker_lead(struct worker *worker, const struct order *order, struct reply *reply)
{
    struct order copy = *order;

    TRY(share_order(worker, &copy));
    worker_do(worker, order, reply);
    return OK;
}

int worker_follow(struct worker *worker)
{
    struct order order = { 0 };
    struct reply reply;

    do {
        TRY(share_order(worker, &order));
        worker_do(worker, &order, &reply);
    } while (order.kind != ORDER_QUIT && !reply.broken);
    return OK;
}
