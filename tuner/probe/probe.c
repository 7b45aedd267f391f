/* Measures kernels, exchanges and steps on the ranks, and turns the times into the model fields of
 * a cluster. */
#include "probe.h"

#include "allowance.h"
#include "host.h"
#include "plan.h"
#include "rank_speeds.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "timetable.h"
#include "worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- quotas: pauses of a busy thread for which its control group accounts */

enum {
    PAUSES_MAX = 512,
    PAUSE_NS = 100000, /* shorter pauses are ignored */
};

static int64_t thread_ran_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double quota_share_of(const struct quota_pause *pauses, size_t count)
{
    double shares[PAUSES_MAX];

    for (size_t i = 0; i + 1 < count; i++)
        shares[i] = (double)(pauses[i + 1].ran_ns - pauses[i].ran_ns) /
                    (double)(pauses[i + 1].end_ns - pauses[i].end_ns);
    return count > 1 ? median_of(shares, count - 1) : 1;
}

double quota_share(int64_t ns)
{
    struct quota_pause pauses[PAUSES_MAX];
    size_t count = 0;
    int64_t begin_ns = host_clock_ns(), last_ns = begin_ns, now_ns,
            throttled_ns = allowance_here().throttled_ns;

    while ((now_ns = host_clock_ns()) - begin_ns < ns && count < PAUSES_MAX) {
        bool paused = now_ns - last_ns > PAUSE_NS;
        int64_t throttled_now_ns = paused ? allowance_here().throttled_ns : throttled_ns;

        if (throttled_now_ns > throttled_ns)
            pauses[count++] = (struct quota_pause){ now_ns, thread_ran_ns() };
        throttled_ns = throttled_now_ns;
        last_ns = paused ? host_clock_ns() : now_ns;
    }
    return quota_share_of(pauses, count);
}

/* ---- partners: the ranks of a group form a ring.  A rank exchanges with neighbours on both sides,
 * or with the whole group if it is small. */

const char *const link_level_words[] = { "inside", "between", NULL };

/* The place of a rank on its node: how many ranks of the node come before it. */
static int place_on_node(const int *node, int rank)
{
    int place = 0;

    for (int q = 0; q < rank; q++)
        place += node[q] == node[rank];
    return place;
}

static bool in_group(const int *node, int rank, int place, enum link_level level, int other)
{
    return level == LINK_INSIDE ? node[other] == node[rank] : place_on_node(node, other) == place;
}

/* The member of rank's group that is `steps` members further in the ring. */
static int ring_member(const int *node, int ranks, int rank, int place, enum link_level level,
                       int steps)
{
    int q = rank;

    while (steps > 0) {
        q = (q + 1) % ranks;
        steps -= in_group(node, rank, place, level, q);
    }
    return q;
}

int partners_find(const int *node, int ranks, int rank, enum link_level level,
                  int partners[PARTNERS_MAX])
{
    int place = place_on_node(node, rank), group = 0, count = 0;

    for (int q = 0; q < ranks; q++)
        group += in_group(node, rank, place, level, q);
    for (int step = 1; step < group && group - 1 <= PARTNERS_MAX; step++)
        partners[count++] = ring_member(node, ranks, rank, place, level, step);
    for (int step = 1; step <= PARTNERS_MAX / 2 && group - 1 > PARTNERS_MAX; step++) {
        partners[count++] = ring_member(node, ranks, rank, place, level, step);
        partners[count++] = ring_member(node, ranks, rank, place, level, group - step);
    }
    return count;
}

/* ---- the survey: kernels, messages of every size, both at the same time, and steps of a small
 * layer
 */

enum { SURVEY_STEPS = 4 }; /* SUBJECT_STEPs: steps of the layer in one round */

/* The state of one probe_open(): what it measures with, and its timetable.  probe_open() frees it.
 */
struct survey {
    struct probe *probe; /* borrowed; results go there */
    struct world *world; /* borrowed, as is the engine */
    struct engine *engine;
    struct workbench bench;
    struct timetable table;
    struct rig *rig;
    struct runner runner;
    int partners[LINK_LEVELS][PARTNERS_MAX], partner_count[LINK_LEVELS];
    int most_partners[LINK_LEVELS]; /* of any rank; 0: no rank has this kind of link */
};

