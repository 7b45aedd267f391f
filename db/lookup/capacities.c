/* Capacities that follow the experts. A controller takes the counts of each step, keeps peaks over
 * two windows, and compares drops with the capacities in force. It decides re-plans that change
 * every expert at a step that all ranks know. Its whole state can be saved in a checkpoint.
 * Independent of tables. */
#include "capacity_setting.h"

#include "status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { EXPERTS_MOST = 1 << 16, GAP_MOST = 1 << 15, STEPS_MOST = 1 << 30, MILLION = 1000000 };

/* Choices that were dropped, of one step or of several. */
struct dropped {
    uint64_t dropped, total;
};

/* A controller; moe_capacities_close() frees it. */
struct moe_capacities {
    struct moe_capacities_options o;
    struct capacity_setting now, next;
    bool waiting;                    /* `next` is decided and comes into force at a later step */
    bool fed, asked;                 /* there was a call */
    uint64_t last_fed, latest_asked; /* step that was fed last; latest step that was asked for */
    uint64_t feeds;
    uint64_t feeds_since_replan;  /* steps that were fed since the last re-plan was decided */
    uint32_t *peak, *peak_before; /* (E), of this window of `hold` steps and of the one before */
    uint32_t filled;              /* steps in this window */
    struct dropped *recent;       /* (gap), a ring */
    uint32_t recent_at, recent_count;
    struct dropped recent_sum, all;
    struct sha256 no_bytes; /* a hash of nothing; starting one would ask the processor, for
                             * microseconds */
    uint64_t *order, *load; /* (E), (W): room for placements */
    uint32_t *experts_on;   /* (W) */
};

/* ---- Options. */

static const struct limit {
    const char *name;
    size_t offset;
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

static uint32_t option_value(const struct moe_capacities_options *o, const struct limit *limit)
{
    uint32_t value;

    memcpy(&value, (const char *)o + limit->offset, sizeof(value));
    return value;
}

/* Checks the options. Returns false where one is illegal; `why` then names it and its legal
 * values. */
static bool options_legal(const struct moe_capacities_options *o, char why[128])
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint32_t value = option_value(o, &limits[i]);

        if (value >= limits[i].least && value <= limits[i].most)
            continue;
        snprintf(why, 128, "%s is %u: it must be from %u to %u", limits[i].name, value,
                 limits[i].least, limits[i].most);
        return false;
    }
    if (o->start > o->most)
        snprintf(why, 128, "start is %u: it must be from 0 to most, %u", o->start, o->most);
    else if (o->experts % o->ranks && o->ranks % o->experts)
        snprintf(why, 128, "%u experts on %u ranks: one of them must be a multiple of the other",
                 o->experts, o->ranks);
    else
        return true;
    return false;
}

/* ---- Opening and closing. */

void moe_capacities_close(struct moe_capacities *c)
{
    if (!c)
        return;
    free(c->now.rows);
    free(c->next.rows);
    free(c->peak);
    free(c->peak_before);
    free(c->recent);
    free(c->order);
    free(c->load);
    free(c->experts_on);
    free(c);
}

static void hash_word(struct sha256 *s, uint64_t word)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
    sha256_add(s, bytes, sizeof(bytes));
}

/* Extends the chain of hashes by a setting; `before` is the hash of the setting before. */
static void extend_chain(const struct moe_capacities *c, const uint8_t before[SHA256_BYTES],
                         struct capacity_setting *s)
{
    struct sha256 sha = c->no_bytes;

    sha256_add(&sha, before, SHA256_BYTES);
    hash_word(&sha, s->first);
    for (uint32_t e = 0; e < c->o.experts; e++)
        hash_word(&sha, s->rows[e]);
    sha256_end(&sha, s->chain);
}

