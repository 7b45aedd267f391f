/* A GPU behind device.h: order, hand-over, dates, failures, memory that is not there. */
#include "check.h"

#include "convert.h"
#include "cuda.h"
#include "cuda_paced.h"
#include "moelookup.h"
#include "random.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FLOATS = 1 << 20, STEPS = 200 };

static struct {
    struct device *device;
    struct stream *a, *b;
    float *line; /* on the device */
} f;

static void set_up(void)
{
    void *memory = NULL;

    CHECK(!stream_open(f.device, &f.a) && !stream_open_urgent(f.device, &f.b));
    CHECK(!device_alloc(f.device, FLOATS * sizeof(float), &memory));
    f.line = memory;
}

static void tear_down(void)
{
    device_release(f.device, f.line);
    stream_close(f.a);
    stream_close(f.b);
}

/* line += line, by the one kernel that updates in place. */
static int twice(struct stream *stream)
{
    return launch_add_bias(stream, &(struct add_bias){ .batch = 1,
                                                       .rows = 1,
                                                       .width = FLOATS,
                                                       .bias_stride = FLOATS,
                                                       .bias = f.line,
                                                       .to = f.line });
}

static void put(float value)
{
    float *host = malloc(FLOATS * sizeof(*host));

    for (int i = 0; i < FLOATS; i++)
        host[i] = value;
    CHECK(!device_upload(f.device, f.line, host, FLOATS * sizeof(*host)));
    free(host);
}

static bool holds(float value)
{
    float *host = malloc(FLOATS * sizeof(*host));
    bool same = true;

    CHECK(!device_download(f.device, host, f.line, FLOATS * sizeof(*host)));
    for (int i = 0; i < FLOATS; i++)
        same &= host[i] == value;
    free(host);
    return same;
}

static void what_goes_up_comes_down(void)
{
    size_t sizes[] = { 0, 1, 4 << 20, (4 << 20) + 1, (13 << 20) + 7 };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *from = malloc(sizes[i] + 1), *to = malloc(sizes[i] + 1);
        void *memory = NULL;

        for (size_t j = 0; j < sizes[i]; j++)
            from[j] = (char)random_bits(i, j);
        CHECK(!device_alloc(f.device, sizes[i], &memory));
        CHECK((uintptr_t)memory % 256 == 0);
        CHECK(!device_upload(f.device, memory, from, sizes[i]));
        CHECK(!device_download(f.device, to, memory, sizes[i]));
        CHECK(!memcmp(from, to, sizes[i]));
        device_release(f.device, memory);
        free(from), free(to);
    }
}

/* Doubled in turns by two streams, 20 times: a lost turn would show. */
static void events_hand_data_from_stream_to_stream(void)
{
    struct event *there = NULL, *back = NULL;

    set_up();
    CHECK(!event_open(f.device, &there) && !event_open(f.device, &back));
    for (int round = 0; round < STEPS / 20; round++) {
        put(1);
        for (int i = 0; i < 10; i++) {
            CHECK(!twice(f.a));
            CHECK(!event_record(there, f.a) && !event_wait(there, f.b));
            CHECK(!twice(f.b));
            CHECK(!event_record(back, f.b) && !event_wait(back, f.a));
        }
        CHECK(!stream_sync(f.a) && !stream_sync(f.b));
        CHECK(holds(1 << 20));
    }
    event_close(there);
    event_close(back);
    tear_down();
}

static void a_wait_without_a_record_passes_at_once(void)
{
    struct event *never = NULL;

    set_up();
    put(1);
    CHECK(!event_open(f.device, &never));
    CHECK(!event_wait(never, f.a));
    CHECK(!twice(f.a) && !stream_sync(f.a));
    CHECK(holds(2));
    event_close(never);
    tear_down();
}

static void a_muted_stream_keeps_its_events_only(void)
{
    struct event *event = NULL;

    set_up();
    put(1);
    CHECK(!event_open(f.device, &event));
    f.a->muted = true;
    CHECK(!twice(f.a));
    CHECK(!event_record(event, f.a) && !event_wait(event, f.b));
    CHECK(!twice(f.b));
    CHECK(!stream_sync(f.a) && !stream_sync(f.b));
    CHECK(holds(2));
    event_close(event);
    tear_down();
}

