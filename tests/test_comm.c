/* All-to-alls, gathers and agreement on real ranks; started by mpirun. */
#include "check.h"

#include "a2a.h"
#include "engine.h"
#include "gather.h"
#include "random.h"
#include "status.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct world *world;
    struct engine engine;
    int rank, ranks;
} f;

/* Element `at` of the block that `from` sends `to`. */
static uint16_t element(int from, int to, uint64_t at, uint64_t salt)
{
    return (uint16_t)random_bits(salt, ((uint64_t)from << 40) + ((uint64_t)to << 32) + at);
}

static void run_a2a(uint32_t a, uint64_t block, uint64_t salt)
{
    uint64_t all = block * (uint64_t)f.ranks;
    uint16_t *send = malloc(all * 2 + 2), *recv = malloc(all * 2 + 2);
    void *scratch = malloc(a2a_scratch(a, &f.engine.wire->topology, block) * 2 + 2);
    struct a2a_call call = { f.engine.wire, MOE_BF16, block, send, recv, scratch };
    struct a2a *a2a = NULL;
    int rc;

    for (int q = 0; q < f.ranks; q++)
        for (uint64_t i = 0; i < block; i++)
            send[(uint64_t)q * block + i] = element(f.rank, q, i, salt);
    memset(recv, 0xee, all * 2);
    rc = a2a_open(a, &call, &a2a);
    CHECK(!rc);
    for (int twice = 0; twice < 2 && !rc; twice++)
        CHECK(!a2a_run(a2a, f.engine.comm));
    CHECK(!engine_sync(&f.engine));
    for (int q = 0; q < f.ranks; q++)
        for (uint64_t i = 0; i < block; i++) {
            CHECK(send[(uint64_t)q * block + i] == element(f.rank, q, i, salt));
            CHECK(recv[(uint64_t)q * block + i] == element(q, f.rank, i, salt));
        }
    a2a_close(a2a);
    free(send), free(recv), free(scratch);
}

static void every_algorithm_delivers_every_block(void)
{
    static const uint64_t blocks[] = { 0, 1, 3, 512, 5000, 70000 };

    for (int m = 1; m <= f.ranks; m++) {
        if (f.ranks % m)
            continue;
        f.engine.wire->topology.ranks_per_node = m;
        for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
            run_a2a(MOE_A2A_LINEAR, blocks[i], i);
            if (topology_two_levels(&f.engine.wire->topology))
                run_a2a(MOE_A2A_2DH, blocks[i], i);
        }
    }
}

static void two_levels_do_not_apply_where_there_is_one(void)
{
    struct a2a_call call = { .wire = f.engine.wire, .dtype = MOE_F32, .block = 1 };
    struct a2a *a2a = NULL;

    f.engine.wire->topology.ranks_per_node = f.ranks;
    CHECK(a2a_open(MOE_A2A_2DH, &call, &a2a) == UNSUPPORTED && !a2a);
    f.engine.wire->topology.ranks_per_node = 0;
    CHECK(a2a_open(MOE_A2A_2DH, &call, &a2a) == UNSUPPORTED && !a2a);
}

static void a_librarys_all_to_all_applies_where_there_is_one(void)
{
    struct a2a_call call = { .wire = f.engine.wire, .dtype = MOE_F32, .block = 1 };
    struct a2a *a2a = NULL;
    int rc = a2a_open(MOE_A2A_NCCL, &call, &a2a);

    CHECK(rc == (f.engine.wire->ops->all_to_all ? OK : UNSUPPORTED) && !a2a == (rc != OK));
    a2a_close(a2a);
}

/* Two tensors in one batch, in groups of every size that divides. */
static void gather_and_scatter_work_inside_groups(void)
{
    for (int g = 1; g <= f.ranks; g++) {
        struct group group = { f.rank / g * g, g };
        struct batch gather = { 0 }, scatter = { 0 };
        int32_t mine[2] = { f.rank, 100 + f.rank }, whole[16] = { 0 }, parts[16] = { 0 };

        if (f.ranks % g)
            continue;
        CHECK(!gather_add(&gather, f.engine.wire, group, &mine[0], &whole[0], 4));
        CHECK(!gather_add(&gather, f.engine.wire, group, &mine[1], &whole[8], 4));
        CHECK(!wire_reserve(f.engine.wire, &gather) &&
              !wire_exchange(f.engine.wire, f.engine.comm, &gather));
        CHECK(!engine_sync(&f.engine));
        for (int i = 0; i < g; i++) {
            CHECK(whole[i] == group.first + i && whole[8 + i] == 100 + group.first + i);
            whole[i] = 1000 * f.rank + i;
        }
        CHECK(!scatter_add(&scatter, f.engine.wire, group, whole, parts, 4));
        CHECK(!wire_reserve(f.engine.wire, &scatter) &&
              !wire_exchange(f.engine.wire, f.engine.comm, &scatter));
        CHECK(!engine_sync(&f.engine));
        for (int i = 0; i < g; i++)
            CHECK(parts[i] == 1000 * (group.first + i) + f.rank - group.first);
        batch_free(&gather);
        batch_free(&scatter);
    }
}

