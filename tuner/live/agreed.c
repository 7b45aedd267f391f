/* Stores the plans that all ranks know, computes at which step they exchange again, and writes
 * orders as bytes. */
#include "agreed.h"

#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An exchange that only carries times comes after STEPS_LEAST steps.  It comes later, but after
 * STEPS_MOST at the latest, if exchanges take more than this part of the budget. */
enum { STEPS_LEAST = 64, STEPS_MOST = 1024 };
static const double exchange_share = 0.25;

/* The constants of the hash FNV-1a. */
static const uint32_t fnv_prime = 16777619, fnv_start = 2166136261u;
/* A factor that spreads step numbers, as pseudo-random numbers (Knuth). */
static const uint32_t spreading = 2654435761u;

void agreed_free(struct agreed *s)
{
    free(s->items);
}

void agreed_count_step(struct agreed *s, uint32_t capacity)
{
    s->steps++;
    s->ask_checksum = (s->ask_checksum ^ capacity) * fnv_prime;
}

/* Finds or adds the bucket.  NULL: out of memory. */
static struct agreed_plan *plan_at(struct agreed *s, uint32_t bucket)
{
    struct agreed_plan *items = s->items; /* NULL if it cannot grow */

    if (s->last < s->count && s->items[s->last].bucket == bucket)
        return &s->items[s->last];
    for (s->last = 0; s->last < s->count; s->last++)
        if (s->items[s->last].bucket == bucket)
            return &s->items[s->last];
    if (s->count == s->room) {
        items = realloc(s->items, (2 * s->room + 16) * sizeof(*items));
        s->room = items ? 2 * s->room + 16 : s->room;
    }
    if (!items)
        return NULL;
    s->items = items;
    s->items[s->count] = (struct agreed_plan){ .bucket = bucket, .plan = s->default_plan };
    s->items[s->count].plan.source = MOE_DEFAULT;
    return &s->items[s->count++];
}

struct moe_plan agreed_plan(struct agreed *s, uint32_t bucket)
{
    struct agreed_plan *p = plan_at(s, bucket);

    return p ? p->plan : s->default_plan;
}

/* Records that the step under way is of this bucket. */
static void record_step(struct agreed *s, uint32_t bucket)
{
    struct agreed_plan *p = plan_at(s, bucket);
    uint32_t gap;

    if (!p)
        return;
    gap = s->steps - p->last_step;
    p->regular = p->gap == gap;
    p->gap = gap;
    p->last_step = s->steps;
}

void agreed_take_step(struct agreed *s, uint32_t bucket, struct moe_plan *plan)
{
    s->wait_steps--;
    record_step(s, bucket);
    *plan = agreed_plan(s, bucket);
}

static int set_plan(struct agreed *s, uint32_t bucket, const struct moe_plan *plan)
{
    struct agreed_plan *p = plan_at(s, bucket);

    if (!p)
        return fail(ERR_NOMEM, "a plan that ranks agree on");
    p->plan = *plan;
    p->known = true;
    return OK;
}

int agreed_apply(struct agreed *s, const struct agreement *orders, uint32_t count, uint32_t bucket)
{
    s->wait_steps = orders[0].next ? orders[0].next - 1 : 0;
    s->ask_checksum = 0;
    if (orders[0].holds)
        TRY(set_plan(s, bucket, &orders[0].plan));
    for (uint32_t i = 1; i < count; i++)
        TRY(set_plan(s, orders[i].key, &orders[i].plan));
    return OK;
}

/* ---- rank 0 */

/* Returns after how many steps an exchange costs no more than its share. */
static uint32_t steps_for(const struct live *live, double exchange_us, uint32_t least,
                          uint32_t most)
{
    struct moetune_status status = live_status(live);
    double budget_us =
        status.steps ? exchange_share * live->setup.share * status.time_us / (double)status.steps
                     : 0;

    return budget_us > 0 ? (uint32_t)fmin(fmax(ceil(exchange_us / budget_us), least), most) : least;
}

static bool same_answer(const struct moe_plan *a, const struct moe_plan *b)
{
    return plan_equal(a, b) && a->source == b->source;
}

static uint32_t largest_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Returns after how many steps ranks should exchange for the sake of another bucket, which needs
 * `quiet_steps` steps first.  If its steps come regularly, this is its next step after those.  Else
 * it is a pseudo-random step, `poll` steps away on average: a regular one could miss the bucket for
 * ever.
 */
static uint32_t wait_for_bucket(const struct agreed *s, const struct agreed_plan *agreed,
                                uint32_t quiet_steps, uint32_t poll)
{
    uint32_t since = s->steps - agreed->last_step;
    uint32_t random_steps = 1 + (s->steps * spreading >> 16) % (2 * poll - 1);

    quiet_steps = largest_of(quiet_steps, 1);
    if (!agreed->regular || agreed->gap <= since)
        return largest_of(quiet_steps, random_steps);
    return agreed->gap * ((quiet_steps + since + agreed->gap - 1) / agreed->gap) - since;
}

