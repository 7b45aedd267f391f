/* Writes orders as bytes, and reads them. */
#include "order.h"

#include "plan.h"
#include "status.h"

#include <string.h>

static const uint32_t order_magic = 0x3265746du; /* "mte2" */

enum order_word { MAGIC, KEY, PLAN_LOW, PLAN_HIGH, OTHERS, BUCKET, STEP_TIME, CHECK, ORDER_WORDS };

/* The numbers that share the word OTHERS. */
static const struct part {
    unsigned at, bits;
} source_part = { 0, 8 }, more_part = { 8, 4 }, agreed_part = { 12, 1 }, next_part = { 16, 11 };

static uint32_t into(struct part part, uint32_t value)
{
    return (value & ((1u << part.bits) - 1)) << part.at;
}

static uint32_t from(struct part part, uint32_t word)
{
    return word >> part.at & ((1u << part.bits) - 1);
}

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

void order_write(const struct order *o, struct moetune_order *out)
{
    const struct moe_plan *plan = &o->plan;
    uint64_t packed = plan_pack(plan);
    uint32_t words[ORDER_WORDS] = { [MAGIC] = order_magic,
                                    [KEY] = o->key,
                                    [PLAN_LOW] = (uint32_t)packed,
                                    [PLAN_HIGH] = (uint32_t)(packed >> 32),
                                    [OTHERS] =
                                        into(source_part, plan->source) | into(more_part, o->more) |
                                        into(agreed_part, o->stands) | into(next_part, o->next),
                                    [BUCKET] = plan->bucket };

    memcpy(&words[STEP_TIME], &plan->time_us, sizeof(plan->time_us));
    for (int i = 0; i < CHECK; i++)
        put(out->bytes + 4 * i, words[i]);
    put(out->bytes + 4 * CHECK, checksum(out->bytes, 4 * CHECK));
}

int order_read(const struct moetune_order *order, const struct moe_shape *shape, struct order *out)
{
    struct order o = { 0 };
    uint32_t words[ORDER_WORDS];

    for (int i = 0; i < ORDER_WORDS; i++)
        words[i] = get(order->bytes + 4 * i);
    if (words[MAGIC] != order_magic || words[CHECK] != checksum(order->bytes, 4 * CHECK))
        return ERR_FORMAT;
    o.key = words[KEY];
    o.next = from(next_part, words[OTHERS]);
    o.more = from(more_part, words[OTHERS]);
    o.stands = from(agreed_part, words[OTHERS]);
    o.plan = plan_unpack(words[PLAN_LOW] | (uint64_t)words[PLAN_HIGH] << 32, shape->space);
    o.plan.source = from(source_part, words[OTHERS]);
    o.plan.bucket = words[BUCKET];
    memcpy(&o.plan.time_us, &words[STEP_TIME], sizeof(o.plan.time_us));
    if (!plan_legal(&o.plan, shape))
        return ERR_FORMAT;
    *out = o;
    return OK;
}
