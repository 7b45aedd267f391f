/* The public functions of libmoetune: they check what callers hand in, and carry orders and times
 * between ranks. */
#include "moetune.h"

#include "live.h"
#include "plan.h"
#include "shape.h"
#include "status.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct moetune {
    struct moetune_options options; /* strings are not kept */
    struct moe_shape shape;
    struct live *live; /* rank 0 */
    locale_t plain;    /* numbers in files have a point, whatever the program's locale; 0: none */
    bool asked;        /* and not told yet */
    bool ordered;
    uint32_t capacity;
    struct moe_plan plan;
};

static const double us_most = 1e12;

/* For as long as we read and write; of this thread alone. */
static locale_t speak_plainly(const struct moetune *t)
{
    return uselocale(t->plain); /* 0 changes nothing */
}

/* What was not there when the caller was compiled is 0. */
static void take(void *to, size_t size, const void *from, uint32_t given)
{
    memset(to, 0, size);
    memcpy(to, from, given && given < size ? given & ~3u : size);
}

/* ---- orders */

static const uint32_t order_magic = 0x3165746du; /* "mte1" */

enum order_word { MAGIC, CAPACITY, R, D_AND_A, SOURCE, BUCKET, STEP_TIME, CHECK, ORDER_WORDS };

static void put(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* FNV-1a: against a buffer that was mixed up, not against malice. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t sum = 2166136261u;

    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

static void write_order(const struct moe_plan *plan, uint32_t capacity, struct moetune_order *out)
{
    uint32_t words[ORDER_WORDS] = { [MAGIC] = order_magic,   [CAPACITY] = capacity,
                                    [R] = plan->r,           [D_AND_A] = plan->d | plan->a << 16,
                                    [SOURCE] = plan->source, [BUCKET] = plan->bucket };

    memcpy(&words[STEP_TIME], &plan->time_us, sizeof(plan->time_us));
    for (int i = 0; i < CHECK; i++)
        put(out->bytes + 4 * i, words[i]);
    put(out->bytes + 4 * CHECK, checksum(out->bytes, 4 * CHECK));
}

static int read_order(const struct moetune_order *order, const struct moe_shape *shape,
                      uint32_t capacity, struct moe_plan *out)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t words[ORDER_WORDS];

    for (int i = 0; i < ORDER_WORDS; i++)
        words[i] = get(order->bytes + 4 * i);
    if (words[MAGIC] != order_magic || words[CAPACITY] != capacity ||
        words[CHECK] != checksum(order->bytes, 4 * CHECK))
        return ERR_FORMAT;
    plan.r = words[R];
    plan.d = words[D_AND_A] & 0xffff;
    plan.a = words[D_AND_A] >> 16;
    plan.source = words[SOURCE];
    plan.bucket = words[BUCKET];
    memcpy(&plan.time_us, &words[STEP_TIME], sizeof(plan.time_us));
    if (!plan_legal(&plan, shape))
        return ERR_FORMAT;
    *out = plan;
    return OK;
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

static int complete(struct moetune_options *o, const struct moe_shape *shape)
{
    bool numbers = !isnan(o->share) && !isnan(o->margin) && o->harm >= 0 && o->harm < 0.5;

    o->share = or_default(o->share, 0.01);
    o->margin = or_default(o->margin, 0.01);
    o->harm = or_default(o->harm, 0.01);
    o->window = o->window ? o->window : shape_window(shape);
    o->now_us = o->now_us ? o->now_us : system_us;
    if (!numbers || !(o->share <= 1) || !(o->margin < 1) || o->window > 1u << 20)
        return fail(ERR_ARGUMENT,
                    "options: a share up to 1, a margin below 1, a harm from 0 to below 0.5 and a "
                    "window up to %u are wanted",
                    1u << 20);
    return OK;
}

static int open_live(struct moetune *t, const char *db)
{
    locale_t before;
    int rc;

    const struct moetune_options *o = &t->options;
    struct live_setup setup = { .path = db,
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

    if (o->rank)
        return OK;
    t->plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    before = speak_plainly(t);
    rc = live_open(&setup, &t->live);
    uselocale(before);
    return rc;
}

/* Statuses beyond those that callers know. */
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
    take(&t->shape, sizeof(t->shape), shape, shape->struct_size);
    t->shape.struct_size = sizeof(t->shape);
    if (options)
        take(&t->options, sizeof(t->options), options, options->struct_size);
    rc = complete(&t->options, &t->shape);
    if (!rc)
        rc = shape_check(&t->shape);
    if (!rc)
        rc = open_live(t, db);
    if (rc) {
        moetune_close(t);
        return public_status(rc);
    }
    t->options.layer = t->options.cluster = t->options.axes = NULL;
    *out = t;
    return MOE_OK;
}

void moetune_close(struct moetune *tuner)
{
    locale_t before;

    if (!tuner)
        return;
    before = speak_plainly(tuner);
    live_close(tuner->live);
    uselocale(before);
    if (tuner->plain)
        freelocale(tuner->plain);
    free(tuner);
}

/* ---- asking */

static void give(const struct moe_plan *from, struct moe_plan *out)
{
    uint32_t size = out->struct_size ? out->struct_size : sizeof(*out);
    uint32_t known = size < sizeof(*from) ? size & ~3u : sizeof(*from);

    memcpy(out, from, known);
    out->struct_size = size;
}

/* Every rank comes here: none may stay behind in a broadcast. */
static int exchange(struct moetune *t)
{
    struct moetune_order order;
    int rc;

    memset(&order, 0, sizeof(order));
    if (!t->options.rank)
        write_order(&t->plan, t->capacity, &order);
    if (t->options.broadcast(t->options.self, order.bytes, sizeof(order.bytes)))
        return ERR_IO;
    rc = read_order(&order, &t->shape, t->capacity, &t->plan);
    return rc ? ERR_IO : OK;
}

static void decide(struct moetune *t)
{
    locale_t before = speak_plainly(t);

    live_ask(t->live, t->capacity, &t->plan);
    uselocale(before);
}

int moetune_ask(struct moetune *t, uint32_t capacity, struct moe_plan *plan)
{
    int rc = MOE_OK;

    if (!t || !plan || (t->options.rank && !t->options.broadcast))
        return MOE_ERR_ARGUMENT;
    t->plan = plan_default();
    t->plan.source = MOE_DEFAULT;
    t->capacity = capacity;
    if (t->live)
        decide(t);
    if (t->options.broadcast)
        rc = exchange(t);
    if (rc && t->live)
        live_void(t->live);
    if (rc) {
        t->plan = plan_default();
        t->plan.source = MOE_DEFAULT;
    }
    t->asked = !rc;
    t->ordered = true;
    give(&t->plan, plan);
    return rc;
}

int moetune_order(const struct moetune *t, struct moetune_order *out)
{
    if (!t || !out || !t->ordered)
        return MOE_ERR_ARGUMENT;
    write_order(&t->plan, t->capacity, out);
    return MOE_OK;
}

int moetune_follow(struct moetune *t, const struct moetune_order *order, uint32_t capacity,
                   struct moe_plan *plan)
{
    struct moe_plan found;

    if (!t || !order || !plan)
        return MOE_ERR_ARGUMENT;
    if (read_order(order, &t->shape, capacity, &found))
        return MOE_ERR_FORMAT;
    give(&found, plan);
    return MOE_OK;
}

/* ---- telling */

/* What cannot be a time is the largest of all, so that every rank hears of it. */
static double checked(const struct moetune *t, double time_us)
{
    if (t->asked && (time_us == MOETUNE_FAILED || (time_us > 0 && time_us < us_most)))
        return time_us;
    return INFINITY;
}

static int learn(struct moetune *t, double us)
{
    locale_t before = speak_plainly(t);
    int rc = us == MOETUNE_FAILED
                 ? live_failed(t->live, TRIAL_FAILED, "the trainer could not run it")
                 : live_tell(t->live, (int64_t)fmax(1, us * 1e3));

    uselocale(before);
    return rc;
}

int moetune_tell(struct moetune *t, double time_us)
{
    double us;

    if (!t)
        return MOE_ERR_ARGUMENT;
    us = checked(t, time_us);
    if (t->options.largest && t->options.largest(t->options.self, &us))
        us = INFINITY;
    t->asked = false;
    if (!(us > 0 && us < us_most) && us != MOETUNE_FAILED) {
        if (t->live)
            live_void(t->live);
        return MOE_ERR_ARGUMENT;
    }
    return t->live ? learn(t, us) : MOE_OK;
}

/* ---- seldom */

int moetune_rest(struct moetune *t, uint32_t capacity, struct moe_plan *plan, uint32_t *steps)
{
    struct moe_plan best = MOE_PLAN_INIT;
    locale_t before;

    if (!t || !plan || !steps || !t->live)
        return MOE_ERR_ARGUMENT;
    before = speak_plainly(t);
    *steps = live_rest(t->live, capacity, &best);
    uselocale(before);
    give(&best, plan);
    return MOE_OK;
}

int moetune_passed(struct moetune *t, uint32_t capacity, const struct moe_plan *plan,
                   double time_us)
{
    struct moe_plan ran;
    locale_t before;
    int rc;

    if (!t || !plan || !t->live || !(time_us > 0 && time_us < us_most))
        return MOE_ERR_ARGUMENT;
    take(&ran, sizeof(ran), plan, plan->struct_size);
    t->asked = false;
    before = speak_plainly(t);
    rc = live_passed(t->live, capacity, &ran, (int64_t)fmax(1, time_us * 1e3));
    uselocale(before);
    return rc;
}

int moetune_spent(struct moetune *t, double us)
{
    if (!t || !t->live || !(us >= 0 && us < us_most))
        return MOE_ERR_ARGUMENT;
    live_spent(t->live, us);
    return MOE_OK;
}

int moetune_status(const struct moetune *t, struct moetune_status *out)
{
    struct moetune_status all = { .struct_size = sizeof(all) };
    uint32_t size;

    if (!t || !out)
        return MOE_ERR_ARGUMENT;
    if (t->live)
        all = live_status(t->live);
    size = out->struct_size && out->struct_size < sizeof(all) ? out->struct_size & ~7u
                                                              : (uint32_t)sizeof(all);
    memcpy(out, &all, size);
    out->struct_size = size;
    return MOE_OK;
}

const char *moetune_version(void)
{
    return MOETUNE_VERSION;
}