int moe_capacities_open(const struct moe_capacities_options *options, struct moe_capacities **out)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    uint8_t chain[SHA256_BYTES];
    struct moe_capacities *c;
    struct sha256 sha;
    char why[128];

    if (!options || !out)
        return MOE_ERR_ARGUMENT;
    /* A caller's struct may be shorter or longer than ours. */
    memcpy(&o, options,
           options->struct_size && options->struct_size < sizeof(o) ? options->struct_size
                                                                    : sizeof(o));
    o.struct_size = sizeof(o);
    if (!o.start)
        o.start = o.most;
    if (!options_legal(&o, why))
        return fail(ERR_ARGUMENT, "capacities: %s", why);
    c = calloc(1, sizeof(*c));
    if (!c)
        return MOE_ERR_NOMEM;
    c->o = o;
    c->now.rows = calloc(o.experts, sizeof(*c->now.rows));
    c->next.rows = calloc(o.experts, sizeof(*c->next.rows));
    c->peak = calloc(o.experts, sizeof(*c->peak));
    c->peak_before = calloc(o.experts, sizeof(*c->peak_before));
    c->recent = calloc(o.gap, sizeof(*c->recent));
    c->order = calloc(o.experts, sizeof(*c->order));
    c->load = calloc(o.ranks, sizeof(*c->load));
    c->experts_on = calloc(o.ranks, sizeof(*c->experts_on));
    if (!c->now.rows || !c->next.rows || !c->peak || !c->peak_before || !c->recent || !c->order ||
        !c->load || !c->experts_on) {
        moe_capacities_close(c);
        return MOE_ERR_NOMEM;
    }
    sha256_init(&c->no_bytes);
    sha = c->no_bytes;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        hash_word(&sha, option_value(&o, &limits[i]));
    sha256_end(&sha, chain);
    for (uint32_t e = 0; e < o.experts; e++)
        c->now.rows[e] = o.start;
    extend_chain(c, chain, &c->now);
    capacities_derive(c, &c->now);
    c->feeds_since_replan = o.gap; /* the first re-plan need not wait */
    *out = c;
    return MOE_OK;
}

/* ---- Keys. */

int moe_keys(const uint32_t *counts, size_t n, uint32_t experts, uint32_t ranks, uint32_t *key,
             uint32_t *key_r0)
{
    uint64_t sources, experts_per_rank, fullest = 0, most_sent = 0;

    if (!counts || !key || !key_r0 || !experts || !ranks ||
        (n != experts && (n % experts || n / experts != ranks)))
        return MOE_ERR_ARGUMENT;
    for (size_t i = 0; i < n; i++)
        if (counts[i] == UINT32_MAX)
            return MOE_ERR_ARGUMENT;
    sources = n / experts;
    experts_per_rank = experts > ranks ? ((uint64_t)experts + ranks - 1) / ranks : 1;
    /* What a rank's experts receive. */
    for (uint64_t first = 0; first < experts; first += experts_per_rank) {
        uint64_t rows = 0,
                 end = first + experts_per_rank < experts ? first + experts_per_rank : experts;

        for (uint64_t source = 0; source < sources; source++)
            for (uint64_t e = first; e < end; e++)
                rows += counts[source * experts + e];
        fullest = rows > fullest ? rows : fullest;
    }
    /* What a source sends. */
    for (uint64_t source = 0; source < sources; source++) {
        uint64_t rows = 0;

        for (uint64_t e = 0; e < experts; e++)
            rows += counts[source * experts + e];
        most_sent = rows > most_sent ? rows : most_sent;
    }
    *key_r0 = (uint32_t)((most_sent + experts - 1) / experts);
    *key = (uint32_t)((fullest + sources * experts_per_rank - 1) / (sources * experts_per_rank));
    /* Ranks also wait for a rank that sends more than the fullest one receives. */
    *key = *key > *key_r0 ? *key : *key_r0;
    return MOE_OK;
}

/* ---- Where experts lie. */

/* Moves the value at `at` down to its place in a heap with the smallest value at the top. */
static void sift_down(uint64_t *heap, uint32_t count, uint32_t position)
{
    uint64_t value = heap[position];

    for (uint32_t child; (child = 2 * position + 1) < count; position = child) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[position] = heap[child];
    }
    heap[position] = value;
}

/* Sorts by a heap, because qsort() may allocate. */
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

/* A value in the heap is rows, and in its low bits the number of an expert or a rank. */
enum { NUMBER_BITS = 16 };

/* Deals experts out by size, `each` to a rank: the largest first, to the rank with the fewest rows.
 * Returns the rows of the fullest rank. */