uint32_t agreed_make_orders(struct agreed *s, struct live *live, uint32_t capacity,
                            double exchange_us, uint32_t orders_max, struct agreement *out)
{
    uint32_t window = live->setup.window, own_bucket = capacity / window, count = 1;
    uint32_t next_steps = steps_for(live, exchange_us, STEPS_LEAST, STEPS_MOST);
    uint32_t poll_steps = steps_for(live, exchange_us, 1, STEPS_LEAST);

    record_step(s, own_bucket);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct agreed_plan *agreed = &s->items[i];
        bool is_own = agreed->bucket == own_bucket;
        struct moe_plan best_plan = MOE_PLAN_INIT;
        uint32_t quiet_steps =
            live_rest(live, is_own ? capacity : agreed->bucket * window, exchange_us, &best_plan);
        bool changed = !same_answer(&best_plan, &agreed->plan);

        if (quiet_steps < next_steps)
            quiet_steps = is_own ? largest_of(quiet_steps, 1)
                                 : wait_for_bucket(s, agreed, quiet_steps, poll_steps);
        next_steps = quiet_steps < next_steps ? quiet_steps : next_steps;
        if (is_own)
            out[0].holds = same_answer(&best_plan, &out[0].plan);
        else if (changed && count < orders_max)
            out[count++] = (struct agreement){ .plan = best_plan, .key = agreed->bucket };
        /* A new plan is exchanged again at the next step, because it may have failed to run. */
        if (is_own ? changed || !agreed->known : changed && count == orders_max)
            next_steps = 1;
    }
    out[0].next = next_steps;
    out[0].more = count - 1;
    return count;
}

/* ---- orders as bytes */

static const uint32_t order_magic = 0x3265746du; /* "mte2" */

enum order_word { MAGIC, KEY, PLAN_LOW, PLAN_HIGH, OTHERS, BUCKET, STEP_TIME, CHECK, ORDER_WORDS };

/* The bits of the word OTHERS that each number has: the lowest one, and how many. */
static const struct part {
    unsigned shift, bits;
} source_part = { 0, 8 }, more_part = { 8, 4 }, holds_part = { 12, 1 }, next_part = { 16, 11 };

static uint32_t put_part(struct part part, uint32_t value)
{
    return (value & ((1u << part.bits) - 1)) << part.shift;
}

static uint32_t get_part(struct part part, uint32_t word)
{
    return word >> part.shift & ((1u << part.bits) - 1);
}

static void put_word(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* FNV-1a: it finds buffers that were mixed up, not malice. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t sum = fnv_start;

    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * fnv_prime;
    return sum;
}

void order_write(const struct agreement *agreement, struct moetune_order *out)
{
    const struct moe_plan *plan = &agreement->plan;
    uint64_t packed = plan_pack(plan);
    uint32_t words[ORDER_WORDS] = { [MAGIC] = order_magic,
                                    [KEY] = agreement->key,
                                    [PLAN_LOW] = (uint32_t)packed,
                                    [PLAN_HIGH] = (uint32_t)(packed >> 32),
                                    [OTHERS] = put_part(source_part, plan->source) |
                                               put_part(more_part, agreement->more) |
                                               put_part(holds_part, agreement->holds) |
                                               put_part(next_part, agreement->next),
                                    [BUCKET] = plan->bucket };

    memcpy(&words[STEP_TIME], &plan->time_us, sizeof(plan->time_us));
    for (int i = 0; i < CHECK; i++)
        put_word(out->bytes + 4 * i, words[i]);
    put_word(out->bytes + 4 * CHECK, checksum(out->bytes, 4 * CHECK));
}

int order_read(const struct moetune_order *order, const struct moe_shape *shape,
               struct agreement *out)
{
    struct agreement agreement = { 0 };
    uint32_t words[ORDER_WORDS];

    for (int i = 0; i < ORDER_WORDS; i++)
        words[i] = get_word(order->bytes + 4 * i);
    if (words[MAGIC] != order_magic || words[CHECK] != checksum(order->bytes, 4 * CHECK))
        return ERR_FORMAT;
    agreement.key = words[KEY];
    agreement.next = get_part(next_part, words[OTHERS]);
    agreement.more = get_part(more_part, words[OTHERS]);
    agreement.holds = get_part(holds_part, words[OTHERS]);
    agreement.plan = plan_unpack(words[PLAN_LOW] | (uint64_t)words[PLAN_HIGH] << 32, shape->space);
    agreement.plan.source = get_part(source_part, words[OTHERS]);
    agreement.plan.bucket = words[BUCKET];
    memcpy(&agreement.plan.time_us, &words[STEP_TIME], sizeof(agreement.plan.time_us));
    if (!plan_legal(&agreement.plan, shape))
        return ERR_FORMAT;
    *out = agreement;
    return OK;
}
