/* Capacities that follow the experts: peaks over two windows, drops against what is in force, and
 * re-plans that adjust every expert at a step that all ranks know. */
#include "capacities_rule.h"

#include "status.h"

#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { EXPERTS_MOST = 1 << 16, GAP_MOST = 1 << 15, STEPS_MOST = 1 << 30, MILLION = 1000000 };

/* ---- options */

static const struct moe_capacities_options defaults = MOE_CAPACITIES_OPTIONS_INIT;

static const struct limit {
    const char *name;
    size_t at;
    uint32_t least, most;
} limits[] = {
    { "experts", offsetof(struct moe_capacities_options, experts), 1, EXPERTS_MOST },
    { "ranks", offsetof(struct moe_capacities_options, ranks), 1, EXPERTS_MOST },
    { "most", offsetof(struct moe_capacities_options, most), 1, UINT32_MAX - 1 },
    { "start", offsetof(struct moe_capacities_options, start), 0, UINT32_MAX - 1 },
    { "grid", offsetof(struct moe_capacities_options, grid), 1, STEPS_MOST },
    { "hold", offsetof(struct moe_capacities_options, hold), 1, STEPS_MOST },
    { "gap", offsetof(struct moe_capacities_options, gap), 1, GAP_MOST },
    { "low", offsetof(struct moe_capacities_options, low), 0, 999 },
    { "slack", offsetof(struct moe_capacities_options, slack), 0, MILLION },
    { "drops", offsetof(struct moe_capacities_options, drops), 0, MILLION },
    { "delta", offsetof(struct moe_capacities_options, delta), 1, STEPS_MOST },
};

static uint32_t option(const struct moe_capacities_options *o, const struct limit *limit)
{
    uint32_t value;

    memcpy(&value, (const char *)o + limit->at, sizeof(value));
    return value;
}

static bool divides(uint32_t a, uint32_t b)
{
    return a % b == 0 || b % a == 0;
}

int capacities_check(const struct moe_capacities_options *o, bool speaks)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint32_t value = option(o, &limits[i]);

        if (value < limits[i].least || value > limits[i].most)
            return speaks ? fail(ERR_ARGUMENT, "capacities: %s is %u: it must be from %u to %u",
                                 limits[i].name, value, limits[i].least, limits[i].most)
                          : ERR_ARGUMENT;
    }
    if (o->start > o->most)
        return speaks ? fail(ERR_ARGUMENT, "capacities: start is %u: it must be from 0 to most, %u",
                             o->start, o->most)
                      : ERR_ARGUMENT;
    if (!divides(o->experts, o->ranks))
        return speaks ? fail(ERR_ARGUMENT,
                             "capacities: %u experts on %u ranks: one of them must be a multiple "
                             "of the other",
                             o->experts, o->ranks)
                      : ERR_ARGUMENT;
    return OK;
}

/* A caller's struct may end earlier, or later, than ours. */
static struct moe_capacities_options take_options(const struct moe_capacities_options *given)
{
    struct moe_capacities_options o = defaults;
    size_t bytes =
        given->struct_size && given->struct_size < sizeof(o) ? given->struct_size : sizeof(o);

    memcpy(&o, given, bytes);
    o.struct_size = sizeof(o);
    if (!o.start)
        o.start = o.most;
    return o;
}

/* ---- where experts lie */

/* The smallest is at the top. */
static void sift_down(uint64_t *heap, uint32_t count, uint32_t at)
{
    uint64_t value = heap[at];

    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

/* qsort() may allocate. */
static void sort_descending(uint64_t *values, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(values, count, i);
    while (count > 1) {
        uint64_t least = values[0];

        values[0] = values[--count];
        values[count] = least;
        sift_down(values, count, 0);
    }
}

/* Keys are rows and, below them, the number of an expert or a rank. */
enum { NUMBER_BITS = 16 };

static uint64_t place_greedily(struct moe_capacities *c, const uint32_t *rows, uint32_t each)
{
    uint32_t open = c->o.ranks;
    uint64_t most = 0;

    for (uint32_t e = 0; e < c->o.experts; e++)
        c->order[e] = rows[e];
    sort_descending(c->order, c->o.experts);
    for (uint32_t q = 0; q < open; q++) {
        c->load[q] = q;
        c->held[q] = 0;
    }
    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t rank = c->load[0] & ((1u << NUMBER_BITS) - 1);

        c->load[0] += c->order[e] << NUMBER_BITS;
        most = c->load[0] >> NUMBER_BITS > most ? c->load[0] >> NUMBER_BITS : most;
        if (++c->held[rank] == each) /* it has all its experts */
            c->load[0] = c->load[--open];
        sift_down(c->load, open, 0);
    }
    return most;
}

static uint64_t fullest_in_order(const uint32_t *rows, uint32_t experts, uint32_t each)
{
    uint64_t most = 0, sum = 0;

    for (uint32_t e = 0; e < experts; e++) {
        sum = e % each ? sum + rows[e] : rows[e];
        most = sum > most ? sum : most;
    }
    return most;
}