static uint64_t place_greedily(struct moe_capacities *c, const uint32_t *rows,
                               uint32_t experts_per_rank)
{
    uint32_t open_ranks = c->o.ranks;
    uint64_t fullest = 0;

    for (uint32_t e = 0; e < c->o.experts; e++)
        c->order[e] = rows[e];
    sort_descending(c->order, c->o.experts);
    for (uint32_t rank = 0; rank < open_ranks; rank++) {
        c->load[rank] = rank;
        c->experts_on[rank] = 0;
    }
    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t rank = c->load[0] & ((1u << NUMBER_BITS) - 1);

        c->load[0] += c->order[e] << NUMBER_BITS;
        fullest = c->load[0] >> NUMBER_BITS > fullest ? c->load[0] >> NUMBER_BITS : fullest;
        if (++c->experts_on[rank] == experts_per_rank) /* it has all its experts */
            c->load[0] = c->load[--open_ranks];
        sift_down(c->load, open_ranks, 0);
    }
    return fullest;
}

void capacities_derive(struct moe_capacities *c, struct capacity_setting *s)
{
    uint32_t experts_per_rank = c->o.experts > c->o.ranks ? c->o.experts / c->o.ranks : 1;
    uint64_t rows_of_rank = 0;

    s->sum = s->fullest = 0;
    for (uint32_t e = 0; e < c->o.experts; e++) {
        s->sum += s->rows[e];
        rows_of_rank = e % experts_per_rank ? rows_of_rank + s->rows[e] : s->rows[e];
        s->fullest = rows_of_rank > s->fullest ? rows_of_rank : s->fullest;
    }
    s->balanced = experts_per_rank > 1 ? place_greedily(c, s->rows, experts_per_rank) : s->fullest;
    moe_keys(s->rows, c->o.experts, c->o.experts, c->o.ranks, &s->key, &s->key_r0);
}

/* ---- Deciding. */

/* Returns what a re-plan gives an expert: its peak plus slack, rounded up to the grid. */
static uint32_t wanted_rows(const struct moe_capacities *c, uint32_t expert)
{
    const struct moe_capacities_options *o = &c->o;
    uint32_t peak =
        c->peak[expert] > c->peak_before[expert] ? c->peak[expert] : c->peak_before[expert];
    uint64_t rows = ((uint64_t)peak * (1000 + o->slack) + 999) / 1000;

    rows = (rows + o->grid - 1) / o->grid * o->grid;
    return rows < o->most ? (uint32_t)rows : o->most;
}

/* Returns whether drops of the last `gap` steps exceed the bound divided by `divisor`. Missing
 * steps count as if they had dropped nothing, because one step alone says little. */
static bool drops_exceed(const struct moe_capacities *c, uint32_t divisor)
{
    return (wide)c->recent_sum.dropped * MILLION * c->recent_count * divisor >
           (wide)c->o.drops * c->recent_sum.total * c->o.gap;
}

/* At the end of every `hold` steps, with both windows full: returns whether some expert would get
 * less than `low` of what it has. */
static bool should_shrink(const struct moe_capacities *c)
{
    if (c->filled < c->o.hold || c->feeds < 2 * (uint64_t)c->o.hold ||
        c->feeds_since_replan < c->o.gap)
        return false;
    for (uint32_t e = 0; e < c->o.experts; e++)
        if ((uint64_t)wanted_rows(c, e) * 1000 < (uint64_t)c->o.low * c->now.rows[e])
            return true;
    return false;
}

static void replan(struct moe_capacities *c)
{
    bool changed = false, early = c->feeds < c->o.hold;

    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t rows = wanted_rows(c, e), has = c->now.rows[e];

        c->next.rows[e] = early && rows < has ? has : rows;
        changed |= c->next.rows[e] != has;
    }
    if (!changed)
        return;
    c->next.first = c->last_fed + c->o.delta;
    c->next.replans = c->now.replans + 1;
    extend_chain(c, c->now.chain, &c->next);
    capacities_derive(c, &c->next);
    c->waiting = true;
    c->feeds_since_replan = 0;
}

/* ---- Feeding. */

/* Once a re-plan is `gap` steps old, a quarter of the bound is enough for the next one. */
enum { LATER_DIVISOR = 4 };

static bool counts_usable(const uint32_t *counts, uint32_t experts)
{
    uint32_t largest = 0;

    for (uint32_t e = 0; e < experts; e++)
        largest = counts[e] > largest ? counts[e] : largest;
    return largest > 0 && largest < UINT32_MAX;
}

