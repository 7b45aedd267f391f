/* Draws random tables, which a test knows in plain form, and writes them through the store. */
#ifndef LOOKUP_PLAIN_H
#define LOOKUP_PLAIN_H

#include "lookup_tables.h"

enum { ENTRIES_MAX = 16, PINS_MAX = 8, LAYERS = 40, BATCHES = 50 };

struct known {
    uint32_t bucket;
    struct moe_plan plan;
    bool stale, inferred;
    double time_us, default_us;
    int file;
};

struct pinned {
    uint32_t first, last;
    struct moe_plan plan;
    int file;
};

struct plain {
    struct moe_shape shape;
    uint32_t window;
    int entry_count, pin_count;
    struct known entries[ENTRIES_MAX];
    struct pinned pins[PINS_MAX];
};

/* ---- random dictionaries, written through the store */

static inline uint32_t draw_divisor(uint32_t of)
{
    for (;;) {
        uint32_t d = 1 + draw(of);

        if (of % d == 0)
            return d;
    }
}

/* Every number gives another hidden dimension, so that layers differ. */
static inline struct moe_shape draw_shape(uint32_t number)
{
    static const uint32_t ranks[] = { 1, 2, 4, 6, 8, 12, 16 };
    uint32_t w = ranks[draw(7)], m = chance(20) ? 0 : draw_divisor(w);
    uint32_t e = chance(70) ? draw_divisor(w) : w * (1 + draw(3));
    bool later = chance(25), groups = later && chance(50), latest = later && chance(40);
    uint32_t router = !later ? 0 : latest && chance(30) ? MOE_ROUTER_COSINE : draw(2);
    uint32_t width = 1 + draw(100);

    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = e,
                               .top_k = 1 + draw(e),
                               .tokens = draw(1000),
                               .model_dim = width,
                               .hidden_dim = 48 * (number + 1),
                               .ranks = w,
                               .ranks_per_node = m,
                               .dtype = draw(3),
                               .pass = draw(2),
                               .activation = draw(3),
                               .layout = later ? draw(2) : 0,
                               .shares = later ? draw(2) : 0,
                               .layers = later && chance(50) ? 2 + draw(30) : 0,
                               .groups = groups ? e : 0,
                               .group_limit = groups ? e : 0,
                               .router = router,
                               .order = latest ? draw(2) : 0,
                               .projection = router == MOE_ROUTER_COSINE ? 1 + draw(width) : 0 };
}

static inline struct moe_plan draw_plan(void)
{
    static const uint32_t degrees[] = { 0, 1, 1, 2, 2, 3, 4, 5, 8, 16 };
    struct moe_plan plan = plan_default(NULL);

    plan.r = degrees[draw(10)];
    plan.d = 1u << draw(4);
    plan.a = draw(4);
    plan.ctas = draw(3) ? 0 : 1u << draw(7);
    plan.e = chance(30);
    plan.w = chance(10);
    plan.proto = chance(80) ? 0 : draw(4);
    return plan;
}

static inline double draw_time(void)
{
    return chance(5) ? (double)NAN : 0.25 + draw(1000000) / 16.0;
}

static inline uint32_t draw_bucket(uint32_t window, uint32_t style)
{
    uint32_t last = UINT32_MAX / window;

    switch (style) {
    case 0: return draw(20);
    case 1: return draw(400);
    case 2: return last - (last < 12 ? 0 : draw(12));
    case 3: return draw(UINT32_MAX);
    }
    return chance(50) ? draw(6) : draw(last);
}

static inline void draw_entries(struct plain *t, int file)
{
    uint32_t count = draw(8), style = draw(5), stale = draw(3) * 40;

    for (uint32_t i = 0; i < count && t->entry_count < ENTRIES_MAX; i++) {
        struct known e = { .bucket = draw_bucket(t->window, style),
                           .plan = draw_plan(),
                           .stale = chance(stale),
                           .inferred = chance(30),
                           .time_us = draw_time(),
                           .default_us = draw_time(),
                           .file = file };
        bool taken = false;

        for (int k = 0; k < t->entry_count; k++)
            taken |= t->entries[k].bucket == e.bucket && t->entries[k].file == file;
        if (!taken)
            t->entries[t->entry_count++] = e;
    }
}

