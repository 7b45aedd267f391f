/* The look-up library against its header: every rung, every switch, every file, every byte. */
#include "check.h"

#include "cluster.h"
#include "lookup.h"
#include "plan.h"
#include "random.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static uint64_t seed, drawn;

static uint32_t draw(uint32_t below)
{
    return random_below(seed, drawn++, below);
}

static bool chance(uint32_t percent)
{
    return draw(100) < percent;
}

static const char *place(const char *name)
{
    static char path[8][512];
    static int turn;

    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

/* ---- the environment, and what is said */

static void no_environment(void)
{
    static const char *const names[] = { "MOELOOKUP_DB", "MOELOOKUP_FORCE", "MOELOOKUP_DISABLE",
                                         "MOETUNE_DB",   "XDG_DATA_HOME",   NULL };

    for (int i = 0; names[i]; i++)
        unsetenv(names[i]);
    setenv("HOME", folder, 1);
    setenv("MOELOOKUP_LOG", "error", 1); /* what a test expects would be noise */
}

static size_t read_bytes(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(bytes, 1, size, file) : 0;

    if (file)
        fclose(file);
    return length;
}

static void read_text(const char *path, char *text, size_t size)
{
    text[read_bytes(path, text, size - 1)] = 0;
}

static void send_stderr_to(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    fflush(stderr);
    dup2(fd, 2);
    close(fd);
}

static char heard[8192];

/* Fills `heard` with what `act` says on standard error in a process of its own, because some things
 * are said once per process.  Its checks count as this test's. */
static void in_child(void (*act)(void))
{
    const char *path = place("stderr");
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        send_stderr_to(path);
        check_failures = 0;
        act();
        fflush(stdout);
        _exit(check_failures ? 1 : 0);
    }
    waitpid(child, &status, 0);
    read_text(path, heard, sizeof(heard));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        printf("    %s\n", heard);
}

static int own_stderr = -1;

/* What is said between these two is in `heard`. */
static void catch_stderr(void)
{
    own_stderr = dup(2);
    send_stderr_to(place("caught"));
}

static void release_stderr(void)
{
    fflush(stderr);
    dup2(own_stderr, 2);
    close(own_stderr);
    read_text(place("caught"), heard, sizeof(heard));
}

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

/* ---- making tables */

static struct cluster machine(const char *device, uint32_t ranks, uint32_t per_node)
{
    struct cluster c = cluster_unknown();

    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "%s", device);
    c.semantics = CLUSTER_SEMANTICS;
    c.ranks = ranks;
    c.ranks_per_node = per_node;
    c.nodes = per_node ? ranks / per_node : 0;
    return c;
}

/* Two nodes with four ranks each; four ranks share an expert. */
static struct moe_shape layer(uint32_t hidden)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2,
                               .top_k = 2,
                               .tokens = 64,
                               .model_dim = 16,
                               .hidden_dim = hidden,
                               .ranks = 8,
                               .ranks_per_node = 4,
                               .pass = MOE_TRAIN };
}

static struct moe_plan plan_of(const char *text)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse(text, &plan));
    return plan;
}

static struct store *new_store(const char *path)
{
    struct store *store = NULL;

    CHECK(!store_open(path, STORE_RELAXED, &store));
    return store;
}

static void publish_and_close(struct store *store)
{
    CHECK(!store_publish(store));
    store_close(store);
}

struct ids {
    int64_t cluster, shape;
};

static struct ids add_layer(struct store *store, const struct cluster *cluster,
                            const struct moe_shape *shape)
{
    struct ids ids = { 0 };

    CHECK(!store_cluster(store, cluster, &ids.cluster));
    CHECK(!store_shape(store, shape, &ids.shape));
    return ids;
}

static struct entry_row entry_of(struct ids ids, uint32_t window, uint32_t bucket, const char *plan)
{
    struct entry_row e = { .cluster = ids.cluster,
                           .shape = ids.shape,
                           .run = 1,
                           .window = window,
                           .bucket = bucket,
                           .capacity = (uint64_t)bucket * window + window - 1,
                           .plan = plan_of(plan),
                           .time_us = 10.5 + bucket,
                           .default_us = 20.5 + bucket,
                           .gain = 0.5,
                           .decided_s = 1000000 };

    snprintf(e.decision, sizeof(e.decision), "adopted");
    return e;
}

static void add_entry(struct store *store, struct ids ids, uint32_t bucket, const char *plan)
{
    struct entry_row e = entry_of(ids, 128, bucket, plan);

    CHECK(!store_entry(store, &e, "measured"));
}

static void add_pin(struct store *store, struct ids ids, uint32_t first, uint32_t last,
                    const char *plan)
{
    struct override_row pin = { .cluster = ids.cluster,
                                .shape = ids.shape,
                                .window = 128,
                                .first = first,
                                .last = last,
                                .plan = plan_of(plan) };

    snprintf(pin.why, sizeof(pin.why), "asked");
    CHECK(!store_override(store, &pin));
}

/* One layer on one cluster, buckets 2 to 5 of 128 with r=2 d=4 a=linear; bucket 4 is stale. */
static void write_small(const char *path, const char *device, uint32_t hidden)
{
    struct store *store = new_store(path);
    struct cluster cluster = machine(device, 8, 4);
    struct moe_shape shape = layer(hidden);
    struct ids ids = add_layer(store, &cluster, &shape);

    for (uint32_t b = 2; b < 6; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 4, 4, "asked"));
    publish_and_close(store);
}

