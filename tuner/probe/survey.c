/* The list of what a probe times: kernels, links and steps, in which sizes, and how long each is
 * worth doing. */
#include "survey.h"

#include "plan.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_BYTES = 32 << 20, /* past a processor's last cache, with as much to copy to */
    COPY_CACHES = 4,       /* of a device that says how large its cache is */
    COPY_BYTES_LEAST = 8 << 20,
    TRAFFIC_BYTES = 8 << 20, /* of one exchange, per rank and direction */
    LAUNCHES = 512,          /* one costs a fraction of what an empty step varies by */
    MANY = 4,                /* messages per partner, to tell latency from messages */
    SPEEDS = 8,              /* halves of products per round for the ranks' own speeds */
    SPEED_ROWS = 64,         /* about a millisecond: shorter than a slice of the scheduler */
    SHORT_BYTES = 16384,
    TOO_LONG_NS = 40000000, /* longer messages are not tried any more */
    OVERLAP_BYTES = 256 << 10,
    OVERLAP_ROWS = 64,
    OVERLAP_NS = 4000000, /* of communication */
    OVERLAP_EXCHANGES = 16,
    OVERLAP_PRODUCTS = 400 /* two tasks each, of the 1,024 that a stream takes */
};

static const size_t message_bytes[] = { 8, 512, 4096, 16384, 65536, 262144, 1048576, 4194304 };
enum { MESSAGES = sizeof(message_bytes) / sizeof(message_bytes[0]) };

static const uint64_t product_rows[PROBE_PRODUCTS] = { 1, 4, 16, 64, 256, PRODUCT_ROWS };

/* ---- who is where */

static void find_nodes(const struct topology *topology, struct probe *probe)
{
    for (int q = 0; q < probe->rank_count; q++) {
        int same = 0;

        while (strcmp(probe->ranks[same].host, probe->ranks[q].host) != 0)
            same++;
        probe->ranks[q].node = topology->ranks_per_node ? q / topology->ranks_per_node : same;
    }
}

static int gather_hosts(struct survey *s)
{
    struct probe *probe = s->probe;
    size_t ranks = (size_t)probe->rank_count;
    char mine[PROBE_HOST_BYTES] = "unknown", *all = calloc(ranks, sizeof(mine));
    int rc = world_settle(s->world, all ? OK : fail(ERR_NOMEM, "%zu host names", ranks));

    gethostname(mine, sizeof(mine) - 1);
    if (!rc)
        rc = world_gather(s->world, mine, all, sizeof(mine));
    for (size_t q = 0; q < ranks && !rc; q++)
        memcpy(probe->ranks[q].host, all + q * sizeof(mine), sizeof(mine));
    free(all);
    return rc;
}

static int find_partners(struct survey *s)
{
    const struct topology *t = world_topology(s->world);
    int *node = calloc((size_t)t->ranks, sizeof(*node));
    int64_t most[LINK_LEVELS];
    int rc = world_settle(s->world, node ? OK : fail(ERR_NOMEM, "%d ranks", t->ranks));

    for (int q = 0; q < t->ranks && !rc; q++)
        node[q] = s->probe->ranks[q].node;
    for (int level = 0; level < LINK_LEVELS && !rc; level++) {
        s->partner_count[level] =
            partners_find(node, t->ranks, t->rank, (enum link_level)level, s->partners[level]);
        most[level] = s->partner_count[level];
    }
    free(node);
    TRY(rc);
    TRY(world_max(s->world, most, LINK_LEVELS));
    for (int level = 0; level < LINK_LEVELS; level++)
        s->most_partners[level] = (int)most[level];
    return OK;
}

/* ---- what is measured */

