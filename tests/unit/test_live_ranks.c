/* Tests tuning while training on several ranks, which exchange orders and times now and then. */
#include "live_training.h"

#include <math.h>
#include <sys/wait.h>

/* ---- ranks */

static void ranks_with_other_clocks_take_the_same_plans(void)
{
    enum { RANKS = 4 };
    struct moetune *tuners[RANKS];
    struct moe_plan plans[RANKS];
    struct moetune_order order;
    struct training t;
    uint32_t differ = 0, switches = 0;
    char before[64] = "", text[64];

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct moetune_options o = options_with(0.05);

        o.rank = rank;
        tuners[rank] = open_with(rank ? "/nowhere/at/all" : fresh_path("ranks"), o);
    }
    t = training_of(tuners[0], 4, 0.05);
    for (uint32_t step = 0; step < 4000; step++) {
        uint32_t capacity = 200 + step % 200;
        double slowest = 0;

        plans[0] = (struct moe_plan)MOE_PLAN_INIT;
        CHECK(moetune_ask(tuners[0], capacity, &plans[0]) == MOE_OK);
        CHECK(moetune_order(tuners[0], &order) == MOE_OK);
        for (int rank = 1; rank < RANKS; rank++) {
            plans[rank] = (struct moe_plan)MOE_PLAN_INIT;
            CHECK(moetune_follow(tuners[rank], &order, capacity, &plans[rank]) == MOE_OK);
            differ += !plan_equal(&plans[0], &plans[rank]) || plans[0].source != plans[rank].source;
        }
        for (int rank = 0; rank < RANKS; rank++)
            slowest = fmax(
                slowest, (double)noise_sample(&t.noise, 1e3 * step_us(&t, &plans[rank], capacity)));
        CHECK(moetune_tell(tuners[0], slowest * 1e-3) == MOE_OK);
        moe_plan_format(&plans[0], text, sizeof(text));
        switches += strcmp(text, before) != 0;
        strcpy(before, text);
    }
    CHECK(!differ && switches > 20);
    CHECK(plan_is(&plans[3], best_text));
    /* Rank 1 alone cannot ask. */
    CHECK(moetune_ask(tuners[1], 300, &plans[1]) == MOE_ERR_ARGUMENT);
    for (int rank = 0; rank < RANKS; rank++)
        moetune_close(tuners[rank]);
}

static void damaged_orders_are_refused(void)
{
    struct moetune *tuner = open_with(fresh_path("orders"), options_with(0));
    struct moe_plan plan = MOE_PLAN_INIT, untouched = { .d = 7 };
    struct moetune_order order, other;

    CHECK(moetune_order(tuner, &order) == MOE_ERR_ARGUMENT); /* nothing was asked */
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_order(tuner, &order) == MOE_OK);
    CHECK(sizeof(order) == 32);
    CHECK(moetune_follow(tuner, &order, 300, &plan) == MOE_OK);
    CHECK(moetune_follow(tuner, &order, 301, &untouched) == MOE_ERR_FORMAT);
    for (size_t bit = 0; bit < 8 * sizeof(order); bit++) {
        other = order;
        other.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(moetune_follow(tuner, &other, 300, &untouched) == MOE_ERR_FORMAT);
    }
    CHECK(untouched.d == 7);
    moetune_close(tuner);
}

/* Rank 0's bytes, as a broadcast brings them, and what another rank took. */
struct wire {
    uint8_t bytes[32];
    double other_us;
    int fails;
};

static int send_bytes(void *self, void *bytes, size_t size)
{
    struct wire *w = self;

    memcpy(w->bytes, bytes, size);
    return w->fails;
}

static int receive_bytes(void *self, void *bytes, size_t size)
{
    memcpy(bytes, ((struct wire *)self)->bytes, size);
    return 0;
}

static int take_larger(void *self, double *value)
{
    struct wire *w = self;

    *value = fmax(*value, w->other_us);
    return 0;
}