static void what_leaves_the_rank_is_counted(void)
{
    uint64_t before = f.engine.wire->sent_bytes, messages = f.engine.wire->messages;

    f.engine.wire->topology.ranks_per_node = f.ranks;
    run_a2a(MOE_A2A_LINEAR, 512, 1);
    CHECK(f.engine.wire->sent_bytes - before == 2u * 1024 * (uint64_t)(f.ranks - 1));
    CHECK(f.engine.wire->messages - messages == 2u * (uint64_t)(f.ranks - 1));
}

static void ranks_settle_on_the_worst_status(void)
{
    int last = f.ranks - 1;

    CHECK(world_settle(f.world, OK) == OK);
    CHECK(world_settle(f.world, f.rank == last ? UNSUPPORTED : OK) == UNSUPPORTED);
    CHECK(world_settle(f.world, f.rank == last ? ERR_NOMEM : OK) == ERR_NOMEM);
    CHECK(world_settle(f.world, f.rank == 0 ? ERR_NOMEM : UNSUPPORTED) == ERR_NOMEM);
    CHECK(world_settle(f.world, f.rank == 0 ? ERR_WRONG : ERR_NOMEM) == ERR_WRONG);
}

static void numbers_are_agreed(void)
{
    int64_t values[2] = { f.rank, -f.rank }, sum = 1;
    char word[8] = "";
    int all[16];

    CHECK(!world_max(f.world, values, 2) && values[0] == f.ranks - 1 && values[1] == 0);
    CHECK(!world_sum(f.world, &sum, 1) && sum == f.ranks);
    if (f.rank == 0)
        strcpy(word, "plan");
    CHECK(!world_broadcast(f.world, word, sizeof(word)) && !strcmp(word, "plan"));
    CHECK(!world_gather(f.world, &f.rank, all, sizeof(*all)));
    for (int i = 0; i < f.ranks; i++)
        CHECK(all[i] == i);
}

/* Last: it ends the wire.  One rank stays away from an exchange; nobody may wait for it. */
static void an_alarm_ends_every_wait(void)
{
    int32_t mine = f.rank, whole[16];
    struct batch batch = { 0 };

    if (f.ranks == 1)
        return;
    CHECK(!gather_add(&batch, f.engine.wire, (struct group){ 0, f.ranks }, &mine, whole, 4));
    CHECK(!wire_reserve(f.engine.wire, &batch));
    if (f.rank == 0)
        world_alarm(f.world);
    else
        CHECK(!wire_exchange(f.engine.wire, f.engine.comm, &batch));
    CHECK(engine_sync(&f.engine) == (f.rank == 0 ? OK : ERR_WIRE));
    CHECK(world_settle(f.world, f.rank == 0 ? ERR_NOMEM : ERR_WIRE) == ERR_WIRE);
    batch_free(&batch);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_algorithm_delivers_every_block),
        TEST(two_levels_do_not_apply_where_there_is_one),
        TEST(a_librarys_all_to_all_applies_where_there_is_one),
        TEST(gather_and_scatter_work_inside_groups),
        TEST(what_leaves_the_rank_is_counted),
        TEST(ranks_settle_on_the_worst_status),
        TEST(numbers_are_agreed),
        TEST(an_alarm_ends_every_wait),
    };
    int64_t failed;

    if (world_open(0, &f.world) || engine_open(f.world, "host", NULL, &f.engine))
        return 1;
    f.rank = world_topology(f.world)->rank;
    f.ranks = world_topology(f.world)->ranks;
    if (f.rank && !freopen("/dev/null", "w", stdout))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    world_max(f.world, &failed, 1);
    engine_close(&f.engine);
    world_close(f.world);
    return failed ? 1 : 0;
}
