/* The look-up library against its header: every rung, every switch, every word that is said. */
#include "lookup_tables.h"

#include <pthread.h>
#include <sys/mman.h>

/* ---- the plain reading of the header: linear scans */

enum { ENTRIES_MAX = 16, PINS_MAX = 8 };

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

struct switches {
    const char *force;
    bool disabled;
};

/* What counts as this bucket's entry; NULL: none. */
static const struct known *plain_at(const struct plain *t, int64_t bucket)
{
    const struct known *best = NULL;

    for (int i = 0; i < t->entry_count; i++) {
        const struct known *e = &t->entries[i];

        if (e->bucket != bucket || !legal(&e->plan, &t->shape))
            continue;
        if (!best || (best->stale && !e->stale) ||
            (best->stale == e->stale && e->file < best->file))
            best = e;
    }
    return best;
}

static const struct pinned *plain_pin(const struct plain *t, uint32_t bucket)
{
    const struct pinned *best = NULL;

    for (int i = 0; i < t->pin_count; i++) {
        const struct pinned *p = &t->pins[i];

        if (bucket >= p->first && bucket <= p->last && legal(&p->plan, &t->shape) &&
            (!best || p->file < best->file))
            best = p;
    }
    return best;
}

/* The nearest bucket with an entry on that side, or -1. */
static int64_t plain_nearest(const struct plain *t, int64_t bucket, int direction)
{
    int64_t found = -1;

    for (int i = 0; i < t->entry_count; i++) {
        int64_t b = t->entries[i].bucket;

        if (!legal(&t->entries[i].plan, &t->shape) || (b - bucket) * direction <= 0)
            continue;
        if (found < 0 || (found - b) * direction > 0)
            found = b;
    }
    return found;
}

static struct moe_plan plain_answer(struct moe_plan plan, enum moe_source source, uint32_t bucket)
{
    plan.source = source;
    plan.bucket = bucket;
    plan.time_us = plan.default_us = 0;
    return plan;
}

static struct moe_plan plain_entry(const struct known *e, enum moe_source source)
{
    struct moe_plan plan = plain_answer(e->plan, source, e->bucket);

    plan.time_us = isnan(e->time_us) ? 0 : (float)e->time_us;
    plan.default_us = isnan(e->default_us) ? 0 : (float)e->default_us;
    return plan;
}

static struct moe_plan plain_other(const struct plain *t, const struct known *e, int64_t asked)
{
    bool outside = plain_nearest(t, asked, 1) < 0 || plain_nearest(t, asked, -1) < 0;

    if (plain_at(t, asked))
        outside = false;
    if (e->stale)
        return plain_entry(e, MOE_STALE);
    return plain_entry(e, outside ? MOE_CLAMPED : MOE_NEIGHBOUR);
}

static struct moe_plan plain_ladder(const struct plain *t, uint32_t bucket)
{
    const struct known *own = plain_at(t, bucket);
    const struct known *below = plain_at(t, (int64_t)bucket - 1);
    const struct known *above = plain_at(t, (int64_t)bucket + 1);

    if (own && !own->stale)
        return plain_entry(own, own->inferred ? MOE_INFERRED : MOE_EXACT);
    if (below && !below->stale)
        return plain_other(t, below, bucket);
    if (above && !above->stale)
        return plain_other(t, above, bucket);
    if (own)
        return plain_entry(own, MOE_STALE);
    below = plain_at(t, plain_nearest(t, bucket, -1));
    above = plain_at(t, plain_nearest(t, bucket, 1));
    if (below || above)
        return plain_other(t, below ? below : above, bucket);
    return plain_answer(plan_default(), MOE_DEFAULT, bucket);
}

static struct moe_plan plain_get(const struct plain *t, struct switches switches, uint32_t capacity)
{
    uint32_t bucket = capacity / t->window;
    const struct pinned *pin = plain_pin(t, bucket);
    struct moe_plan force;

    if (switches.force) {
        force = plan_of(switches.force);
        if (legal(&force, &t->shape))
            return plain_answer(force, MOE_OVERRIDE, bucket);
    }
    if (switches.disabled)
        return plain_answer(plan_default(), MOE_DEFAULT, bucket);
    if (pin)
        return plain_answer(pin->plan, MOE_OVERRIDE, bucket);
    return plain_ladder(t, bucket);
}

/* ---- random dictionaries, written through the store */

static uint32_t draw_divisor(uint32_t of)
{
    for (;;) {
        uint32_t d = 1 + draw(of);

        if (of % d == 0)
            return d;
    }
}

/* Every number gives another hidden dimension, so that layers differ. */
static struct moe_shape draw_shape(uint32_t number)
{
    static const uint32_t ranks[] = { 1, 2, 4, 6, 8, 12, 16 };
    uint32_t w = ranks[draw(7)], m = chance(20) ? 0 : draw_divisor(w);
    uint32_t e = chance(70) ? draw_divisor(w) : w * (1 + draw(3));

    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = e,
                               .top_k = 1 + draw(e),
                               .tokens = draw(1000),
                               .model_dim = 1 + draw(100),
                               .hidden_dim = 48 * (number + 1),
                               .ranks = w,
                               .ranks_per_node = m,
                               .dtype = draw(3),
                               .pass = draw(2),
                               .activation = draw(3) };
}

static struct moe_plan draw_plan(void)
{
    static const uint32_t degrees[] = { 0, 1, 1, 2, 2, 3, 4, 5, 8, 16 };
    struct moe_plan plan = plan_default();

    plan.r = degrees[draw(10)];
    plan.d = 1u << draw(4);
    plan.a = draw(3);
    plan.ctas = draw(3) ? 0 : 1u << draw(7);
    return plan;
}

static double draw_time(void)
{
    return chance(5) ? (double)NAN : 0.25 + draw(1000000) / 16.0;
}

static uint32_t draw_bucket(uint32_t window, uint32_t style)
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

static void draw_entries(struct plain *t, int file)
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
static void keep_pin(struct plain *t, struct pinned pin)
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

static void draw_pins(struct plain *t, int file)
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

static void draw_plain(struct plain *t, uint32_t number)
{
    static const uint32_t windows[] = { 1, 2, 3, 7, 128, 1000, 1u << 20, UINT32_MAX };

    memset(t, 0, sizeof(*t));
    t->shape = draw_shape(number);
    t->window = windows[draw(8)];
}

/* Layers without a row do not exist: their window would be nobody's. */
static void fill_plain(struct plain *t, int file)
{
    int before = t->entry_count + t->pin_count;

    while (t->entry_count + t->pin_count == before) {
        draw_entries(t, file);
        if (chance(50))
            draw_pins(t, file);
    }
}

static void write_entry(struct store *store, const struct plain *t, const struct known *e,
                        struct ids ids)
{
    struct entry_row row = entry_of(ids, t->window, e->bucket, "r=1");

    row.plan = e->plan;
    row.stale = e->stale;
    row.inferred = e->inferred;
    row.time_us = e->time_us;
    row.default_us = e->default_us;
    CHECK(!store_entry(store, &row, "measured"));
}

static void write_pin(struct store *store, const struct plain *t, const struct pinned *p,
                      struct ids ids)
{
    struct override_row row = { .cluster = ids.cluster,
                                .shape = ids.shape,
                                .window = t->window,
                                .first = p->first,
                                .last = p->last,
                                .plan = p->plan };

    snprintf(row.why, sizeof(row.why), "asked");
    CHECK(!store_override(store, &row));
}

/* Backwards if asked: nothing may depend on the order of insertion. */
static void write_plain(struct store *store, const struct plain *t, int file, bool backwards)
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

static void write_plains(const char *path, const struct plain *plains, int count, int file,
                         bool backwards)
{
    struct store *store = new_store(path);

    for (int i = 0; i < count; i++)
        write_plain(store, &plains[backwards ? count - 1 - i : i], file, backwards);
    publish_and_close(store);
}

/* ---- comparing with it */

static bool same_answer(const struct moe_plan *got, const struct moe_plan *want)
{
    struct moe_plan a = plan_canonical(*got), b = plan_canonical(*want);

    if (!plan_equal(&a, &b) || got->source != want->source || got->bucket != want->bucket)
        return false;
    if (got->source == MOE_OVERRIDE || got->source == MOE_DEFAULT)
        return true;
    return got->time_us == want->time_us && got->default_us == want->default_us;
}