enum {
    COPY_BYTES = 32 << 20, /* larger than a processor's last cache, from and to alike */
    COPY_CACHES = 4,       /* caches, of a device whose cache size is known */
    COPY_BYTES_LEAST = 8 << 20,
    TRAFFIC_BYTES = 8 << 20, /* of one exchange, per rank and direction */
    LAUNCHES_IN_A_ROW = 512, /* a single one costs less than empty steps differ by */
    MANY_PER_PARTNER = 4,    /* messages, to tell latency from the cost of messages */
    SPEED_SUBJECTS = 8,      /* half products per round that show the ranks' own speeds */
    SHORT_BYTES = 16384,
    TOO_LONG_NS = 40000000, /* above this, longer messages are not tried */
    OVERLAP_BYTES = 256 << 10,
    OVERLAP_NS = 4000000, /* of communication */
    OVERLAP_EXCHANGES = 16,
    OVERLAP_PRODUCTS = 400 /* two tasks each, of the 1,024 that a stream takes */
};

static const size_t message_bytes[] = { 8, 512, 4096, 16384, 65536, 262144, 1048576, 4194304 };
enum { MESSAGE_SIZES = sizeof(message_bytes) / sizeof(message_bytes[0]) };

/* Half a product of 64 rows takes a core about 1 ms, less than a time slice of the scheduler. */
static const struct products products_on_cores = {
    MOE_F32, 512, 512, { 1, 4, 16, 64, 256, 512 }, 64
};

/* From a few rows per expert to a full batch; 1,024 rows fill a GPU. */
static const struct products products_on_gpu = { .rows = { 16, 128, 512, 2048, 4096, 8192 },
                                                 .beside = 1024 };

/* Finds each rank's host and node. */
static int find_nodes(struct survey *s)
{
    const struct topology *topology = world_topology(s->world);
    struct probe *probe = s->probe;
    size_t ranks = (size_t)probe->rank_count;
    char own_host[PROBE_HOST_BYTES] = "unknown", *hosts = calloc(ranks, sizeof(own_host));
    int rc = world_settle(s->world, hosts ? OK : fail(ERR_NOMEM, "%zu host names", ranks));

    gethostname(own_host, sizeof(own_host) - 1);
    if (!rc)
        rc = world_gather(s->world, own_host, hosts, sizeof(own_host));
    for (size_t q = 0; q < ranks && !rc; q++)
        memcpy(probe->ranks[q].host, hosts + q * sizeof(own_host), sizeof(own_host));
    free(hosts);
    for (int q = 0; q < probe->rank_count && !rc; q++) {
        int first_on_host = 0;

        while (strcmp(probe->ranks[first_on_host].host, probe->ranks[q].host) != 0)
            first_on_host++;
        probe->ranks[q].node =
            topology->ranks_per_node ? q / topology->ranks_per_node : first_on_host;
    }
    return rc;
}

static int find_partners(struct survey *s)
{
    const struct topology *t = world_topology(s->world);
    int *node = calloc((size_t)t->ranks, sizeof(*node));
    int64_t most_partners[LINK_LEVELS];
    int rc = world_settle(s->world, node ? OK : fail(ERR_NOMEM, "%d ranks", t->ranks));

    for (int q = 0; q < t->ranks && !rc; q++)
        node[q] = s->probe->ranks[q].node;
    for (int level = 0; level < LINK_LEVELS && !rc; level++) {
        s->partner_count[level] =
            partners_find(node, t->ranks, t->rank, (enum link_level)level, s->partners[level]);
        most_partners[level] = s->partner_count[level];
    }
    free(node);
    TRY(rc);
    TRY(world_max(s->world, most_partners, LINK_LEVELS));
    for (int level = 0; level < LINK_LEVELS; level++)
        s->most_partners[level] = (int)most_partners[level];
    return OK;
}

static int add_kernels(struct survey *s)
{
    struct subject *subject;

    TRY(timetable_add(&s->table, SUBJECT_EMPTY, &subject));
    TRY(timetable_add(&s->table, SUBJECT_LAUNCH, &subject));
    subject->chore.launches = subject->repeats = LAUNCHES_IN_A_ROW;
    TRY(timetable_add(&s->table, SUBJECT_COPY, &subject));
    subject->chore.copies = 1;
    for (int i = 0; i < PROBE_PRODUCTS; i++) {
        TRY(timetable_add(&s->table, SUBJECT_PRODUCT, &subject));
        subject->chore.products = 1;
        subject->chore.rows = s->probe->products.rows[i];
        TRY(timetable_choose_repeats(&s->table, subject));
    }
    for (int i = 0; i < SPEED_SUBJECTS; i++) {
        TRY(timetable_add(&s->table, SUBJECT_SPEED, &subject));
        subject->chore.halves = 1;
        subject->chore.rows = s->probe->products.beside;
    }
    return OK;
}