static void callbacks_carry_orders_and_times(void)
{
    struct wire wire = { .fails = 0 };
    struct moetune_options o = options_with(0.05), p = o;
    struct moe_plan plan = MOE_PLAN_INIT, other = MOE_PLAN_INIT;
    struct moetune *tuner, *follower;

    o.broadcast = send_bytes;
    o.largest = take_larger;
    o.self = &wire;
    o.now_us = NULL;
    p.broadcast = receive_bytes;
    p.self = &wire;
    p.now_us = NULL;
    p.rank = 1;
    tuner = open_with(fresh_path("callbacks"), o);
    follower = open_with(NULL, p);
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_ask(follower, 300, &other) == MOE_OK);
    CHECK(plan_equal(&plan, &other));
    wire.other_us = 5000; /* the other rank is slower */
    CHECK(moetune_tell(tuner, 1000) == MOE_OK);
    CHECK(moetune_tell(follower, 5000) == MOE_OK);
    CHECK(moetune_tell(follower, 5000) == MOE_ERR_ARGUMENT); /* twice */
    CHECK(fabs(status_of(tuner).time_us - 5000) < 1);
    /* A rank without a time makes the step void for all. */
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    wire.other_us = INFINITY;
    CHECK(moetune_tell(tuner, 1000) == MOE_ERR_ARGUMENT);
    CHECK(status_of(tuner).steps == 1);
    /* A rank that is elsewhere in the training finds out. */
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    other = (struct moe_plan)MOE_PLAN_INIT;
    CHECK(moetune_ask(follower, 299, &other) == MOE_ERR_IO);
    CHECK(plan_is(&other, "r=1 d=1 a=linear"));
    wire.fails = 1;
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_ERR_IO);
    CHECK(plan_is(&plan, "r=1 d=1 a=linear"));
    moetune_close(tuner);
    moetune_close(follower);
}

/* ---- ranks that exchange seldom */

enum { CROWD = 3 };

/* Ranks of one thread: what rank 0 has broadcast waits until the others come for it. */
struct crowd {
    struct member {
        struct crowd *crowd;
        struct moetune *tuner;
        struct moe_plan plan;
        uint32_t read, calls; /* messages; of callbacks */
    } members[CROWD];
    uint8_t messages[16][32];
    uint32_t sent;
    double most;     /* that any rank tells at this step */
    double clock_us; /* goes on by an exchange only */
    double each_us;
    struct noise noise;
    double slow; /* see struct training */
    uint32_t differ;
};

static int crowd_broadcast(void *self, void *bytes, size_t size)
{
    struct member *m = self;
    struct crowd *c = m->crowd;

    CHECK(size == 32);
    m->calls++;
    c->clock_us += c->each_us;
    if (m == c->members)
        memcpy(c->messages[c->sent++ % 16], bytes, size);
    else if (m->read == c->sent)
        return 1; /* it would wait for ever */
    else
        memcpy(bytes, c->messages[m->read++ % 16], size);
    return 0;
}

static int crowd_largest(void *self, double *value)
{
    struct member *m = self;

    m->calls++;
    m->crowd->clock_us += m->crowd->each_us;
    *value = fmax(*value, m->crowd->most);
    return 0;
}

static double crowd_us(void *self)
{
    return ((struct member *)self)->crowd->clock_us;
}

static void crowd_open(struct crowd *c, const char *path, double share)
{
    *c = (struct crowd){ .noise = noise_make(1, 0.03, 0, false), .slow = 1 };
    for (uint32_t rank = 0; rank < CROWD; rank++) {
        struct moetune_options o = options_with(share);

        c->members[rank].crowd = c;
        o.rank = rank;
        o.broadcast = crowd_broadcast;
        o.largest = crowd_largest;
        o.now_us = crowd_us;
        o.self = &c->members[rank];
        c->members[rank].tuner = open_with(rank ? NULL : path, o);
    }
}