static void print_plain(const struct plain *t, uint32_t capacity)
{
    printf("    E=%u W=%u m=%u R=%u c=%u:", t->shape.experts, t->shape.ranks,
           t->shape.ranks_per_node, t->window, capacity);
    for (int i = 0; i < t->entry_count; i++)
        printf(" %d/%u%s%s", t->entries[i].file, t->entries[i].bucket,
               t->entries[i].stale ? "s" : "", legal(&t->entries[i].plan, &t->shape) ? "" : "x");
    for (int i = 0; i < t->pin_count; i++)
        printf(" %d/%u..%u%s", t->pins[i].file, t->pins[i].first, t->pins[i].last,
               legal(&t->pins[i].plan, &t->shape) ? "" : "x");
    printf("\n");
}

/* Without a legal row there is no table, and nothing that says how wide its buckets are. */
static bool has_width(const struct plain *t)
{
    bool any = false;

    for (int i = 0; i < t->entry_count; i++)
        any |= legal(&t->entries[i].plan, &t->shape);
    for (int i = 0; i < t->pin_count; i++)
        any |= legal(&t->pins[i].plan, &t->shape);
    return any;
}

static bool agrees(const struct moelookup_view *view, const struct plain *t,
                   struct switches switches, uint32_t capacity)
{
    struct moe_plan got = ask(view, capacity), want = plain_get(t, switches, capacity);

    if (!has_width(t))
        want.bucket = got.bucket;
    if (!legal(&got, &t->shape))
        printf("    an illegal plan\n");
    else if (same_answer(&got, &want))
        return true;
    print_plain(t, capacity);
    printf("    r=%u d=%u a=%u source=%u bucket=%u %g %g, not r=%u d=%u a=%u source=%u bucket=%u "
           "%g %g\n",
           got.r, got.d, got.a, got.source, got.bucket, (double)got.time_us, (double)got.default_us,
           want.r, want.d, want.a, want.source, want.bucket, (double)want.time_us,
           (double)want.default_us);
    return false;
}

/* The edges of a bucket, one row further on both sides, and one bucket further. */
static size_t edges(uint32_t window, uint32_t bucket, uint32_t *capacities)
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

/* True if view and plain reading agree wherever something changes, and elsewhere. */
static bool agrees_everywhere(const struct moelookup_view *view, const struct plain *t,
                              struct switches switches)
{
    uint32_t c[6 * (ENTRIES_MAX + 2 * PINS_MAX) + 22];
    size_t count = 0;

    c[count++] = 0;
    c[count++] = UINT32_MAX;
    for (int i = 0; i < t->entry_count; i++)
        count += edges(t->window, t->entries[i].bucket, c + count);
    for (int i = 0; i < t->pin_count; i++) {
        count += edges(t->window, t->pins[i].first, c + count);
        count += edges(t->window, t->pins[i].last, c + count);
    }
    for (int i = 0; i < 20; i++)
        c[count++] = chance(50) ? draw(UINT32_MAX) : draw(30) * t->window;
    for (size_t i = 0; i < count; i++)
        if (!agrees(view, t, switches, c[i]))
            return false;
    return true;
}

static bool all_agree(const struct moelookup *table, const struct plain *plains, int count,
                      struct switches switches)
{
    bool all = true;

    for (int i = 0; i < count && all; i++) {
        struct moelookup_view *view = bind_layer(table, plains[i].shape);

        all = view && agrees_everywhere(view, &plains[i], switches);
        moelookup_view_free(view);
    }
    return all;
}

static bool opens_and_agrees(const char *path, const struct plain *plains, int count,
                             struct switches switches)
{
    struct moelookup *table;
    bool all;

    if (switches.force)
        setenv("MOELOOKUP_FORCE", switches.force, 1);
    if (switches.disabled)
        setenv("MOELOOKUP_DISABLE", "1", 1);
    table = open_table(path);
    unsetenv("MOELOOKUP_FORCE");
    unsetenv("MOELOOKUP_DISABLE");
    all = table && all_agree(table, plains, count, switches);
    moelookup_close(table);
    return all;
}

enum { LAYERS = 40, BATCHES = 50 };

/* A disabled table has no windows: its own bucket is anybody's guess, so only the plan counts. */
static void disabled_answers_the_default(const char *path, const struct plain *plains, int count,
                                         const char *force)
{
    struct moelookup *table;

    setenv("MOELOOKUP_DISABLE", "1", 1);
    if (force)
        setenv("MOELOOKUP_FORCE", force, 1);
    table = open_table(path);
    unsetenv("MOELOOKUP_DISABLE");
    unsetenv("MOELOOKUP_FORCE");
    for (int i = 0; i < count; i++) {
        struct moelookup_view *view = bind_layer(table, plains[i].shape);
        struct moe_plan got = ask(view, draw(UINT32_MAX)), forced = plan_default();
        bool applies;

        if (force)
            forced = plan_of(force);
        applies = force && legal(&forced, &plains[i].shape);
        CHECK(is_answer(got, applies ? force : "r=1", applies ? MOE_OVERRIDE : MOE_DEFAULT));
        moelookup_view_free(view);
    }
    moelookup_close(table);
}

static void the_ladder_answers_as_a_plain_reading_of_the_header(void)
{
    static const char *const forces[] = { "r=1 d=2", "r=2 d=8 a=2dh", "r=0 d=1", "r=4", "r=7" };
    static struct plain plains[LAYERS];

    for (int batch = 0; batch < BATCHES && !check_failures; batch++) {
        char name[32];
        const char *path, *force = forces[draw(5)];

        snprintf(name, sizeof(name), "ladder-%d.db", batch);
        path = place(name);
        for (int i = 0; i < LAYERS; i++) {
            draw_plain(&plains[i], (uint32_t)i);
            fill_plain(&plains[i], 0);
        }
        write_plains(path, plains, LAYERS, 0, false);
        CHECK(opens_and_agrees(path, plains, LAYERS, (struct switches){ 0 }));
        CHECK(opens_and_agrees(path, plains, LAYERS, (struct switches){ .force = force }));
        disabled_answers_the_default(path, plains, LAYERS, NULL);
        disabled_answers_the_default(path, plains, LAYERS, force);
    }
}

static void several_files_answer_as_a_plain_reading_of_the_header(void)
{
    static const char *const variables[] = { "MOELOOKUP_DB", "MOETUNE_DB", "XDG_DATA_HOME" };
    static struct plain plains[LAYERS];

    mkdir(place("share"), 0777);
    mkdir(place("share/moetune"), 0777);
    for (int batch = 0; batch < BATCHES / 2 && !check_failures; batch++) {
        for (int i = 0; i < LAYERS; i++)
            draw_plain(&plains[i], (uint32_t)i);
        for (int file = 0; file < 3; file++) {
            char name[64];

            if (file < 2)
                snprintf(name, sizeof(name), "several-%d-%d.db", batch, file);
            else
                snprintf(name, sizeof(name), "share/moetune/moetune.db");
            for (int i = 0; i < LAYERS; i++)
                if (file == i % 3 || chance(60))
                    fill_plain(&plains[i], file);
            unlink(place("share/moetune/moetune.db"));
            write_plains(place(name), plains, LAYERS, file, false);
            setenv(variables[file], file < 2 ? place(name) : place("share"), 1);
        }
        CHECK(opens_and_agrees(NULL, plains, LAYERS, (struct switches){ 0 }));
    }
    no_environment();
}

/* ---- sizes of structs */

