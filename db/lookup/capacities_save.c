/* All that a controller of capacities knows, as bytes for a checkpoint: little-endian, every number
 * in its place by the options, and a SHA-256 of the rest at the end.  One walk over the numbers
 * writes them, reads them and counts their bytes, so that no two lists need agree. */
#include "capacities_rule.h"

#include "status.h"

#include <string.h>

static const uint8_t magic[8] = { 'm', 'o', 'e', 'c', 'a', 'p', 'a', 1 };

struct walk {
    uint8_t *at; /* NULL: bytes are only counted */
    size_t bytes, room;
    bool reading, bad;
};

static void pass(struct walk *w, void *bytes, size_t count)
{
    if (w->at && w->room - w->bytes < count)
        w->bad = true;
    if (w->bad)
        return;
    if (w->at && w->reading)
        memcpy(bytes, w->at + w->bytes, count);
    else if (w->at)
        memcpy(w->at + w->bytes, bytes, count);
    w->bytes += count;
}

static void pass_word(struct walk *w, uint64_t *word)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(*word >> 8 * i);
    pass(w, bytes, sizeof(bytes));
    if (!w->reading || w->bad)
        return;
    *word = 0;
    for (int i = 0; i < 8; i++)
        *word |= (uint64_t)bytes[i] << 8 * i;
}

static void pass_small(struct walk *w, uint32_t *value)
{
    uint64_t word = *value;

    pass_word(w, &word);
    w->bad |= word > UINT32_MAX;
    *value = (uint32_t)word;
}

static void pass_flag(struct walk *w, bool *flag)
{
    uint64_t word = *flag;

    pass_word(w, &word);
    w->bad |= word > 1;
    *flag = word == 1;
}

static void pass_options(struct walk *w, struct moe_capacities_options *o)
{
    uint8_t begin[sizeof(magic)];

    memcpy(begin, magic, sizeof(magic));
    pass(w, begin, sizeof(begin));
    w->bad |= memcmp(begin, magic, sizeof(magic)) != 0;
    pass_small(w, &o->experts);
    pass_small(w, &o->ranks);
    pass_small(w, &o->start);
    pass_small(w, &o->grid);
    pass_small(w, &o->hold);
    pass_small(w, &o->gap);
    pass_small(w, &o->low);
    pass_small(w, &o->slack);
    pass_small(w, &o->drops);
    pass_small(w, &o->most);
    pass_small(w, &o->delta);
}

static void pass_list(struct walk *w, uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        pass_small(w, &values[i]);
}

static void pass_setting(struct walk *w, struct setting *s, uint32_t experts)
{
    pass_list(w, s->rows, experts);
    pass_word(w, &s->first);
    pass_word(w, &s->replans);
    pass(w, s->chain, sizeof(s->chain));
}

static void pass_dropped(struct walk *w, struct dropped *of)
{
    pass_word(w, &of->dropped);
    pass_word(w, &of->total);
}

static void pass_state(struct walk *w, struct moe_capacities *c)
{
    pass_setting(w, &c->now, c->o.experts);
    pass_setting(w, &c->next, c->o.experts);
    pass_flag(w, &c->waiting);
    pass_flag(w, &c->fed);
    pass_flag(w, &c->asked);
    pass_word(w, &c->last);
    pass_word(w, &c->latest);
    pass_word(w, &c->feeds);
    pass_word(w, &c->since);
    pass_list(w, c->peak, c->o.experts);
    pass_list(w, c->before, c->o.experts);
    pass_small(w, &c->filled);
    pass_small(w, &c->recent_at);
    pass_small(w, &c->recent_count);
    for (uint32_t i = 0; i < c->o.gap; i++)
        pass_dropped(w, &c->recent[i]);
    pass_dropped(w, &c->all);
}

