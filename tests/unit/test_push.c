/* Tests the protocol of copies into other ranks' memory.  Threads play ranks, host streams play
 * those of a GPU, and pointers play memory handles. */
#include "check.h"
#include "heard.h"

#include "host.h"
#include "push.h"
#include "random.h"
#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 6, EXCHANGES = 40, BLOCK = 64, TENSORS = 3 };
/* Many times what a busy machine keeps a thread from running. */
static const int64_t patience_ns = 3000000000;

struct sign_event {
    struct event *event;
    pthread_mutex_t lock; /* a host event is for one driving thread: here there are two */
};

/* What all ranks see. */
static struct scene {
    struct push_board *board;
    int ranks;
    struct sign_event signs[PUSH_SIGNALS][RANKS_MAX][RANKS_MAX]; /* (recorder, who awaits) */
    struct watch watch;
    int alarm; /* set before the threads start */
} scene;

struct fake {
    int rank, reached;
    struct device *device;
    struct stream *stream;
};

static int fake_place(void *self, const struct transfer *transfer, struct push_place *out)
{
    (void)self;
    memset(out, 0, sizeof(*out));
    memcpy(out->handle, &transfer->recv, sizeof(transfer->recv));
    return OK;
}

static int fake_reach(void *self, const struct transfer *transfer, const struct push_place *place,
                      void **out)
{
    (void)transfer;
    ((struct fake *)self)->reached++;
    memcpy(out, place->handle, sizeof(*out));
    return OK;
}

static int fake_record(void *self, struct stream *stream, enum push_signal sign, int peer)
{
    struct sign_event *s = &scene.signs[sign][((struct fake *)self)->rank][peer];
    int rc;

    pthread_mutex_lock(&s->lock);
    rc = event_record(s->event, stream);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int fake_await(void *self, struct stream *stream, enum push_signal sign, int peer)
{
    struct sign_event *s = &scene.signs[sign][peer][((struct fake *)self)->rank];
    int rc;

    pthread_mutex_lock(&s->lock);
    rc = event_wait(s->event, stream);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

struct copy_args {
    void *to;
    const void *from;
    size_t bytes;
};

static int run_copy(const void *args)
{
    const struct copy_args *c = args;

    memcpy(c->to, c->from, c->bytes);
    return OK;
}

static int fake_copy(void *self, struct stream *stream, void *to, const void *from, size_t bytes)
{
    struct copy_args args = { to, from, bytes };

    (void)self;
    return host_call(stream, run_copy, &args, sizeof(args));
}

static int scene_alarmed(void *self)
{
    return ((struct scene *)self)->alarm;
}

/* ---- ranks */

struct actor {
    struct fake fake;
    struct push_device device;
    struct push push;
    uint64_t wrong;
    int status;
    int exchanges;     /* that it takes part in; fewer: it dies */
    size_t bytes_less; /* than its peers, in every transfer */
};

static void actor_open(struct actor *a, int rank)
{
    *a = (struct actor){ .fake.rank = rank, .exchanges = EXCHANGES };
    CHECK(!host_open(&a->fake.device) && !stream_open(a->fake.device, &a->fake.stream));
    a->device =
        (struct push_device){ NULL, fake_place, fake_reach, fake_record, fake_await, fake_copy };
}

static void scene_open(struct actor *actors, int ranks, int64_t limit_ns)
{
    scene = (struct scene){ .ranks = ranks, .watch = { scene_alarmed, &scene, limit_ns, true } };
    scene.board = calloc(1, push_board_bytes(ranks));
    for (int q = 0; q < ranks; q++)
        actor_open(&actors[q], q);
    for (int s = 0; s < PUSH_SIGNALS; s++)
        for (int from = 0; from < ranks; from++)
            for (int to = 0; to < ranks; to++) {
                CHECK(!event_open(actors[from].fake.device, &scene.signs[s][from][to].event));
                pthread_mutex_init(&scene.signs[s][from][to].lock, NULL);
            }
}

static void scene_close(struct actor *actors)
{
    for (int q = 0; q < scene.ranks; q++)
        stream_close(actors[q].fake.stream);
    for (int s = 0; s < PUSH_SIGNALS; s++)
        for (int from = 0; from < scene.ranks; from++)
            for (int to = 0; to < scene.ranks; to++) {
                event_close(scene.signs[s][from][to].event);
                pthread_mutex_destroy(&scene.signs[s][from][to].lock);
            }
    for (int q = 0; q < scene.ranks; q++)
        device_close(actors[q].fake.device);
    free(scene.board);
}

/* Groups change from one exchange to the next, as gathers and all-to-alls do. */
static struct peers group_of(int rank, int exchange)
{
    int size =
        exchange % 3 == 0 ? scene.ranks : (exchange % 3 == 1 && scene.ranks % 2 == 0 ? 2 : 1);

    return (struct peers){ rank / size * size, 1, size };
}

static uint32_t word(int from, int to, int exchange, int tensor)
{
    return (uint32_t)random_bits(7, (uint64_t)(((from * 8 + to) * 64 + exchange) * 4 + tensor));
}

/* In every second exchange each pair and way has a size of its own, some of none. */
static size_t words_of(int from, int to, int exchange, int tensor)
{
    uint32_t any = word(from, to, exchange, tensor);

    return exchange % 2 == 0 ? BLOCK : (any % 4 ? any / 4 % (BLOCK + 1) : 0);
}

struct buffers {
    uint32_t send[TENSORS][RANKS_MAX][BLOCK], recv[TENSORS][RANKS_MAX][BLOCK];
};

struct turn {
    struct actor *actor;
    struct buffers *buffers;
    struct peers peers;
    int exchange;
};

static int fill(const void *args)
{
    const struct turn *turn = args;

    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < turn->peers.count; i++)
            for (int w = 0; w < BLOCK; w++)
                turn->buffers->send[t][i][w] =
                    (uint32_t)w +
                    word(turn->actor->fake.rank, turn->peers.first + i, turn->exchange, t);
    return OK;
}

/* What has arrived is compared, and made useless for the next exchange, which uses the same buffer:
 * a sender that does not await READY writes before this. */
static int compare(const void *args)
{
    const struct turn *turn = args;

    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < turn->peers.count; i++)
            for (size_t w = 0; w < BLOCK; w++) {
                int from = turn->peers.first + i, to = turn->actor->fake.rank;
                bool arrives = w < words_of(from, to, turn->exchange, t);

                turn->actor->wrong +=
                    turn->buffers->recv[t][i][w] !=
                    (arrives ? (uint32_t)w + word(from, to, turn->exchange, t) : 0);
                turn->buffers->recv[t][i][w] = 0;
            }
    return OK;
}