static void only_what_lies_inside_struct_size_is_written(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_plan whole;

    write_small(place("sizes.db"), "abacus", 96);
    table = open_table(place("sizes.db"));
    view = bind_layer(table, layer(96));
    whole = ask(view, 2 * 128);
    for (uint32_t size = 0; size <= 2 * sizeof(whole); size++) {
        union {
            struct moe_plan plan;
            unsigned char bytes[2 * sizeof(struct moe_plan)];
        } out;
        size_t first = offsetof(struct moe_plan, ctas); /* all that the first version had */
        size_t inside = !size ? first : (size < sizeof(whole) ? size : sizeof(whole));

        memset(&out, 0xa5, sizeof(out));
        out.plan.struct_size = size;
        CHECK(moelookup_get(view, 2 * 128, &out.plan) == MOE_OK && out.plan.struct_size == size);
        /* Whole fields; what is inside only in part is left alone. */
        inside = inside < 8 ? 4 : inside - inside % 4;
        CHECK(!memcmp(out.bytes + 4, (char *)&whole + 4, inside - 4));
        for (size_t i = inside; i < sizeof(out); i++)
            CHECK(out.bytes[i] == 0xa5);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static int bind_status(const struct moelookup *table, const struct moe_shape *shape,
                       enum moe_source *source)
{
    struct moelookup_view *view = NULL;
    int rc = moelookup_bind(table, shape, NULL, &view);

    if (rc == MOE_OK)
        *source = (enum moe_source)ask(view, 2 * 128).source;
    else
        CHECK(view == NULL);
    moelookup_view_free(view);
    return rc;
}

static void only_what_lies_inside_struct_size_is_read(void)
{
    union {
        struct moe_shape shape;
        unsigned char bytes[2 * sizeof(struct moe_shape)];
    } in;
    struct moelookup *table;
    enum moe_source source = MOE_DEFAULT;

    write_small(place("inside.db"), "abacus", 96);
    table = open_table(place("inside.db"));
    memset(&in, 0xa5, sizeof(in));
    in.shape = layer(96);
    in.shape.struct_size = sizeof(in); /* of a newer header: the rest is not ours */
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = 0;
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = offsetof(struct moe_shape, tokens); /* then tokens are 0: any */
    in.shape.tokens = UINT32_MAX;
    CHECK(bind_status(table, &in.shape, &source) == MOE_OK && source == MOE_EXACT);
    in.shape.struct_size = offsetof(struct moe_shape, model_dim); /* no dimension: no layer */
    catch_stderr();
    CHECK(bind_status(table, &in.shape, &source) == MOE_ERR_ARGUMENT);
    release_stderr();
    CHECK(*heard);
    moelookup_close(table);
}

/* ---- finding the dictionary */

/* True if it is refused and each of the words, separated by '|', is said. */
static bool is_ambiguous(const struct moelookup *table, struct moe_shape shape, const char *device,
                         const char *words)
{
    char list[256], *word, *rest = list;
    struct moe_plan got;
    int rc;

    catch_stderr();
    rc = bind_to(table, shape, device, &got);
    release_stderr();
    snprintf(list, sizeof(list), "%s", words);
    while ((word = strsep(&rest, "|")))
        if (!strstr(heard, word)) {
            printf("    no \"%s\" in: %s\n", word, heard);
            return false;
        }
    if (rc != MOE_ERR_AMBIGUOUS)
        printf("    %d is not ambiguous\n", rc);
    return rc == MOE_ERR_AMBIGUOUS;
}

static void add_one(struct store *store, const struct cluster *cluster, struct moe_shape shape,
                    const char *plan)
{
    add_entry(store, add_layer(store, cluster, &shape), 2, plan);
}

static struct moe_shape with_tokens(struct moe_shape shape, uint32_t tokens)
{
    shape.tokens = tokens;
    return shape;
}

static void tokens_are_preferred_equal_and_0_fits_any(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("tokens.db"));
    struct moelookup *table;

    add_one(store, &cluster, with_tokens(layer(96), 64), "r=2");
    add_one(store, &cluster, with_tokens(layer(192), 64), "r=2");
    add_one(store, &cluster, with_tokens(layer(192), 128), "r=4");
    publish_and_close(store);
    table = open_table(place("tokens.db"));
    CHECK(binds_to(table, with_tokens(layer(96), 64), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(96), 0), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(96), 100), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(192), 64), NULL, "r=2"));
    CHECK(binds_to(table, with_tokens(layer(192), 128), NULL, "r=4"));
    CHECK(is_ambiguous(table, with_tokens(layer(192), 0), NULL, "64|128"));
    CHECK(is_ambiguous(table, with_tokens(layer(192), 100), NULL, "64|128"));
    moelookup_close(table);
}

static void every_other_field_of_the_shape_must_be_equal(void)
{
    struct moelookup *table;
    struct moe_shape others[9];

    write_small(place("fields.db"), "abacus", 96);
    table = open_table(place("fields.db"));
    CHECK(binds_to(table, layer(96), NULL, "r=2 d=4"));
    for (int i = 0; i < 9; i++)
        others[i] = layer(96);
    others[0].experts = 4;
    others[1].top_k = 1;
    others[2].model_dim = 32;
    others[3].hidden_dim = 192;
    others[4].ranks = 4;
    others[5].ranks_per_node = 2;
    others[6].dtype = MOE_BF16;
    others[7].pass = MOE_FORWARD;
    others[8].activation = MOE_GELU;
    for (int i = 0; i < 9; i++)
        CHECK(binds_to(table, others[i], NULL, NULL));
    moelookup_close(table);
}

static void illegal_shapes_are_refused_and_leave_the_view_alone(void)
{
    struct moelookup *table;
    struct moe_shape bad[6];
    struct moelookup_view *view = (struct moelookup_view *)&table;

    write_small(place("illegal.db"), "abacus", 96);
    table = open_table(place("illegal.db"));
    for (int i = 0; i < 6; i++)
        bad[i] = layer(96);
    bad[0].experts = 0;
    bad[1].experts = 3; /* does not divide 8 */
    bad[2].top_k = 3;
    bad[3].hidden_dim = 97; /* four ranks share it */
    bad[4].dtype = 3;
    bad[5].ranks = 0;
    for (int i = 0; i < 6; i++) {
        catch_stderr();
        CHECK(moelookup_bind(table, &bad[i], NULL, &view) == MOE_ERR_ARGUMENT);
        release_stderr();
        CHECK(*heard);
    }
    CHECK(view == (struct moelookup_view *)&table);
    moelookup_close(table);
}

static void hash_text(const struct cluster *cluster, char hex[SHA256_HEX_BYTES])
{
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
}

static void a_device_is_a_name_or_the_beginning_of_a_hash(void)
{
    struct cluster abacus = machine("abacus 3000", 8, 4), loom = machine("loom", 8, 4);
    struct store *store = new_store(place("device.db"));
    struct moelookup *table;
    char hex[SHA256_HEX_BYTES];

    add_one(store, &abacus, layer(96), "r=2");
    add_one(store, &loom, layer(96), "r=4");
    publish_and_close(store);
    table = open_table(place("device.db"));
    CHECK(binds_to(table, layer(96), "abacus 3000", "r=2"));
    CHECK(binds_to(table, layer(96), "loom", "r=4"));
    CHECK(binds_to(table, layer(96), "abacus", NULL));
    CHECK(binds_to(table, layer(96), "spindle", NULL));
    CHECK(binds_to(table, layer(96), "", NULL));
    CHECK(is_ambiguous(table, layer(96), NULL, "abacus 3000|loom"));
    for (int digits = 8; digits <= 64; digits += 28) {
        hash_text(&loom, hex);
        hex[digits] = 0;
        CHECK(binds_to(table, layer(96), hex, "r=4"));
    }
    hash_text(&loom, hex);
    hex[7] = 0;
    CHECK(binds_to(table, layer(96), hex, NULL));
    hash_text(&loom, hex);
    hex[20] = hex[20] == '0' ? '1' : '0';
    CHECK(binds_to(table, layer(96), hex, NULL));
    moelookup_close(table);
}

static void clusters_of_one_device_in_one_file_are_ambiguous(void)
{
    struct cluster one = machine("abacus", 8, 4), two = one;
    struct store *store = new_store(place("twins.db"));
    struct moelookup *table;
    char hex[2][SHA256_HEX_BYTES], words[2 * SHA256_HEX_BYTES];

    snprintf(two.link_between, sizeof(two.link_between), "rope");
    add_one(store, &one, layer(96), "r=2");
    add_one(store, &two, layer(96), "r=4");
    add_one(store, &two, layer(192), "r=4");
    publish_and_close(store);
    table = open_table(place("twins.db"));
    hash_text(&one, hex[0]);
    hash_text(&two, hex[1]);
    snprintf(words, sizeof(words), "%.8s|%.8s", hex[0], hex[1]);
    CHECK(is_ambiguous(table, layer(96), NULL, words));
    CHECK(is_ambiguous(table, layer(96), "abacus", words));
    CHECK(binds_to(table, layer(96), hex[0], "r=2"));
    CHECK(binds_to(table, layer(96), hex[1], "r=4"));
    CHECK(binds_to(table, layer(192), NULL, "r=4"));
    moelookup_close(table);
}

