/* The public functions of libmoetune.  They check their arguments, and carry orders and times
 * between ranks; live.c decides. */
#include "moetune.h"

#include "agreed.h"
#include "buckets.h"
#include "live.h"
#include "lookup.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXCHANGES_TIMED = 8 };

struct moetune {
    struct moetune_options options; /* its strings are gone */
    struct moe_shape shape;
    struct live *live; /* on rank 0; NULL on the others */
    locale_t plain;    /* with a decimal point, for numbers in files; 0: none */
    struct buckets buckets;
    struct agreed agreed; /* the plans that ranks know without an exchange */

    /* Of the last ask.  At most one of awaits_time and without_exchange is true. */
    bool any_ask;          /* there was one */
    bool awaits_time;      /* its time is not told yet; `live` or an exchange answered it */
    bool without_exchange; /* its time is not told yet; `agreed` answered it */
    bool must_exchange;    /* the next ask must exchange: the time of this step is still missing */
    uint32_t capacity;     /* in a declared space a bucket */
    uint64_t key;          /* the capacity, or the key for which the bucket stands */
    struct moe_plan plan;

    double failure_code; /* of a plan that failed between exchanges, for the next one; 0: none */
    double exchange_took_us[EXCHANGES_TIMED]; /* the last ones, by exchanges % EXCHANGES_TIMED */
    double carry_us;                          /* the broadcast of the exchange under way */
    uint32_t exchanges;
};

static const double us_max = 1e12;

/* Runs a statement under the plain locale, in this thread only.  A locale of 0 changes nothing. */
#define PLAINLY(tuner, statement)                                                                  \
    do {                                                                                           \
        locale_t before_ = uselocale((tuner)->plain);                                              \
        statement;                                                                                 \
        uselocale(before_);                                                                        \
    } while (0)

/* Copies a caller's struct, in whole words of 4 bytes.  Fields that the caller's version does not
 * have become 0. */
static void copy_in(void *to, size_t size, const void *from, uint32_t given_size)
{
    memset(to, 0, size);
    memcpy(to, from, given_size && given_size < size ? given_size & ~3u : size);
}

/* ---- opening */