static int add_exchange(struct survey *s, enum subject_kind kind, enum link_level level, int copies,
                        size_t bytes, struct subject **out)
{
    TRY(timetable_add(&s->table, kind, out));
    (*out)->level = level;
    (*out)->messages = copies * s->most_partners[level];
    (*out)->bytes = (double)bytes;
    (*out)->chore.exchanges = 1;
    return world_settle(s->world, workbench_add_messages(&s->bench, s->partners[level],
                                                         s->partner_count[level], copies, bytes,
                                                         &(*out)->chore));
}

static bool fits_traffic(const struct survey *s, enum link_level level, int copies, size_t bytes)
{
    size_t limit = s->bench.bytes < TRAFFIC_BYTES ? s->bench.bytes : TRAFFIC_BYTES;

    return (size_t)copies * (size_t)s->most_partners[level] * bytes <= limit;
}

static int add_exchange_size(struct survey *s, enum link_level level, int copies, size_t bytes,
                             int64_t *ns)
{
    struct subject *subject;

    TRY(add_exchange(s, SUBJECT_EXCHANGE, level, copies, bytes, &subject));
    TRY(timetable_time_twice(&s->table, subject, ns));
    return *ns < TOO_LONG_NS ? timetable_choose_repeats(&s->table, subject) : OK;
}

/* A single time on a busy machine may be far off.  So short messages are always measured; otherwise
 * the fit could have too few samples. */
static bool is_too_long(size_t bytes, int64_t ns)
{
    return bytes > SHORT_BYTES && ns >= TOO_LONG_NS;
}

/* Adds exchanges from small to large messages, so that a slow link shows before it must move much.
 */
static int add_exchange_sizes(struct survey *s, enum link_level level)
{
    int64_t ns = 0, many_ns;

    for (int i = 0; i < MESSAGE_SIZES; i++) {
        size_t bytes = message_bytes[i];

        if (!fits_traffic(s, level, 1, bytes) || is_too_long(bytes, ns))
            break;
        TRY(add_exchange_size(s, level, 1, bytes, &ns));
        if (fits_traffic(s, level, MANY_PER_PARTNER, bytes) &&
            !is_too_long(bytes, MANY_PER_PARTNER * ns))
            TRY(add_exchange_size(s, level, MANY_PER_PARTNER, bytes, &many_ns));
    }
    return OK;
}

static int clamp_count(int64_t value, int most)
{
    return value < 1 ? 1 : (value > most ? most : (int)value);
}

/* Adds communication, compute, and both at the same time.  Compute takes 1.5 times as long as
 * communication, so communication slows it down during its whole time. */
static int add_overlap(struct survey *s, enum link_level level)
{
    struct subject *comm, *compute, *both;
    const struct subject *exchange = NULL;
    int64_t exchange_ns, product_ns;
    size_t bytes = 0; /* the largest message that exchanges tried, up to a limit */

    while ((exchange = timetable_find(&s->table, SUBJECT_EXCHANGE, level, exchange)))
        if (exchange->bytes <= OVERLAP_BYTES && exchange->bytes > (double)bytes)
            bytes = (size_t)exchange->bytes;

    TRY(add_exchange(s, SUBJECT_COMM, level, 1, bytes, &comm));
    TRY(timetable_time_twice(&s->table, comm, &exchange_ns));
    comm->chore.exchanges = clamp_count(OVERLAP_NS / (exchange_ns + 1), OVERLAP_EXCHANGES);
    TRY(timetable_add(&s->table, SUBJECT_COMPUTE, &compute));
    compute->level = level;
    compute->chore.products = 1;
    compute->chore.rows = s->probe->products.beside;
    TRY(timetable_time_twice(&s->table, compute, &product_ns));
    compute->chore.products = clamp_count(
        comm->chore.exchanges * exchange_ns * 3 / 2 / (product_ns + 1), OVERLAP_PRODUCTS);
    TRY(add_exchange(s, SUBJECT_BOTH, level, 1, bytes, &both));
    both->chore.exchanges = comm->chore.exchanges;
    both->chore.products = compute->chore.products;
    both->chore.rows = compute->chore.rows;
    return OK;
}

/* Adds steps of a small layer with one expert per rank and two chunks: kernels of every kind,
 * exchanges, and some of both at the same time. */