static void crowd_close(struct crowd *c)
{
    for (int rank = 0; rank < CROWD; rank++)
        moetune_close(c->members[rank].tuner);
}

static struct moetune_status crowd_status(const struct crowd *c)
{
    return status_of(c->members[0].tuner);
}

static int ask_as(struct crowd *c, int rank, uint32_t capacity)
{
    struct member *m = &c->members[rank];

    m->plan = (struct moe_plan)MOE_PLAN_INIT;
    return moetune_ask(m->tuner, capacity, &m->plan);
}

static void crowd_ask(struct crowd *c, uint32_t capacity)
{
    for (int rank = 0; rank < CROWD; rank++) {
        const struct moe_plan *plan = &c->members[rank].plan;

        CHECK(ask_as(c, rank, capacity) == MOE_OK);
        c->differ += !plan_equal(plan, &c->members[0].plan) ||
                     plan->source != c->members[0].plan.source ||
                     c->members[rank].calls != c->members[0].calls;
    }
}

/* A rank tells `own` at once: what comes back is the largest of what all tell. */
static int tell_as(struct crowd *c, int rank, double own, double most)
{
    c->most = most;
    return moetune_tell(c->members[rank].tuner, own);
}

static void crowd_train(struct crowd *c, uint32_t capacity, uint32_t steps)
{
    struct training t = { .slow = c->slow };

    for (uint32_t i = 0; i < steps; i++) {
        double us;

        crowd_ask(c, capacity);
        us = step_us(&t, &c->members[0].plan, capacity);
        us = (double)noise_sample(&c->noise, us * 1e3) * 1e-3;
        for (int rank = 0; rank < CROWD; rank++)
            CHECK(tell_as(c, rank, us * (1 - 0.001 * rank), us) == MOE_OK);
    }
}

static void crowd_decide(struct crowd *c, uint32_t capacity)
{
    uint32_t steps = 0, before = crowd_status(c).decided;

    while (crowd_status(c).decided == before && steps++ < 10000)
        crowd_train(c, capacity, 1);
    CHECK(steps < 10000);
    crowd_train(c, capacity, 80); /* until ranks have heard of it */
}

static void a_decided_bucket_calls_no_callback_but_every_64_steps(void)
{
    struct moetune_status before;
    struct crowd c;
    uint32_t calls;

    crowd_open(&c, fresh_path("seldom"), 0.01);
    crowd_decide(&c, 300);
    calls = c.members[0].calls;
    before = crowd_status(&c);
    CHECK(plan_is(&c.members[1].plan, best_text) && c.members[1].plan.source == MOE_EXACT);
    /* A broadcast and a largest time for each plan that was tried, and few besides. */
    CHECK(calls < 2 * (before.tried + before.steps / 64 + 30) && calls < before.steps / 2);
    crowd_train(&c, 310, 640);
    CHECK(c.members[0].calls - calls <= 2 * (640 / 64 + 1));
    CHECK(crowd_status(&c).steps == before.steps + 640 && !c.differ);
    if (getenv("MOETUNE_TEST_VERBOSE"))
        printf("    %u calls in %llu steps, %llu of them tried; then %u in 640\n", calls,
               (unsigned long long)before.steps, (unsigned long long)before.tried,
               c.members[0].calls - calls);
    crowd_close(&c);
}

static uint32_t nth_capacity(uint32_t n)
{
    return 128 * (n % 12) + 100;
}

static void buckets_known_from_an_earlier_run_are_told_soon(void)
{
    const char *path = fresh_path("news");
    uint32_t unheard = 0;
    struct crowd c;

    crowd_open(&c, path, 0.2);
    for (uint32_t i = 0; i < 60000 && crowd_status(&c).decided < 12; i++)
        crowd_train(&c, nth_capacity(i / 20), 1);
    CHECK(crowd_status(&c).decided == 12 && !c.differ);
    crowd_close(&c);
    crowd_open(&c, path, 0.2);
    for (uint32_t step = 0; step < 1200; step++) {
        crowd_train(&c, nth_capacity(step * 5), 1);
        unheard += step >= 100 && c.members[2].plan.source == MOE_DEFAULT;
    }
    CHECK(!unheard && !c.differ);
    CHECK(c.members[0].calls < 150); /* not one for each step */
    crowd_close(&c);
}