/* Raises peaks, and counts what the capacities in force drop. */
static struct dropped count_step(struct moe_capacities *c, const uint32_t *restrict counts)
{
    const uint32_t *rows = c->now.rows;
    uint32_t *peak = c->peak;
    struct dropped drops = { 0, 0 };

    for (uint32_t e = 0; e < c->o.experts; e++) {
        uint32_t chosen = counts[e];

        peak[e] = chosen > peak[e] ? chosen : peak[e];
        drops.total += chosen;
        drops.dropped += chosen > rows[e] ? chosen - rows[e] : 0;
    }
    return drops;
}

/* Adds a step to the ring of the last `gap` steps, and to the sum of all steps. */
static void remember_dropped(struct moe_capacities *c, struct dropped drops)
{
    struct dropped *place = &c->recent[c->recent_at];

    if (c->recent_count == c->o.gap) {
        c->recent_sum.dropped -= place->dropped;
        c->recent_sum.total -= place->total;
    } else {
        c->recent_count++;
    }
    *place = drops;
    c->recent_sum.dropped += drops.dropped;
    c->recent_sum.total += drops.total;
    c->recent_at = c->recent_at + 1 < c->o.gap ? c->recent_at + 1 : 0;
    c->all.dropped += drops.dropped;
    c->all.total += drops.total;
    if (c->all.total >> 63) { /* halving keeps the share; nobody sees it after so many steps */
        c->all.dropped /= 2;
        c->all.total /= 2;
    }
}

int moe_capacities_feed(struct moe_capacities *c, uint64_t step, const uint32_t *counts,
                        uint32_t experts)
{
    if (!c || !counts || experts != c->o.experts || !counts_usable(counts, experts) ||
        step >= UINT64_MAX - c->o.delta || (c->fed && step <= c->last_fed) ||
        (c->asked && c->latest_asked >= step + c->o.delta))
        return MOE_ERR_ARGUMENT;
    if (c->waiting && c->next.first <= step) { /* it comes into force */
        struct capacity_setting before = c->now;

        c->now = c->next;
        c->next = before;
        c->waiting = false;
        for (uint32_t i = 0; i < c->recent_count; i++)
            c->recent[i].dropped = 0;
        c->recent_sum.dropped = 0;
    }
    if (c->filled >= c->o.hold) { /* the next window begins */
        uint32_t *peak = c->peak_before;

        c->peak_before = c->peak;
        c->peak = peak;
        memset(peak, 0, c->o.experts * sizeof(*peak));
        c->filled = 0;
    }
    remember_dropped(c, count_step(c, counts));
    c->last_fed = step;
    c->fed = true;
    c->feeds++;
    c->feeds_since_replan++;
    c->filled++;
    if (!c->waiting &&
        (drops_exceed(c, 1) ||
         (c->feeds_since_replan >= c->o.gap && drops_exceed(c, LATER_DIVISOR)) || should_shrink(c)))
        replan(c);
    return MOE_OK;
}

/* ---- Answering. */

int moe_capacities_at(struct moe_capacities *c, uint64_t step, const uint32_t **rows,
                      struct moe_capacities_state *state_or_null)
{
    enum { HEAD = sizeof(state_or_null->struct_size) };
    struct moe_capacities_state state = { .pending = UINT64_MAX };
    const struct capacity_setting *s;
    size_t bytes = sizeof(state);

    if (!c || !rows || step == UINT64_MAX || step < c->now.first ||
        (c->fed && step > c->last_fed && step - c->last_fed > c->o.delta))
        return MOE_ERR_ARGUMENT;
    s = c->waiting && step >= c->next.first ? &c->next : &c->now;
    if (state_or_null) {
        state.key = s->key;
        state.rows = s->sum;
        state.fullest = s->fullest;
        state.balanced = s->balanced;
        state.first = s->first;
        if (c->waiting && s == &c->now)
            state.pending = c->next.first;
        state.replans = s->replans;
        if (c->all.total)
            state.dropped_ppm = (uint32_t)((wide)c->all.dropped * MILLION / c->all.total);
        state.key_r0 = s->key_r0;
        for (int i = 0; i < 8; i++)
            state.digest |= (uint64_t)s->chain[i] << 8 * i;
        /* The caller's struct may be shorter, and keeps its struct_size. */
        if (state_or_null->struct_size && state_or_null->struct_size < bytes)
            bytes = state_or_null->struct_size;
        if (bytes > HEAD)
            memcpy((char *)state_or_null + HEAD, (const char *)&state + HEAD, bytes - HEAD);
    }
    if (!c->asked || step > c->latest_asked)
        c->latest_asked = step;
    c->asked = true;
    *rows = s->rows;
    return MOE_OK;
}