static double system_us(void *self)
{
    struct timespec now;

    (void)self;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static double or_default(double value, double fallback)
{
    return value < 0 ? 0 : (value > 0 ? value : fallback);
}

/* Registers the space of the options, and makes it that of the layer. */
static int declare_space(struct moetune *t)
{
    const struct moetune_options *o = &t->options;
    const struct declaration *declared;

    if (!o->space)
        return t->shape.space
                   ? fail(ERR_ARGUMENT,
                          "the layer has a declared space: options.space must be its text")
                   : OK;
    if (o->axes || o->window > 1)
        return fail(ERR_ARGUMENT, "options.space does not go with axes or a window: the space "
                                  "declares axes and buckets");
    TRY(declaration_register(o->space, &declared));
    for (size_t i = 0; i < declared->axes; i++)
        if (declared->axis[i].restart)
            return fail(ERR_ARGUMENT,
                        "options.space: the axis %s needs a restart, so only "
                        "`moetune tune --space FILE --exec PROGRAM` can tune it",
                        declared->axis[i].name);
    t->shape.space = declared->id;
    return OK;
}

/* Completes and checks the options and the layer.  Opens the live tuner on rank 0. */
static int complete_and_open(struct moetune *t, const char *db)
{
    struct moetune_options *o = &t->options;
    bool numbers_are_valid = !isnan(o->share) && !isnan(o->margin) && o->harm >= 0 && o->harm < 0.5;
    struct table_setup setup;
    int rc;

    TRY(declare_space(t));
    o->share = or_default(o->share, 0.01);
    o->margin = or_default(o->margin, 0.01);
    o->harm = or_default(o->harm, 0.01);
    o->window = o->window ? o->window : shape_window(&t->shape);
    t->buckets = buckets_of(&t->shape, o->window);
    o->now_us = o->now_us ? o->now_us : system_us;
    if (!numbers_are_valid || !(o->share <= 1) || !(o->margin < 1) || o->window > 1u << 20)
        return fail(ERR_ARGUMENT,
                    "options: a share up to 1, a margin below 1, a harm from 0 to below 0.5 and a "
                    "window up to %u are wanted",
                    1u << 20);
    if (shape_check(&t->shape))
        return ERR_ARGUMENT;
    t->agreed.default_plan = plan_default(&t->shape);
    if (t->shape.space)
        TRY(plan_check(&t->agreed.default_plan, &t->shape));
    if (o->rank)
        return OK;
    setup = (struct table_setup){ .path = db,
                                  .shape = t->shape,
                                  .layer = o->layer,
                                  .cluster = o->cluster,
                                  .axes = o->axes,
                                  .window = o->window,
                                  .seed = o->seed,
                                  .share = o->share,
                                  .margin = o->margin,
                                  .harm = o->harm,
                                  .now_us = o->now_us,
                                  .self = o->self };
    t->plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    PLAINLY(t, rc = live_open(&setup, &t->live));
    return rc;
}

/* Returns a status that callers know. */
static int public_status(int rc)
{
    if (rc == ERR_CORRUPT)
        return MOE_ERR_FORMAT;
    return rc < MOE_ERR_NOMEM || rc > 0 ? MOE_ERR_IO : rc;
}

int moetune_open(const char *db, const struct moe_shape *shape,
                 const struct moetune_options *options, struct moetune **out)
{
    struct moetune *t;
    int rc;

    if (!shape || !out)
        return MOE_ERR_ARGUMENT;
    t = calloc(1, sizeof(*t));
    if (!t)
        return MOE_ERR_NOMEM;
    copy_in(&t->shape, sizeof(t->shape), shape, shape->struct_size);
    t->shape.struct_size = sizeof(t->shape);
    shape_complete(&t->shape);
    if (options)
        copy_in(&t->options, sizeof(t->options), options, options->struct_size);
    rc = complete_and_open(t, db);
    if (rc) {
        moetune_close(t);
        return public_status(rc);
    }
    t->options.layer = t->options.cluster = t->options.axes = t->options.space = NULL;
    *out = t;
    return MOE_OK;
}

void moetune_close(struct moetune *tuner)
{
    if (!tuner)
        return;
    PLAINLY(tuner, live_close(tuner->live));
    agreed_free(&tuner->agreed);
    if (tuner->plain)
        freelocale(tuner->plain);
    free(tuner);
}

/* ---- asking */

/* Returns whether the capacity is a bucket of the declared space, and the caller's plan has room
 * for a plan of that space.  Without a space everything is legal. */
static bool is_legal(const struct moetune *t, uint32_t capacity, const struct moe_plan *plan)
{
    size_t size = plan->struct_size ? plan->struct_size : sizeof(*plan);

    return !t->buckets.declared ||
           (capacity < buckets_end(t->buckets) &&
            size >= offsetof(struct moe_plan, choice) + sizeof(plan->choice));
}

/* Copies a plan to a caller, without the fields that the caller's struct does not have. */
static void copy_out(const struct moe_plan *from, struct moe_plan *out)
{
    uint32_t size = out->struct_size ? out->struct_size : sizeof(*out);
    uint32_t copied = size < sizeof(*from) ? size & ~3u : sizeof(*from);

    memcpy(out, from, copied);
    out->struct_size = size;
}

/* Returns what an exchange takes: the least of the last ones, in which no rank came late. */
static double exchange_us(const struct moetune *t)
{
    uint32_t count = t->exchanges < EXCHANGES_TIMED ? t->exchanges : EXCHANGES_TIMED;
    double least = count ? t->exchange_took_us[0] : 0;

    for (uint32_t i = 1; i < count; i++)
        least = fmin(least, t->exchange_took_us[i]);
    return least;
}

static void add_exchange(struct moetune *t, double us)
{
    t->exchange_took_us[t->exchanges++ % EXCHANGES_TIMED] = us;
}

/* On rank 0: writes the orders of this step, and returns how many there are. */
static uint32_t write_orders(struct moetune *t, uint32_t key, uint32_t room,
                             struct moetune_order *out)
{
    struct agreement orders[1 + AGREED_NEWS] = { { .plan = t->plan, .key = key } };
    double begun_us = t->options.now_us(t->options.self);
    uint32_t count;

    PLAINLY(t, count = agreed_make_orders(&t->agreed, t->live, t->capacity, exchange_us(t), room,
                                          orders));
    for (uint32_t i = 0; i < count; i++)
        order_write(&orders[i], &out[i]);
    live_add_cost(t->live, t->options.now_us(t->options.self) - begun_us);
    return count;
}

static uint32_t bucket_of(const struct moetune *t)
{
    return t->capacity / t->buckets.window;
}

/* Applies the orders, and writes the plan of this step.  ERR_IO if the first order is for another
 * key; its steps are still counted, so that ranks exchange again at the same step. */
static int apply_orders(struct moetune *t, const struct moetune_order *bytes, uint32_t room,
                        uint32_t key, struct moe_plan *plan)
{
    struct agreement orders[1 + AGREED_NEWS];
    uint32_t count = 1;

    for (uint32_t i = 0; i < count; i++) {
        TRY(order_read(&bytes[i], &t->shape, &orders[i]));
        count = orders[0].more + 1;
        if (count > room || count > 1 + AGREED_NEWS)
            return ERR_FORMAT;
    }
    orders[0].holds &= orders[0].key == key;
    TRY(agreed_apply(&t->agreed, orders, count, bucket_of(t)));
    *plan = orders[0].plan;
    return orders[0].key == key ? OK : ERR_IO;
}

/* Exchanges the orders of this step.  Every rank takes part in every broadcast, whatever fails. */
static int exchange(struct moetune *t)
{
    struct moetune_order orders[1 + AGREED_NEWS];
    uint32_t checksum = t->agreed.ask_checksum, count = 1;
    struct agreement first;
    double begun_us;

    t->agreed.ask_checksum = 0;
    memset(orders, 0, sizeof(orders));
    if (t->live)
        write_orders(t, checksum, 1 + AGREED_NEWS, orders);
    begun_us = t->options.now_us(t->options.self);
    for (uint32_t i = 0; i < count; i++) {
        if (t->options.broadcast(t->options.self, orders[i].bytes, sizeof(orders[i].bytes)))
            return ERR_IO;
        /* The first order says how many follow. */
        if (i == 0 && !order_read(orders, &t->shape, &first) && first.more <= AGREED_NEWS)
            count += first.more;
    }
    t->carry_us = t->options.now_us(t->options.self) - begun_us;
    return apply_orders(t, orders, 1 + AGREED_NEWS, checksum, &t->plan) ? ERR_IO : OK;
}

/* Returns the default plan as an answer. */
static struct moe_plan default_answer(const struct moe_shape *shape)
{
    struct moe_plan plan = plan_default(shape);

    plan.source = MOE_DEFAULT;
    return plan;
}

/* Answers an ask: by an exchange, or by the plan that all ranks know. */
static int ask_at(struct moetune *t, uint32_t capacity, uint64_t key, struct moe_plan *plan)
{
    int rc = OK;

    if ((t->options.rank && !t->options.broadcast) || !is_legal(t, capacity, plan))
        return MOE_ERR_ARGUMENT;
    t->capacity = capacity;
    t->key = key;
    t->plan = default_answer(&t->shape);
    t->without_exchange = t->options.broadcast && t->agreed.wait_steps && !t->must_exchange;
    agreed_count_step(&t->agreed, capacity);
    if (t->without_exchange) {
        agreed_take_step(&t->agreed, bucket_of(t), &t->plan);
    } else {
        if (t->live)
            PLAINLY(t, live_ask_in(t->live, bucket_of(t), t->key, &t->plan));
        if (t->options.broadcast)
            rc = exchange(t);
        if (rc && t->live)
            live_drop_ask(t->live);
    }
    t->must_exchange = !t->without_exchange &&
                       t->options.largest; /* alike on every rank, because all tell or none */
    if (rc)
        t->plan = default_answer(&t->shape);
    t->awaits_time = !rc && !t->without_exchange;
    t->any_ask = true;
    copy_out(&t->plan, plan);
    return rc;
}

int moetune_ask(struct moetune *t, uint32_t capacity, struct moe_plan *plan)
{
    return t && plan ? ask_at(t, capacity, live_key(t->buckets, capacity), plan) : MOE_ERR_ARGUMENT;
}

int moetune_bucket(const struct moetune *t, uint64_t key, double class_number, uint32_t *out)
{
    return t && out && t->buckets.declared && key <= INT64_MAX &&
                   buckets_find(t->buckets, key, class_number, out)
               ? MOE_OK
               : MOE_ERR_ARGUMENT;
}

int moetune_ask_key(struct moetune *t, uint64_t key, double class_number, struct moe_plan *plan)
{
    uint32_t bucket;

    if (!plan)
        return MOE_ERR_ARGUMENT;
    TRY(moetune_bucket(t, key, class_number, &bucket));
    return ask_at(t, bucket, key, plan);
}

int moetune_value(const struct moe_plan *plan, const char *axis, char *text, size_t size)
{
    return moelookup_value(plan, axis, text, size);
}

int moetune_format(const struct moe_plan *plan, char *text, size_t size)
{
    return moe_plan_format(plan, text, size);
}

int moetune_order(const struct moetune *t, struct moetune_order *out)
{
    if (!t || !out || !t->any_ask)
        return MOE_ERR_ARGUMENT;
    order_write(&(struct agreement){ .plan = t->plan, .key = t->capacity }, out);
    return MOE_OK;
}

int moetune_follow(struct moetune *t, const struct moetune_order *order, uint32_t capacity,
                   struct moe_plan *plan)
{
    struct agreement agreement;

    if (!t || !order || !plan || !is_legal(t, capacity, plan))
        return MOE_ERR_ARGUMENT;
    if (order_read(order, &t->shape, &agreement) || agreement.key != capacity)
        return MOE_ERR_FORMAT;
    copy_out(&agreement.plan, plan);
    return MOE_OK;
}

/* ---- times and failures */

static const char could_not_run[] = "the trainer could not run it";

/* A plan may fail at a step without an exchange.  At the next exchange the rank sends a failure
 * code in place of its time: failure_least plus the capacity.  These codes lie above all times and
 * below MOETUNE_FAILED. */
static const double failure_least = 1e13, failure_max = 1e14;

static int tell_failed_unasked(struct moetune *t, uint32_t capacity, const struct moe_plan *plan)
{
    int rc;

    PLAINLY(t, rc = live_failed_unasked(t->live, capacity, plan, TRIAL_FAILED, could_not_run));
    return rc;
}

static int tell_unasked(struct moetune *t, uint32_t bucket, uint64_t key,
                        const struct moe_plan *ran, double us)
{
    int rc;

    PLAINLY(t, rc = live_tell_unasked(t->live, bucket, key, ran, (int64_t)fmax(1, us * 1e3)));
    return rc;
}

/* Returns the largest time of all ranks, and adds the cost of the exchange to the budget. */
static double exchange_time(struct moetune *t, double us)
{
    double own_us = fmax(us, t->failure_code), largest_us = own_us;
    double begun_us = t->options.now_us(t->options.self);

    if (t->options.largest && t->options.largest(t->options.self, &largest_us))
        largest_us = INFINITY;
    if (largest_us == t->failure_code)
        t->failure_code = 0;
    if (t->live && (t->options.broadcast || t->options.largest)) {
        add_exchange(t, t->carry_us + t->options.now_us(t->options.self) - begun_us);
        live_add_cost(t->live, exchange_us(t));
    }
    return largest_us;
}

int moetune_tell(struct moetune *t, double time_us)
{
    struct moe_plan plan;
    uint32_t capacity;
    double largest_us;
    int rc = MOE_OK;

    if (!t)
        return MOE_ERR_ARGUMENT;
    if (t->without_exchange) { /* rank 0's own time counts; a failure waits for the next exchange */
        t->without_exchange = false;
        if (time_us == MOETUNE_FAILED) {
            t->failure_code = failure_least + t->capacity;
            return MOE_OK;
        }
        if (!(time_us > 0 && time_us < us_max))
            return MOE_ERR_ARGUMENT;
        return t->live ? tell_unasked(t, bucket_of(t), t->key, &t->plan, time_us) : MOE_OK;
    }
    /* A wrong time becomes the largest of all, so that every rank learns of it. */
    if (!t->awaits_time || !(time_us == MOETUNE_FAILED || (time_us > 0 && time_us < us_max)))
        time_us = INFINITY;
    largest_us = exchange_time(t, time_us);
    t->awaits_time = t->must_exchange = false;
    if (largest_us > 0 && largest_us < us_max) {
        if (t->live)
            PLAINLY(t, rc = live_tell(t->live, (int64_t)fmax(1, largest_us * 1e3)));
        return rc;
    }
    if (t->options.largest) /* else no other rank knows of it */
        t->agreed.wait_steps = 0;
    if (largest_us == MOETUNE_FAILED) {
        if (t->live)
            PLAINLY(t, rc = live_failed(t->live, TRIAL_FAILED, could_not_run));
        return rc;
    }
    if (t->live)
        live_drop_ask(t->live);
    if (!(largest_us >= failure_least && largest_us < failure_max))
        return MOE_ERR_ARGUMENT;
    capacity = (uint32_t)(largest_us - failure_least);
    plan = agreed_plan(&t->agreed, capacity / t->buckets.window);
    return t->live ? tell_failed_unasked(t, capacity, &plan) : MOE_OK;
}

/* ---- for callers that carry orders themselves */

int moetune_rest(struct moetune *t, uint32_t capacity, struct moe_plan *plan, uint32_t *steps)
{
    struct moe_plan best = MOE_PLAN_INIT;

    if (!t || !plan || !steps || !t->live || !is_legal(t, capacity, plan))
        return MOE_ERR_ARGUMENT;
    PLAINLY(t, *steps = live_rest(t->live, capacity, 0, &best));
    copy_out(&best, plan);
    return MOE_OK;
}

int moetune_passed(struct moetune *t, uint32_t capacity, const struct moe_plan *plan,
                   double time_us)
{
    struct moe_plan ran;

    if (!t || !plan || !t->live || !is_legal(t, capacity, plan) ||
        !(time_us == MOETUNE_FAILED || (time_us > 0 && time_us < us_max)))
        return MOE_ERR_ARGUMENT;
    copy_in(&ran, sizeof(ran), plan, plan->struct_size);
    t->awaits_time = false;
    if (time_us == MOETUNE_FAILED)
        return tell_failed_unasked(t, capacity, &ran);
    return tell_unasked(t, capacity / t->buckets.window, live_key(t->buckets, capacity), &ran,
                        time_us);
}

int moetune_spent(struct moetune *t, double us)
{
    if (!t || !t->live || !(us >= 0 && us < us_max))
        return MOE_ERR_ARGUMENT;
    live_add_cost(t->live, us);
    add_exchange(t, us);
    return MOE_OK;
}

int moetune_due(const struct moetune *t)
{
    return t ? !t->agreed.wait_steps : MOE_ERR_ARGUMENT;
}

int moetune_until_due(const struct moetune *t)
{
    return t ? (int)t->agreed.wait_steps : MOE_ERR_ARGUMENT;
}

int moetune_known(struct moetune *t, uint32_t capacity, struct moe_plan *plan)
{
    struct moe_plan known;

    if (!t || !plan || !t->agreed.wait_steps || !is_legal(t, capacity, plan))
        return MOE_ERR_ARGUMENT;
    agreed_count_step(&t->agreed, capacity);
    agreed_take_step(&t->agreed, capacity / t->buckets.window, &known);
    copy_out(&known, plan);
    return MOE_OK;
}

int moetune_orders(struct moetune *t, struct moetune_order *out, uint32_t room, uint32_t *count)
{
    if (!t || !out || !room || !count || !t->live || !t->any_ask)
        return MOE_ERR_ARGUMENT;
    *count = write_orders(t, t->capacity, room < 1 + AGREED_NEWS ? room : 1 + AGREED_NEWS, out);
    return MOE_OK;
}

int moetune_obey(struct moetune *t, const struct moetune_order *orders, uint32_t room,
                 uint32_t capacity, struct moe_plan *plan)
{
    struct moe_plan ordered;

    if (!t || !orders || !room || !plan || !is_legal(t, capacity, plan))
        return MOE_ERR_ARGUMENT;
    t->capacity = capacity;
    TRY(public_status(apply_orders(t, orders, room, capacity, &ordered)));
    copy_out(&ordered, plan);
    return MOE_OK;
}

int moetune_status(const struct moetune *t, struct moetune_status *out)
{
    struct moetune_status status = { .struct_size = sizeof(status) };
    uint32_t copied;

    if (!t || !out)
        return MOE_ERR_ARGUMENT;
    if (t->live)
        status = live_status(t->live);
    copied = out->struct_size && out->struct_size < sizeof(status) ? out->struct_size & ~7u
                                                                   : (uint32_t)sizeof(status);
    memcpy(out, &status, copied);
    out->struct_size = copied;
    return MOE_OK;
}

const char *moetune_version(void)
{
    return MOETUNE_VERSION;
}