/* ---- settings */

static void add_word(struct sha256 *s, uint64_t word)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
    sha256_add(s, bytes, sizeof(bytes));
}

static void begin_chain(const struct moe_capacities_options *o, struct sha256 s,
                        uint8_t chain[SHA256_BYTES])
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        add_word(&s, option(o, &limits[i]));
    sha256_end(&s, chain);
}

void capacities_settle(struct moe_capacities *c, const uint8_t before[SHA256_BYTES],
                       struct setting *s)
{
    uint32_t each = c->o.experts > c->o.ranks ? c->o.experts / c->o.ranks : 1;
    struct sha256 sha = c->fresh;

    sha256_add(&sha, before, SHA256_BYTES);
    add_word(&sha, s->first);
    s->sum = 0;
    for (uint32_t e = 0; e < c->o.experts; e++) {
        s->sum += s->rows[e];
        add_word(&sha, s->rows[e]);
    }
    sha256_end(&sha, s->chain);
    s->fullest = fullest_in_order(s->rows, c->o.experts, each);
    s->balanced = each > 1 ? place_greedily(c, s->rows, each) : s->fullest;
    s->key = (uint32_t)((s->fullest + each - 1) / each);
    s->key_r0 = (uint32_t)((s->sum + c->o.experts - 1) / c->o.experts);
}

/* ---- deciding */

static uint32_t goal(const struct moe_capacities *c, uint32_t expert)
{
    const struct moe_capacities_options *o = &c->o;
    uint32_t peak = c->peak[expert] > c->before[expert] ? c->peak[expert] : c->before[expert];
    uint64_t rows = ((uint64_t)peak * (1000 + o->slack) + 999) / 1000;

    rows = (rows + o->grid - 1) / o->grid * o->grid;
    return rows < o->most ? (uint32_t)rows : o->most;
}

/* More than bound/part was dropped of what the last `gap` steps choose, or would if they had all
 * been: one step alone says little. */
static bool drops_exceed(const struct moe_capacities *c, uint32_t part)
{
    return (wide)c->recent_sum.dropped * MILLION * c->recent_count * part >
           (wide)c->o.drops * c->recent_sum.total * c->o.gap;
}

static bool should_grow(const struct moe_capacities *c)
{
    return drops_exceed(c, 1) || (c->since >= c->o.gap && drops_exceed(c, 4));
}

static bool should_shrink(const struct moe_capacities *c)
{
    if (c->filled < c->o.hold || c->feeds < 2 * (uint64_t)c->o.hold || c->since < c->o.gap)
        return false;
    for (uint32_t e = 0; e < c->o.experts; e++)
        if ((uint64_t)goal(c, e) * 1000 < (uint64_t)c->o.low * c->now.rows[e])
            return true;
    return false;
}

static void replan(struct moe_capacities *c)
{
    bool changed = false, early = c->feeds < c->o.hold;

    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t rows = goal(c, e), has = c->now.rows[e];

        c->next.rows[e] = early && rows < has ? has : rows;
        changed |= c->next.rows[e] != has;
    }
    if (!changed)
        return;
    c->next.first = c->last + c->o.delta;
    c->next.replans = c->now.replans + 1;
    capacities_settle(c, c->now.chain, &c->next);
    c->waiting = true;
    c->since = 0;
}

/* ---- feeding */

static bool counts_usable(const uint32_t *counts, uint32_t experts)
{
    uint32_t largest = 0;

    for (uint32_t e = 0; e < experts; e++)
        largest = counts[e] > largest ? counts[e] : largest;
    return largest > 0 && largest < UINT32_MAX;
}

static bool step_usable(const struct moe_capacities *c, uint64_t step)
{
    return step < UINT64_MAX - c->o.delta && (!c->fed || step > c->last) &&
           (!c->asked || c->latest < step + c->o.delta);
}

static void come_into_force(struct moe_capacities *c, uint64_t step)
{
    struct setting before = c->now;

    if (!c->waiting || c->next.first > step)
        return;
    c->now = c->next;
    c->next = before;
    c->waiting = false;
    for (uint32_t i = 0; i < c->recent_count; i++)
        c->recent[i].dropped = 0;
    c->recent_sum.dropped = 0;
}

static void turn_window(struct moe_capacities *c)
{
    uint32_t *peak = c->before;

    if (c->filled < c->o.hold)
        return;
    c->before = c->peak;
    c->peak = peak;
    memset(peak, 0, c->o.experts * sizeof(*peak));
    c->filled = 0;
}

static void remember(struct moe_capacities *c, struct dropped of)
{
    struct dropped *place = &c->recent[c->recent_at];

    if (c->recent_count == c->o.gap) {
        c->recent_sum.dropped -= place->dropped;
        c->recent_sum.total -= place->total;
    } else {
        c->recent_count++;
    }
    *place = of;
    c->recent_sum.dropped += of.dropped;
    c->recent_sum.total += of.total;
    c->recent_at = c->recent_at + 1 < c->o.gap ? c->recent_at + 1 : 0;
    c->all.dropped += of.dropped;
    c->all.total += of.total;
    if (c->all.total >> 63) { /* after so long nobody sees it */
        c->all.dropped /= 2;
        c->all.total /= 2;
    }
}