/* ---- A checkpoint: little-endian numbers at places that follow from the options, and a SHA-256 of
 * them at the end. One walk over the numbers writes them, reads them or counts their bytes, so no
 * two lists must agree. */

static const uint8_t magic[8] = { 'm', 'o', 'e', 'c', 'a', 'p', 'a', 1 };

/* One walk over a checkpoint, in the direction that `reading` says. */
struct walk {
    uint8_t *buffer; /* NULL: only counts the bytes */
    size_t bytes, room;
    bool reading, failed;
};

static void walk_bytes(struct walk *w, void *bytes, size_t count)
{
    if (w->buffer && w->room - w->bytes < count)
        w->failed = true;
    if (w->failed)
        return;
    if (w->buffer && w->reading)
        memcpy(bytes, w->buffer + w->bytes, count);
    else if (w->buffer)
        memcpy(w->buffer + w->bytes, bytes, count);
    w->bytes += count;
}

static void walk_u64(struct walk *w, uint64_t *word)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(*word >> 8 * i);
    walk_bytes(w, bytes, sizeof(bytes));
    if (!w->reading || w->failed)
        return;
    *word = 0;
    for (int i = 0; i < 8; i++)
        *word |= (uint64_t)bytes[i] << 8 * i;
}

static void walk_u32(struct walk *w, uint32_t *value)
{
    uint64_t word = *value;

    walk_u64(w, &word);
    w->failed |= word > UINT32_MAX;
    *value = (uint32_t)word;
}

static void walk_flag(struct walk *w, bool *flag)
{
    uint64_t word = *flag;

    walk_u64(w, &word);
    w->failed |= word > 1;
    *flag = word == 1;
}

static void walk_u32s(struct walk *w, uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        walk_u32(w, &values[i]);
}

static void walk_options(struct walk *w, struct moe_capacities_options *o)
{
    uint8_t begin[sizeof(magic)];

    memcpy(begin, magic, sizeof(magic));
    walk_bytes(w, begin, sizeof(begin));
    w->failed |= memcmp(begin, magic, sizeof(magic)) != 0;
    walk_u32(w, &o->experts);
    walk_u32(w, &o->ranks);
    walk_u32(w, &o->start);
    walk_u32(w, &o->grid);
    walk_u32(w, &o->hold);
    walk_u32(w, &o->gap);
    walk_u32(w, &o->low);
    walk_u32(w, &o->slack);
    walk_u32(w, &o->drops);
    walk_u32(w, &o->most);
    walk_u32(w, &o->delta);
}

static void walk_setting(struct walk *w, struct capacity_setting *s, uint32_t experts)
{
    walk_u32s(w, s->rows, experts);
    walk_u64(w, &s->first);
    walk_u64(w, &s->replans);
    walk_bytes(w, s->chain, sizeof(s->chain));
}

static void walk_state(struct walk *w, struct moe_capacities *c)
{
    walk_setting(w, &c->now, c->o.experts);
    walk_setting(w, &c->next, c->o.experts);
    walk_flag(w, &c->waiting);
    walk_flag(w, &c->fed);
    walk_flag(w, &c->asked);
    walk_u64(w, &c->last_fed);
    walk_u64(w, &c->latest_asked);
    walk_u64(w, &c->feeds);
    walk_u64(w, &c->feeds_since_replan);
    walk_u32s(w, c->peak, c->o.experts);
    walk_u32s(w, c->peak_before, c->o.experts);
    walk_u32(w, &c->filled);
    walk_u32(w, &c->recent_at);
    walk_u32(w, &c->recent_count);
    for (uint32_t i = 0; i < c->o.gap; i++) {
        walk_u64(w, &c->recent[i].dropped);
        walk_u64(w, &c->recent[i].total);
    }
    walk_u64(w, &c->all.dropped);
    walk_u64(w, &c->all.total);
}

