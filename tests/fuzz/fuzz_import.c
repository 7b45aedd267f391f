/* Feeds hostile tables to the importer.  Most inputs are mended so that checksum, counts, hashes
 * and order are right, so that the tests reach the code behind those checks. */
#include "cluster.h"
#include "declaration.h"
#include "export.h"
#include "import.h"
#include "import_damage.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
    char *bytes;
    size_t size;
};

static struct store *new_store(void)
{
    struct store *store = NULL;

    if (store_dry_run("/nonexistent/fuzz.db", &store))
        fuzz_wrong("no store in memory");
    return store;
}

static struct text export_of(struct store *store, bool identify)
{
    struct export_options options = { .identify = identify };
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);

    if (export_lines(store, &options, memory) < 0)
        fuzz_wrong("a table that cannot be exported");
    fclose(memory);
    return t;
}

static bool equal(struct text a, struct text b)
{
    return a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
}

static int take_in(struct store *store, struct text t, struct import_result *got)
{
    const struct import_options silent = { 0 };
    struct import_table *table = NULL;
    int rc = import_read(t.bytes, t.size, "fuzz", &table);

    if (rc && (rc != ERR_FORMAT || table))
        fuzz_wrong("reading ends neither in a table nor in ERR_FORMAT");
    if (rc)
        return rc;
    rc = import_place(table, store, &silent, got);
    import_free(table);
    if (rc)
        fuzz_wrong("a table that was read but cannot be placed");
    return rc;
}

/* ---- what must hold */

static void is_unchanged(struct store *store, struct text before, const char *what)
{
    struct text after = export_of(store, true);

    if (!equal(before, after))
        fuzz_wrong(what);
    free(after.bytes);
}

/* Written again from tuner/layer/README.md, so that no mistake of plan.c's hides here. */
static bool is_legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t s = shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
    uint32_t m = shape->ranks_per_node;

    if (shape->space || plan->space)
        return plan->space == shape->space &&
               declaration_legal(declaration_find(shape->space), plan->choice);
    if (plan->e > MOE_SPARSE ||
        (plan->e == MOE_SPARSE && plan->r && (plan->a > MOE_A2A_2DH || plan->ctas)))
        return false;
    if (plan->proto && (plan->r ? s : shape->ranks) == 1)
        return false; /* nothing is gathered: it has another name */
    if (plan->r == 0)
        return plan->d == 1 && plan->a == MOE_A2A_LINEAR;
    if (s % plan->r || !(plan->d == 1 || plan->d == 2 || plan->d == 4 || plan->d == 8))
        return false;
    if (plan->a == MOE_A2A_LINEAR)
        return true;
    return m > 1 && shape->ranks > m && shape->ranks % m == 0 &&
           (plan->a == MOE_A2A_2DH || (plan->a == MOE_A2A_RAIL && m % s == 0));
}

static bool is_interval(double gain, double low, double high)
{
    return isnan(gain) ? isnan(low) && isnan(high) : low <= gain && gain <= high && high <= 1;
}

static void check_standing(struct store *store, const struct entry_row *e,
                           const struct moe_shape *shape)
{
    struct standing_row s;

    if (store_standing_get(store, e->cluster, e->shape, e->window, &s))
        return;
    if (s.run || !s.rounds || s.decided_s < 1 ||
        (isnan(s.gain.value) && isnan(s.static_gain.value)) ||
        !is_interval(s.gain.value, s.gain.low, s.gain.high) ||
        !is_interval(s.static_gain.value, s.static_gain.low, s.static_gain.high))
        fuzz_wrong("a standing without sense");
    if (isnan(s.static_gain.value) ? s.static_plan.struct_size : !is_legal(&s.static_plan, shape))
        fuzz_wrong("a standing without a plan, or with an illegal one");
}

static bool is_decision(const char *word)
{
    static const char *const words[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                         "static",  "tie",    "inferred", "refuted" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(words[i], word))
            return true;
    return false;
}