static struct moelookup *open_table(const char *path)
{
    struct moelookup *table = NULL;
    int rc = moelookup_open(path, &table);

    if (rc)
        printf("    %s: %s\n", path ? path : "the search path", moelookup_strerror(rc));
    CHECK(rc == MOE_OK && table);
    return table;
}

static bool is_refused(const char *path, int status)
{
    struct moelookup *table = NULL;
    int rc;

    catch_stderr();
    rc = moelookup_open(path, &table);
    release_stderr();
    if (rc != status)
        printf("    %s: %d, not %d\n", path, rc, status);
    return rc == status && !table;
}

static struct moelookup_view *bind_layer(const struct moelookup *table, struct moe_shape shape)
{
    struct moelookup_view *view = NULL;

    CHECK(moelookup_bind(table, &shape, NULL, &view) == MOE_OK && view);
    return view;
}

static struct moe_plan ask(const struct moelookup_view *view, uint32_t capacity)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(moelookup_get(view, capacity, &plan) == MOE_OK);
    return plan;
}

/* Opens, binds the layer, asks, forgets. */
static struct moe_plan ask_file(const char *path, struct moe_shape shape, uint32_t capacity)
{
    struct moelookup *table = open_table(path);
    struct moelookup_view *view = bind_layer(table, shape);
    struct moe_plan plan = ask(view, capacity);

    moelookup_view_free(view);
    moelookup_close(table);
    return plan;
}

static bool is_plan(const struct moe_plan *plan, const char *text)
{
    struct moe_plan other = plan_of(text), mine = plan_canonical(*plan);

    return plan_equal(&mine, &other);
}

static bool is_answer(struct moe_plan plan, const char *text, enum moe_source source)
{
    if (is_plan(&plan, text) && plan.source == source)
        return true;
    printf("    r=%u d=%u a=%u source=%u, not %s source=%u\n", plan.r, plan.d, plan.a, plan.source,
           text, source);
    return false;
}

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

static bool legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t s = shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
    uint32_t m = shape->ranks_per_node;

    if (plan->d != 1 && plan->d != 2 && plan->d != 4 && plan->d != 8)
        return false;
    if (plan->a != MOE_A2A_LINEAR && plan->a != MOE_A2A_2DH)
        return false;
    if (plan->r == 0)
        return true;
    if (s % plan->r != 0)
        return false;
    return plan->a == MOE_A2A_LINEAR || (m > 1 && shape->ranks > m && shape->ranks % m == 0);
}

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
    plan.a = draw(2);
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
        size_t inside = size && size < sizeof(whole) ? size : sizeof(whole);

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

static int bind_to(const struct moelookup *table, struct moe_shape shape, const char *device,
                   struct moe_plan *out)
{
    struct moelookup_view *view = NULL;
    int rc = moelookup_bind(table, &shape, device, &view);

    CHECK((rc == MOE_OK) == (view != NULL));
    if (!rc)
        *out = ask(view, 2 * 128);
    moelookup_view_free(view);
    return rc;
}

static bool binds_to(const struct moelookup *table, struct moe_shape shape, const char *device,
                     const char *plan)
{
    struct moe_plan got = MOE_PLAN_INIT;

    return bind_to(table, shape, device, &got) == MOE_OK &&
           is_answer(got, plan ? plan : "r=1", plan ? MOE_EXACT : MOE_DEFAULT);
}

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

static void digest_of(const char *path, uint8_t digest[32])
{
    struct moelookup *table = open_table(path);

    CHECK(moelookup_digest(table, digest) == MOE_OK);
    moelookup_close(table);
}

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

static struct moelookup *unpacked(const struct moelookup *table)
{
    struct moelookup *copy = NULL;
    size_t size = 0;
    void *bytes;

    CHECK(moelookup_pack(table, NULL, &size) == MOE_OK);
    bytes = malloc(size);
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    CHECK(moelookup_unpack(bytes, size, &copy) == MOE_OK);
    free(bytes);
    return copy;
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

/* ---- files */

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");

    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file)
        fclose(file);
}

static void alter(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        printf("    %s: %s\n", sql, why);
    CHECK(!why);
    sqlite3_free(why);
    sqlite3_close(db);
}

/* A fresh small table, altered behind the store's back. */
static const char *altered(const char *name, const char *sql)
{
    char snapshot[512];

    write_small(place(name), "abacus", 96);
    snprintf(snapshot, sizeof(snapshot), "%s.published", place(name));
    alter(snapshot, sql);
    return place(name);
}

static void what_is_no_table_is_refused(void)
{
    char noise[4096];

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)draw(256);
    write_file(place("noise"), noise, sizeof(noise));
    write_file(place("short"), noise, 3);
    write_file(place("empty"), noise, 0);
    CHECK(is_refused(place("not-there.db"), MOE_ERR_IO));
    CHECK(is_refused("", MOE_ERR_IO));
    CHECK(is_refused(folder, MOE_ERR_IO));
    CHECK(is_refused(place("noise/below.db"), MOE_ERR_IO));
    CHECK(is_refused(place("noise"), MOE_ERR_FORMAT));
    CHECK(is_refused(place("short"), MOE_ERR_FORMAT));
    CHECK(is_refused(place("empty"), MOE_ERR_FORMAT));
}

