/* Tests all-to-alls, gathers and agreement on real ranks; started by mpirun. */
#include "check.h"

#include "a2a.h"
#include "engine.h"
#include "fault.h"
#include "gather.h"
#include "library_wire.h"
#include "random.h"
#include "status.h"
#include "world.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct world *world;
    struct engine engine; /* the one under test: one of the two */
    struct engine plain, library;
    int rank, ranks;
} f;

/* Element `at` of the block that `from` sends `to`. */
static uint16_t element(int from, int to, uint64_t at, uint64_t salt)
{
    return (uint16_t)random_bits(salt, ((uint64_t)from << 40) + ((uint64_t)to << 32) + at);
}

static void run_a2a(uint32_t a, bool naive, uint64_t block, uint64_t salt)
{
    uint64_t all = block * (uint64_t)f.ranks;
    uint16_t *send = malloc(all * 2 + 2), *recv = malloc(all * 2 + 2);
    void *scratch = malloc(a2a_scratch(a, &f.engine.wire->topology, block) * 2 + 2);
    struct a2a_call call = { f.engine.wire, MOE_BF16, block, send, recv, scratch, .naive = naive };
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

/* In racks of every size that there can be. */
static void in_racks(int m, uint64_t block, uint64_t salt)
{
    struct topology *t = &f.engine.wire->topology;

    for (int p = 2 * m; p < f.ranks; p += m) {
        t->ranks_per_rack = p;
        if (topology_three_levels(t))
            run_a2a(MOE_A2A_3DH, false, block, salt);
    }
    t->ranks_per_rack = 0;
}

static void every_algorithm_delivers_every_block(void)
{
    static const uint64_t blocks[] = { 0, 1, 3, 512, 5000, 70000 };

    for (int m = 1; m <= f.ranks; m++) {
        if (f.ranks % m)
            continue;
        f.engine.wire->topology.ranks_per_node = m;
        for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
            run_a2a(MOE_A2A_LINEAR, false, blocks[i], i);
            in_racks(m, blocks[i], i);
            if (!topology_two_levels(&f.engine.wire->topology))
                continue;
            run_a2a(MOE_A2A_2DH, false, blocks[i], i);
            run_a2a(MOE_A2A_2DH, true, blocks[i], i);
        }
    }
}

static void levels_do_not_apply_where_there_are_fewer(void)
{
    struct a2a_call call = { .wire = f.engine.wire, .dtype = MOE_F32, .block = 1 };
    struct a2a *a2a = NULL;

    CHECK(!f.engine.wire->topology.ranks_per_rack);
    CHECK(a2a_open(MOE_A2A_3DH, &call, &a2a) == UNSUPPORTED && !a2a);
    f.engine.wire->topology.ranks_per_node = f.ranks;
    CHECK(a2a_open(MOE_A2A_2DH, &call, &a2a) == UNSUPPORTED && !a2a);
    f.engine.wire->topology.ranks_per_node = 0;
    CHECK(a2a_open(MOE_A2A_2DH, &call, &a2a) == UNSUPPORTED && !a2a);
}

static void a_librarys_all_to_all_applies_where_there_is_one(void)
{
    struct a2a_call call = { .wire = f.plain.wire, .dtype = MOE_F32, .block = 1 };
    struct a2a *a2a = NULL;

    CHECK(a2a_open(MOE_A2A_NCCL, &call, &a2a) == UNSUPPORTED && !a2a);
    f.engine = f.library;
    for (uint64_t block = 0; block < 600; block += 199)
        run_a2a(MOE_A2A_NCCL, false, block, block);
    CHECK(library_wire_calls(f.library.wire, COLLECTIVE_ALL_TO_ALL) == 6);
    f.engine = f.plain;
}

enum { TENSORS = 3, SLICE_MOST = 3000 };

/* Several tensors of random sizes, some of none, as a layer's weights are gathered. */
struct tensors {
    struct group group;
    uint64_t slice[TENSORS]; /* floats */
    float *send[TENSORS], *recv[TENSORS], *sum[TENSORS];
};

static float number(int rank, int tensor, uint64_t at)
{
    return (float)((int)(random_bits((uint64_t)tensor + 77, ((uint64_t)rank << 32) + at) % 2001) -
                   1000); /* whole numbers: their sums are exact */
}