static int make_batch(const struct turn *turn, struct batch *out)
{
    struct buffers *b = turn->buffers;
    int self = turn->actor->fake.rank, x = turn->exchange;

    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < turn->peers.count; i++) {
            int peer = turn->peers.first + i;

            TRY(batch_add_transfer(
                out, &(struct transfer){ .peer = peer,
                                         .send = b->send[t][i],
                                         .recv = b->recv[t][i],
                                         .send_bytes = 4 * words_of(self, peer, x, t),
                                         .recv_bytes = 4 * words_of(peer, self, x, t) }));
        }
    for (int i = 0; i < out->count; i++) {
        out->transfers[i].send_bytes -= turn->actor->bytes_less;
        out->transfers[i].recv_bytes -= turn->actor->bytes_less;
    }
    return OK;
}

static int one_exchange(struct actor *a, struct buffers *b, int exchange)
{
    struct turn turn = { a, b, group_of(a->fake.rank, exchange), exchange };
    struct batch batch = { 0 };
    int rc = make_batch(&turn, &batch);

    if (!rc)
        rc = host_call(a->fake.stream, fill, &turn, sizeof(turn));
    if (!rc)
        rc = push_exchange(&a->push, a->fake.stream, &batch);
    if (!rc)
        rc = host_call(a->fake.stream, compare, &turn, sizeof(turn));
    batch_free(&batch);
    return rc;
}

/* Everything is queued before anything is waited for: ranks run ahead of their own streams. */
static void *act(void *arg)
{
    struct actor *a = arg;
    struct buffers *b = calloc(1, sizeof(*b));
    int synced;

    a->device.self = &a->fake;
    a->push = (struct push){ scene.board, a->fake.rank, scene.ranks, &a->device, &scene.watch };
    for (int x = 0; x < a->exchanges && !a->status; x++)
        a->status = one_exchange(a, b, x);
    synced = stream_sync(a->fake.stream);
    a->status = a->status ? a->status : synced;
    return b;
}

static void play(struct actor *actors)
{
    pthread_t threads[RANKS_MAX];
    void *left[RANKS_MAX];

    for (int q = 0; q < scene.ranks; q++)
        CHECK(!pthread_create(&threads[q], NULL, act, &actors[q]));
    for (int q = 0; q < scene.ranks; q++)
        pthread_join(threads[q], &left[q]);
    /* What is queued into the memory of a rank that has given up may still run until here. */
    for (int q = 0; q < scene.ranks; q++)
        free(left[q]);
}

/* ---- what must be true */

static void every_exchange_delivers_though_nobody_waits_for_a_stream(void)
{
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        struct actor actors[RANKS_MAX];

        scene_open(actors, ranks, INT64_MAX);
        play(actors);
        for (int q = 0; q < ranks; q++)
            CHECK(!actors[q].status && !actors[q].wrong);
        CHECK(ranks == 1 || actors[0].fake.reached > 0);
        scene_close(actors);
    }
}

/* The others give up, and their streams are not left waiting: play() joins them. */
static void a_rank_that_dies_in_the_middle_becomes_a_status_of_all(void)
{
    struct actor actors[RANKS_MAX];

    scene_open(actors, 3, patience_ns);
    actors[1].exchanges = EXCHANGES / 2;
    play(actors);
    CHECK(!actors[1].status && !actors[1].wrong);
    CHECK(actors[0].status == ERR_WIRE && actors[2].status == ERR_WIRE);
    CHECK(!actors[0].wrong && !actors[2].wrong);
    scene_close(actors);
}

static void a_rank_that_never_comes_is_not_waited_for_when_the_alarm_is_raised(void)
{
    struct actor actors[RANKS_MAX];

    scene_open(actors, 2, INT64_MAX);
    scene.alarm = 1;
    actors[1].exchanges = 0;
    play(actors);
    CHECK(actors[0].status == ERR_WIRE);
    scene_close(actors);
}

static void ranks_that_expect_other_sizes_are_told(void)
{
    struct actor actors[RANKS_MAX];

    scene_open(actors, 2, patience_ns);
    actors[1].bytes_less = 4;
    play(actors);
    CHECK(actors[0].status == ERR_WRONG && actors[1].status == ERR_WRONG);
    scene_close(actors);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_exchange_delivers_though_nobody_waits_for_a_stream),
        TEST(a_rank_that_dies_in_the_middle_becomes_a_status_of_all),
        TEST(a_rank_that_never_comes_is_not_waited_for_when_the_alarm_is_raised),
        TEST(ranks_that_expect_other_sizes_are_told),
    };

    log_to(listen, NULL);
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