/* ---- several widths of one layer */

struct known_width {
    uint32_t window, entries;
    int64_t decided_s;
    const char *plan;
    enum { MEASURED, INFERRED, STALE } how;
};

static void add_width(struct store *store, struct ids ids, struct known_width w)
{
    for (uint32_t i = 0; i < w.entries; i++) {
        struct entry_row e = entry_of(ids, w.window, 512 / w.window + i, w.plan);

        e.decided_s = w.decided_s;
        e.inferred = w.how == INFERRED;
        e.stale = w.how == STALE;
        CHECK(!store_entry(store, &e, "measured"));
    }
}

static struct moelookup *table_of_widths(const char *name, struct known_width a,
                                         struct known_width b)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(place(name));
    struct ids ids = add_layer(store, &cluster, &shape);

    add_width(store, ids, a);
    add_width(store, ids, b);
    publish_and_close(store);
    return open_table(place(name));
}

static bool answers_512(const struct moelookup *table, const char *plan)
{
    struct moelookup_view *view = bind_layer(table, layer(96));
    struct moe_plan got = ask(view, 512), wanted = plan_of(plan);

    moelookup_view_free(view);
    return plan_equal(&got, &wanted);
}

/* Where it was written, packed, and packed once more. */
static bool answers_everywhere(const struct moelookup *table, const char *plan)
{
    struct packed first = pack(table), second;
    struct moelookup *copy, *again;
    bool all = answers_512(table, plan);

    CHECK(moelookup_unpack(first.bytes, first.size, &copy) == MOE_OK);
    second = pack(copy);
    CHECK(second.size == first.size && !memcmp(first.digest, second.digest, 32));
    CHECK(moelookup_unpack(second.bytes, second.size, &again) == MOE_OK);
    all = all && answers_512(copy, plan) && answers_512(again, plan);
    moelookup_close(copy);
    moelookup_close(again);
    free(first.bytes);
    free(second.bytes);
    return all;
}