static void tensors_open(struct tensors *t, struct group group, uint64_t salt)
{
    *t = (struct tensors){ .group = group };
    for (int i = 0; i < TENSORS; i++) {
        uint64_t whole;

        t->slice[i] = random_bits(salt, (uint64_t)i) % SLICE_MOST * (i != 1 || salt % 2);
        whole = t->slice[i] * (uint64_t)group.count + 1;
        t->send[i] = malloc(whole * sizeof(float));
        t->recv[i] = malloc(whole * sizeof(float));
        t->sum[i] = malloc(whole * sizeof(float));
        for (uint64_t at = 0; at + 1 < whole; at++) {
            t->send[i][at] = number(f.rank, i, at);
            t->recv[i][at] = t->sum[i][at] = 4242;
        }
    }
}

static void tensors_close(struct tensors *t)
{
    for (int i = 0; i < TENSORS; i++)
        free(t->send[i]), free(t->recv[i]), free(t->sum[i]);
}

/* Twice, as steps do; the bytes that leave are those of the direct exchange, whoever gathers. */
static void exchange(struct batch *batch, const struct tensors *t)
{
    struct wire *wire = f.engine.wire;
    uint64_t bytes = wire->sent_bytes, messages = wire->messages, slices = 0, full = 0;

    for (int i = 0; i < TENSORS; i++) {
        slices += t->slice[i];
        full += t->slice[i] > 0;
    }
    CHECK(!wire_reserve(wire, batch));
    for (int twice = 0; twice < 2; twice++)
        CHECK(!wire_exchange(wire, f.engine.comm, batch));
    CHECK(!engine_sync(&f.engine));
    CHECK(wire->sent_bytes - bytes == 2 * (uint64_t)(t->group.count - 1) * slices * sizeof(float));
    CHECK(wire->messages - messages == 2 * (uint64_t)(t->group.count - 1) * full);
    batch_free(batch);
}

static void check_gather(const struct tensors *t)
{
    struct batch batch = { 0 };

    for (int i = 0; i < TENSORS; i++)
        CHECK(!gather_add(&batch, f.engine.wire, t->group, t->send[i], t->recv[i],
                          t->slice[i] * sizeof(float)));
    exchange(&batch, t);
    for (int i = 0; i < TENSORS; i++)
        for (int j = 0; j < t->group.count; j++)
            for (uint64_t at = 0; at < t->slice[i]; at++)
                CHECK(t->recv[i][(uint64_t)j * t->slice[i] + at] ==
                      number(t->group.first + j, i, at));
}

/* Slice number (this rank's place in the group) of everybody's whole tensor. */
static uint64_t own_place(const struct tensors *t, int tensor, uint64_t at)
{
    return (uint64_t)(f.rank - t->group.first) * t->slice[tensor] + at;
}

static void check_scatter(const struct tensors *t)
{
    struct batch batch = { 0 };

    for (int i = 0; i < TENSORS; i++)
        CHECK(!scatter_add(&batch, f.engine.wire, t->group, t->send[i], t->recv[i],
                           t->slice[i] * sizeof(float)));
    exchange(&batch, t);
    for (int i = 0; i < TENSORS; i++)
        for (int j = 0; j < t->group.count; j++)
            for (uint64_t at = 0; at < t->slice[i]; at++)
                CHECK(t->recv[i][(uint64_t)j * t->slice[i] + at] ==
                      number(t->group.first + j, i, own_place(t, i, at)));
}

static void check_reduce(const struct tensors *t)
{
    struct batch batch = { 0 };

    for (int i = 0; i < TENSORS; i++)
        CHECK(!reduce_add(&batch, t->group, t->send[i], t->sum[i], t->slice[i] * sizeof(float),
                          MOE_F32));
    exchange(&batch, t);
    for (int i = 0; i < TENSORS; i++) {
        for (uint64_t at = 0; at < t->slice[i]; at++) {
            float sum = 0;

            for (int j = 0; j < t->group.count; j++)
                sum += number(t->group.first + j, i, own_place(t, i, at));
            CHECK(t->sum[i][at] == sum);
        }
        CHECK(t->group.count == 1 || !t->slice[i] || t->sum[i][t->slice[i]] == 4242);
    }
}

static void check_group(struct group group, uint64_t salt)
{
    struct tensors t;

    tensors_open(&t, group, salt);
    check_gather(&t);
    check_scatter(&t);
    if (reduce_applies(f.engine.wire, group))
        check_reduce(&t);
    tensors_close(&t);
}