static void a_failure_skips_what_follows_but_not_the_events(void)
{
    struct event *event = NULL;

    set_up();
    put(1);
    CHECK(!event_open(f.device, &event));
    cuda_stream_keep(f.a, ERR_WIRE);
    cuda_stream_keep(f.a, ERR_IO);
    CHECK(!twice(f.a));
    CHECK(!event_record(event, f.a) && !event_wait(event, f.b));
    CHECK(!twice(f.b) && !stream_sync(f.b));
    CHECK(holds(2));
    CHECK(stream_sync(f.a) == ERR_WIRE);
    CHECK(!twice(f.a) && !stream_sync(f.a));
    CHECK(holds(4));
    event_close(event);
    tear_down();
}

/* 1 x 1, of the last element that the kernel before it changes: the library is told of each stream.
 */
static int square_last(struct stream *stream, void *to)
{
    return launch_gemm(stream, &(struct gemm){ .dtype = MOE_F32,
                                               .m = 1,
                                               .n = 1,
                                               .k = 1,
                                               .batch = 1,
                                               .a = f.line + FLOATS - 1,
                                               .b = f.line + FLOATS - 1,
                                               .c = to });
}

static void a_product_is_in_the_order_of_its_own_stream(void)
{
    void *square = NULL;
    float got = 0;

    set_up();
    CHECK(!device_alloc(f.device, sizeof(got), &square));
    for (int i = 0; i < 8; i++) {
        put(1);
        CHECK(!square_last(i % 2 ? f.b : f.a, square));
        CHECK(!stream_sync(f.a) && !stream_sync(f.b));
        CHECK(!twice(i % 2 ? f.a : f.b) && !square_last(i % 2 ? f.a : f.b, square));
        CHECK(!stream_sync(f.a) && !stream_sync(f.b));
        CHECK(!device_download(f.device, &got, square, sizeof(got)));
        CHECK(got == 4);
    }
    device_release(f.device, square);
    tear_down();
}

/* Small integers, so that every sum is exact.  `shift`: how many elements behind a multiple of 16
 * bytes the factors begin. */
enum { EXPERTS = 3, ROWS = 6, MOST = 24, FACTORS = EXPERTS * MOST * MOST + 1 };
static uint16_t factors[FACTORS], products[ROWS * MOST];

/* Rows of an expert are those of its place in `of`. */
static bool are_products(uint64_t n, uint64_t k, uint64_t shift, const int of[ROWS])
{
    bool right = true;

    for (uint64_t row = 0; row < ROWS; row++)
        for (uint64_t column = 0; column < n; column++) {
            float sum = 0;

            for (uint64_t i = 0; i < k; i++)
                sum += from_bf16(factors[shift + row * k + i]) *
                       from_bf16(factors[shift + ((uint64_t)of[row] * k + i) * n + column]);
            right = right && from_bf16(products[row * n + column]) == sum;
        }
    return right;
}

/* Several 16-bit products in one call read 16 bytes at once: where rows begin elsewhere each is
 * asked for alone, and all where the library has no such products in groups. */
static void several_products_are_right_wherever_their_rows_begin(void)
{
    static const uint64_t first[EXPERTS + 1] = { 0, 4, 4, ROWS }, sizes[][2] = {
        { 16, 24 }, { 20, 12 }, { 8, 5 }, { 5, 3 }
    };
    uint16_t *a, *b, *c;

    set_up();
    a = (uint16_t *)(void *)f.line, b = a + ROWS * MOST + 8, c = b + FACTORS + 15;
    for (int i = 0; i < FACTORS; i++)
        factors[i] = to_bf16((float)(i % 5 - 2));
    CHECK(!device_upload(f.device, a, factors, (ROWS * MOST + 1) * sizeof(*a)));
    CHECK(!device_upload(f.device, b, factors, sizeof(factors)));
    for (size_t s = 0; s < 4 * sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint64_t n = sizes[s / 4][0], k = sizes[s / 4][1], shift = s % 2;
        const size_t bytes = ROWS * n * sizeof(*products);

        setenv("GPU_ON_CPU_OLD_BLAS", s / 2 % 2 ? "1" : "0", 1); /* of the library that is played */
        CHECK(!launch_gemm_rows(f.a, &(struct gemm_rows){ .dtype = MOE_BF16,
                                                          .experts = EXPERTS,
                                                          .n = n,
                                                          .k = k,
                                                          .first = first,
                                                          .a = a + shift,
                                                          .b = b + shift,
                                                          .c = c }));
        CHECK(!stream_sync(f.a) && !device_download(f.device, products, c, bytes));
        CHECK(are_products(n, k, shift, (const int[ROWS]){ 0, 0, 0, 0, 2, 2 }));
        CHECK(!launch_gemm(f.a, &(struct gemm){ .dtype = MOE_BF16,
                                                .batch = EXPERTS,
                                                .m = ROWS / EXPERTS,
                                                .n = n,
                                                .k = k,
                                                .a = a + shift,
                                                .b = b + shift,
                                                .c = c,
                                                .stride_a = ROWS / EXPERTS * k,
                                                .stride_b = k * n,
                                                .stride_c = ROWS / EXPERTS * n }));
        CHECK(!stream_sync(f.a) && !device_download(f.device, products, c, bytes));
        CHECK(are_products(n, k, shift, (const int[ROWS]){ 0, 0, 1, 1, 2, 2 }));
    }
    unsetenv("GPU_ON_CPU_OLD_BLAS");
    tear_down();
}