/* An exchange every so many steps could fall on the same few of them for ever. */
static void buckets_that_come_in_turn_are_all_decided(void)
{
    struct crowd c;
    uint32_t steps = 0;

    crowd_open(&c, fresh_path("in-turn"), 0.05);
    c.each_us = 20; /* an exchange takes what half a step allows */
    while (crowd_status(&c).decided < 12 && steps < 20000)
        crowd_train(&c, nth_capacity(5 * steps++), 1);
    CHECK(steps < 5000 && !c.differ);
    CHECK(c.members[0].calls < steps);
    CHECK(crowd_status(&c).cost_us <= 0.05 * crowd_status(&c).time_us);
    crowd_close(&c);
}

static void a_plan_that_became_slower_between_exchanges_is_replaced_on_all_ranks(void)
{
    struct crowd c;

    crowd_open(&c, fresh_path("slower"), 0.05);
    crowd_decide(&c, 300);
    c.slow = 1.3;
    crowd_train(&c, 300, 300);
    CHECK(crowd_status(&c).alarms == 1);
    crowd_train(&c, 300, 4000);
    CHECK(plan_is(&c.members[2].plan, second_text) && c.members[2].plan.source == MOE_EXACT);
    CHECK(!c.differ);
    crowd_close(&c);
}

static void ranks_that_ask_for_other_capacities_meet_again(void)
{
    struct crowd c;
    uint32_t calls, step;
    int got = MOE_OK;

    crowd_open(&c, fresh_path("apart"), 0.01);
    crowd_decide(&c, 300);
    crowd_train(&c, 300, 1);
    calls = c.members[0].calls;
    /* Rank 2 wants a bucket of which nobody has heard: nobody may wait for anybody. */
    for (step = 0; step < 100 && c.members[0].calls == calls; step++)
        for (int rank = 0; rank < CROWD; rank++) {
            int rc = ask_as(&c, rank, rank == 2 ? 5000 : 300);

            CHECK(rank == 2 || rc == MOE_OK);
            got = rc;
            CHECK(c.members[rank].calls == calls || c.members[0].calls > calls);
            if (c.members[0].calls == calls)
                CHECK(tell_as(&c, rank, 1000, 1000) == MOE_OK);
        }
    CHECK(step > 1 && step <= 64);
    CHECK(got == MOE_ERR_IO && plan_is(&c.members[2].plan, "r=1 d=1 a=linear"));
    for (int rank = 0; rank < CROWD; rank++)
        CHECK(tell_as(&c, rank, 1000, INFINITY) == MOE_ERR_ARGUMENT);
    crowd_train(&c, 300, 200);
    CHECK(!c.differ && plan_is(&c.members[2].plan, best_text));
    crowd_close(&c);
}