static void check_every_group(void)
{
    for (int g = 1; g <= f.ranks; g++)
        for (uint64_t salt = 0; salt < 3 && f.ranks % g == 0; salt++)
            check_group((struct group){ f.rank / g * g, g }, salt * 64 + (uint64_t)g);
}

static void gather_and_scatter_work_inside_groups_of_every_size(void)
{
    check_every_group();
}

static void a_library_that_gathers_and_sums_is_asked_to(void)
{
    int gathers = library_wire_calls(f.library.wire, COLLECTIVE_GATHER);
    int sums = library_wire_calls(f.library.wire, COLLECTIVE_SUM);

    f.engine = f.library;
    check_every_group();
    f.engine = f.plain;
    gathers = library_wire_calls(f.library.wire, COLLECTIVE_GATHER) - gathers;
    sums = library_wire_calls(f.library.wire, COLLECTIVE_SUM) - sums;
    CHECK(gathers == sums && (gathers > 0) == (f.ranks > 1));
}

/* It divides all ranks at once.  All ranks but the first, and pairs that begin with rank 1, are no
 * part of such a division. */
static void a_library_is_not_asked_for_what_it_has_not(void)
{
    struct group all = { 0, f.ranks };
    int gathers = library_wire_calls(f.library.wire, COLLECTIVE_GATHER);

    CHECK(reduce_applies(f.library.wire, all) == (f.ranks > 1));
    CHECK(!reduce_applies(f.plain.wire, all));
    if (f.ranks < 3)
        return;
    f.engine = f.library;
    check_group(f.rank ? (struct group){ 1, f.ranks - 1 } : (struct group){ 0, 1 }, 5);
    if (f.rank == 0 || (f.ranks % 2 == 0 && f.rank == f.ranks - 1))
        check_group((struct group){ f.rank, 1 }, 6);
    else
        check_group((struct group){ f.rank - (f.rank + 1) % 2, 2 }, 6);
    f.engine = f.plain;
    CHECK(library_wire_calls(f.library.wire, COLLECTIVE_GATHER) == gathers);
}

static void what_leaves_the_rank_is_counted(void)
{
    uint64_t before = f.engine.wire->sent_bytes, messages = f.engine.wire->messages;

    f.engine.wire->topology.ranks_per_node = f.ranks;
    run_a2a(MOE_A2A_LINEAR, false, 512, 1);
    CHECK(f.engine.wire->sent_bytes - before == 2u * 1024 * (uint64_t)(f.ranks - 1));
    CHECK(f.engine.wire->messages - messages == 2u * (uint64_t)(f.ranks - 1));
}

/* ---- transfers of unequal sizes */

enum { ROOM = 70000 }; /* bytes of one transfer, past what MPI sends at once */

/* Of some pairs none; of the first rank something to each, so that each waits for it. */
static size_t size_of(int from, int to)
{
    size_t bytes = random_bits(9, (uint64_t)(from * 16 + to)) % (ROOM - 1);

    return from && (from + 2 * to) % 5 == 1 ? 0 : 1 + (bytes >> 4 * ((from + to) % 3));
}

static char byte_of(int from, int to, size_t at)
{
    return (char)random_bits(11, ((uint64_t)(from * 16 + to) << 32) + at);
}

static int unequal_batch(struct batch *batch, char *send, char *recv)
{
    for (int i = 0; i < f.ranks; i++) {
        int q = (f.rank + i) % f.ranks;

        TRY(batch_add_transfer(batch, &(struct transfer){ .peer = q,
                                                          .send = send + q * ROOM,
                                                          .recv = recv + q * ROOM,
                                                          .send_bytes = size_of(f.rank, q),
                                                          .recv_bytes = size_of(q, f.rank) }));
    }
    return wire_reserve(f.engine.wire, batch);
}