static int add_steps(struct survey *s, uint64_t seed)
{
    const struct topology *t = world_topology(s->world);
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = (uint32_t)t->ranks,
                               .top_k = t->ranks > 1 ? 2 : 1,
                               .tokens = 256,
                               .model_dim = 128,
                               .hidden_dim = 256,
                               .ranks = (uint32_t)t->ranks,
                               .ranks_per_node = (uint32_t)t->ranks_per_node,
                               .dtype = s->probe->products.dtype,
                               .pass = MOE_TRAIN };
    struct data data = { .shape = shape, .seed = seed };
    struct subject *subject;

    s->probe->shape = shape;
    s->probe->plan = plan_default(&shape);
    s->probe->plan.d = 2;
    TRY(rig_open(s->world, s->engine, &data, NULL, 1, &s->rig));
    s->probe->capacity = s->rig->capacity;
    TRY(runner_open(s->rig, &s->probe->plan, &s->runner));
    TRY(runner_warm(&s->runner, 2));
    s->table.runner = &s->runner;
    for (int i = 0; i < SURVEY_STEPS; i++)
        TRY(timetable_add(&s->table, SUBJECT_STEP, &subject));
    return OK;
}

/* Opens a workbench whose copies are larger than the last cache of every rank's device; smaller
 * where many ranks share a small memory. */
static int open_bench(struct survey *s, const struct products *gpu)
{
    struct device *device = s->engine->device;
    struct products *products = &s->probe->products;
    /* Ranks of this node count as sharing its memory; where each has its own GPU, they are few. */
    int64_t free_each = device_free_bytes(device) / world_neighbours(s->world) / 4;
    enum { NEGATIVE_FREE, LARGEST_CACHES, AGREED };
    int64_t agreed[AGREED] = { [NEGATIVE_FREE] = -free_each, /* its largest is the least memory */
                               [LARGEST_CACHES] = (int64_t)device->cache_bytes * COPY_CACHES };
    size_t bytes = COPY_BYTES;

    TRY(world_max(s->world, agreed, AGREED));
    bytes = (int64_t)bytes < agreed[LARGEST_CACHES] ? (size_t)agreed[LARGEST_CACHES] : bytes;
    *products = products_on_cores;
    if (device->asynchronous) {
        *products = products_on_gpu;
        products->dtype = gpu->dtype;
        products->model_dim = gpu->model_dim;
        products->hidden_dim = gpu->hidden_dim;
        snprintf(s->probe->model.gemm_dtype, sizeof(s->probe->model.gemm_dtype), "%s",
                 dtype_words[gpu->dtype]);
    }
    /* Reduce rows before copies: copies that fit into a cache would measure the cache. */
    for (uint64_t most_rows = products->rows[PROBE_PRODUCTS - 1];
         most_rows > products->beside &&
         (int64_t)workbench_bytes(bytes, products) > -agreed[NEGATIVE_FREE];) {
        most_rows /= 2;
        for (int i = 0; i < PROBE_PRODUCTS; i++)
            products->rows[i] = products->rows[i] < most_rows ? products->rows[i] : most_rows;
    }
    while (bytes > COPY_BYTES_LEAST &&
           (int64_t)workbench_bytes(bytes, products) > -agreed[NEGATIVE_FREE])
        bytes /= 2;
    TRY(world_settle(s->world, workbench_open(s->engine, bytes, products, &s->bench)));
    s->table.world = s->world;
    s->table.bench = &s->bench;
    return OK;
}

/* ---- results: the model fields from the times */

static void read_kernels(const struct survey *s, struct probe *p)
{
    const struct timetable *t = &s->table;
    const struct subject *copy = timetable_find(t, SUBJECT_COPY, LINK_INSIDE, NULL),
                         *product = NULL;
    double launch_ns = timetable_ns(t, timetable_find(t, SUBJECT_LAUNCH, LINK_INSIDE, NULL));

    launch_ns = isnan(launch_ns) ? 0 : launch_ns; /* too short to measure */
    p->model.launch_us = launch_ns * 1e-3;
    p->model.memory_gbs = workbench_copy_bytes(&s->bench) / (timetable_ns(t, copy) - launch_ns);
    for (int i = 0; (product = timetable_find(t, SUBJECT_PRODUCT, LINK_INSIDE, product)); i++)
        p->product_samples[i] = (struct product_sample){
            .rows = product->chore.rows,
            .smallest = fmin((double)product->chore.rows,
                             fmin(p->products.model_dim, p->products.hidden_dim)),
            .ops = products_ops(&p->products, product->chore.rows),
            .floor_ns = products_bytes(&p->products, product->chore.rows) / p->model.memory_gbs,
            .ns = timetable_ns(t, product) - 2 * launch_ns,
        };
    p->product = product_fit(p->product_samples, PROBE_PRODUCTS);
    p->model.gemm_gflops = p->product.gflops;
    p->model.gemm_half_rows = p->product.half_rows;
}

