/* Tests what ranks allocate, and what they do if there is too little memory; two ranks, started by
 * mpirun. */
#include "check.h"

#include "account.h"
#include "exec.h"
#include "judge.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"
#include "worker.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 128, MIB = 1 << 20 };

static struct world *world;

static struct moe_shape layer_of(uint32_t ranks, uint32_t tokens, uint32_t width)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 8 * ranks,
                               .top_k = 2,
                               .tokens = tokens,
                               .model_dim = width,
                               .hidden_dim = 2 * width,
                               .ranks = ranks,
                               .ranks_per_node = ranks,
                               .dtype = MOE_F32,
                               .pass = MOE_TRAIN };
}

static struct reply set_layer(struct worker *worker, const struct moe_shape *shape, int64_t limit)
{
    struct order order = { .kind = ORDER_LAYER, .shape = *shape, .memory_limit_bytes = limit };
    struct reply reply;

    worker_do(worker, &order, &reply);
    return reply;
}

static struct reply step(struct worker *worker, const struct moe_plan *plan, uint64_t capacity)
{
    struct order order = { .kind = ORDER_STEP, .plan = *plan, .capacity = capacity };
    struct reply reply;

    worker_do(worker, &order, &reply);
    return reply;
}

/* ---- a modelled cluster, whose memory ends where it says */

static void what_fits_alone_runs_whatever_is_kept(void)
{
    struct account_machine machine = { .checks = false };
    struct moe_plan plans[PLANS_MAX];
    int refused = 0, run = 0;
    struct moe_shape shape;
    struct worker *worker;
    struct cluster c;
    size_t count;
    int64_t limit;

    CHECK(!cluster_read("tests/data/clusters/ndm-a100-2.txt", &c));
    shape = layer_of(c.ranks, 4096, 512);
    c.memory_gib = 2;
    limit = (int64_t)(c.memory_gib * 0x1p30);
    count = plan_list(&shape, plans, PLANS_MAX);
    CHECK(!worker_open_model(&c, 0, NULL, 1, &worker));
    CHECK(set_layer(worker, &shape, limit).state == TRIAL_OK);
    for (uint64_t i = 0; i < 300; i++) {
        const struct moe_plan *plan = &plans[random_below(1, i, (uint32_t)count)];
        uint64_t capacity = 64 + 16 * random_below(2, i, 64);
        bool fits = account_alone(&shape, &machine, plan, capacity) <= limit;

        CHECK(step(worker, plan, capacity).state == (fits ? TRIAL_OK : TRIAL_NO_MEMORY));
        run += fits;
        refused += !fits;
    }
    CHECK(run > 50 && refused > 50);
    worker_close(worker);
}

/* ---- experts without padding */

/* One more expert per token: hidden rows for as many choices, and their indices. */
static void a_sparse_plan_grows_by_hidden_rows_alone(void)
{
    static const size_t kept[] = { [MOE_RELU] = 1, [MOE_GELU] = 2, [MOE_SWIGLU] = 3 };
    const size_t indices = 2 * sizeof(int64_t) + sizeof(int32_t) + 2 * sizeof(float);
    struct moe_shape shape = layer_of(2, 512, 128);
    struct topology topology = { 0, 2, 2 };
    struct moe_plan plan = plan_default(NULL);

    plan.r = 0;
    plan.e = MOE_SPARSE;
    for (shape.activation = 0; shape.activation <= MOE_SWIGLU; shape.activation++)
        for (shape.dtype = 0; shape.dtype <= MOE_BF16; shape.dtype++) {
            size_t row = shape.hidden_dim * dtype_bytes(shape.dtype) * kept[shape.activation];
            size_t before = 0, bytes;
            struct parts parts;

            for (shape.top_k = 1; shape.top_k <= shape.experts; shape.top_k++, before = bytes) {
                CHECK(!parts_open(&shape, NULL, &parts));
                bytes = exec_bytes(&shape, &parts, &plan, &topology,
                                   &(struct capacities){ shape.tokens, NULL }, shape.dtype, 0);
                parts_close(&parts);
                CHECK(!before || (double)(bytes - before) <=
                                     shape.tokens * (1.1 * (double)row + (double)indices));
            }
        }
}

/* ---- ranks of this machine */

static int64_t status_bytes(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    long long kib = 0;
    char line[256];

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), ": %lld", &kib);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* The most that this process holds from here on is what it holds now. */
static int64_t forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    CHECK(file != NULL);
    if (file) {
        fputs("5", file);
        fclose(file);
    }
    return status_bytes("VmRSS");
}

static struct worker *open_worker(const char *fault)
{
    struct worker *worker = NULL;

    setenv("MOETUNE_FAULT", fault, 1);
    CHECK(!worker_open(world, "host", &worker));
    return worker;
}

static const struct account_machine host = { .on_host = true, .checks = true };

static int64_t most_alone(const struct moe_shape *shape, const struct moe_plan *plans, size_t count,
                          uint64_t capacity)
{
    int64_t most = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t bytes = account_alone(shape, &host, &plans[i], capacity);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* With sanitizers memory is several times as large. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLACK_MIB = 1 << 20 };
#else
enum { SLACK_MIB = 8 }; /* of libraries, stacks and MPI's buffers */
#endif