static int check_entry(void *self, const struct entry_row *e)
{
    struct store *store = self;
    struct moe_shape shape;

    if (store_shape_get(store, e->shape, &shape) || !is_legal(&e->plan, &shape))
        fuzz_wrong("an illegal plan");
    if (e->tier != TIER_IMPORTED || !e->window || e->time_us < 0 || !is_decision(e->decision))
        fuzz_wrong("an entry without sense");
    if (e->fault)
        fuzz_wrong("an entry whose numbers forbid its plan");
    check_standing(store, e, &shape);
    return OK;
}

static int find_space(void *self, const struct entry_row *e)
{
    *(bool *)self |= e->plan.space != 0;
    return OK;
}

/* One line per row and no byte that moves a terminal's cursor, in either form. */
static void other_forms_hold(struct store *store)
{
    const struct export_options all = { .identify = true };
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);
    bool declared = false; /* whose plans the C form cannot hold */

    store_entries(store, 0, 0, find_space, &declared);
    if (export_csv(store, &all, memory) ||
        export_header(store, &all, memory) != (declared ? ERR_ARGUMENT : OK))
        fuzz_wrong("a table without its other forms");
    fclose(memory);
    for (size_t i = 0; i < t.size; i++)
        if (((unsigned char)t.bytes[i] < ' ' && !strchr("\r\n", t.bytes[i])) || t.bytes[i] == 0x7f)
            fuzz_wrong("a control character");
    free(t.bytes);
}

/* Export, import, export: the same bytes. */
static void travels(struct store *store, bool identify)
{
    struct text once = export_of(store, identify), twice;
    struct store *other = new_store();
    struct import_result got;

    if (take_in(other, once, &got))
        fuzz_wrong("what was exported is refused");
    twice = export_of(other, identify);
    if (!equal(once, twice))
        fuzz_wrong("export, import, export: other bytes");
    store_close(other);
    free(once.bytes);
    free(twice.bytes);
}

static struct text merged(struct text first, struct text second)
{
    struct store *store = new_store();
    struct import_result got;
    struct text t, own;

    take_in(store, first, &got);
    take_in(store, second, &got);
    t = export_of(store, true);
    own = export_of(store, true);
    take_in(store, own, &got); /* what is there adds nothing */
    is_unchanged(store, t, "a table merged with itself is another");
    free(own.bytes);
    store_close(store);
    return t;
}

/* The one accepted before, for merging. */
static struct text previous;

static void merges(struct text t)
{
    struct text ab, ba;

    if (previous.bytes) {
        ab = merged(previous, t);
        ba = merged(t, previous);
        if (!equal(ab, ba)) {
            fuzz_write_file("fuzz_import.previous", (uint8_t *)previous.bytes, previous.size);
            fuzz_wrong("this and fuzz_import.previous, merged in either order, differ");
        }
        free(ab.bytes);
        free(ba.bytes);
    }
    free(previous.bytes);
    previous.bytes = malloc(t.size + 1);
    previous.size = t.size;
    memcpy(previous.bytes, t.bytes, t.size);
}

static void hold_accepted(struct text t)
{
    struct store *store = new_store();
    struct import_result got;

    fuzz_accepted();
    take_in(store, t, &got);
    if (got.added != got.entries || !got.entries || got.known)
        fuzz_wrong("an empty store in which something was");
    store_entries(store, 0, 0, check_entry, store);
    other_forms_hold(store);
    travels(store, false);
    travels(store, true);
    store_close(store);
    merges(t);
}

/* A store that has seen much; what is refused must leave it as it is. */
static struct store *base;
static struct text base_text;