/* The store replaces what a new pin overlaps; so does this. */
static inline void keep_pin(struct plain *t, struct pinned pin)
{
    int kept = 0;

    for (int i = 0; i < t->pin_count; i++) {
        struct pinned *p = &t->pins[i];

        if (p->file != pin.file || p->first > pin.last || p->last < pin.first)
            t->pins[kept++] = *p;
    }
    t->pins[kept++] = pin;
    t->pin_count = kept;
}

static inline void draw_pins(struct plain *t, int file)
{
    for (uint32_t i = draw(4); i > 0 && t->pin_count < PINS_MAX; i--) {
        uint32_t style = draw(5);
        uint32_t a = draw_bucket(t->window, style), b = draw_bucket(t->window, style);
        struct pinned pin = { a < b ? a : b, a < b ? b : a, draw_plan(), file };

        if (chance(10))
            pin.first = 0;
        if (chance(10))
            pin.last = UINT32_MAX;
        keep_pin(t, pin);
    }
}

static inline void draw_plain(struct plain *t, uint32_t number)
{
    static const uint32_t windows[] = { 1, 2, 3, 7, 128, 1000, 1u << 20, UINT32_MAX };

    memset(t, 0, sizeof(*t));
    t->shape = draw_shape(number);
    t->window = windows[draw(8)];
}

/* Layers without a row do not exist: their window would be nobody's. */
static inline void fill_plain(struct plain *t, int file)
{
    int before = t->entry_count + t->pin_count;

    while (t->entry_count + t->pin_count == before) {
        draw_entries(t, file);
        if (chance(50))
            draw_pins(t, file);
    }
}

static inline void write_entry(struct store *store, const struct plain *t, const struct known *e,
                               struct ids ids)
{
    struct entry_row row = entry_of(ids, t->window, e->bucket, "r=1"), before;
    enum merge_outcome outcome;

    row.plan = e->plan;
    row.stale = e->stale;
    row.inferred = e->inferred;
    row.time_us = e->time_us;
    row.default_us = e->default_us;
    /* As an import places it: what is unsound lies there, too. */
    CHECK(!store_entry_merge(store, &row, "import", &before, &outcome));
}

static inline void write_pin(struct store *store, const struct plain *t, const struct pinned *p,
                             struct ids ids)
{
    struct override_row row = { .cluster = ids.cluster,
                                .shape = ids.shape,
                                .window = t->window,
                                .first = p->first,
                                .last = p->last,
                                .plan = p->plan };

    snprintf(row.why, sizeof(row.why), "asked");
    CHECK(!store_override_add(store, &row));
}

/* Backwards if asked: nothing may depend on the order of insertion. */
static inline void write_plain(struct store *store, const struct plain *t, int file, bool backwards)
{
    struct cluster cluster = machine("abacus", t->shape.ranks, t->shape.ranks_per_node);
    struct ids ids = add_layer(store, &cluster, &t->shape);

    for (int i = 0; i < t->entry_count; i++) {
        const struct known *e = &t->entries[backwards ? t->entry_count - 1 - i : i];

        if (e->file == file)
            write_entry(store, t, e, ids);
    }
    for (int i = 0; i < t->pin_count; i++) {
        const struct pinned *p = &t->pins[backwards ? t->pin_count - 1 - i : i];

        if (p->file == file)
            write_pin(store, t, p, ids);
    }
}

static inline void write_plains(const char *path, const struct plain *plains, int count, int file,
                                bool backwards)
{
    struct store *store = new_store(path);

    for (int i = 0; i < count; i++)
        write_plain(store, &plains[backwards ? count - 1 - i : i], file, backwards);
    publish_and_close(store);
}

/* ---- comparing with it */

/* The edges of a bucket, one row further on both sides, and one bucket further. */
static inline size_t edges(uint32_t window, uint32_t bucket, uint32_t *capacities)
{
    /* Beyond the largest capacity's bucket there is nothing to ask, and products grow too long. */
    const int64_t beyond = (int64_t)(UINT32_MAX / window) + 2;
    const int64_t near = bucket < beyond ? bucket : beyond;
    const int64_t first = near * window, last = first + window - 1;
    const int64_t all[] = { first - 1, first, last, last + 1, first - window, last + window + 1 };
    size_t count = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] >= 0 && all[i] <= UINT32_MAX)
            capacities[count++] = (uint32_t)all[i];
    return count;
}

#endif