static void a_plan_that_fails_between_exchanges_is_given_up_at_the_next(void)
{
    struct crowd c;
    uint32_t calls;

    crowd_open(&c, fresh_path("fails-between"), 0.05);
    crowd_decide(&c, 300);
    calls = c.members[0].calls;
    crowd_ask(&c, 300);
    if (c.members[0].calls != calls) { /* was due by chance */
        for (int rank = 0; rank < CROWD; rank++)
            CHECK(tell_as(&c, rank, 800, 800) == MOE_OK);
        crowd_ask(&c, 300);
    }
    calls = c.members[0].calls;
    CHECK(plan_is(&c.members[1].plan, best_text));
    CHECK(tell_as(&c, 0, 800, 800) == MOE_OK && tell_as(&c, 2, 800, 800) == MOE_OK);
    CHECK(tell_as(&c, 1, MOETUNE_FAILED, MOETUNE_FAILED) == MOE_OK);
    for (int step = 0; step < 64 && c.members[0].calls == calls; step++) {
        crowd_ask(&c, 300);
        /* Rank 1 has something worse to say than its time: 1e13 and the capacity. */
        for (int n = 0; n < CROWD; n++)
            CHECK(tell_as(&c, (n + 1) % CROWD, 800,
                          c.members[0].calls == calls ? 800 : 1e13 + 300) == MOE_OK);
    }
    CHECK(c.members[0].calls == calls + 2);
    crowd_ask(&c, 300);
    CHECK(!plan_is(&c.members[0].plan, best_text) && c.members[0].calls == calls + 3);
    for (int rank = 0; rank < CROWD; rank++)
        CHECK(tell_as(&c, rank, 900, 900) == MOE_OK);
    for (int i = 0; i < 4000; i++) {
        crowd_train(&c, 300, 1);
        CHECK(!plan_is(&c.members[1].plan, best_text));
    }
    CHECK(plan_is(&c.members[1].plan, second_text) && !c.differ);
    crowd_close(&c);
}

static void what_callbacks_take_is_paid_from_the_share(void)
{
    struct crowd c;

    crowd_open(&c, fresh_path("paid"), 0.01);
    c.each_us = 100; /* a step takes 1,100: one exchange is what 18 of them allow */
    crowd_train(&c, 300, 4000);
    CHECK(crowd_status(&c).own_us >= 200 && !c.differ);
    CHECK(crowd_status(&c).cost_us <= 0.011 * crowd_status(&c).time_us);
    CHECK(crowd_status(&c).own_us >= 0.9 * 100 * c.members[0].calls);
    crowd_close(&c);
    crowd_open(&c, fresh_path("dear"), 0.01);
    c.each_us = 100000;
    crowd_train(&c, 300, 4000);
    CHECK(crowd_status(&c).tried == 0);
    CHECK(c.members[0].calls < 2 * 16); /* one in 1,024 steps, and a few until that is known */
    crowd_close(&c);
}

/* A step of two ranks whose caller carries orders as the header has it.  Whether they exchange.
 * Rank 0 alone hears of what `fails`. */
static bool carry(struct moetune *ranks[2], double exchange_us, const char *fails,
                  struct moe_plan *plan)
{
    struct moe_plan theirs = MOE_PLAN_INIT;
    struct moetune_order orders[9];
    bool due = moetune_due(ranks[0]);
    uint32_t count;

    *plan = (struct moe_plan)MOE_PLAN_INIT;
    CHECK(moetune_due(ranks[1]) == due);
    if (due) {
        CHECK(moetune_ask(ranks[0], 300, plan) == MOE_OK);
        CHECK(moetune_spent(ranks[0], exchange_us) == MOE_OK);
        CHECK(moetune_orders(ranks[0], orders, 9, &count) == MOE_OK && count == 1);
        CHECK(moetune_obey(ranks[0], orders, 9, 300, plan) == MOE_OK);
        CHECK(moetune_obey(ranks[1], orders, 9, 300, &theirs) == MOE_OK);
        CHECK(moetune_tell(ranks[0], plan_is(plan, fails) ? MOETUNE_FAILED
                                                          : 1000 * factor_of(plan)) == MOE_OK);
    } else {
        CHECK(moetune_known(ranks[0], 300, plan) == MOE_OK);
        CHECK(moetune_known(ranks[1], 300, &theirs) == MOE_OK);
        CHECK(moetune_passed(ranks[0], 300, plan, 1000 * factor_of(plan)) == MOE_OK);
    }
    CHECK(plan_equal(plan, &theirs) && plan->source == theirs.source);
    return due;
}

static void open_two(const char *name, struct moetune_options o, struct moetune *ranks[2])
{
    ranks[0] = open_with(fresh_path(name), o);
    o.rank = 1;
    ranks[1] = open_with(NULL, o);
}