static struct dropped count_step(struct moe_capacities *c, const uint32_t *restrict counts)
{
    const uint32_t *rows = c->now.rows;
    uint32_t *peak = c->peak;
    struct dropped of = { 0, 0 };

    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t n = counts[e];

        peak[e] = n > peak[e] ? n : peak[e];
        of.total += n;
        of.dropped += n > rows[e] ? n - rows[e] : 0;
    }
    return of;
}

int moe_capacities_feed(struct moe_capacities *c, uint64_t step, const uint32_t *counts,
                        uint32_t experts)
{
    if (!c || !counts || experts != c->o.experts || !counts_usable(counts, experts) ||
        !step_usable(c, step))
        return MOE_ERR_ARGUMENT;
    come_into_force(c, step);
    turn_window(c);
    remember(c, count_step(c, counts));
    c->last = step;
    c->fed = true;
    c->feeds++;
    c->since++;
    c->filled++;
    if (!c->waiting && (should_grow(c) || should_shrink(c)))
        replan(c);
    return MOE_OK;
}

/* ---- answering */

static void tell(const struct moe_capacities *c, const struct setting *s,
                 struct moe_capacities_state *out)
{
    size_t head = sizeof(out->struct_size), given = out->struct_size;
    struct moe_capacities_state state = {
        .key = s->key,
        .rows = s->sum,
        .fullest = s->fullest,
        .balanced = s->balanced,
        .first = s->first,
        .pending = c->waiting && s == &c->now ? c->next.first : UINT64_MAX,
        .replans = s->replans,
        .dropped_ppm = (uint32_t)(c->all.total ? (wide)c->all.dropped * MILLION / c->all.total : 0),
        .key_r0 = s->key_r0,
    };
    size_t bytes = given && given < sizeof(state) ? given : sizeof(state);

    for (int i = 0; i < 8; i++)
        state.digest |= (uint64_t)s->chain[i] << 8 * i;
    if (bytes > head)
        memcpy((char *)out + head, (const char *)&state + head, bytes - head);
}

int moe_capacities_at(struct moe_capacities *c, uint64_t step, const uint32_t **rows,
                      struct moe_capacities_state *state_or_null)
{
    const struct setting *s;

    if (!c || !rows || step == UINT64_MAX || step < c->now.first ||
        (c->fed && step > c->last && step - c->last > c->o.delta))
        return MOE_ERR_ARGUMENT;
    s = c->waiting && step >= c->next.first ? &c->next : &c->now;
    if (state_or_null)
        tell(c, s, state_or_null);
    if (!c->asked || step > c->latest)
        c->latest = step;
    c->asked = true;
    *rows = s->rows;
    return MOE_OK;
}

/* ---- opening and closing */

void moe_capacities_close(struct moe_capacities *c)
{
    if (!c)
        return;
    free(c->now.rows);
    free(c->next.rows);
    free(c->peak);
    free(c->before);
    free(c->recent);
    free(c->order);
    free(c->load);
    free(c->held);
    free(c);
}

static bool make_room(struct moe_capacities *c)
{
    size_t experts = c->o.experts, ranks = c->o.ranks;

    c->now.rows = calloc(experts, sizeof(*c->now.rows));
    c->next.rows = calloc(experts, sizeof(*c->next.rows));
    c->peak = calloc(experts, sizeof(*c->peak));
    c->before = calloc(experts, sizeof(*c->before));
    c->recent = calloc(c->o.gap, sizeof(*c->recent));
    c->order = calloc(experts, sizeof(*c->order));
    c->load = calloc(ranks, sizeof(*c->load));
    c->held = calloc(ranks, sizeof(*c->held));
    return c->now.rows && c->next.rows && c->peak && c->before && c->recent && c->order &&
           c->load && c->held;
}

int moe_capacities_open(const struct moe_capacities_options *options, struct moe_capacities **out)
{
    struct moe_capacities *c;
    struct moe_capacities_options o;
    uint8_t chain[SHA256_BYTES];

    if (!options || !out)
        return MOE_ERR_ARGUMENT;
    o = take_options(options);
    TRY(capacities_check(&o, true));
    c = calloc(1, sizeof(*c));
    if (!c)
        return MOE_ERR_NOMEM;
    c->o = o;
    if (!make_room(c)) {
        moe_capacities_close(c);
        return MOE_ERR_NOMEM;
    }
    for (uint32_t e = 0; e < o.experts; e++)
        c->now.rows[e] = o.start;
    sha256_init(&c->fresh);
    begin_chain(&o, c->fresh, chain);
    capacities_settle(c, chain, &c->now);
    c->since = o.gap; /* the first re-plan need not wait */
    *out = c;
    return MOE_OK;
}