static int add_kernels(struct survey *s)
{
    struct subject *x;

    TRY(timetable_add(&s->table, SUBJECT_EMPTY, &x));
    TRY(timetable_add(&s->table, SUBJECT_LAUNCH, &x));
    x->chore.launches = x->repeats = LAUNCHES;
    TRY(timetable_add(&s->table, SUBJECT_COPY, &x));
    x->chore.copies = 1;
    for (int i = 0; i < PROBE_PRODUCTS; i++) {
        TRY(timetable_add(&s->table, SUBJECT_PRODUCT, &x));
        x->chore.products = 1;
        x->chore.rows = product_rows[i];
        TRY(timetable_lengthen(&s->table, x));
    }
    for (int i = 0; i < SPEEDS; i++) {
        TRY(timetable_add(&s->table, SUBJECT_SPEED, &x));
        x->chore.halves = 1;
        x->chore.rows = SPEED_ROWS;
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
    return world_settle(s->world,
                        workbench_add(&s->bench, s->partners[level], s->partner_count[level],
                                      copies, bytes, &(*out)->chore));
}

static bool fits(const struct survey *s, enum link_level level, int copies, size_t bytes)
{
    size_t room = s->bench.bytes < TRAFFIC_BYTES ? s->bench.bytes : TRAFFIC_BYTES;

    return (size_t)copies * (size_t)s->most_partners[level] * bytes <= room;
}

static int add_size(struct survey *s, enum link_level level, int copies, size_t bytes, int64_t *ns)
{
    struct subject *x;

    TRY(add_exchange(s, SUBJECT_EXCHANGE, level, copies, bytes, &x));
    TRY(timetable_try(&s->table, x, ns));
    return *ns < TOO_LONG_NS ? timetable_lengthen(&s->table, x) : OK;
}

/* What a single try says of short messages on a busy machine may be far off: they are always
 * measured, or the fit would have too little to go by. */
static bool is_too_long(size_t bytes, int64_t ns)
{
    return bytes > SHORT_BYTES && ns >= TOO_LONG_NS;
}

/* From small to large, so that a slow link is found out before it is asked for much. */
static int add_sizes(struct survey *s, enum link_level level)
{
    int64_t ns = 0, many_ns;

    for (int i = 0; i < MESSAGES; i++) {
        size_t bytes = message_bytes[i];

        if (!fits(s, level, 1, bytes) || is_too_long(bytes, ns))
            break;
        TRY(add_size(s, level, 1, bytes, &ns));
        if (fits(s, level, MANY, bytes) && !is_too_long(bytes, MANY * ns))
            TRY(add_size(s, level, MANY, bytes, &many_ns));
    }
    return OK;
}

static size_t overlap_bytes(const struct survey *s, enum link_level level)
{
    const struct subject *x = NULL;
    double largest = 0;

    while ((x = timetable_find(&s->table, SUBJECT_EXCHANGE, level, x)))
        if (x->bytes <= OVERLAP_BYTES && x->bytes > largest)
            largest = x->bytes;
    return (size_t)largest;
}

static int at_most(int64_t value, int most)
{
    return value < 1 ? 1 : (value > most ? most : (int)value);
}

/* Compute is half as long again as communication: it is then slowed for as long as that lasts. */
static int add_overlap(struct survey *s, enum link_level level)
{
    struct subject *comm, *compute, *both;
    size_t bytes = overlap_bytes(s, level);
    int64_t exchange_ns, product_ns;

    TRY(add_exchange(s, SUBJECT_COMM, level, 1, bytes, &comm));
    TRY(timetable_try(&s->table, comm, &exchange_ns));
    comm->chore.exchanges = at_most(OVERLAP_NS / (exchange_ns + 1), OVERLAP_EXCHANGES);
    TRY(timetable_add(&s->table, SUBJECT_COMPUTE, &compute));
    compute->level = level;
    compute->chore.products = 1;
    compute->chore.rows = OVERLAP_ROWS;
    TRY(timetable_try(&s->table, compute, &product_ns));
    compute->chore.products =
        at_most(comm->chore.exchanges * exchange_ns * 3 / 2 / (product_ns + 1), OVERLAP_PRODUCTS);
    TRY(add_exchange(s, SUBJECT_BOTH, level, 1, bytes, &both));
    both->chore.exchanges = comm->chore.exchanges;
    both->chore.products = compute->chore.products;
    both->chore.rows = OVERLAP_ROWS;
    return OK;
}

static int add_links(struct survey *s)
{
    for (int level = 0; level < LINK_LEVELS; level++) {
        if (!s->most_partners[level])
            continue;
        TRY(add_sizes(s, (enum link_level)level));
        TRY(add_overlap(s, (enum link_level)level));
    }
    return OK;
}

/* A small layer with an expert per rank, cut in two chunks: kernels of every kind, exchanges, and
 * some of both at a time. */
static void choose_layer(const struct topology *t, struct probe *probe)
{
    probe->shape = (struct moe_shape){ .struct_size = sizeof(probe->shape),
                                       .experts = (uint32_t)t->ranks,
                                       .top_k = t->ranks > 1 ? 2 : 1,
                                       .tokens = 256,
                                       .model_dim = 128,
                                       .hidden_dim = 256,
                                       .ranks = (uint32_t)t->ranks,
                                       .ranks_per_node = (uint32_t)t->ranks_per_node,
                                       .dtype = MOE_F32,
                                       .pass = MOE_TRAIN };
    probe->plan = plan_default(&probe->shape);
    probe->plan.d = 2;
}

static int open_layer(struct survey *s, uint64_t seed)
{
    struct data data = { .seed = seed };

    choose_layer(world_topology(s->world), s->probe);
    data.shape = s->probe->shape;
    TRY(rig_open(s->world, s->engine, &data, NULL, 1, &s->rig));
    s->probe->capacity = s->rig->capacity;
    TRY(runner_open(s->rig, &s->probe->plan, &s->runner));
    return runner_warm(&s->runner, 2);
}

static int add_steps(struct survey *s, uint64_t seed)
{
    struct subject *x;

    TRY(open_layer(s, seed));
    s->table.runner = &s->runner;
    for (int i = 0; i < SURVEY_STEPS; i++)
        TRY(timetable_add(&s->table, SUBJECT_STEP, &x));
    return OK;
}

/* Past the last cache of every rank's device; less where ranks are many and memory is small. */
static int open_bench(struct survey *s)
{
    struct device *device = s->engine->device;
    /* Those beside this one may have devices of their own, but are few then. */
    int64_t free_each = device_free_bytes(device) / world_neighbours(s->world) / 4;
    int64_t agreed[2] = { -free_each, (int64_t)device->cache_bytes * COPY_CACHES };
    size_t bytes = COPY_BYTES;

    TRY(world_max(s->world, agreed, 2));
    bytes = (int64_t)bytes < agreed[1] ? (size_t)agreed[1] : bytes;
    while (bytes > COPY_BYTES_LEAST && (int64_t)workbench_bytes(bytes) > -agreed[0])
        bytes /= 2;
    TRY(world_settle(s->world, workbench_open(s->engine, bytes, &s->bench)));
    s->table.world = s->world;
    s->table.bench = &s->bench;
    return OK;
}

int survey_open(struct survey *s, uint64_t seed)
{
    TRY(gather_hosts(s));
    find_nodes(world_topology(s->world), s->probe);
    TRY(find_partners(s));
    TRY(open_bench(s));
    TRY(add_kernels(s));
    TRY(add_links(s));
    return add_steps(s, seed);
}

void survey_close(struct survey *s)
{
    runner_close(&s->runner);
    rig_close(s->rig);
    timetable_free(&s->table);
    workbench_close(&s->bench);
}