/* Writes everything but the checksum to `buffer`. NULL: only counts the bytes. Returns their
 * number. */
static size_t write_walk(const struct moe_capacities *c, uint8_t *buffer, size_t room)
{
    struct moe_capacities copy = *c; /* a walk that writes changes no number */
    struct walk w = { .buffer = buffer, .room = room };

    walk_options(&w, &copy.o);
    walk_state(&w, &copy);
    return w.bytes;
}

static void checksum(const uint8_t *bytes, size_t count, uint8_t out[SHA256_BYTES])
{
    struct sha256 s;

    sha256_init(&s);
    sha256_add(&s, bytes, count);
    sha256_end(&s, out);
}

int moe_capacities_save(const struct moe_capacities *c, void *buf, size_t *size)
{
    size_t bytes;

    if (!c || !size)
        return MOE_ERR_ARGUMENT;
    bytes = write_walk(c, NULL, 0);
    if (buf && *size < bytes + SHA256_BYTES)
        return MOE_ERR_ARGUMENT;
    if (buf) {
        write_walk(c, buf, bytes);
        checksum(buf, bytes, (uint8_t *)buf + bytes);
    }
    *size = bytes + SHA256_BYTES;
    return MOE_OK;
}

/* Returns whether a controller can have these numbers. Computes sums anew and does not trust
 * them. */
static bool is_sound_state(struct moe_capacities *c)
{
    static const uint64_t largest_total = (uint64_t)1 << 48; /* of all experts in one step */
    uint64_t step_limit = UINT64_MAX - c->o.delta;

    for (uint32_t e = 0; e < c->o.experts; e++)
        if (c->now.rows[e] > c->o.most || c->next.rows[e] > c->o.most || c->peak[e] == UINT32_MAX ||
            c->peak_before[e] == UINT32_MAX)
            return false;
    if (c->fed != (c->feeds > 0) || c->last_fed >= step_limit || c->now.first >= step_limit)
        return false;
    if (c->waiting &&
        (!c->fed || c->next.first <= c->last_fed || c->next.first - c->last_fed > c->o.delta))
        return false;
    if (c->filled > c->o.hold || c->filled > c->feeds || c->recent_count > c->o.gap)
        return false;
    if (c->recent_count == c->o.gap ? c->recent_at >= c->o.gap : c->recent_at != c->recent_count)
        return false;
    c->recent_sum = (struct dropped){ 0, 0 };
    for (uint32_t i = 0; i < c->o.gap; i++) {
        const struct dropped *d = &c->recent[i];

        if (d->dropped > d->total || d->total > largest_total || (i >= c->recent_count && d->total))
            return false;
        c->recent_sum.dropped += d->dropped;
        c->recent_sum.total += d->total;
    }
    return c->all.dropped <= c->all.total && c->all.total >> 63 == 0;
}

int moe_capacities_load(const void *buf, size_t size, struct moe_capacities **out)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    /* the walk reads, and does not write to it */
    struct walk w = { .buffer = (uint8_t *)(uintptr_t)buf, .room = size, .reading = true };
    uint8_t sum[SHA256_BYTES];
    struct moe_capacities *c;
    char why[128];

    if (!buf || !out)
        return MOE_ERR_ARGUMENT;
    walk_options(&w, &o);
    if (w.failed || !o.start || !options_legal(&o, why) || size < SHA256_BYTES)
        return MOE_ERR_FORMAT;
    /* Check the sum before anything is allocated: damaged options may ask for more memory than
     * there is. */
    checksum(buf, size - SHA256_BYTES, sum);
    if (memcmp(sum, (const uint8_t *)buf + size - SHA256_BYTES, SHA256_BYTES) != 0)
        return MOE_ERR_FORMAT;
    TRY(moe_capacities_open(&o, &c));
    if (size != write_walk(c, NULL, 0) + SHA256_BYTES)
        goto damaged;
    walk_state(&w, c);
    if (w.failed || !is_sound_state(c))
        goto damaged;
    capacities_derive(c, &c->now);
    capacities_derive(c, &c->next);
    *out = c;
    return MOE_OK;
damaged:
    moe_capacities_close(c);
    return MOE_ERR_FORMAT;
}
