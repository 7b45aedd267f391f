/* Tests host streams and events: order, hand-over, failures.  Also runs under ThreadSanitizer. */
#include "check.h"

#include "host.h"
#include "status.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { STEPS = 3000 };

static struct {
    struct device *device;
    struct stream *a, *b;
    int log[4 * STEPS], logged;
    int shared; /* handed from stream to stream by events alone */
} f;

struct number {
    int value, status;
};

static int write_log(const void *args)
{
    const struct number *n = args;

    f.log[f.logged++] = n->value;
    return n->status;
}

static int add_shared(const void *args)
{
    f.shared += ((const struct number *)args)->value;
    return OK;
}

static void set_up(void)
{
    memset(&f, 0, sizeof(f));
    CHECK(!device_open("host", &f.device));
    CHECK(!stream_open(f.device, &f.a));
    CHECK(!stream_open(f.device, &f.b));
}

static void tear_down(void)
{
    stream_close(f.a);
    stream_close(f.b);
    device_close(f.device);
}

static void log_later(struct stream *stream, int value, int status)
{
    struct number n = { value, status };

    CHECK(!host_call(stream, write_log, &n, sizeof(n)));
}

static void a_stream_runs_in_order_however_long_its_queue(void)
{
    set_up();
    for (int i = 0; i < STEPS; i++)
        log_later(f.a, i, OK);
    CHECK(!stream_sync(f.a));
    for (int i = 0; i < STEPS; i++)
        CHECK(f.log[i] == i);
    tear_down();
}

/* 2 x STEPS unprotected additions in turns: lost or torn ones would show, as would a race. */
static void events_hand_data_from_stream_to_stream(void)
{
    struct event *there = NULL, *back = NULL;
    struct number one = { 1, OK };

    set_up();
    CHECK(!event_open_dated(f.device, &there) && !event_open_dated(f.device, &back));
    for (int i = 0; i < STEPS; i++) {
        CHECK(!host_call(f.a, add_shared, &one, sizeof(one)));
        event_record(there, f.a);
        event_wait(there, f.b);
        CHECK(!host_call(f.b, add_shared, &one, sizeof(one)));
        event_record(back, f.b);
        event_wait(back, f.a);
    }
    CHECK(!stream_sync(f.a) && !stream_sync(f.b));
    CHECK(f.shared == 2 * STEPS);
    CHECK(event_ns(back) >= event_ns(there));
    event_close(there);
    event_close(back);
    tear_down();
}

static void a_wait_without_a_record_passes_at_once(void)
{
    struct event *never = NULL;

    set_up();
    CHECK(!event_open(f.device, &never));
    event_wait(never, f.a);
    log_later(f.a, 7, OK);
    CHECK(!stream_sync(f.a));
    CHECK(f.log[0] == 7);
    event_close(never);
    tear_down();
}

static void a_failure_skips_what_follows_but_not_the_events(void)
{
    struct event *event = NULL;

    set_up();
    CHECK(!event_open(f.device, &event));
    log_later(f.a, 1, ERR_WIRE);
    log_later(f.a, 2, ERR_IO);
    event_record(event, f.a);
    event_wait(event, f.b);
    log_later(f.b, 3, OK);
    CHECK(!stream_sync(f.b));
    CHECK(stream_sync(f.a) == ERR_WIRE);
    CHECK(f.logged == 2 && f.log[0] == 1 && f.log[1] == 3);
    log_later(f.a, 4, OK);
    CHECK(!stream_sync(f.a));
    CHECK(f.log[2] == 4);
    event_close(event);
    tear_down();
}

static void a_muted_stream_keeps_its_events_only(void)
{
    struct event *event = NULL;
    float line[4] = { 1, 1, 1, 1 };

    set_up();
    CHECK(!event_open(f.device, &event));
    f.a->muted = true;
    CHECK(!launch_fill(f.a, &(struct fill){ line, sizeof(line) }));
    log_later(f.a, 1, OK);
    event_record(event, f.a);
    event_wait(event, f.b);
    log_later(f.b, 2, OK);
    CHECK(!stream_sync(f.a) && !stream_sync(f.b));
    CHECK(f.logged == 1 && f.log[0] == 2 && line[0] == 1);
    event_close(event);
    tear_down();
}

static int nap(const void *args)
{
    struct timespec t = { .tv_nsec = 20000000 };

    (void)args;
    nanosleep(&t, NULL);
    return OK;
}

static atomic_int arrived;

/* Waits for the other one, who never comes where one stream waits for the other's end. */
static int meet(const void *args)
{
    (void)args;
    arrived++;
    for (int ms = 0; arrived < 2 && ms < 60000; ms++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return arrived == 2 ? OK : ERR_WIRE;
}

static void two_streams_run_at_the_same_time(void)
{
    struct event *begin[2] = { NULL }, *end[2] = { NULL };
    struct stream *streams[2];

    set_up();
    streams[0] = f.a;
    streams[1] = f.b;
    for (int i = 0; i < 2; i++) {
        CHECK(!event_open_dated(f.device, &begin[i]) && !event_open_dated(f.device, &end[i]));
        event_record(begin[i], streams[i]);
        CHECK(!host_call(streams[i], meet, NULL, 0));
        event_record(end[i], streams[i]);
    }
    CHECK(!stream_sync(f.a) && !stream_sync(f.b));
    CHECK(event_ns(begin[1]) < event_ns(end[0]) && event_ns(begin[0]) < event_ns(end[1]));
    for (int i = 0; i < 2; i++) {
        event_close(begin[i]);
        event_close(end[i]);
    }
    tear_down();
}

static void closing_waits_for_what_is_queued(void)
{
    set_up();
    CHECK(!host_call(f.a, nap, NULL, 0));
    log_later(f.a, 5, OK);
    stream_close(f.a);
    CHECK(f.logged == 1);
    f.a = NULL;
    tear_down();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_stream_runs_in_order_however_long_its_queue),
        TEST(events_hand_data_from_stream_to_stream),
        TEST(a_wait_without_a_record_passes_at_once),
        TEST(a_failure_skips_what_follows_but_not_the_events),
        TEST(a_muted_stream_keeps_its_events_only),
        TEST(two_streams_run_at_the_same_time),
        TEST(closing_waits_for_what_is_queued),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
