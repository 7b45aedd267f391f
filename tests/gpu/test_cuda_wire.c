/* A wire between GPUs, exchange after exchange without a sync between: what arrives is what was
 * sent in that turn, and stays until it is used up.
 *
 *   test_cuda_wire [--wire NAME] */
#include "check.h"

#include "engine.h"
#include "random.h"
#include "status.h"
#include "wire.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS = 12, BYTES = 5000 };

static struct {
    struct world *world;
    struct engine engine;
    int rank, ranks;
    size_t all;              /* bytes to all ranks */
    char *send, *recv, *log; /* send and log: (turn, rank) */
    struct batch exchanges[TURNS], copies[TURNS];
} f;

static char byte_of(int turn, int from, int to, size_t at)
{
    return (char)random_bits((uint64_t)turn, ((uint64_t)from << 40) + ((uint64_t)to << 32) + at);
}

/* In every second turn each pair and way has a size of its own, some of none. */
static size_t bytes_of(int turn, int from, int to)
{
    size_t any = random_bits(5, (uint64_t)((turn * 16 + from) * 16 + to));

    return turn % 2 == 0 ? BYTES : (any % 4 ? any % (BYTES + 1) : 0);
}

static char *allocate(size_t bytes)
{
    void *memory = NULL;

    CHECK(!engine_alloc(&f.engine, bytes, &memory));
    return memory;
}

static void fill_send(void)
{
    char *host = malloc(TURNS * f.all);

    for (int turn = 0; turn < TURNS; turn++)
        for (int q = 0; q < f.ranks; q++)
            for (size_t i = 0; i < BYTES; i++)
                host[(size_t)turn * f.all + (size_t)q * BYTES + i] = byte_of(turn, f.rank, q, i);
    CHECK(!device_upload(f.engine.device, f.send, host, TURNS * f.all));
    free(host);
}

static void add_exchange(int turn)
{
    for (int i = 0; i < f.ranks; i++) {
        int q = (f.rank + i) % f.ranks;
        struct transfer transfer = { .peer = q,
                                     .send = f.send + turn * f.all + (size_t)q * BYTES,
                                     .recv = f.recv + (size_t)q * BYTES,
                                     .send_bytes = bytes_of(turn, f.rank, q),
                                     .recv_bytes = bytes_of(turn, q, f.rank) };

        CHECK(!batch_add_transfer(&f.exchanges[turn], &transfer));
    }
}

/* All turns arrive at one place, and are put by from there. */
static void set_up(void)
{
    struct peers self = { f.rank, 1, 1 };

    f.all = (size_t)f.ranks * BYTES;
    f.send = allocate(TURNS * f.all);
    f.recv = allocate(f.all);
    f.log = allocate(TURNS * f.all);
    fill_send();
    for (int turn = 0; turn < TURNS; turn++) {
        add_exchange(turn);
        CHECK(!batch_add(&f.copies[turn], f.engine.wire, self, f.recv, 0, f.log + turn * f.all,
                         f.all));
        CHECK(!wire_reserve(f.engine.wire, &f.exchanges[turn]));
        CHECK(!wire_reserve(f.engine.wire, &f.copies[turn]));
    }
}

static void tear_down(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        batch_free(&f.exchanges[turn]);
        batch_free(&f.copies[turn]);
    }
    device_release(f.engine.device, f.send);
    engine_release(&f.engine, f.recv);
    engine_release(&f.engine, f.log);
}

static void every_turn_is_what_was_sent_in_it(void)
{
    char *host;

    set_up();
    host = malloc(TURNS * f.all);
    for (int round = 0; round < 5; round++) {
        bool same = true;

        for (int turn = 0; turn < TURNS; turn++) {
            CHECK(!wire_exchange(f.engine.wire, f.engine.comm, &f.exchanges[turn]));
            CHECK(!wire_exchange(f.engine.wire, f.engine.comm, &f.copies[turn]));
        }
        CHECK(!engine_sync(&f.engine));
        CHECK(!device_download(f.engine.device, host, f.log, TURNS * f.all));
        for (int turn = 0; turn < TURNS; turn++)
            for (int q = 0; q < f.ranks; q++)
                for (size_t i = 0; i < bytes_of(turn, q, f.rank); i++)
                    same &=
                        host[turn * f.all + (size_t)q * BYTES + i] == byte_of(turn, q, f.rank, i);
        CHECK(same);
    }
    free(host);
    tear_down();
}

/* Rank 0 counts; what the others find, they print and tell it. */
static void every_rank_finds_so(void)
{
    int64_t failed;

    /* The NCCL that is played is a new one: else a=nccl would be in no test of plans. */
    CHECK(wire_has(f.engine.wire, COLLECTIVE_ALL_TO_ALL, (struct group){ 0, f.ranks }) ==
          !strcmp(f.engine.wire->ops->name, "nccl"));
    every_turn_is_what_was_sent_in_it();
    failed = check_failures;
    CHECK(!world_max(f.world, &failed, 1) && !failed);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(every_rank_finds_so) };
    int failed = 0;

    if (world_open(0, 0, &f.world))
        return 1;
    f.rank = world_topology(f.world)->rank;
    f.ranks = world_topology(f.world)->ranks;
    if (engine_open(f.world, "cuda", argc > 2 ? argv[2] : NULL, &f.engine))
        return 1;
    if (f.rank == 0)
        failed = check_all(tests, 1);
    else
        every_rank_finds_so();
    engine_close(&f.engine);
    world_close(f.world);
    return failed;
}