static size_t size_of(const struct moe_capacities *c)
{
    struct moe_capacities copy = *c; /* a walk that counts writes nothing, but may not be told so */
    struct walk w = { NULL, 0, 0, false, false };

    pass_options(&w, &copy.o);
    pass_state(&w, &copy);
    return w.bytes + SHA256_BYTES;
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
    size_t whole;

    if (!c || !size)
        return MOE_ERR_ARGUMENT;
    whole = size_of(c);
    if (buf && *size < whole)
        return MOE_ERR_ARGUMENT;
    if (buf) {
        struct moe_capacities copy = *c;
        struct walk w = { buf, 0, whole - SHA256_BYTES, false, false };

        pass_options(&w, &copy.o);
        pass_state(&w, &copy);
        checksum(buf, w.bytes, (uint8_t *)buf + w.bytes);
    }
    *size = whole;
    return MOE_OK;
}

/* ---- loading */

static bool rows_usable(const struct moe_capacities *c, const struct setting *s)
{
    for (uint32_t e = 0; e < c->o.experts; e++)
        if (s->rows[e] > c->o.most)
            return false;
    return true;
}

static bool counts_usable(const uint32_t *peaks, uint32_t experts)
{
    for (uint32_t e = 0; e < experts; e++)
        if (peaks[e] == UINT32_MAX)
            return false;
    return true;
}

/* Sums are made again, not believed. */
static bool sum_recent(struct moe_capacities *c)
{
    static const uint64_t most = (uint64_t)1 << 48; /* of all experts in one step */

    c->recent_sum = (struct dropped){ 0, 0 };
    for (uint32_t i = 0; i < c->o.gap; i++) {
        const struct dropped *d = &c->recent[i];

        if (d->dropped > d->total || d->total > most || (i >= c->recent_count && d->total))
            return false;
        c->recent_sum.dropped += d->dropped;
        c->recent_sum.total += d->total;
    }
    return c->all.dropped <= c->all.total && c->all.total >> 63 == 0;
}

static bool steps_usable(const struct moe_capacities *c)
{
    uint64_t limit = UINT64_MAX - c->o.delta;

    return c->fed == (c->feeds > 0) && c->last < limit && c->filled <= c->o.hold &&
           c->filled <= c->feeds && c->now.first < limit && c->recent_count <= c->o.gap &&
           (c->recent_count == c->o.gap ? c->recent_at < c->o.gap
                                        : c->recent_at == c->recent_count) &&
           (!c->waiting ||
            (c->fed && c->next.first > c->last && c->next.first - c->last <= c->o.delta));
}

/* What follows from the rows; their chains are what was saved. */
static void settle_again(struct moe_capacities *c, struct setting *s)
{
    uint8_t chain[SHA256_BYTES];

    memcpy(chain, s->chain, sizeof(chain));
    capacities_settle(c, chain, s);
    memcpy(s->chain, chain, sizeof(chain));
}

/* The file's own checksum, and a length that the options lead to. */
static bool whole(const uint8_t *bytes, size_t size, const struct moe_capacities_options *o)
{
    uint8_t sum[SHA256_BYTES];
    size_t experts = o->experts, words = 11 + 4 * experts + 4 + 3 + 4 + 3 + 2 * (size_t)o->gap + 2;

    if (size != sizeof(magic) + 8 * words + 3 * SHA256_BYTES)
        return false;
    checksum(bytes, size - SHA256_BYTES, sum);
    return !memcmp(sum, bytes + size - SHA256_BYTES, SHA256_BYTES);
}

int moe_capacities_load(const void *buf, size_t size, struct moe_capacities **out)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    /* Not written to: the walk reads. */
    struct walk w = { (uint8_t *)(uintptr_t)buf, 0, size, true, false };
    struct moe_capacities *c;

    if (!buf || !out)
        return MOE_ERR_ARGUMENT;
    pass_options(&w, &o);
    if (w.bad || !o.start || capacities_check(&o, false) || !whole(buf, size, &o))
        return MOE_ERR_FORMAT;
    TRY(moe_capacities_open(&o, &c));
    pass_state(&w, c);
    if (w.bad || !rows_usable(c, &c->now) || !rows_usable(c, &c->next) ||
        !counts_usable(c->peak, o.experts) || !counts_usable(c->before, o.experts) ||
        !steps_usable(c) || !sum_recent(c)) {
        moe_capacities_close(c);
        return MOE_ERR_FORMAT;
    }
    settle_again(c, &c->now);
    settle_again(c, &c->next);
    *out = c;
    return MOE_OK;
}