static void check_unequal(void)
{
    size_t all = (size_t)f.ranks * ROOM;
    char *send = malloc(all), *recv = malloc(all);
    struct wire *wire = f.engine.wire;
    uint64_t bytes = wire->sent_bytes, messages = wire->messages, leaves = 0, count = 0;
    struct batch batch = { 0 };

    memset(recv, 0x5a, all);
    for (int q = 0; q < f.ranks; q++) {
        for (size_t i = 0; i < ROOM; i++)
            send[(size_t)q * ROOM + i] = byte_of(f.rank, q, i);
        leaves += q == f.rank ? 0 : size_of(f.rank, q);
        count += q != f.rank && size_of(f.rank, q);
    }
    CHECK(!unequal_batch(&batch, send, recv));
    for (int twice = 0; twice < 2; twice++)
        CHECK(!wire_exchange(wire, f.engine.comm, &batch));
    CHECK(!engine_sync(&f.engine));
    for (int q = 0; q < f.ranks; q++)
        for (size_t i = 0; i < ROOM; i++)
            CHECK(recv[(size_t)q * ROOM + i] ==
                  (i < size_of(q, f.rank) ? byte_of(q, f.rank, i) : 0x5a));
    CHECK(wire->sent_bytes - bytes == 2 * leaves && wire->messages - messages == 2 * count);
    batch_free(&batch);
    free(send), free(recv);
}

static void transfers_of_unequal_sizes_arrive_and_no_byte_more(void)
{
    check_unequal();
    f.engine = f.library;
    check_unequal();
    f.engine = f.plain;
}

static void a_transfer_of_no_bytes_either_way_is_none(void)
{
    struct batch batch = { 0 };

    CHECK(!batch_add_transfer(&batch, &(struct transfer){ .peer = 0 }) && batch_is_empty(&batch));
    CHECK(!batch_add_transfer(&batch, &(struct transfer){ .peer = 0, .recv_bytes = 1 }));
    CHECK(!batch_add_transfer(&batch, &(struct transfer){ .peer = 0, .send_bytes = 1 }));
    CHECK(batch.count == 2);
    batch_free(&batch);
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

/* Last: they end a wire.  One rank fails, or stays away from an exchange; nobody may wait for it.
 */
static void a_fault_in_an_unequal_exchange_ends_it_for_all(void)
{
    char *send = calloc((size_t)f.ranks, ROOM), *recv = calloc((size_t)f.ranks, ROOM);
    struct batch batch = { 0 };

    if (f.ranks > 1) {
        setenv("MOETUNE_FAULT", "exchange:1@0", true);
        CHECK(!fault_setup(f.rank));
        log_enable(false);
        f.engine = f.library;
        CHECK(!unequal_batch(&batch, send, recv));
        CHECK(!wire_exchange(f.engine.wire, f.engine.comm, &batch));
        CHECK(engine_sync(&f.engine) == ERR_WIRE);
        f.engine = f.plain;
        log_enable(true);
        unsetenv("MOETUNE_FAULT");
        CHECK(!fault_setup(f.rank));
    }
    batch_free(&batch);
    free(send), free(recv);
}

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

static int open_library_engine(struct engine *out)
{
    struct device *device = NULL;
    struct wire *plain = NULL, *wire = NULL;

    TRY(device_open("host", &device));
    TRY(wire_open(NULL, f.world, device, &plain));
    TRY(library_wire_open(plain, &wire));
    return engine_open_on(device, wire, out);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_algorithm_delivers_every_block),
        TEST(levels_do_not_apply_where_there_are_fewer),
        TEST(a_librarys_all_to_all_applies_where_there_is_one),
        TEST(gather_and_scatter_work_inside_groups_of_every_size),
        TEST(a_library_that_gathers_and_sums_is_asked_to),
        TEST(a_library_is_not_asked_for_what_it_has_not),
        TEST(transfers_of_unequal_sizes_arrive_and_no_byte_more),
        TEST(a_transfer_of_no_bytes_either_way_is_none),
        TEST(what_leaves_the_rank_is_counted),
        TEST(ranks_settle_on_the_worst_status),
        TEST(numbers_are_agreed),
        TEST(a_fault_in_an_unequal_exchange_ends_it_for_all),
        TEST(an_alarm_ends_every_wait),
    };
    int64_t failed;

    if (world_open(0, 0, &f.world) || engine_open(f.world, "host", NULL, &f.plain) ||
        open_library_engine(&f.library))
        return 1;
    f.engine = f.plain;
    f.rank = world_topology(f.world)->rank;
    f.ranks = world_topology(f.world)->ranks;
    if (f.rank && !freopen("/dev/null", "w", stdout))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    world_max(f.world, &failed, 1);
    engine_close(&f.library);
    engine_close(&f.plain);
    world_close(f.world);
    return failed ? 1 : 0;
}