/* Layers that a check by the whole reference, or a second copy to fill one, would double. */
static void ranks_never_hold_more_than_they_may(void)
{
    struct worker *worker = open_worker("");
    struct moe_shape shape = layer_of(2, 64, 32);
    struct moe_plan plans[PLANS_MAX], default_plan = plan_default(NULL);
    int64_t limit, before;
    size_t count;

    CHECK(set_layer(worker, &shape, INT64_MAX).state == TRIAL_OK);
    CHECK(step(worker, &default_plan, 16).state == TRIAL_OK);
    for (uint32_t dtype = MOE_F32; dtype <= MOE_BF16; dtype += MOE_BF16 - MOE_F32) {
        shape = layer_of(2, 32, 192);
        shape.dtype = dtype;
        count = plan_list(&shape, plans, PLANS_MAX);
        limit = most_alone(&shape, plans, count, 12);
        before = forget_peak();
        CHECK(set_layer(worker, &shape, limit).state == TRIAL_OK);
        for (uint64_t capacity = 4; capacity <= 12; capacity += 8)
            for (size_t i = 0; i < count; i++)
                CHECK(step(worker, &plans[i], capacity).state == TRIAL_OK);
        CHECK(status_bytes("VmHWM") - before < limit + (int64_t)SLACK_MIB * MIB);
    }
    worker_close(worker);
}

static bool is_refused(struct reply reply, const char *words)
{
    return reply.state == TRIAL_NO_MEMORY && !reply.broken && strstr(reply.message, words);
}

static void what_is_not_there_is_not_touched(void)
{
    struct worker *worker = open_worker("");
    struct moe_shape shape = layer_of(2, 64, 512), vast = layer_of(2, 64, 1 << 20);
    struct moe_plan default_plan = plan_default(NULL);
    int64_t layer = account_layer(&shape, &host), before = forget_peak();

    CHECK(layer > 64 * MIB);
    CHECK(is_refused(set_layer(worker, &shape, layer - 1), "the layer needs"));
    CHECK(is_refused(set_layer(worker, &vast, INT64_MAX), "are free"));
    CHECK(status_bytes("VmHWM") - before < 4 * MIB);
    shape = layer_of(2, 64, 32);
    layer = account_alone(&shape, &host, &default_plan, 16);
    CHECK(set_layer(worker, &shape, layer - 1).state == TRIAL_OK);
    CHECK(is_refused(step(worker, &default_plan, 16), "this plan needs"));
    CHECK(set_layer(worker, &shape, layer).state == TRIAL_OK);
    CHECK(step(worker, &default_plan, 16).state == TRIAL_OK);
    worker_close(worker);
}

/* Allocations of a rank: two of the layer, then a plan, two of the layer to check, its plan. */
static void where_memory_is_short_what_is_kept_is_closed(void)
{
    struct moe_plan first = plan_default(NULL), second = { .r = 0, .d = 1 };
    struct moe_shape shape = layer_of(2, 64, 32);
    struct worker *worker = open_worker("alloc:7@1");

    CHECK(set_layer(worker, &shape, INT64_MAX).state == TRIAL_OK);
    CHECK(step(worker, &first, 16).state == TRIAL_OK);
    CHECK(step(worker, &second, 16).state == TRIAL_OK);
    CHECK(step(worker, &first, 16).warm_steps == 3); /* it was closed */
    worker_close(worker);

    worker = open_worker("alloc:7@1,alloc:8@1");
    CHECK(set_layer(worker, &shape, INT64_MAX).state == TRIAL_OK);
    CHECK(step(worker, &first, 16).state == TRIAL_OK);
    CHECK(is_refused(step(worker, &second, 16), "injected"));
    CHECK(step(worker, &first, 16).state == TRIAL_OK);
    CHECK(step(worker, &second, 16).state == TRIAL_OK);
    worker_close(worker);
}

static void a_layer_too_large_for_the_reference_is_checked_cut_down(void)
{
    struct moe_shape small = layer_of(2, 64, 32), large = layer_of(2, 64, 512);
    struct moe_shape many = small, cut = reference_shape(small);

    CHECK(!memcmp(&small, &cut, sizeof(small)));
    cut = reference_shape(large);
    CHECK(cut.model_dim <= 48 && cut.hidden_dim <= 48 && cut.experts == large.experts);
    CHECK(reference_bytes(&cut) < 4 * MIB && reference_bytes(&large) > 64 * MIB);
    many.experts = 1 << 12;
    cut = reference_shape(many);
    CHECK(cut.model_dim <= 48 && cut.experts == many.experts);
    many.layout = MOE_LAYOUT_HIDDEN;
    many.ranks = 3;
    many.hidden_dim = 1000; /* which three ranks cut unevenly, and the reference's, too */
    cut = reference_shape(many);
    CHECK(cut.hidden_dim < 100 && cut.hidden_dim % 3 == 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_fits_alone_runs_whatever_is_kept),
        TEST(a_sparse_plan_grows_by_hidden_rows_alone),
        TEST(ranks_never_hold_more_than_they_may),
        TEST(what_is_not_there_is_not_touched),
        TEST(where_memory_is_short_what_is_kept_is_closed),
        TEST(a_layer_too_large_for_the_reference_is_checked_cut_down),
    };
    int failed;

    if (world_open(0, 0, &world))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    world_close(world);
    return failed;
}