static void renew_base(void)
{
    enum { MUCH = 30000 };

    if (base_text.size > MUCH) {
        store_close(base);
        base = NULL;
    }
    if (!base)
        base = new_store();
    free(base_text.bytes);
    base_text = export_of(base, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text t = { (char *)data, size };
    struct import_result got;

    log_enable(false);
    if (!base)
        renew_base();
    if (take_in(base, t, &got)) {
        is_unchanged(base, base_text, "a refused table changed the store");
        return 0;
    }
    renew_base();
    hold_accepted(t);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

/* ---- seeds */

static struct cluster some_cluster(uint32_t number)
{
    struct cluster c = cluster_unknown();

    c.semantics = CLUSTER_SEMANTICS;
    snprintf(c.backend, sizeof(c.backend), "host");
    snprintf(c.device, sizeof(c.device), "abacus %u", number);
    snprintf(c.hosts, sizeof(c.hosts), "a:4,b:4");
    c.nodes = 2;
    c.ranks = 8;
    c.ranks_per_node = 4;
    return c;
}

static struct entry_row some_entry(const struct moe_shape *shape, uint32_t bucket)
{
    struct moe_plan plans[64];
    size_t n = plan_list(shape, plans, 64);
    struct entry_row e = { .window = 128,
                           .bucket = bucket,
                           .capacity = 128 * bucket + 127,
                           .plan = plans[7 * bucket % n],
                           .runner_up = plans[(3 * bucket + 1) % n],
                           .time_us = 100.125 + bucket,
                           .low_us = 99.5,
                           .high_us = bucket % 3 ? 110 : (double)NAN,
                           .default_us = 120,
                           .gain = { .1, -.05, .2 },
                           .bound = .01,
                           .samples = 20 + bucket,
                           .inferred = bucket % 2 == 1,
                           .stale = bucket % 5 == 4,
                           .effort = "normal",
                           .search = "guided",
                           .reason = "certain",
                           .decision = "adopted",
                           .decided_s = 1700000000 };

    return e;
}

/* Later than some_entry(). */
static struct standing_row some_standing(const struct moe_shape *shape, uint32_t number)
{
    struct standing_row row = { .run = 1,
                                .window = 128,
                                .gain = { .11, .09, .13 },
                                .static_gain = { NAN, NAN, NAN },
                                .rounds = 8 + number,
                                .decided_s = 1700000001 + number };

    if (number % 2) {
        row.static_gain.value = .012;
        row.static_gain.low = -.003;
        row.static_gain.high = .021;
        plan_list(shape, &row.static_plan, 1);
    }
    return row;
}

enum seed_flags { SEED_IDENTIFIED = 1, SEED_STANDINGS = 2 };

static void add_seed(const char *name, uint32_t clusters, uint32_t layers, uint32_t buckets,
                     unsigned flags)
{
    struct store *store = new_store();
    struct text t;

    for (uint32_t i = 0; i < clusters * layers * buckets; i++) {
        struct cluster c = some_cluster(i % clusters);
        struct moe_shape shape = { .struct_size = sizeof(shape),
                                   .experts = 2,
                                   .top_k = 2,
                                   .model_dim = 16,
                                   .hidden_dim = 32 * (1 + i / clusters % layers),
                                   .ranks = 8,
                                   .ranks_per_node = 4,
                                   .tokens = 64 };
        struct entry_row e = some_entry(&shape, i / clusters / layers);

        if (store_cluster_add(store, &c, &e.cluster) || store_shape_add(store, &shape, &e.shape) ||
            store_entry_put(store, &e, "seed"))
            exit(1);
        if (flags & SEED_STANDINGS) {
            struct standing_row row = some_standing(&shape, i);

            row.cluster = e.cluster;
            row.shape = e.shape;
            if (store_standing(store, &row))
                exit(1);
        }
    }
    t = export_of(store, flags & SEED_IDENTIFIED);
    fuzz_seed(name, t.bytes, t.size);
    free(t.bytes);
    store_close(store);
}

static void make_seeds(void)
{
    log_enable(false);
    add_seed("one.jsonl", 1, 1, 1, 0);
    add_seed("some.jsonl", 1, 2, 5, 0);
    add_seed("identified.jsonl", 2, 2, 2, SEED_IDENTIFIED);
    add_seed("many.jsonl", 3, 3, 4, 0);
    add_seed("standing.jsonl", 1, 1, 1, SEED_STANDINGS);
    add_seed("standings.jsonl", 2, 2, 2, SEED_STANDINGS);
}

static bool is_worth_keeping(const struct fuzz_input *in)
{
    return in->size < 20000 && !fuzz_draw(4);
}

static void try_one(const uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    const struct fuzz_target target = { .name = "fuzz_import",
                                        .one = try_one,
                                        .make_seeds = make_seeds,
                                        .ways = import_ways,
                                        .way_count = import_way_count,
                                        .mend = import_mend,
                                        .is_worth_keeping = is_worth_keeping };
    int rc = fuzz_main(argc, argv, &target);

    free(previous.bytes);
    free(base_text.bytes);
    store_close(base);
    return rc;
}

#endif
