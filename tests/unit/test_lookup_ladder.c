/* Tests the look-up library against a plain reading of its header: linear scans over the written
 * entries. */
#include "lookup_plain.h"

/* ---- the plain reading of the header: linear scans */

struct switches {
    const char *force;
    bool disabled;
};

/* By its times the plan is slower than the default. */
static bool is_unsound(const struct plain *t, const struct known *e)
{
    struct moe_plan plan = plan_canonical(e->plan, &t->shape);

    return e->time_us > e->default_us && !plan_is_default(&plan, &t->shape);
}

/* What is wrong with an entry: less is better. */
static int fault_of(const struct plain *t, const struct known *e)
{
    return 2 * is_unsound(t, e) + e->stale;
}

/* What counts as this bucket's entry; NULL: none. */
static const struct known *plain_at(const struct plain *t, int64_t bucket)
{
    const struct known *best = NULL;

    for (int i = 0; i < t->entry_count; i++) {
        const struct known *e = &t->entries[i];

        if (e->bucket != bucket || !legal(&e->plan, &t->shape))
            continue;
        if (!best || fault_of(t, e) < fault_of(t, best) ||
            (fault_of(t, e) == fault_of(t, best) && e->file < best->file))
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

static struct moe_plan plain_entry(const struct plain *t, const struct known *e,
                                   enum moe_source source)
{
    struct moe_plan plan = plain_answer(e->plan, source, e->bucket);

    if (is_unsound(t, e))
        return plain_answer(plan_default(&t->shape), MOE_UNSOUND, e->bucket);
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
        return plain_entry(t, e, MOE_STALE);
    return plain_entry(t, e, outside ? MOE_CLAMPED : MOE_NEIGHBOUR);
}

static struct moe_plan plain_ladder(const struct plain *t, uint32_t bucket)
{
    const struct known *own = plain_at(t, bucket);
    const struct known *below = plain_at(t, (int64_t)bucket - 1);
    const struct known *above = plain_at(t, (int64_t)bucket + 1);

    if (own && (!own->stale || is_unsound(t, own)))
        return plain_entry(t, own, own->inferred ? MOE_INFERRED : MOE_EXACT);
    if (below && !fault_of(t, below))
        return plain_other(t, below, bucket);
    if (above && !fault_of(t, above))
        return plain_other(t, above, bucket);
    if (own)
        return plain_entry(t, own, MOE_STALE);
    below = plain_at(t, plain_nearest(t, bucket, -1));
    above = plain_at(t, plain_nearest(t, bucket, 1));
    if (below || above)
        return plain_other(t, below ? below : above, bucket);
    return plain_answer(plan_default(&t->shape), MOE_DEFAULT, bucket);
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
        return plain_answer(plan_default(&t->shape), MOE_DEFAULT, bucket);
    if (pin)
        return plain_answer(pin->plan, MOE_OVERRIDE, bucket);
    return plain_ladder(t, bucket);
}

/* ---- comparing with it */

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
    if (!gathers(&want, &t->shape))
        want.proto = MOE_PROTO_AUTO;
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
        struct moe_plan got = ask(view, draw(UINT32_MAX)), forced;
        struct moe_plan usual = plan_default(&plains[i].shape);
        bool applies;

        if (force)
            forced = plan_of(force);
        applies = force && legal(&forced, &plains[i].shape);
        CHECK(is_answer(got, applies ? force : PLAN_TEXT(&usual),
                        applies ? MOE_OVERRIDE : MOE_DEFAULT));
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

/* ---- packed bytes */

/* 0: of a plan that the layer cannot have, which is not packed. */
static uint32_t version_of_plan(const struct moe_plan *plan, const struct moe_shape *shape)
{
    if (!legal(plan, shape))
        return 0;
    if (plan->r && plan->e == MOE_SPARSE && shape->layout == MOE_LAYOUT_EXPERTS)
        return 7;
    if (plan->proto && gathers(plan, shape))
        return 5;
    return plan->r && plan->a == MOE_A2A_RAIL ? 3 : 1;
}

static uint32_t version_of(const struct plain *t)
{
    const struct moe_shape *s = &t->shape;
    uint32_t rows = 0;

    for (int i = 0; i < t->entry_count + t->pin_count; i++) {
        const struct moe_plan *plan =
            i < t->entry_count ? &t->entries[i].plan : &t->pins[i - t->entry_count].plan;

        rows = version_of_plan(plan, s) > rows ? version_of_plan(plan, s) : rows;
    }
    if (rows >= 5)
        return rows;
    if (rows && (s->order || s->projection || s->combine))
        return 4;
    if (rows == 3)
        return 3;
    return rows && (s->layout || s->shares || s->layers || s->groups || s->router) ? 2 : 1;
}

static void packed_bytes_give_the_same_table(void)
{
    static struct plain plains[LAYERS];
    size_t entries = 0;
    struct moelookup *table, *copy;
    struct packed p, again;
    uint32_t version = 1;

    for (int i = 0; i < LAYERS; i++) {
        draw_plain(&plains[i], (uint32_t)i);
        fill_plain(&plains[i], 0);
        entries += (size_t)(plains[i].entry_count + plains[i].pin_count);
    }
    write_plains(place("pack.db"), plains, LAYERS, 0, false);
    table = open_table(place("pack.db"));
    p = pack(table);
    moelookup_close(table);
    for (int i = 0; i < LAYERS; i++)
        version = version_of(&plains[i]) > version ? version_of(&plains[i]) : version;
    CHECK(p.bytes[8] == version); /* so that older readers refuse what they do not know */
    CHECK(p.size <= 32 * entries + 236 * LAYERS + 64);
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

int main(void)
{
    static const struct test tests[] = {
        TEST(the_ladder_answers_as_a_plain_reading_of_the_header),
        TEST(several_files_answer_as_a_plain_reading_of_the_header),
        TEST(packed_bytes_give_the_same_table),
        TEST(equal_tables_give_equal_bytes),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