static void read_links(const struct survey *s, struct probe *p)
{
    const struct timetable *t = &s->table;
    const struct link_fit *inside = &p->links[LINK_INSIDE].fit;
    const struct link_fit *between = &p->links[LINK_BETWEEN].fit;

    for (enum link_level level = 0; level < LINK_LEVELS; level++) {
        const struct subject *exchange = NULL, *comm = timetable_find(t, SUBJECT_COMM, level, NULL);
        struct probe_link *link = &p->links[level];

        while ((exchange = timetable_find(t, SUBJECT_EXCHANGE, level, exchange)))
            link->samples[link->count++] =
                (struct link_sample){ exchange->messages, exchange->bytes,
                                      timetable_ns(t, exchange) };
        link->fit = link_fit(link->samples, link->count);
        link->slower =
            comm ? overlap_fit(timetable_ns(t, comm),
                               timetable_ns(t, timetable_find(t, SUBJECT_COMPUTE, level, NULL)),
                               timetable_ns(t, timetable_find(t, SUBJECT_BOTH, level, NULL)))
                 : NAN;
    }
    p->model.latency_inside_us = inside->latency_us;
    p->model.message_inside_us = inside->message_us;
    p->model.bandwidth_inside_gbs = inside->bandwidth_gbs;
    p->model.half_inside_kib = inside->half_kib;
    p->model.latency_between_us = between->latency_us;
    p->model.message_between_us = between->message_us;
    p->model.bandwidth_between_gbs = between->bandwidth_gbs;
    p->model.half_between_kib = between->half_kib;
    /* With several nodes, most communication of a step is between nodes. */
    p->model.overlap_slowdown =
        p->links[s->most_partners[LINK_BETWEEN] ? LINK_BETWEEN : LINK_INSIDE].slower;
}

static void read_steps(const struct survey *s, struct probe *p)
{
    int64_t ns[TIMETABLE_ROUNDS * SURVEY_STEPS];
    const struct subject *step = NULL;
    struct noise_fit noise;

    for (int i = 0; (step = timetable_find(&s->table, SUBJECT_STEP, LINK_INSIDE, step)); i++)
        for (uint32_t round = 0; round < s->table.rounds; round++)
            ns[round * SURVEY_STEPS + (uint32_t)i] = step->ns[round];
    noise = noise_fit(ns, s->table.rounds, SURVEY_STEPS);
    p->model.noise_percent = noise.noise;
    p->model.outlier_percent = noise.outliers;
    p->model.drift_percent = noise.drift;
    p->step_ns = (double)spread_of(ns, s->table.rounds * SURVEY_STEPS).median_ns;
}

/* Computes what half a product takes on this rank.  A GPU is the rank's own, so its median time
 * counts. A core may have a quota.  All ranks measure it at the same time, because ranks of one
 * control group share the quota. */
static int own_half_ns(const struct survey *s, double *ns)
{
    enum { PERIODS = 10, LEAST_NS = 300000000 };
    struct own_sample samples[OWN_SAMPLES];
    size_t count = timetable_own(&s->table, samples);
    int64_t watch_ns = PERIODS * allowance_here().period_ns, times[OWN_SAMPLES];

    if (s->engine->device->asynchronous) {
        for (size_t i = 0; i < count; i++)
            times[i] = samples[i].ns;
        *ns = count ? (double)spread_of(times, count).median_ns : NAN;
        return OK;
    }
    TRY(world_max(s->world, &watch_ns, 1));
    *ns = own_product_ns(samples, count,
                         !watch_ns ? 1 : quota_share(watch_ns > LEAST_NS ? watch_ns : LEAST_NS));
    return OK;
}

static int read_speeds(const struct survey *s, struct probe *p)
{
    size_t ranks = (size_t)p->rank_count;
    double own_ns, fastest_ns = NAN, *times = calloc(ranks, sizeof(*times));
    int rc = world_settle(s->world, times ? OK : fail(ERR_NOMEM, "%zu ranks", ranks));

    if (!rc)
        rc = own_half_ns(s, &own_ns);
    if (!rc)
        rc = world_gather(s->world, &own_ns, times, sizeof(own_ns));
    for (size_t q = 0; q < ranks && !rc; q++)
        fastest_ns = fmin(fastest_ns, times[q]);
    for (size_t q = 0; q < ranks && !rc; q++)
        p->ranks[q].speed = times[q] = fastest_ns / times[q];
    if (!rc)
        rank_speeds_format(times, ranks, p->model.rank_speeds_percent,
                           sizeof(p->model.rank_speeds_percent));
    free(times);
    return rc;
}