/* A launch that CUDA refuses stays in its stream, and is not blamed on the next. */
static void a_refused_launch_is_the_status_of_its_stream(void)
{
    set_up();
    put(1);
    CHECK(!launch_sum_rows(f.a, &(struct sum_rows){ .batch = 1,
                                                    .rows = 1,
                                                    .width = 1ull << 40,
                                                    .to_stride = 1ull << 40,
                                                    .from = f.line,
                                                    .to = f.line }));
    CHECK(stream_sync(f.a) == ERR_DEVICE);
    CHECK(!twice(f.b) && !stream_sync(f.b));
    CHECK(!twice(f.a) && !stream_sync(f.a));
    CHECK(holds(4));
    tear_down();
}

static void tokens_of_another_type_than_their_experts_are_refused(void)
{
    set_up();
    CHECK(!launch_ess(f.a, &(struct ess){ .at = { .token_type = MOE_BF16, .dtype = MOE_F32 } }));
    CHECK(stream_sync(f.a) == ERR_DEVICE);
    CHECK(!twice(f.a) && !stream_sync(f.a)); /* and the stream goes on */
    tear_down();
}

/* Across the moments at which the origin of dates is set anew. */
static void dates_go_on_and_agree_with_the_hosts(void)
{
    struct event *events[8] = { NULL };
    int64_t before_host, after_host, now, last = INT64_MIN;
    struct timespec begin, end, nap = { .tv_nsec = 300000000 };

    set_up();
    for (int i = 0; i < 8; i++)
        CHECK(!event_open_dated(f.device, &events[i]));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 8; i++) {
        CHECK(!twice(f.a) && !event_record(events[i], f.a) && !stream_sync(f.a));
        now = device_now_ns(f.device);
        CHECK(event_ns(events[i]) <= now);
        CHECK(event_ns(events[i]) > last);
        last = event_ns(events[i]);
        nanosleep(&nap, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    before_host = (int64_t)begin.tv_sec * 1000000000 + begin.tv_nsec;
    after_host = (int64_t)end.tv_sec * 1000000000 + end.tv_nsec;
    /* Old dates are still known, and lie inside what the host saw, to a thousandth. */
    for (int i = 1; i < 8; i++)
        CHECK(event_ns(events[i]) - event_ns(events[i - 1]) >= 299000000);
    CHECK((double)(event_ns(events[7]) - event_ns(events[0])) <
          1.001 * (double)(after_host - before_host));
    for (int i = 0; i < 8; i++)
        event_close(events[i]);
    tear_down();
}

/* One hold; whether the host's word ended it, and not that it lasted as long as it may. */
static bool hold_once(struct event *event, bool go)
{
    int64_t begun = device_now_ns(f.device), said, went;
    bool in_time = false;

    put(1);
    CHECK(!stream_hold(f.a) && !event_record(event, f.a) && !event_wait(event, f.b));
    CHECK(!twice(f.b));
    said = device_now_ns(f.device);
    if (go)
        in_time = device_end_hold(f.device) == OK;
    CHECK(!stream_sync(f.a) && !stream_sync(f.b) && holds(2));
    went = event_ns(event);
    CHECK((go && went >= said) || went - begun >= HOLD_MOST_NS - 1000);
    CHECK(in_time || went - begun >= HOLD_MOST_NS - 1000);
    CHECK(go || device_end_hold(f.device) == UNSUPPORTED); /* too late, and says so */
    return in_time;
}

/* A slow machine may be late a few times; a word that is never heard is late each time.  A hold
 * that nobody ended keeps none of the later ones. */
static void what_is_behind_a_hold_waits_for_the_host(void)
{
    struct event *event;
    int tries = 0;

    set_up();
    CHECK(!event_open_dated(f.device, &event));
    for (int round = 0; round < 3; round++) {
        for (tries = 0; tries < 100 && !hold_once(event, true); tries++)
            ;
        CHECK(tries < 100);
        CHECK(!hold_once(event, false));
    }
    event_close(event);
    tear_down();
}

static void memory_that_is_not_there_is_a_result(void)
{
    void *memory = &memory, *same = memory;

    CHECK(device_alloc(f.device, (size_t)1 << 46, &memory) == ERR_NOMEM);
    CHECK(memory == same);
    set_up();
    put(1);
    CHECK(!twice(f.a) && !stream_sync(f.a));
    CHECK(holds(2));
    tear_down();
}

static void closing_waits_for_what_is_queued(void)
{
    set_up();
    put(1);
    for (int i = 0; i < 20; i++)
        CHECK(!twice(f.a));
    stream_close(f.a);
    CHECK(holds(1 << 20));
    f.a = NULL;
    tear_down();
}

/* Copies `count` ranges of odd lengths and places to the same place in another allocation. */
static struct virtual_copies ranges(char *to, const char *from, size_t bytes, uint64_t seed)
{
    struct virtual_copies c = { .own = 2 };
    size_t at = 0;

    while (c.count < 9 && at < bytes) {
        size_t n = 1 + random_below(seed, c.count, (uint32_t)(bytes / 4));

        n = random_below(seed, c.count + 100, 2) ? n & ~(size_t)15 : n;
        n = n > bytes - at ? bytes - at : n;
        c.copies[c.count++] = (struct virtual_copy){ to + at, from + at, n };
        at += n + 1 + random_below(seed, c.count + 200, 40);
    }
    return c;
}

static bool arrived(const struct virtual_copies *c, const char *to, const char *got,
                    const char *from, size_t bytes)
{
    char *want = calloc(bytes, 1);
    bool same;

    for (uint32_t i = 0; i < c->count; i++)
        memcpy(want + (c->copies[i].to - to), from + (c->copies[i].to - to), c->copies[i].bytes);
    same = !memcmp(want, got, bytes);
    free(want);
    return same;
}

/* All ranges, nothing beside them, and not before the link would have carried them. */
static void one_launch_copies_every_range_at_its_pace(void)
{
    enum { BYTES = 300001 };
    static char from[BYTES], got[BYTES];
    void *a = NULL, *b = NULL;

    set_up();
    CHECK(!device_alloc(f.device, BYTES, &a) && !device_alloc(f.device, BYTES, &b));
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (char)(1 + random_below(7, i, 255));
    for (uint32_t ctas = 1; ctas <= 5; ctas++) {
        struct virtual_copies c = ranges(b, a, BYTES, ctas);
        int64_t begun_ns;
        uint64_t paced = 0;

        memset(got, 0, BYTES);
        CHECK(!device_upload(f.device, a, from, BYTES) && !device_upload(f.device, b, got, BYTES));
        for (uint32_t i = c.own; i < c.count; i++)
            paced += c.copies[i].bytes;
        c.ns_per_byte = 20;
        begun_ns = device_now_ns(f.device);
        CHECK(!cuda_virtual_copy(&c, ctas, cuda_stream(f.a)) && !stream_sync(f.a));
        CHECK(device_now_ns(f.device) - begun_ns >= (int64_t)paced * 20 * 999 / 1000);
        CHECK(!device_download(f.device, got, b, BYTES));
        CHECK(arrived(&c, b, got, from, BYTES));
    }
    device_release(f.device, a);
    device_release(f.device, b);
    tear_down();
}

/* Kernels and copies of a sequence whose bytes go in two copies. */
static size_t steps_of_sequence(void *to, void *from, size_t bytes)
{
    struct paced p = { .ns_per_byte = 0.001, .all = bytes };
    struct graph *graph = NULL;
    size_t nodes;

    CHECK(!device_alloc(f.device, sizeof(uint64_t), &p.clock) && !graph_begin(f.a));
    CHECK(!cuda_paced_begin(&p, cuda_stream(f.a)));
    for (size_t half = 0; half < 2; half++)
        CHECK(!cuda_paced_copy(&p, (char *)to + half * (bytes / 2),
                               (char *)from + half * (bytes / 2), bytes / 2, cuda_stream(f.a)));
    CHECK(!cuda_paced_end(&p, cuda_stream(f.a)) && !graph_end(f.a, &graph));
    nodes = graph ? graph->nodes : 0;
    CHECK(graph && !graph_launch(graph, f.a) && !stream_sync(f.a));
    graph_close(graph);
    device_release(f.device, p.clock);
    return nodes;
}

/* A kernel that begins and one that ends; and a copy for each piece, with a wait before all but the
 * first. */
static void waits_of_a_sequence_do_not_grow_with_its_bytes(void)
{
    static const struct {
        size_t mib, pieces;
    } rows[] = { { 2, 2 }, { 8, 2 }, { 32, 8 }, { 64, 16 }, { 192, 16 } };
    void *a = NULL, *b = NULL;

    set_up();
    CHECK(!device_alloc(f.device, 192u << 20, &a) && !device_alloc(f.device, 192u << 20, &b));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK(steps_of_sequence(b, a, rows[i].mib << 20) == 2 * rows[i].pieces + 1);
    device_release(f.device, a);
    device_release(f.device, b);
    tear_down();
}

static int gone_within(int ms)
{
    int rc;

    while ((rc = cuda_graphs_gone(f.device)) == UNSUPPORTED && ms-- > 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return rc;
}

/* What hangs on a graph ends after it, though it still runs when it is dropped; and a capture can
 * be given up in the middle. */
static void graphs_are_dropped_and_end(void)
{
    struct graph *graph = NULL, *none = NULL;

    set_up();
    CHECK(gone_within(1000) == OK);
    CHECK(!graph_begin(f.a) && !launch_fill(f.a, &(struct fill){ f.line, 64 }));
    CHECK(!graph_end(f.a, &graph) && graph && gone_within(1000) == OK); /* it lives */
    CHECK(!stream_hold(f.a) && !graph_launch(graph, f.a));
    device_end_hold(f.device);
    cuda_graphs_drop(f.device);
    CHECK(!stream_sync(f.a) && gone_within(1000) == OK);
    CHECK(!graph_launch(graph, f.a) && stream_sync(f.a) == ERR_WIRE);
    graph_close(graph);
    CHECK(!graph_begin(f.a) && !launch_fill(f.a, &(struct fill){ f.line, 64 }));
    cuda_capture_drop(f.device);
    CHECK(graph_end(f.a, &none) == ERR_WIRE && !none);
    CHECK(!launch_fill(f.a, &(struct fill){ f.line, 64 }) && !stream_sync(f.a));
    tear_down();
}

static void a_gpu_that_is_not_there_is_refused(void)
{
    struct device *none = NULL;

    CHECK(cuda_device_open(1000, &none) == ERR_ARGUMENT);
    CHECK(!none);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_goes_up_comes_down),
        TEST(events_hand_data_from_stream_to_stream),
        TEST(a_wait_without_a_record_passes_at_once),
        TEST(a_muted_stream_keeps_its_events_only),
        TEST(a_failure_skips_what_follows_but_not_the_events),
        TEST(a_product_is_in_the_order_of_its_own_stream),
        TEST(several_products_are_right_wherever_their_rows_begin),
        TEST(a_refused_launch_is_the_status_of_its_stream),
        TEST(tokens_of_another_type_than_their_experts_are_refused),
        TEST(dates_go_on_and_agree_with_the_hosts),
        TEST(what_is_behind_a_hold_waits_for_the_host),
        TEST(memory_that_is_not_there_is_a_result),
        TEST(closing_waits_for_what_is_queued),
        TEST(one_launch_copies_every_range_at_its_pace),
        TEST(waits_of_a_sequence_do_not_grow_with_its_bytes),
        TEST(graphs_are_dropped_and_end),
        TEST(a_gpu_that_is_not_there_is_refused),
    };
    int failed;

    if (device_open("cuda", &f.device))
        return 2;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    device_close(f.device);
    return failed;
}