static void who_carries_orders_may_do_so_as_seldom(void)
{
    struct moetune *ranks[2], *tuner, *other;
    struct moetune_order orders[9];
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t count, exchanges = 0;
    int quiet = 0;

    open_two("carried", options_with(0), ranks);
    tuner = ranks[0];
    other = ranks[1];
    CHECK(moetune_until_due(NULL) < 0);
    CHECK(moetune_due(tuner) == 1 && moetune_due(other) == 1 && moetune_due(NULL) < 0);
    CHECK(moetune_known(other, 300, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moetune_orders(tuner, orders, 9, &count) == MOE_ERR_ARGUMENT); /* nothing was asked */
    CHECK(moetune_orders(other, orders, 9, &count) == MOE_ERR_ARGUMENT);
    for (int step = 0; step < 2000; step++) {
        bool due;

        CHECK(moetune_until_due(tuner) == quiet && moetune_until_due(other) == quiet);
        due = carry(ranks, 0, "", &plan);
        exchanges += due;
        quiet = due ? moetune_until_due(tuner) : quiet - 1;
    }
    CHECK(plan_is(&plan, best_text) && exchanges < 300 && status_of(tuner).steps == 2000);
    while (!moetune_due(tuner))
        carry(ranks, 0, "", &plan);
    CHECK(moetune_ask(tuner, 300, &plan) == MOE_OK);
    CHECK(moetune_orders(tuner, orders, 9, &count) == MOE_OK);
    CHECK(moetune_obey(other, orders, 9, 301, &plan) == MOE_ERR_IO);
    CHECK(moetune_obey(other, orders, 0, 300, &plan) == MOE_ERR_ARGUMENT);
    orders[0].bytes[13] ^= 8; /* as if others came after it */
    CHECK(moetune_obey(other, orders, 9, 300, &plan) == MOE_ERR_FORMAT);
    moetune_close(tuner);
    moetune_close(other);
}

static void a_plan_of_which_rank_0_alone_hears_that_it_fails_moves_no_exchange(void)
{
    struct moetune *ranks[2];
    struct moe_plan plan;

    open_two("carried-fails", options_with(0.01), ranks);
    for (int step = 0; step < 4000; step++)
        carry(ranks, 100, best_text, &plan);
    CHECK(plan_is(&plan, second_text));
    moetune_close(ranks[0]);
    moetune_close(ranks[1]);
}

/* What was saved up for a plan is not spent on the exchange that is to try it. */
static void exchanges_of_a_fifth_of_a_step_leave_something_for_plans(void)
{
    struct moetune *ranks[2];
    struct moetune_status s;
    struct moe_plan plan;

    open_two("dear", options_with(0.01), ranks);
    for (int step = 0; step < 40000; step++)
        carry(ranks, 200, "", &plan);
    s = status_of(ranks[0]);
    CHECK(plan_is(&plan, best_text) && s.tried > 0);
    CHECK(s.cost_us <= 0.01 * s.time_us + 200);
    moetune_close(ranks[0]);
    moetune_close(ranks[1]);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(ranks_with_other_clocks_take_the_same_plans),
        TEST(damaged_orders_are_refused),
        TEST(callbacks_carry_orders_and_times),
        TEST(a_decided_bucket_calls_no_callback_but_every_64_steps),
        TEST(buckets_known_from_an_earlier_run_are_told_soon),
        TEST(buckets_that_come_in_turn_are_all_decided),
        TEST(a_plan_that_became_slower_between_exchanges_is_replaced_on_all_ranks),
        TEST(ranks_that_ask_for_other_capacities_meet_again),
        TEST(a_plan_that_fails_between_exchanges_is_given_up_at_the_next),
        TEST(what_callbacks_take_is_paid_from_the_share),
        TEST(who_carries_orders_may_do_so_as_seldom),
        TEST(a_plan_of_which_rank_0_alone_hears_that_it_fails_moves_no_exchange),
        TEST(exchanges_of_a_fifth_of_a_step_leave_something_for_plans),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