static void a_name_that_is_too_long_is_refused(void)
{
    char name[3 * PATH_MAX];

    memset(name, 'x', sizeof(name));
    name[0] = '/';
    for (size_t length = PATH_MAX - 24; length < PATH_MAX + 24; length++) {
        name[length] = 0;
        CHECK(is_refused(name, MOE_ERR_IO));
        name[length] = 'x';
    }
    name[sizeof(name) - 1] = 0;
    CHECK(is_refused(name, MOE_ERR_IO));
    setenv("MOELOOKUP_DB", name, 1);
    setenv("XDG_DATA_HOME", name, 1);
    setenv("HOME", name, 1);
    moelookup_close(open_table(NULL));
    no_environment();
}

static void newer_and_foreign_databases_are_refused(void)
{
    CHECK(is_refused(altered("newer.db", "PRAGMA user_version=7"), MOE_ERR_FORMAT));
    CHECK(is_refused(altered("foreign.db", "PRAGMA application_id=7"), MOE_ERR_FORMAT));
    CHECK(is_refused(altered("no-entry.db", "DROP VIEW dictionary; DROP TABLE entry"),
                     MOE_ERR_FORMAT));
}

static void an_unsound_file_on_the_search_path_is_passed_over(void)
{
    char noise[600] = "noise";

    write_file(place("unsound.db"), noise, sizeof(noise));
    write_small(place("sound.db"), "abacus", 96);
    setenv("MOELOOKUP_DB", place("unsound.db"), 1);
    setenv("MOETUNE_DB", place("sound.db"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    setenv("MOELOOKUP_DB", altered("newest.db", "PRAGMA user_version=7"), 1);
    CHECK(is_answer(ask_file(NULL, layer(96), 256), "r=2 d=4", MOE_EXACT));
    no_environment();
}

static size_t file_size(const char *path)
{
    struct stat found = { 0 };

    CHECK(!stat(path, &found));
    return (size_t)found.st_size;
}

static void half_a_snapshot_is_refused(void)
{
    static const size_t lengths[] = { 1, 15, 16, 17, 63, 64, 99, 100, 101, 511, 512, 513 };
    const char *name = "half.db.published";
    size_t whole, page = 4096;

    write_small(place("half.db"), "abacus", 96);
    whole = file_size(place(name));
    CHECK(!truncate(place(name), (off_t)(whole - 1)));
    CHECK(is_refused(place("half.db"), MOE_ERR_FORMAT));
    for (size_t length = whole - page; length > page; length -= page) {
        CHECK(!truncate(place(name), (off_t)length + 100));
        CHECK(is_refused(place("half.db"), MOE_ERR_FORMAT));
        CHECK(!truncate(place(name), (off_t)length));
        CHECK(is_refused(place("half.db"), MOE_ERR_FORMAT));
    }
    for (int i = sizeof(lengths) / sizeof(lengths[0]) - 1; i >= 0; i--) {
        CHECK(!truncate(place(name), (off_t)lengths[i]));
        CHECK(is_refused(place("half.db"), MOE_ERR_FORMAT));
    }
}

enum { PAGE = 4096 };

static void overwrite(const char *path, const void *bytes, size_t at, size_t size)
{
    int fd = open(path, O_WRONLY);

    CHECK(fd >= 0 && pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size);
    close(fd);
}

/* With other bytes in the place of a page: refused, or nobody needs that page. */
static void page_is_seen(const char *name, const char *instead, size_t at, const uint8_t digest[32])
{
    struct moelookup *table = NULL;
    uint8_t got[32];
    int rc;

    overwrite(place(name), instead, at, PAGE);
    catch_stderr();
    rc = moelookup_open(place(name), &table);
    release_stderr();
    CHECK(rc == MOE_ERR_FORMAT || rc == MOE_OK);
    if (!rc)
        CHECK(!moelookup_digest(table, got) && !memcmp(digest, got, 32));
    moelookup_close(table);
}

static void a_page_that_was_never_written_is_seen(void)
{
    static char whole[1 << 20], zeros[PAGE];
    const char *name = "page.db.published";
    uint8_t digest[32];
    size_t size;

    write_small(place("page.db"), "abacus", 96);
    digest_of(place(name), digest);
    size = read_bytes(place(name), whole, sizeof(whole));
    for (size_t at = 0; at + PAGE <= size; at += PAGE) {
        page_is_seen(name, zeros, at, digest);
        overwrite(place(name), whole + at, at, PAGE);
    }
}

/* Only rows of one table: SQLite does not know a page of another one. */
static bool holds_entries(const char *page)
{
    return page[0] == 0x0d && memmem(page, PAGE, "adopted", 7);
}

static void a_page_in_anothers_place_is_seen(void)
{
    static char whole[1 << 20];
    const char *name = "torn.db.published";
    struct cluster cluster = machine("abacus", 8, 4);
    struct moe_shape shape = layer(96);
    struct store *store = new_store(place("torn.db"));
    struct ids ids = add_layer(store, &cluster, &shape);
    uint8_t digest[32];
    size_t size;
    int pages = 0;

    for (uint32_t b = 0; b < 200; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    publish_and_close(store);
    digest_of(place(name), digest);
    size = read_bytes(place(name), whole, sizeof(whole));
    for (size_t at = 0; at + 2 * PAGE <= size; at += PAGE)
        if (holds_entries(whole + at) && holds_entries(whole + at + PAGE)) {
            page_is_seen(name, whole + at + PAGE, at, digest);
            overwrite(place(name), whole + at, at, PAGE);
            pages++;
        }
    CHECK(pages > 2);
}

static void flip_byte(const char *path, size_t at, uint32_t with)
{
    FILE *file = fopen(path, "r+");
    int byte;

    fseek(file, (long)at, SEEK_SET);
    byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ (int)with, file);
    fclose(file);
}

/* Whatever the file says: an error, or a legal plan. */
static void opens_or_not(const char *path)
{
    struct moelookup *table = NULL;
    struct moe_shape shape = layer(96);
    struct moelookup_view *view = NULL;

    catch_stderr();
    if (moelookup_open(path, &table) == MOE_OK &&
        moelookup_bind(table, &shape, NULL, &view) == MOE_OK)
        for (uint32_t b = 0; b < 8; b++) {
            struct moe_plan plan = ask(view, b * 128);

            CHECK(legal(&plan, &shape));
        }
    release_stderr();
    moelookup_view_free(view);
    moelookup_close(table);
}

static void a_damaged_snapshot_is_no_harm(void)
{
    const char *name = "damaged.db.published";
    size_t whole;

    write_small(place("damaged.db"), "abacus", 96);
    whole = file_size(place(name));
    for (int i = 0; i < 400; i++) {
        size_t at = chance(30) ? draw(100) : draw((uint32_t)whole);
        uint32_t with = 1 + draw(255);

        flip_byte(place(name), at, with);
        opens_or_not(place("damaged.db"));
        if (chance(80)) /* the rest piles up */
            flip_byte(place(name), at, with);
    }
}

static void a_deleted_file_goes_on_answering(void)
{
    struct moelookup *table;
    struct moelookup_view *view;

    write_small(place("deleted.db"), "abacus", 96);
    table = open_table(place("deleted.db"));
    CHECK(!unlink(place("deleted.db.published")) && !unlink(place("deleted.db")));
    view = bind_layer(table, layer(96));
    CHECK(is_answer(ask(view, 2 * 128), "r=2 d=4", MOE_EXACT));
    moelookup_view_free(view);
    moelookup_close(table);
}

static int names_in(const char *path)
{
    DIR *list = opendir(path);
    int count = 0;

    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

static void opening_leaves_nothing_open_and_nothing_behind(void)
{
    int files, names;

    CHECK(!mkdir(place("bare"), 0777));
    write_small(place("bare/x.db"), "abacus", 96);
    /* Only the snapshot; nobody may write beside it. */
    CHECK(!unlink(place("bare/x.db")) && !unlink(place("bare/x.db.journal")));
    unlink(place("bare/x.db.owner"));
    CHECK(!chmod(place("bare/x.db.published"), 0444) && !chmod(place("bare"), 0555));
    files = names_in("/proc/self/fd");
    names = names_in(place("bare"));
    CHECK(is_answer(ask_file(place("bare/x.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(place("bare/x.db.published"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    CHECK(names_in(place("bare")) == names && names_in("/proc/self/fd") == files);
    CHECK(!chmod(place("bare"), 0755));
}

static void the_work_database_answers_where_nothing_is_published(void)
{
    write_small(place("work.db"), "abacus", 96);
    CHECK(!unlink(place("work.db.published")));
    CHECK(is_answer(ask_file(place("work.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void the_snapshot_answers_where_there_is_one(void)
{
    write_small(place("both.db"), "abacus", 96);
    alter(place("both.db"), "UPDATE entry SET plan='r=4 d=1 a=linear'");
    CHECK(is_answer(ask_file(place("both.db"), layer(96), 256), "r=2 d=4", MOE_EXACT));
}

static void a_name_may_hold_any_character(void)
{
    static const char *const names[] = { "a b.db", "a?mode=memory.db", "a#b.db",  "a%20b.db",
                                         "a%.db",  "a&b=c.db",         "a'b.db",  "a\"b.db",
                                         "file:a", ":memory:",         "a\\b.db", "\xc3\xa9.db" };
    char back[PATH_MAX];

    CHECK(getcwd(back, sizeof(back)) && !chdir(folder));
    write_small(place("named.db"), "abacus", 96);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK(!rename(i ? names[i - 1] : "named.db.published", names[i]));
        CHECK(is_answer(ask_file(place(names[i]), layer(96), 256), "r=2 d=4", MOE_EXACT));
        CHECK(is_answer(ask_file(names[i], layer(96), 256), "r=2 d=4", MOE_EXACT));
    }
    CHECK(!chdir(back));
}

/* As with HOME=/, which makes "//.local/share/moetune/moetune.db". */
static void a_path_may_begin_with_any_number_of_slashes(void)
{
    char path[512];

    write_small(place("slashes.db"), "abacus", 96);
    for (int more = 1; more < 5; more++) {
        snprintf(path, sizeof(path), "%.*s%s", more, "////", place("slashes.db"));
        CHECK(is_answer(ask_file(path, layer(96), 256), "r=2 d=4", MOE_EXACT));
    }
}

static void what_a_later_version_adds_is_passed_over(void)
{
    static const char *const additions[] = {
        "ALTER TABLE entry ADD COLUMN weather TEXT DEFAULT 'fair'",
        "INSERT INTO fingerprint_field VALUES(9999, 1, 'weather', 'soft', 'fair')",
        "UPDATE fingerprint SET text = text || 'weather = fair' || char(10)",
        "CREATE TABLE weather(x)",
        "INSERT INTO shape VALUES(9, 'E=2 k=2 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4"
        " weather=fair')",
    };

    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++)
        CHECK(is_answer(ask_file(altered("later.db", additions[i]), layer(96), 256), "r=2 d=4",
                        MOE_EXACT));
}

/* Each alters bucket 2; bucket 3 has to answer for it. */
static void an_entry_that_is_not_understood_is_no_entry(void)
{
    static const char *const alterations[] = {
        "UPDATE entry SET plan='r=2 d=4 a=linear z=1' WHERE bucket=2",
        "UPDATE entry SET plan='r=2 d=4 a=3dh' WHERE bucket=2",
        "UPDATE entry SET plan='' WHERE bucket=2",
        "UPDATE entry SET plan='r=2 d=4' || char(0) || ' a=2dh' WHERE bucket=2",
        "UPDATE entry SET plan='r=3 d=1 a=linear' WHERE bucket=2",
        "UPDATE entry SET bucket=-1 WHERE bucket=2",
        "UPDATE entry SET bucket=4294967296+2 WHERE bucket=2",
        "UPDATE entry SET window=0 WHERE bucket=2",
        "UPDATE entry SET window=-128 WHERE bucket=2",
        "UPDATE entry SET window=4294967296+128 WHERE bucket=2",
        "UPDATE entry SET shape=77 WHERE bucket=2",
        "UPDATE entry SET fingerprint=77 WHERE bucket=2",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++) {
        struct moe_plan got = ask_file(altered("strange.db", alterations[i]), layer(96), 256);

        CHECK(is_answer(got, "r=2 d=4", MOE_CLAMPED) && got.bucket == 3);
    }
}

static void a_layer_that_is_not_understood_is_no_layer(void)
{
    static const char *const alterations[] = {
        "UPDATE shape SET text = text || ' weather=fair'",
        "UPDATE shape SET text = replace(text, 'f32', 'f64')",
        "UPDATE shape SET text = replace(text, 'E=2', 'E=3')",
        "UPDATE shape SET text = ''",
        "DELETE FROM shape",
        "DELETE FROM fingerprint",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++)
        CHECK(is_answer(ask_file(altered("unknown.db", alterations[i]), layer(96), 256), "r=1",
                        MOE_DEFAULT));
}

static void a_time_that_is_no_time_is_unknown(void)
{
    static const char *const alterations[] = {
        "UPDATE entry SET time_us=NULL, default_us=NULL",
        "UPDATE entry SET time_us=9e999, default_us=-9e999",
        "UPDATE entry SET time_us=-1, default_us=-0.0",
    };

    for (size_t i = 0; i < sizeof(alterations) / sizeof(alterations[0]); i++) {
        struct moe_plan got = ask_file(altered("times.db", alterations[i]), layer(96), 256);

        CHECK(is_answer(got, "r=2 d=4", MOE_EXACT));
        CHECK(got.time_us == 0 && got.default_us == 0 && !signbit(got.default_us));
    }
}

/* Only a writer that forgot the rules leaves overlapping pins in one file. */
static void an_illegal_pin_pins_nothing(void)
{
    const char *path = altered("pins.db", "INSERT INTO override VALUES"
                                          "(1,1,1,128,0,99,'r=3 d=1 a=linear','',0),"
                                          "(2,1,1,128,2,2,'r=4 d=1 a=linear','',0),"
                                          "(3,1,1,128,3,-1,'r=1 d=8 a=linear','',0),"
                                          "(4,1,1,128,5,3,'r=1 d=8 a=linear','',0)");

    CHECK(is_answer(ask_file(path, layer(96), 2 * 128), "r=4", MOE_OVERRIDE));
    CHECK(is_answer(ask_file(path, layer(96), 3 * 128), "r=2 d=4", MOE_EXACT));
    CHECK(is_answer(ask_file(path, layer(96), 5 * 128), "r=2 d=4", MOE_EXACT));
}

/* Each narrow pin cuts the wide one. */
static void a_table_with_thousands_of_pins_can_be_packed(void)
{
    const char *path = altered(
        "many-pins.db",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)"
        " INSERT INTO override SELECT i, 1, 1, 128, 2 * i, 2 * i, 'r=4 d=1 a=linear', '', 0 FROM n;"
        "INSERT INTO override VALUES(9999, 1, 1, 128, 0, 1000000, 'r=1 d=8 a=linear', '', 0)");
    struct moelookup *table = open_table(path), *copy = unpacked(table);

    for (int i = 0; i < 2; i++) {
        struct moelookup_view *view = bind_layer(i ? copy : table, layer(96));

        for (uint32_t b = 2; b < 8000 && view; b++)
            if (!is_answer(ask(view, b * 128), b % 2 ? "r=1 d=8" : "r=4", MOE_OVERRIDE)) {
                CHECK(!"pinned");
                break;
            }
        moelookup_view_free(view);
    }
    moelookup_close(table);
    moelookup_close(copy);
}

static void a_file_of_packed_bytes_is_a_table(void)
{
    struct moelookup *table, *again;
    uint8_t bytes[4096], digests[2][32];
    size_t size = sizeof(bytes);

    write_small(place("to-pack.db"), "abacus", 96);
    table = open_table(place("to-pack.db"));
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    write_file(place("packed"), bytes, size);
    again = open_table(place("packed"));
    CHECK(moelookup_digest(table, digests[0]) == MOE_OK);
    CHECK(moelookup_digest(again, digests[1]) == MOE_OK);
    CHECK(!memcmp(digests[0], digests[1], 32));
    moelookup_close(again);
    moelookup_close(table);
    bytes[size / 2] ^= 1;
    write_file(place("packed"), bytes, size);
    CHECK(is_refused(place("packed"), MOE_ERR_FORMAT));
    write_file(place("packed"), bytes, 40);
    CHECK(is_refused(place("packed"), MOE_ERR_FORMAT));
}

static void of_a_packed_file_only_the_tables_are_taken(void)
{
    struct moelookup *table;
    char bytes[4096];
    size_t size = sizeof(bytes);

    write_small(place("forced.db"), "abacus", 96);
    setenv("MOELOOKUP_FORCE", "r=1 d=8", 1);
    table = open_table(place("forced.db"));
    no_environment();
    CHECK(moelookup_pack(table, bytes, &size) == MOE_OK);
    write_file(place("forced"), bytes, size);
    CHECK(is_answer(ask_file(place("forced"), layer(96), 256), "r=2 d=4", MOE_EXACT));
    moelookup_close(table);
}

static bool comma_locale(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8",
                                         "de_DE",       "ru_RU.utf8", "nl_NL.utf8",  NULL };

    for (int i = 0; names[i]; i++)
        if (setlocale(LC_ALL, names[i]) && *localeconv()->decimal_point == ',')
            return true;
    setlocale(LC_ALL, "C");
    return false;
}

static void a_comma_locale_changes_nothing(void)
{
    char texts[2][512];
    uint8_t digests[2][32];

    write_small(place("locale.db"), "abacus", 96);
    for (int i = 0; i < 2; i++) {
        struct moelookup *table;
        struct moelookup_view *view;

        if (i && !comma_locale()) {
            printf("  skipped: a comma locale (none is installed)\n");
            break;
        }
        table = open_table(place("locale.db"));
        view = bind_layer(table, layer(96));
        CHECK(moelookup_digest(table, digests[i]) == MOE_OK);
        CHECK(moelookup_explain(view, 300, texts[i], sizeof(texts[i])) > 0);
        CHECK(!i || (!memcmp(digests[0], digests[1], 32) && !strcmp(texts[0], texts[1])));
        moelookup_view_free(view);
        moelookup_close(table);
    }
    setlocale(LC_ALL, "C");
}

/* ---- packed bytes */

struct packed {
    uint8_t *bytes;
    size_t size;
    uint8_t digest[32];
};

static struct packed pack(const struct moelookup *table)
{
    struct packed p = { 0 };
    size_t size;

    CHECK(moelookup_pack(table, NULL, &p.size) == MOE_OK && p.size > 0);
    p.bytes = malloc(p.size);
    size = p.size;
    CHECK(moelookup_pack(table, p.bytes, &size) == MOE_OK && size == p.size);
    CHECK(moelookup_digest(table, p.digest) == MOE_OK);
    return p;
}

static struct packed pack_file(const char *path)
{
    struct moelookup *table = open_table(path);
    struct packed p = pack(table);

    moelookup_close(table);
    return p;
}

static bool same_packed(const struct packed *a, const struct packed *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size) &&
           !memcmp(a->digest, b->digest, 32);
}

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

static void too_small_a_buffer_is_an_argument_error(void)
{
    struct moelookup *table;
    uint8_t bytes[4096];
    size_t whole = 0;

    write_small(place("room.db"), "abacus", 96);
    table = open_table(place("room.db"));
    CHECK(moelookup_pack(table, NULL, &whole) == MOE_OK && whole < sizeof(bytes));
    for (size_t room = 0; room < sizeof(bytes); room++) {
        size_t size = room;

        memset(bytes, 0xa5, sizeof(bytes));
        CHECK(moelookup_pack(table, bytes, &size) == (room < whole ? MOE_ERR_ARGUMENT : MOE_OK));
        CHECK(size == (room < whole ? room : whole));
        for (size_t i = room < whole ? 0 : whole; i < sizeof(bytes); i++)
            CHECK(bytes[i] == 0xa5);
    }
    moelookup_close(table);
}

static bool every_answer_is_legal(const struct moelookup_view *view, const struct moe_shape *shape)
{
    static const uint32_t capacities[] = { 0, 1, 127, 256, 383, 511, 700, 5000, 1u << 31 };
    char text[256];
    bool all = true;

    for (size_t i = 0; i <= sizeof(capacities) / sizeof(capacities[0]); i++) {
        uint32_t c = i ? capacities[i - 1] : UINT32_MAX;
        struct moe_plan plan = ask(view, c);

        all &= legal(&plan, shape) && moelookup_explain(view, c, text, sizeof(text)) > 0;
    }
    return all;
}

/* Every layer that the bytes say they hold, and ours. */
static bool answers_are_legal(const struct moelookup *table, const uint8_t *bytes)
{
    struct lookup_switches switches = pack_switches(bytes);
    uint32_t count = pack_layer_count(bytes);
    bool all = !switches.forced || moe_plan_format(&switches.force, NULL, 0) > 0;

    for (uint32_t i = 0; i <= count && all; i++) {
        struct moe_shape shape = i < count ? pack_layer(bytes, i).shape : layer(96);
        struct moelookup_view *view = NULL;

        if (moelookup_bind(table, &shape, NULL, &view) == MOE_OK)
            all = every_answer_is_legal(view, &shape);
        all &= i == count || pack_layer(bytes, i).window;
        moelookup_view_free(view);
    }
    return all;
}

/* Bytes that anybody may have made: refused, or a table like any other. */
static bool is_harmless(const uint8_t *bytes, size_t size)
{
    struct moelookup *table = NULL;
    struct packed again;
    bool fine;
    int rc;

    unsetenv("MOELOOKUP_LOG"); /* then an unpacked table is silent */
    rc = moelookup_unpack(bytes, size, &table);
    no_environment();
    if (rc)
        return rc == MOE_ERR_FORMAT && !table;
    again = pack(table);
    fine = again.size == size && !memcmp(again.bytes, bytes, size) &&
           answers_are_legal(table, again.bytes);
    free(again.bytes);
    moelookup_close(table);
    return fine;
}

/* Two layers, entries of every kind, pins, a switch. */
static struct packed some_packed(void)
{
    struct cluster abacus = machine("abacus", 8, 4), loom = machine("loom", 8, 4);
    struct moe_shape shapes[] = { layer(96), layer(192) };
    struct store *store;
    struct packed p;
    struct ids ids;

    unlink(place("some.db"));
    store = new_store(place("some.db"));
    ids = add_layer(store, &abacus, &shapes[0]);
    for (uint32_t b = 2; b < 6; b++)
        add_entry(store, ids, b, "r=2 d=4 a=linear");
    add_pin(store, ids, 3, 3, "r=4 d=2 a=2dh");
    add_pin(store, ids, 8, 4000, "r=0");
    CHECK(!store_expire(store, ids.cluster, ids.shape, 128, 4, 4, "asked"));
    ids = add_layer(store, &loom, &shapes[1]);
    add_entry(store, ids, 1, "r=4 d=1 a=2dh");
    publish_and_close(store);
    setenv("MOELOOKUP_FORCE", "r=2 d=2", 1);
    p = pack_file(place("some.db"));
    no_environment();
    return p;
}

static void a_cut_table_is_refused(void)
{
    struct packed p = some_packed();

    for (size_t size = 0; size <= p.size; size++) {
        uint8_t *cut = malloc(size ? size : 1); /* so that a read past the end is seen */
        struct moelookup *table = NULL;

        memcpy(cut, p.bytes, size);
        CHECK((moelookup_unpack(cut, size, &table) == MOE_OK) == (size == p.size));
        CHECK((table != NULL) == (size == p.size));
        moelookup_close(table);
        free(cut);
    }
    free(p.bytes);
}

static void a_longer_table_is_refused(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = calloc(1, p.size + 64);
    struct moelookup *table = NULL;

    memcpy(bytes, p.bytes, p.size);
    for (size_t more = 1; more <= 64; more++) {
        CHECK(moelookup_unpack(bytes, p.size + more, &table) == MOE_ERR_FORMAT && !table);
        pack_seal(bytes, p.size + more);
        CHECK(is_harmless(bytes, p.size + more));
        memcpy(bytes, p.bytes, p.size);
    }
    free(bytes);
    free(p.bytes);
}

static uint8_t nth_flip(int n)
{
    return (uint8_t)(n < 8 ? 1 << n : 0xff);
}

static void a_flipped_byte_is_refused(void)
{
    struct packed p = some_packed();

    for (size_t i = 0; i < p.size; i++)
        for (int n = 0; n < 9; n++) {
            struct moelookup *table = NULL;

            p.bytes[i] ^= nth_flip(n);
            CHECK(moelookup_unpack(p.bytes, p.size, &table) == MOE_ERR_FORMAT && !table);
            p.bytes[i] ^= nth_flip(n);
        }
    free(p.bytes);
}

static void a_flipped_byte_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = malloc(p.size);

    for (size_t i = 0; i < p.size; i++)
        for (int n = 0; n < 9; n++) {
            memcpy(bytes, p.bytes, p.size);
            bytes[i] ^= nth_flip(n);
            pack_seal(bytes, p.size);
            CHECK(is_harmless(bytes, p.size));
        }
    free(bytes);
    free(p.bytes);
}

static void a_cut_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();

    for (size_t size = 64; size < p.size; size++) {
        uint8_t *cut = malloc(size);

        memcpy(cut, p.bytes, size);
        pack_seal(cut, size);
        CHECK(is_harmless(cut, size));
        free(cut);
    }
    free(p.bytes);
}

static void damage_of_many_bytes_behind_the_checksum_is_no_harm(void)
{
    struct packed p = some_packed();
    uint8_t *bytes = malloc(p.size);

    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, p.bytes, p.size);
        for (uint32_t k = 1 + draw(4); k > 0; k--) {
            uint32_t at = draw((uint32_t)p.size);

            if (chance(50))
                bytes[at] = (uint8_t)(chance(50) ? draw(4) : 255 - draw(4));
            else
                bytes[at] = bytes[draw((uint32_t)p.size)];
        }
        pack_seal(bytes, p.size);
        if (!is_harmless(bytes, p.size)) {
            CHECK(!"harmless");
            break;
        }
    }
    free(bytes);
    free(p.bytes);
}

static void put_number(uint8_t *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

enum { CLAIMERS = 400, CLAIMED = 25000, RECORD = 192, ROW = 20 };

static void unpack_layers_that_all_claim_the_same_rows(void)
{
    size_t rows_at = 64 + CLAIMERS * RECORD, size = rows_at + CLAIMED * ROW;
    uint8_t *bytes = calloc(1, size);
    struct packed p = some_packed();
    struct rusage before, after;

    memcpy(bytes, p.bytes, 64);
    put_number(bytes + 12, size);
    put_number(bytes + 16, CLAIMERS);
    for (size_t i = 0; i < CLAIMERS; i++) {
        uint8_t *record = bytes + 64 + i * RECORD;

        memcpy(record, p.bytes + 64, RECORD);
        put_number(record + 48, CLAIMED);
        put_number(record + 52, 0);
        put_number(record + 56, rows_at);
        put_number(record + 60, size);
    }
    pack_seal(bytes, size);
    getrusage(RUSAGE_SELF, &before);
    CHECK(is_harmless(bytes, size));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 100 * 1024); /* KiB; all rows are 280 MB */
    free(bytes);
    free(p.bytes);
}

static void a_table_never_grows_beyond_its_bytes(void)
{
    in_child(unpack_layers_that_all_claim_the_same_rows);
}

static void an_empty_set_is_packed_too(void)
{
    struct moelookup *table, *copy;
    struct packed p, again;

    setenv("HOME", place("nobody"), 1);
    table = open_table(NULL);
    copy = unpacked(table);
    p = pack(table);
    again = pack(copy);
    CHECK(same_packed(&p, &again) && p.size <= 64);
    CHECK(binds_to(copy, layer(96), NULL, NULL));
    moelookup_close(table);
    moelookup_close(copy);
    free(p.bytes);
    free(again.bytes);
    no_environment();
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

static pid_t start_reader(const char *path, struct sights *sights, int self)
{
    pid_t child = fork();

    if (child == 0) {
        while (!sights->stop) {
            look_once(path, sights, self);
            usleep(random_below(seed, (uint64_t)self, 40000)); /* so that the writer gets a turn */
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
        children[i] = start_reader(place("turns.db"), sights, i);
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
        TEST(the_first_file_that_is_not_stale_answers_per_bucket),
        TEST(a_view_outlives_its_table),
        TEST(a_modelled_cluster_never_answers),
        TEST(null_is_an_argument_error),
        TEST(every_status_has_words_and_the_version_is_this_one),
        TEST(force_and_disable_travel_and_count),
        TEST(an_unpacked_table_ignores_this_ranks_environment),
        TEST(force_answers_only_where_it_is_legal),
        TEST(a_malformed_force_is_refused_and_said),
        TEST(disable_reads_no_file),
        TEST(nothing_found_is_an_empty_set),
        TEST(the_search_path_has_its_order),
        TEST(a_miss_is_said_once_and_names_the_command),
        TEST(a_miss_says_what_comes_nearest),
        TEST(a_hit_says_nothing),
        TEST(an_unpacked_table_is_silent_unless_asked),
        TEST(what_is_no_table_is_refused),
        TEST(a_name_that_is_too_long_is_refused),
        TEST(newer_and_foreign_databases_are_refused),
        TEST(an_unsound_file_on_the_search_path_is_passed_over),
        TEST(half_a_snapshot_is_refused),
        TEST(a_page_that_was_never_written_is_seen),
        TEST(a_page_in_anothers_place_is_seen),
        TEST(a_damaged_snapshot_is_no_harm),
        TEST(a_deleted_file_goes_on_answering),
        TEST(opening_leaves_nothing_open_and_nothing_behind),
        TEST(the_work_database_answers_where_nothing_is_published),
        TEST(the_snapshot_answers_where_there_is_one),
        TEST(a_name_may_hold_any_character),
        TEST(a_path_may_begin_with_any_number_of_slashes),
        TEST(what_a_later_version_adds_is_passed_over),
        TEST(an_entry_that_is_not_understood_is_no_entry),
        TEST(a_layer_that_is_not_understood_is_no_layer),
        TEST(a_time_that_is_no_time_is_unknown),
        TEST(an_illegal_pin_pins_nothing),
        TEST(a_table_with_thousands_of_pins_can_be_packed),
        TEST(a_file_of_packed_bytes_is_a_table),
        TEST(of_a_packed_file_only_the_tables_are_taken),
        TEST(a_comma_locale_changes_nothing),
        TEST(packed_bytes_give_the_same_table),
        TEST(equal_tables_give_equal_bytes),
        TEST(too_small_a_buffer_is_an_argument_error),
        TEST(a_cut_table_is_refused),
        TEST(a_longer_table_is_refused),
        TEST(a_flipped_byte_is_refused),
        TEST(a_flipped_byte_behind_the_checksum_is_no_harm),
        TEST(a_cut_behind_the_checksum_is_no_harm),
        TEST(damage_of_many_bytes_behind_the_checksum_is_no_harm),
        TEST(a_table_never_grows_beyond_its_bytes),
        TEST(an_empty_set_is_packed_too),
        TEST(threads_share_a_view),
        TEST(a_child_goes_on_with_the_parents_table),
        TEST(readers_see_one_of_the_published_tables),
        TEST(the_capacity_rule_is_what_frameworks_do),
        TEST(the_capacity_rule_survives_any_number),
        TEST(an_explanation_names_the_plan_that_get_gives),
        TEST(an_explanation_knows_any_time),
        TEST(an_explanation_names_the_switch_that_decided),
        TEST(an_explanation_fits_any_buffer),
    };
    const char *given = getenv("MOETUNE_TEST_SEED");
    bool only_readers = argc > 1 && !strcmp(argv[1], "--readers");
    char command[100];
    int rc;

    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    snprintf(folder, sizeof(folder), "/tmp/moetune-lookup-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    no_environment();
    printf("  seed %llu\n", (unsigned long long)seed);
    rc = only_readers ? check_all(many, 1) : check_all(tests, sizeof(tests) / sizeof(tests[0]));
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command))
        printf("  %s stays behind\n", folder);
    return rc;
}