/* Rounds the model's numbers to four digits, which is more than the precision of the measurement. A
 * number that is illegal for a cluster becomes unknown. */
static void round_model(struct cluster *model)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *field = &cluster_fields[i];
        double *value = (double *)(void *)((char *)model + field->offset);
        char text[32];

        if (field->class != CLUSTER_MODEL || field->kind != FIELD_NUMBER)
            continue;
        snprintf(text, sizeof(text), "%.4g", *value);
        *value = *value >= field->least && *value <= field->most ? strtod(text, NULL) : NAN;
    }
}

/* Computes how long the model takes for one step without noise; NAN, silently, if the cluster
 * cannot be modelled. */
static double replay_ns(const struct cluster *cluster, const struct moe_shape *shape,
                        const struct moe_plan *plan, uint64_t capacity)
{
    struct cluster model = *cluster;
    struct order layer = { .kind = ORDER_LAYER, .shape = *shape, .memory_limit_bytes = INT64_MAX };
    struct order step = { .kind = ORDER_STEP, .plan = *plan, .capacity = capacity };
    struct reply reply = { .state = TRIAL_FAILED };
    struct worker *worker = NULL;
    bool modelled;

    snprintf(model.backend, sizeof(model.backend), "sim");
    cluster_remove_noise(&model);
    log_enable(false);
    modelled = !cluster_check_model(&model, "");
    log_enable(true);
    if (!modelled || worker_open_model(&model, 0, NULL, 0, &worker))
        return NAN;
    worker_do(worker, &layer, &reply);
    if (reply.state == TRIAL_OK)
        worker_do(worker, &step, &reply);
    worker_close(worker);
    return reply.state == TRIAL_OK ? (double)reply.ns : NAN;
}

/* Measures everything.  The survey already has probe, world and engine; probe_open() closes what
 * this opens, also after a failure. */
static int measure_everything(const struct probe_setup *setup, struct survey *s)
{
    struct probe *p = s->probe;

    TRY(find_nodes(s));
    TRY(find_partners(s));
    TRY(open_bench(s, &setup->gpu));
    TRY(add_kernels(s));
    for (enum link_level level = 0; level < LINK_LEVELS; level++)
        if (s->most_partners[level]) {
            TRY(add_exchange_sizes(s, level));
            TRY(add_overlap(s, level));
        }
    TRY(add_steps(s, setup->seed));
    TRY(timetable_run(&s->table, setup->seconds, PROBE_ROUNDS_LEAST, setup->seed, setup->tick,
                      setup->self));
    p->rounds = s->table.rounds;
    p->seconds = s->table.seconds;
    read_kernels(s, p);
    read_links(s, p);
    read_steps(s, p);
    TRY(read_speeds(s, p));
    round_model(&p->model);
    p->replay_ns = replay_ns(&p->model, &p->shape, &p->plan, p->capacity);
    return OK;
}

int probe_open(const struct probe_setup *setup, const struct cluster *cluster, struct probe **out)
{
    int ranks = world_topology(setup->world)->ranks;
    struct probe *probe = calloc(1, sizeof(*probe));
    struct survey *survey = calloc(1, sizeof(*survey));
    int rc;

    if (probe)
        probe->ranks = calloc((size_t)ranks, sizeof(*probe->ranks));
    rc = survey && probe && probe->ranks
             ? OK
             : fail(ERR_NOMEM, "what the probe finds of %d ranks", ranks);
    rc = world_settle(setup->world, rc);
    if (!rc) {
        probe->model = *cluster;
        probe->rank_count = ranks;
        probe->copies_beside = -1;
        survey->probe = probe;
        survey->world = setup->world;
        survey->engine = setup->engine;
        rc = measure_everything(setup, survey);
        runner_close(&survey->runner);
        rig_close(survey->rig);
        timetable_free(&survey->table);
        workbench_close(&survey->bench);
    }
    free(survey);
    if (rc) {
        probe_close(probe);
        return rc;
    }
    *out = probe;
    return OK;
}

void probe_close(struct probe *probe)
{
    if (probe)
        free(probe->ranks);
    free(probe);
}