static void of_several_widths_that_reach_far_enough_the_one_measured_last_answers(void)
{
    static const struct {
        struct known_width a, b; /* a answers */
    } cases[] = {
        { { 16, 1, 2000, "r=2", MEASURED }, { 128, 3, 1000, "r=4", MEASURED } },
        { { 128, 1, 2000, "r=2", MEASURED }, { 16, 3, 1000, "r=4", MEASURED } },
        { { 64, 1, 1000, "r=2", MEASURED }, { 1, 3, 2000, "r=4", INFERRED } },
        { { 64, 1, 1000, "r=2", MEASURED }, { 1, 3, 2000, "r=4", STALE } },
        { { 64, 3, 1000, "r=2", MEASURED }, { 1, 2, 1000, "r=4", MEASURED } },
        { { 16, 2, 1000, "r=2", MEASURED }, { 32, 2, 1000, "r=4", MEASURED } },
        /* Up to 528 and up to 1056, then 1088. */
        { { 16, 1, 2000, "r=2", MEASURED }, { 32, 17, 1000, "r=4", MEASURED } },
        { { 32, 18, 1000, "r=2", MEASURED }, { 16, 1, 2000, "r=4", MEASURED } },
        { { 1, 700, 1000, "r=2", INFERRED }, { 64, 1, 2000, "r=4", MEASURED } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int turned = 0; turned < 2; turned++) {
            char name[32];
            struct moelookup *table;

            snprintf(name, sizeof(name), "widths-%zu-%d.db", i, turned);
            table = turned ? table_of_widths(name, cases[i].b, cases[i].a)
                           : table_of_widths(name, cases[i].a, cases[i].b);
            if (!answers_everywhere(table, "r=2")) {
                printf("    case %zu, turned %d\n", i, turned);
                CHECK(false);
            }
            moelookup_close(table);
        }
}

static void of_two_files_the_first_says_which_width(void)
{
    struct known_width old = { 128, 1, 1000, "r=2", MEASURED };
    struct known_width young = { 16, 3, 2000, "r=4", MEASURED };
    struct moelookup *table;

    moelookup_close(table_of_widths("user-width.db", old, old));
    moelookup_close(table_of_widths("site-width.db", young, young));
    setenv("MOELOOKUP_DB", place("user-width.db"), 1);
    setenv("MOETUNE_DB", place("site-width.db"), 1);
    table = open_table(NULL);
    no_environment();
    CHECK(answers_everywhere(table, "r=2"));
    moelookup_close(table);
}

static void bind_widths_twice(void)
{
    struct known_width old = { 128, 3, 1000, "r=4", MEASURED };
    struct known_width young = { 16, 1, 2000, "r=2", MEASURED };
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = table_of_widths("hidden.db", old, young);
    CHECK(answers_512(table, "r=2") && answers_512(table, "r=2"));
    moelookup_close(table);
}

static void bind_one_width(void)
{
    struct known_width only = { 16, 1, 2000, "r=2", MEASURED };
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = table_of_widths("shown.db", only, only);
    CHECK(answers_512(table, "r=2"));
    moelookup_close(table);
}

static void a_hidden_width_is_said_once(void)
{
    in_child(bind_widths_twice);
    CHECK(count_of(heard, "answers, R=16; hidden: R=128") == 1);
    in_child(bind_one_width);
    CHECK(!*heard);
}

static struct moelookup *table_with_pin(const char *name, uint32_t width, uint32_t last_tuned)
{
    struct known_width old = { width, 1, 1000, "r=4", MEASURED };
    struct known_width young = { last_tuned, 1, 2000, "r=2", MEASURED };
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store;
    struct ids ids;
    struct override_row pin = {
        .window = width, .first = 3, .last = 4, .plan = plan_of("r=1 d=8")
    };
    struct override_row own = { .window = last_tuned,
                                .first = 300 / last_tuned,
                                .last = 300 / last_tuned,
                                .plan = plan_of("r=1 d=2") };

    moelookup_close(table_of_widths(name, old, young));
    CHECK(!store_open(place(name), STORE_RELAXED, &store));
    ids = add_layer(store, &cluster, &shape);
    pin.cluster = own.cluster = ids.cluster;
    pin.shape = own.shape = ids.shape;
    CHECK(!store_override(store, &pin) && !store_override(store, &own));
    publish_and_close(store);
    return open_table(place(name));
}

static bool is_pinned(const struct moelookup_view *view, uint32_t capacity, const char *plan)
{
    return is_answer(ask(view, capacity), plan, MOE_OVERRIDE);
}

/* 3 * 96 to 5 * 96 - 1 are 288 to 479: of buckets of 16 whole ones; of 128 those of 256 to 511. */
static void a_pin_holds_for_its_capacities_whatever_width_is_tuned_later(void)
{
    struct moelookup *table = table_with_pin("pin-finer.db", 96, 16);
    struct moelookup_view *view = bind_layer(table, layer(96));

    CHECK(is_pinned(view, 288, "r=1 d=2") && is_pinned(view, 303, "r=1 d=2")); /* its own pin */
    CHECK(is_pinned(view, 304, "r=1 d=8") && is_pinned(view, 479, "r=1 d=8"));
    CHECK(ask(view, 287).source != MOE_OVERRIDE && ask(view, 480).source != MOE_OVERRIDE);
    moelookup_view_free(view);
    moelookup_close(table);
    table = table_with_pin("pin-wider.db", 96, 128);
    view = bind_layer(table, layer(96));
    CHECK(is_pinned(view, 383, "r=1 d=2") && is_pinned(view, 384, "r=1 d=8"));
    CHECK(is_pinned(view, 511, "r=1 d=8") && ask(view, 512).source == MOE_EXACT);
    CHECK(ask(view, 255).source != MOE_OVERRIDE);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void clusters_of_one_device_are_told_apart_by_the_first_file(void)
{
    struct cluster one = machine("abacus", 8, 4), two = one;
    struct store *store;
    struct moelookup *table;

    snprintf(two.link_between, sizeof(two.link_between), "rope");
    store = new_store(place("first.db"));
    add_one(store, &two, layer(96), "r=4");
    publish_and_close(store);
    store = new_store(place("second.db"));
    add_one(store, &one, layer(96), "r=2");
    add_one(store, &one, layer(192), "r=2");
    publish_and_close(store);
    setenv("MOELOOKUP_DB", place("first.db"), 1);
    setenv("MOETUNE_DB", place("second.db"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, "r=4"));
    CHECK(binds_to(table, layer(192), NULL, "r=2"));
    moelookup_close(table);
    setenv("MOELOOKUP_DB", place("second.db"), 1);
    setenv("MOETUNE_DB", place("first.db"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, "r=2"));
    moelookup_close(table);
    no_environment();
}

static void devices_in_two_files_are_ambiguous(void)
{
    struct moelookup *table;

    write_small(place("near.db"), "abacus", 96);
    write_small(place("far.db"), "loom", 96);
    setenv("MOELOOKUP_DB", place("near.db"), 1);
    setenv("MOETUNE_DB", place("far.db"), 1);
    table = open_table(NULL);
    no_environment();
    CHECK(is_ambiguous(table, layer(96), NULL, "abacus|loom"));
    CHECK(binds_to(table, layer(96), "loom", "r=2 d=4"));
    moelookup_close(table);
}

static void the_first_file_that_is_not_stale_answers_per_bucket(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct moelookup *table;
    struct moelookup_view *view;
    struct store *store = new_store(place("user.db"));
    struct ids ids = add_layer(store, &cluster, &shape);

    add_entry(store, ids, 2, "r=2");
    add_entry(store, ids, 3, "r=2 d=2");
    add_entry(store, ids, 4, "r=2 d=4");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 3, 4, "asked"));
    publish_and_close(store);
    store = new_store(place("site.db"));
    ids = add_layer(store, &cluster, &shape);
    add_entry(store, ids, 2, "r=4");
    add_entry(store, ids, 3, "r=4 d=2");
    add_entry(store, ids, 9, "r=4 d=8");
    publish_and_close(store);
    setenv("MOELOOKUP_DB", place("user.db"), 1);
    setenv("MOETUNE_DB", place("site.db"), 1);
    table = open_table(NULL);
    no_environment();
    view = bind_layer(table, shape);
    CHECK(is_answer(ask(view, 2 * 128), "r=2", MOE_EXACT));
    CHECK(is_answer(ask(view, 3 * 128), "r=4 d=2", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=4 d=2", MOE_NEIGHBOUR));
    CHECK(is_answer(ask(view, 5 * 128), "r=2 d=4", MOE_STALE));
    CHECK(is_answer(ask(view, 9 * 128), "r=4 d=8", MOE_EXACT));
    CHECK(is_answer(ask(view, 0), "r=2", MOE_CLAMPED));
    CHECK(is_answer(ask(view, UINT32_MAX), "r=4 d=8", MOE_CLAMPED));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_refuted_entry_gives_its_default_plan_and_not_its_neighbours(void)
{
    const char *path = place("refuted.db");
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(path);
    struct ids ids = add_layer(store, &cluster, &shape);
    struct entry_row e = entry_of(ids, 128, 4, "r=1");
    struct moelookup *table;
    struct moelookup_view *view;

    add_entry(store, ids, 3, "r=2 d=4");
    e.stale = true;
    snprintf(e.decision, sizeof(e.decision), "refuted");
    CHECK(!store_entry(store, &e, "verify"));
    publish_and_close(store);
    table = open_table(path);
    view = bind_layer(table, shape);
    CHECK(is_answer(ask(view, 3 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=1", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_view_outlives_its_table(void)
{
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("outlives.db"), "abacus", 96);
    table = open_table(place("outlives.db"));
    view = bind_layer(table, layer(96));
    moelookup_close(table);
    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask(view, 4 * 128), "r=2 d=4", MOE_NEIGHBOUR));
    CHECK(moelookup_explain(view, 300, NULL, 0) > 0);
    moelookup_view_free(view);
    moelookup_view_free(NULL);
    moelookup_close(NULL);
}

static void a_modelled_cluster_never_answers(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("sim.db"));
    struct moelookup *table;
    char hex[SHA256_HEX_BYTES];

    snprintf(cluster.backend, sizeof(cluster.backend), "sim");
    add_one(store, &cluster, layer(96), "r=2");
    publish_and_close(store);
    hash_text(&cluster, hex);
    table = open_table(place("sim.db"));
    CHECK(binds_to(table, layer(96), NULL, NULL));
    CHECK(binds_to(table, layer(96), "abacus", NULL));
    CHECK(binds_to(table, layer(96), hex, NULL));
    moelookup_close(table);
}

static void null_is_an_argument_error(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    struct moe_shape shape = layer(96);
    struct moe_plan plan = MOE_PLAN_INIT;
    uint8_t digest[32];
    size_t size = 0;
    char text[8];

    write_small(place("null.db"), "abacus", 96);
    table = open_table(place("null.db"));
    view = bind_layer(table, shape);
    CHECK(moelookup_open(NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(NULL, &shape, NULL, &view) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(table, NULL, NULL, &view) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_bind(table, &shape, NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get(NULL, 1, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_get(view, 1, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_digest(NULL, digest) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_digest(table, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_pack(NULL, NULL, &size) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_pack(table, NULL, NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_unpack(NULL, 10, &table) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_unpack(text, sizeof(text), NULL) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain(NULL, 1, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    CHECK(moelookup_explain(view, 1, NULL, 8) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_parse(NULL, &plan) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_parse("r=1", NULL) == MOE_ERR_ARGUMENT);
    CHECK(moe_plan_format(NULL, text, sizeof(text)) == MOE_ERR_ARGUMENT);
    moelookup_view_free(view);
    moelookup_close(table);
}

static void every_status_has_words_and_the_version_is_this_one(void)
{
    for (int status = -20; status < 20; status++)
        CHECK(moelookup_strerror(status) && *moelookup_strerror(status));
    CHECK(strcmp(moelookup_strerror(MOE_OK), moelookup_strerror(MOE_ERR_IO)) != 0);
    CHECK(!strcmp(moelookup_version(), MOETUNE_VERSION));
}

/* ---- environment */

static void force_and_disable_travel_and_count(void)
{
    static const struct {
        const char *force, *disable;
    } cases[] = { { NULL, NULL }, { "r=1 d=2", NULL }, { NULL, "1" }, { "r=1 d=2", "1" } };
    const char *path = place("travel.db");
    uint8_t digests[4][32];

    write_small(path, "abacus", 96);
    for (int i = 0; i < 4; i++) {
        if (cases[i].force)
            setenv("MOELOOKUP_FORCE", cases[i].force, 1);
        if (cases[i].disable)
            setenv("MOELOOKUP_DISABLE", cases[i].disable, 1);
        digest_of(path, digests[i]);
        no_environment();
        for (int k = 0; k < i; k++)
            CHECK(memcmp(digests[i], digests[k], 32) != 0);
    }
}

static void an_unpacked_table_ignores_this_ranks_environment(void)
{
    struct moelookup *plain, *copy;
    uint8_t digests[2][32];

    write_small(place("rank.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=2", 1);
    plain = open_table(place("rank.db"));
    setenv("MOELOOKUP_FORCE", "r=4", 1);
    setenv("MOELOOKUP_DISABLE", "1", 1);
    copy = unpacked(plain);
    CHECK(moelookup_digest(plain, digests[0]) == MOE_OK);
    CHECK(moelookup_digest(copy, digests[1]) == MOE_OK);
    CHECK(!memcmp(digests[0], digests[1], 32));
    for (int i = 0; i < 2; i++) {
        struct moelookup_view *view = bind_layer(i ? copy : plain, layer(96));

        CHECK(is_answer(ask(view, 2 * 128), "r=1 d=2", MOE_OVERRIDE));
        moelookup_view_free(view);
    }
    moelookup_close(plain);
    moelookup_close(copy);
    no_environment();
}

static void nccl_cannot_be_forced_on_a_cluster_without_gpus(void)
{
    struct moelookup *table;

    write_small(place("cores.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=2 a=nccl", 1);
    CHECK(is_refused(place("cores.db"), MOE_ERR_ARGUMENT));
    table = open_table(altered("gpus.db", "UPDATE fingerprint_field SET value='cuda' WHERE "
                                          "name='backend'"));
    no_environment();
    CHECK(is_answer(ask_file(place("gpus.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(table != NULL);
    moelookup_close(table);
}

static void force_answers_only_where_it_is_legal(void)
{
    struct cluster cluster = machine("abacus", 8, 4);
    struct store *store = new_store(place("force.db"));
    struct moe_shape flat = layer(96);
    struct moelookup *table;
    struct moe_plan got;

    add_one(store, &cluster, layer(96), "r=2");
    publish_and_close(store);
    setenv("MOELOOKUP_FORCE", "r=4 d=8 a=2dh", 1);
    table = open_table(place("force.db"));
    CHECK(bind_to(table, layer(96), NULL, &got) == MOE_OK);
    CHECK(is_answer(got, "r=4 d=8 a=2dh", MOE_OVERRIDE) && got.bucket == 2);
    flat.ranks_per_node = 8; /* one level: no 2dh */
    CHECK(bind_to(table, flat, NULL, &got) == MOE_OK && is_answer(got, "r=1", MOE_DEFAULT));
    moelookup_close(table);
    setenv("MOELOOKUP_FORCE", "r=3", 1); /* 3 does not divide 4 */
    table = open_table(place("force.db"));
    CHECK(bind_to(table, layer(96), NULL, &got) == MOE_OK && is_answer(got, "r=2", MOE_EXACT));
    moelookup_close(table);
    no_environment();
}

static void ask_with_malformed_force(void)
{
    struct moelookup *table = NULL;

    unsetenv("MOELOOKUP_LOG");
    setenv("MOELOOKUP_FORCE", "as fast as you can", 1);
    CHECK(moelookup_open(place("malformed.db"), &table) == MOE_ERR_ARGUMENT && !table);
}

static void a_malformed_force_is_refused_and_said(void)
{
    write_small(place("malformed.db"), "abacus", 96);
    in_child(ask_with_malformed_force);
    CHECK(strstr(heard, "MOELOOKUP_FORCE") && strstr(heard, "as fast as you can"));
}

static void disable_reads_no_file(void)
{
    struct moelookup *table = NULL;

    setenv("MOELOOKUP_DISABLE", "1", 1);
    CHECK(moelookup_open(place("nowhere.db"), &table) == MOE_OK);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    setenv("MOELOOKUP_DISABLE", "0", 1);
    CHECK(is_refused(place("nowhere.db"), MOE_ERR_IO));
    no_environment();
}

static void nothing_found_is_an_empty_set(void)
{
    struct moelookup *table;

    CHECK(!mkdir(place("empty-home"), 0777));
    setenv("HOME", place("empty-home"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    unsetenv("HOME"); /* nor a home at all */
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
    no_environment();
}

static void make_folders(const char *path)
{
    char command[600];

    snprintf(command, sizeof(command), "mkdir -p '%s'", path);
    CHECK(!system(command));
}

static void the_search_path_has_its_order(void)
{
    static const char *const names[] = { "path-1.db", "path-2.db", "xdg/moetune/moetune.db",
                                         ".local/share/moetune/moetune.db" };

    make_folders(place("xdg/moetune"));
    make_folders(place(".local/share/moetune"));
    for (uint32_t i = 0; i < 4; i++) {
        struct store *store = new_store(place(names[i]));
        struct cluster cluster = machine("abacus", 8, 4);
        char plan[16];

        snprintf(plan, sizeof(plan), "r=2 d=%u", 1u << i);
        add_one(store, &cluster, layer(96), plan);
        publish_and_close(store);
    }
    setenv("MOELOOKUP_DB", place("path-1.db"), 1);
    setenv("MOETUNE_DB", place("path-2.db"), 1);
    setenv("XDG_DATA_HOME", place("xdg"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=1", MOE_EXACT));
    unsetenv("MOELOOKUP_DB");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=2", MOE_EXACT));
    unsetenv("MOETUNE_DB");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    unsetenv("XDG_DATA_HOME");
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=8", MOE_EXACT));
    setenv("MOELOOKUP_DB", place("not-there.db"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=8", MOE_EXACT));
    no_environment();
    unlink(place(".local/share/moetune/moetune.db.published"));
    unlink(place(".local/share/moetune/moetune.db"));
}

/* ---- what is said */

static void miss_twice(void)
{
    struct moelookup *table = open_table(place("said.db"));

    CHECK(binds_to(table, layer(192), NULL, NULL));
    CHECK(binds_to(table, layer(384), NULL, NULL));
    moelookup_close(table);
}

static void miss_with_level(const char *level)
{
    if (level)
        setenv("MOELOOKUP_LOG", level, 1);
    else
        unsetenv("MOELOOKUP_LOG");
    miss_twice();
}

static void miss_by_default(void)
{
    miss_with_level(NULL);
}

static void miss_at_error(void)
{
    miss_with_level("error");
}

static void miss_at_warn(void)
{
    miss_with_level("warn");
}

static void miss_at_info(void)
{
    miss_with_level("info");
}

static void a_miss_is_said_once_and_names_the_command(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_by_default);
    CHECK(count_of(heard, "moetune") >= 1 && count_of(heard, "H=192") == 1);
    CHECK(count_of(heard, "H=384") == 0);
    in_child(miss_at_warn);
    CHECK(count_of(heard, "H=192") == 1);
    in_child(miss_at_error);
    CHECK(!*heard);
    in_child(miss_at_info);
    CHECK(count_of(heard, "H=192") == 1 && strstr(heard, "said.db"));
}

static void miss_of_other_ranks(void)
{
    struct moelookup *table;
    struct moe_shape shape = layer(96);

    unsetenv("MOELOOKUP_LOG");
    table = open_table(place("said.db"));
    shape.ranks = 16;
    CHECK(binds_to(table, shape, NULL, NULL));
    moelookup_close(table);
}

static void miss_of_another_device(void)
{
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    table = open_table(place("said.db"));
    CHECK(binds_to(table, layer(96), "spindle", NULL));
    moelookup_close(table);
}

static void miss_of_everything(void)
{
    struct moelookup *table;

    unsetenv("MOELOOKUP_LOG");
    setenv("HOME", place("nobody"), 1);
    table = open_table(NULL);
    CHECK(binds_to(table, layer(96), NULL, NULL));
    moelookup_close(table);
}

static void a_miss_says_what_comes_nearest(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_of_other_ranks);
    CHECK(strstr(heard, "8 ranks") && strstr(heard, "On 16 ranks"));
    in_child(miss_of_another_device);
    CHECK(strstr(heard, "abacus") && strstr(heard, "spindle"));
    in_child(miss_of_everything);
    CHECK(strstr(heard, "moetune") && strstr(heard, "H=96"));
}

static void hit_by_default(void)
{
    unsetenv("MOELOOKUP_LOG");
    CHECK(is_answer(ask_file(place("hit.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void a_hit_says_nothing(void)
{
    write_small(place("hit.db"), "abacus", 96);
    in_child(hit_by_default);
    CHECK(!*heard);
}

static void miss_after_unpack(void)
{
    struct moelookup *table = open_table(place("said.db")), *copy = unpacked(table);

    CHECK(binds_to(copy, layer(192), NULL, NULL));
    moelookup_close(copy);
    moelookup_close(table);
}

static void miss_after_unpack_silently(void)
{
    unsetenv("MOELOOKUP_LOG");
    miss_after_unpack();
}

static void miss_after_unpack_aloud(void)
{
    setenv("MOELOOKUP_LOG", "warn", 1);
    miss_after_unpack();
}

static void an_unpacked_table_is_silent_unless_asked(void)
{
    write_small(place("said.db"), "abacus", 96);
    in_child(miss_after_unpack_silently);
    CHECK(!*heard);
    in_child(miss_after_unpack_aloud);
    CHECK(count_of(heard, "H=192") == 1);
}

/* ---- packed bytes */

static void packed_bytes_give_the_same_table(void)
{
    static struct plain plains[LAYERS];
    size_t entries = 0;
    struct moelookup *table, *copy;
    struct packed p, again;

    for (int i = 0; i < LAYERS; i++) {
        draw_plain(&plains[i], (uint32_t)i);
        fill_plain(&plains[i], 0);
        entries += (size_t)(plains[i].entry_count + plains[i].pin_count);
    }
    write_plains(place("pack.db"), plains, LAYERS, 0, false);
    table = open_table(place("pack.db"));
    p = pack(table);
    moelookup_close(table);
    CHECK(p.size <= 24 * entries + 192 * LAYERS + 64);
    CHECK(moelookup_unpack(p.bytes, p.size, &copy) == MOE_OK);
    memset(p.bytes, 0xa5, p.size); /* it was copied */
    again = pack(copy);
    CHECK(again.size == p.size && !memcmp(again.digest, p.digest, 32));
    CHECK(all_agree(copy, plains, LAYERS, (struct switches){ 0 }));
    moelookup_close(copy);
    free(p.bytes);
    free(again.bytes);
}

static void equal_tables_give_equal_bytes(void)
{
    static struct plain plains[LAYERS];

    for (int round = 0; round < 5; round++) {
        struct packed one, other;

        for (int i = 0; i < LAYERS; i++) {
            draw_plain(&plains[i], (uint32_t)i);
            fill_plain(&plains[i], 0);
        }
        unlink(place("forth.db"));
        unlink(place("back.db"));
        write_plains(place("forth.db"), plains, LAYERS, 0, false);
        write_plains(place("back.db"), plains, LAYERS, 0, true);
        one = pack_file(place("forth.db"));
        other = pack_file(place("back.db"));
        CHECK(same_packed(&one, &other));
        free(one.bytes);
        free(other.bytes);
    }
}

/* ---- threads and processes */

enum { THREADS = 8, STEPS = 100000, CAPACITIES = 1024 };

struct asker {
    const struct moelookup_view *view;
    const struct moe_plan *want;
    uint64_t key;
    int wrong;
};

static void *ask_often(void *self)
{
    struct asker *a = self;

    for (uint64_t i = 0; i < STEPS; i++) {
        uint32_t c = random_below(a->key, i, CAPACITIES);
        struct moe_plan got = MOE_PLAN_INIT;

        a->wrong += moelookup_get(a->view, c, &got) != MOE_OK || !same_answer(&got, &a->want[c]);
    }
    return NULL;
}

static void threads_share_a_view(void)
{
    static struct moe_plan want[CAPACITIES];
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("threads.db"), "abacus", 96);
    table = open_table(place("threads.db"));
    view = bind_layer(table, layer(96));
    for (uint32_t c = 0; c < CAPACITIES; c++)
        want[c] = ask(view, c);
    for (uint64_t i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){ view, want, seed + i, 0 };
        CHECK(!pthread_create(&threads[i], NULL, ask_often, &askers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!askers[i].wrong);
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static struct moelookup *of_parent;

static void use_the_parents_table(void)
{
    struct moelookup_view *view = bind_layer(of_parent, layer(96));

    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(place("fork.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(of_parent);
}

static void a_child_goes_on_with_the_parents_table(void)
{
    write_small(place("fork.db"), "abacus", 96);
    of_parent = open_table(place("fork.db"));
    in_child(use_the_parents_table);
    CHECK(binds_to(of_parent, layer(96), NULL, "r=2 d=4"));
    moelookup_close(of_parent);
}

/* What every reader saw, in memory that processes share. */
struct sights {
    volatile int stop;
    struct {
        volatile uint32_t looks, failures, strange, count;
        uint8_t digests[2048][32];
    } of[64];
};

/* Remembers a digest that differs from the last one; a table that was there stays there. */
static void look_once(const char *path, struct sights *sights, int self)
{
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    struct moe_shape shape = layer(96);
    uint32_t n = sights->of[self].count;
    uint8_t digest[32];

    sights->of[self].looks++;
    if (moelookup_open(path, &table) || moelookup_bind(table, &shape, NULL, &view) ||
        moelookup_digest(table, digest)) {
        sights->of[self].failures++;
    } else {
        if (ask(view, 2 * 128).source != MOE_EXACT)
            sights->of[self].strange++;
        if (n < 2048 && (!n || memcmp(sights->of[self].digests[n - 1], digest, 32))) {
            memcpy(sights->of[self].digests[n], digest, 32);
            sights->of[self].count = n + 1;
        }
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

static pid_t start_reader(const char *path, struct sights *sights, int self, int readers)
{
    uint32_t pause_us = 10000 * (uint32_t)readers; /* so that the writer gets a turn */
    pid_t child = fork();

    if (child == 0) {
        for (uint64_t look = 0; !sights->stop && getppid() != 1; look++) {
            look_once(path, sights, self);
            usleep(random_below(seed + (uint64_t)self, look, pause_us));
        }
        _exit(0);
    }
    return child;
}

static bool is_among(uint8_t (*digests)[32], int count, const uint8_t digest[32])
{
    for (int i = 0; i < count; i++)
        if (!memcmp(digests[i], digest, 32))
            return true;
    return false;
}

static void check_sights(const struct sights *sights, int readers, uint8_t (*published)[32],
                         int count)
{
    for (int i = 0; i < readers; i++) {
        CHECK(sights->of[i].looks && !sights->of[i].failures && !sights->of[i].strange);
        for (uint32_t k = 0; k < sights->of[i].count; k++)
            CHECK(is_among(published, count, sights->of[i].digests[k]));
    }
}

/* Another table each time: the bucket's time is the number of the turn. */
static void publish_turn(struct store *store, struct ids ids, int turn, uint8_t digest[32])
{
    struct entry_row e = entry_of(ids, 128, 2, turn % 2 ? "r=2 d=4" : "r=4 d=1");

    e.time_us = 1 + turn;
    CHECK(!store_entry(store, &e, "measured") && !store_publish(store));
    digest_of(place("turns.db"), digest);
}

static void republish(int readers, int turns)
{
    struct sights *sights =
        mmap(NULL, sizeof(*sights), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t(*published)[32] = calloc((size_t)turns, 32);
    struct store *store = new_store(place("turns.db"));
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct ids ids = add_layer(store, &cluster, &shape);
    pid_t children[64];
    int status;

    publish_turn(store, ids, 0, published[0]);
    for (int i = 0; i < readers; i++)
        children[i] = start_reader(place("turns.db"), sights, i, readers);
    for (int turn = 1; turn < turns; turn++)
        publish_turn(store, ids, turn, published[turn]);
    sights->stop = 1;
    for (int i = 0; i < readers; i++) {
        waitpid(children[i], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check_sights(sights, readers, published, turns);
    store_close(store);
    free(published);
    munmap(sights, sizeof(*sights));
}

static void readers_see_one_of_the_published_tables(void)
{
    republish(4, 40);
}

static void sixty_four_readers_see_one_of_a_thousand_published_tables(void)
{
    republish(64, 1000);
}

/* ---- capacity */

static void the_capacity_rule_is_what_frameworks_do(void)
{
    CHECK(moe_capacity(1.0, 2, 8, 4096, 0) == 1024);
    CHECK(moe_capacity(1.25, 2, 8, 4096, 0) == 1280);
    CHECK(moe_capacity(1.1, 2, 3, 10, 99) == 8); /* 2 * trunc(1.1 * 4) */
    CHECK(moe_capacity(0.1, 2, 8, 16, 0) == 0);
    CHECK(moe_capacity(1.0, 1, 8, 0, 99) == 0);
    CHECK(moe_capacity(0.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-0.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-1.0, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(-1.0, 2, 8, 4096, 2000) == 1024);
    for (int i = 0; i < 1000; i++) {
        uint32_t k = 1 + draw(8), e = 1 + draw(256), t = draw(100000), needed = draw(100000);
        double f = draw(1000) / 64.0;
        uint64_t bound = k * (uint64_t)(f * ((t + e - 1) / e));

        CHECK(moe_capacity(f, k, e, t, needed) == (f > 0 ? bound : needed));
        CHECK(moe_capacity(-f, k, e, t, needed) ==
              (f > 0 && bound < needed ? bound : (uint64_t)needed));
    }
}

static void the_capacity_rule_survives_any_number(void)
{
    CHECK(moe_capacity((double)NAN, 2, 8, 4096, 777) == 0);
    CHECK(moe_capacity(-(double)NAN, 2, 8, 4096, 777) == 0);
    CHECK(moe_capacity(1.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(0.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(-1.0, 2, 0, 4096, 777) == 0);
    CHECK(moe_capacity(1e300, 2, 8, 4096, 777) >= UINT64_C(1) << 63);
    CHECK(moe_capacity(-1e300, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity(1.0, 1, 2, UINT64_MAX, 0) == UINT64_C(1) << 63);
    CHECK(moe_capacity(1.0, UINT32_MAX, 1, UINT64_MAX, 0) >= UINT64_C(1) << 63);
    CHECK(moe_capacity((double)INFINITY, 2, 8, 4096, 777) >= UINT64_C(1) << 63);
    CHECK(moe_capacity(-(double)INFINITY, 2, 8, 4096, 777) == 777);
    CHECK(moe_capacity((double)INFINITY, 1, 8, 0, 777) == 0); /* of nothing */
    CHECK(moe_capacity(-(double)INFINITY, 1, 8, 0, 777) == 0);
}

/* ---- explaining */

static bool explains(const struct moelookup_view *view, uint32_t capacity)
{
    struct moe_plan plan = ask(view, capacity);
    char text[512], words[PLAN_TEXT_BYTES];
    int length = moelookup_explain(view, capacity, text, sizeof(text));

    moe_plan_format(&plan, words, sizeof(words));
    if (length > 0 && length < (int)sizeof(text) && length == (int)strlen(text) &&
        !strchr(text, '\n') && strstr(text, words))
        return true;
    printf("    c=%u, %s: %s\n", capacity, words, text);
    return false;
}

static void an_explanation_names_the_plan_that_get_gives(void)
{
    static struct plain plains[LAYERS];
    struct moelookup *table;

    for (int i = 0; i < LAYERS; i++) {
        draw_plain(&plains[i], (uint32_t)i);
        fill_plain(&plains[i], 0);
    }
    write_plains(place("explain.db"), plains, LAYERS, 0, false);
    table = open_table(place("explain.db"));
    for (int i = 0; i < LAYERS; i++) {
        struct moelookup_view *view = bind_layer(table, plains[i].shape);
        uint32_t c[6 * ENTRIES_MAX];
        size_t count = 0;

        for (int k = 0; k < plains[i].entry_count; k++)
            count += edges(plains[i].window, plains[i].entries[k].bucket, c + count);
        for (size_t k = 0; k < count; k++)
            CHECK(explains(view, c[k]));
        CHECK(explains(view, 0) && explains(view, UINT32_MAX));
        moelookup_view_free(view);
    }
    moelookup_close(table);
}

static void an_explanation_knows_any_time(void)
{
    struct moelookup *table =
        open_table(altered("ages.db", "UPDATE entry SET time_us=9e29, default_us=1e-30"));
    struct moelookup_view *view = bind_layer(table, layer(96));

    CHECK(explains(view, 256));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void an_explanation_speaks_milliseconds_as_tables_do(void)
{
    static const double us[] = { 0.1,   1,    10.5,  42,    999.94, 999.96,  1000,    1234.6,
                                 12345, 9999, 99994, 99996, 123450, 1234567, 5000000, 9999000 };

    for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++) {
        char sql[96], wanted[40], text[512];
        struct moelookup *table;
        struct moelookup_view *view;

        snprintf(sql, sizeof(sql), "UPDATE entry SET time_us=%.17g, default_us=%.17g", us[i],
                 us[i]);
        snprintf(wanted, sizeof(wanted), "; %.4g ms against", (double)(float)us[i] * 1e-3);
        table = open_table(altered("ms.db", sql));
        view = bind_layer(table, layer(96));
        CHECK(moelookup_explain(view, 256, text, sizeof(text)) > 0 && strstr(text, wanted));
        moelookup_view_free(view);
        moelookup_close(table);
    }
}

static void an_explanation_names_the_switch_that_decided(void)
{
    static const char *const names[] = { "MOELOOKUP_FORCE", "MOELOOKUP_DISABLE" };
    char text[512];

    write_small(place("switch.db"), "abacus", 96);
    for (int i = 0; i < 2; i++) {
        struct moelookup *table;
        struct moelookup_view *view;

        setenv(names[i], i ? "1" : "r=4 d=2", 1);
        table = open_table(place("switch.db"));
        no_environment();
        view = bind_layer(table, layer(96));
        CHECK(explains(view, 256) && moelookup_explain(view, 256, text, sizeof(text)) > 0);
        CHECK(strstr(text, names[i]));
        moelookup_view_free(view);
        moelookup_close(table);
    }
}

static void an_explanation_fits_any_buffer(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    char whole[512], text[513];
    int length;

    write_small(place("buffer.db"), "abacus", 96);
    table = open_table(place("buffer.db"));
    view = bind_layer(table, layer(96));
    length = moelookup_explain(view, 300, whole, sizeof(whole));
    CHECK(length > 0 && length < (int)sizeof(whole));
    CHECK(moelookup_explain(view, 300, NULL, 0) == length);
    for (size_t room = 0; room < sizeof(whole); room++) {
        memset(text, '#', sizeof(text));
        CHECK(moelookup_explain(view, 300, text, room) == length && text[room] == '#');
        if (room)
            CHECK(!strncmp(text, whole, room - 1) &&
                  strlen(text) == ((size_t)length < room ? (size_t)length : room - 1));
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

int main(int argc, char **argv)
{
    static const struct test many[] = {
        TEST(sixty_four_readers_see_one_of_a_thousand_published_tables),
    };
    static const struct test tests[] = {
        TEST(the_ladder_answers_as_a_plain_reading_of_the_header),
        TEST(several_files_answer_as_a_plain_reading_of_the_header),
        TEST(only_what_lies_inside_struct_size_is_written),
        TEST(only_what_lies_inside_struct_size_is_read),
        TEST(tokens_are_preferred_equal_and_0_fits_any),
        TEST(every_other_field_of_the_shape_must_be_equal),
        TEST(illegal_shapes_are_refused_and_leave_the_view_alone),
        TEST(a_device_is_a_name_or_the_beginning_of_a_hash),
        TEST(clusters_of_one_device_in_one_file_are_ambiguous),
        TEST(clusters_of_one_device_are_told_apart_by_the_first_file),
        TEST(devices_in_two_files_are_ambiguous),
        TEST(of_several_widths_that_reach_far_enough_the_one_measured_last_answers),
        TEST(of_two_files_the_first_says_which_width),
        TEST(a_hidden_width_is_said_once),
        TEST(a_pin_holds_for_its_capacities_whatever_width_is_tuned_later),
        TEST(the_first_file_that_is_not_stale_answers_per_bucket),
        TEST(a_refuted_entry_gives_its_default_plan_and_not_its_neighbours),
        TEST(a_view_outlives_its_table),
        TEST(a_modelled_cluster_never_answers),
        TEST(null_is_an_argument_error),
        TEST(every_status_has_words_and_the_version_is_this_one),
        TEST(force_and_disable_travel_and_count),
        TEST(an_unpacked_table_ignores_this_ranks_environment),
        TEST(nccl_cannot_be_forced_on_a_cluster_without_gpus),
        TEST(force_answers_only_where_it_is_legal),
        TEST(a_malformed_force_is_refused_and_said),
        TEST(disable_reads_no_file),
        TEST(nothing_found_is_an_empty_set),
        TEST(the_search_path_has_its_order),
        TEST(a_miss_is_said_once_and_names_the_command),
        TEST(a_miss_says_what_comes_nearest),
        TEST(a_hit_says_nothing),
        TEST(an_unpacked_table_is_silent_unless_asked),
        TEST(packed_bytes_give_the_same_table),
        TEST(equal_tables_give_equal_bytes),
        TEST(threads_share_a_view),
        TEST(a_child_goes_on_with_the_parents_table),
        TEST(readers_see_one_of_the_published_tables),
        TEST(the_capacity_rule_is_what_frameworks_do),
        TEST(the_capacity_rule_survives_any_number),
        TEST(an_explanation_names_the_plan_that_get_gives),
        TEST(an_explanation_knows_any_time),
        TEST(an_explanation_speaks_milliseconds_as_tables_do),
        TEST(an_explanation_names_the_switch_that_decided),
        TEST(an_explanation_fits_any_buffer),
    };

    if (argc > 1 && !strcmp(argv[1], "--readers"))
        return run_with_folder(many, 1);
    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
