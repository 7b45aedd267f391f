/* Feeds hostile bytes to everything that reads foreign bytes: packed tables, databases, plans. */
#include "cluster.h"
#include "declaration.h"
#include "fuzzer.h"
#include "lookup.h"
#include "plan.h"
#include "status.h"
#include "store.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what must hold for a table that was accepted */

/* Written again from tuner/layer/README.md, so that no mistake of plan.c's hides here. */
static bool legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t s = shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
    uint32_t m = shape->ranks_per_node;
    char text[DECLARATION_PLAN_BYTES];

    if (shape->space)
        return plan->space == shape->space &&
               declaration_legal(declaration_find(shape->space), plan->choice) &&
               moelookup_value(plan, declaration_find(shape->space)->axis[0].name, text,
                               sizeof(text)) > 0;
    if (plan->space || plan->choice)
        return false;
    if ((plan->d != 1 && plan->d != 2 && plan->d != 4 && plan->d != 8) || plan->a > MOE_A2A_RAIL)
        return false;
    if (plan->e > MOE_SPARSE || plan->w > MOE_CACHE || (plan->w && plan->r) ||
        plan->proto > MOE_PROTO_SIMPLE)
        return false;
    if (plan->proto && (plan->r && shape->layout == MOE_LAYOUT_EXPERTS ? s : shape->ranks) == 1)
        return false; /* nothing is gathered: it has another name */
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        return plan->e == MOE_SPARSE &&
               (plan->r == 0 || (plan->r == shape->ranks && !plan->a && !plan->ctas));
    if (plan->r == 0)
        return plan->d == 1 && !plan->w;
    if (s % plan->r != 0 || (plan->e == MOE_SPARSE && (plan->a > MOE_A2A_2DH || plan->ctas)))
        return false;
    if (plan->a == MOE_A2A_LINEAR || plan->a == MOE_A2A_NCCL)
        return true;
    return m > 1 && shape->ranks > m && shape->ranks % m == 0 &&
           (plan->a == MOE_A2A_2DH || m % s == 0);
}

/* `launch`: of a plan of the launch that the view is of; UINT32_MAX: of none. */
static void try_capacity(const struct moelookup_view *view, const struct moe_shape *shape,
                         uint32_t capacity, uint32_t launch)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    char text[300];
    int length = moelookup_explain(view, capacity, text, sizeof(text));

    if (moelookup_get(view, capacity, &plan) != MOE_OK || !legal(&plan, shape))
        fuzz_wrong("an illegal plan");
    if (moelookup_get_key(view, (uint64_t)capacity << 20, capacity / 7.0, &plan) != MOE_OK ||
        !legal(&plan, shape))
        fuzz_wrong("an illegal plan for a key");
    if (launch != UINT32_MAX &&
        !declaration_same_launch(declaration_find(shape->space), plan.choice, launch))
        fuzz_wrong("a plan of another launch");
    if (!(plan.time_us >= 0) || !(plan.default_us >= 0) ||
        (plan.source > MOE_IMPORTED && plan.source != MOE_UNSOUND &&
         !(launch != UINT32_MAX && plan.source == MOE_UNKNOWN_LAUNCH)))
        fuzz_wrong("an answer without sense");
    if (length <= 0 || (length < (int)sizeof(text) && strlen(text) != (size_t)length) ||
        strchr(text, '\n'))
        fuzz_wrong("an explanation that is not one line");
}

/* The layer's own cluster by its hash: others may be there for the same shape. */
static void try_layer(const struct moelookup *table, const struct lookup_layer *layer)
{
    static const uint32_t capacities[] = { 0, 1, 127, 128, 300, 1000, 1u << 20, UINT32_MAX };
    struct moelookup_view *view = NULL;
    char hash[SHA256_HEX_BYTES];
    int rc;

    sha256_hex(layer->cluster, hash);
    rc = moelookup_bind(table, &layer->shape, hash, &view);
    if (rc && rc != MOE_ERR_AMBIGUOUS)
        fuzz_wrong("a layer that cannot be bound");
    for (size_t i = 0; view && i < sizeof(capacities) / sizeof(capacities[0]); i++)
        try_capacity(view, &layer->shape, capacities[i], UINT32_MAX);
    moelookup_view_free(view);
}

/* Inside some of the launches that the layer has rows of. */
static void try_launches(const struct moelookup *table, const uint8_t *bytes, uint32_t at)
{
    struct lookup_layer layer = pack_layer(bytes, at);
    const struct declaration *d = declaration_find(layer.shape.space);
    char words[DECLARATION_PLAN_BYTES];

    for (uint32_t i = 0; i < layer.launch_count && i < 8; i++) {
        struct moe_plan plan = pack_launch(bytes, at, i).plan;
        struct moelookup_view *view = NULL;
        int rc = moelookup_bind_launch(table, &layer.shape, NULL,
                                       declaration_launch_words(d, plan.choice, words), &view);

        if (rc && rc != MOE_ERR_AMBIGUOUS)
            fuzz_wrong("a launch that cannot be bound");
        for (uint32_t key = 0; view && key < 1000; key += 7)
            try_capacity(view, &layer.shape, key, plan.choice);
        moelookup_view_free(view);
    }
}

static void try_rows(const struct moelookup *table, const uint8_t *bytes)
{
    uint32_t layers = pack_layer_count(bytes);

    for (uint32_t i = 0; i < layers && i < 16; i++) {
        struct lookup_layer layer = pack_layer(bytes, i);
        struct moelookup_view *view = NULL;

        try_layer(table, &layer);
        if (moelookup_bind(table, &layer.shape, NULL, &view) == MOE_OK && layer.entry_count)
            try_capacity(view, &layer.shape, pack_entry(bytes, i, 0).plan.bucket, UINT32_MAX);
        moelookup_view_free(view);
        try_launches(table, bytes, i);
    }
}

/* Packs, unpacks, packs: the same bytes.  `from` is NULL if the table came from a database. */
static void try_table(const struct moelookup *table, const uint8_t *from, size_t from_size)
{
    struct moelookup *again = NULL;
    size_t size = 0, room;
    uint8_t *bytes, *twice;

    fuzz_accepted();
    moelookup_pack(table, NULL, &size);
    bytes = malloc(size);
    twice = malloc(size);
    room = size;
    if (moelookup_pack(table, bytes, &room) || moelookup_unpack(bytes, size, &again))
        fuzz_wrong("a table that cannot be packed");
    if (again &&
        (moelookup_pack(again, twice, &room) || room != size || memcmp(bytes, twice, size)))
        fuzz_wrong("a table that packs to other bytes");
    if (from && (from_size != size || memcmp(from, bytes, size) != 0))
        fuzz_wrong("bytes that are not what pack writes");
    try_rows(table, bytes);
    moelookup_close(again);
    free(twice);
    free(bytes);
}

/* ---- readers */

static void try_unpack(const uint8_t *data, size_t size)
{
    struct moelookup *table = NULL;
    int rc = moelookup_unpack(data, size, &table);

    if (rc && (rc != MOE_ERR_FORMAT || table))
        fuzz_wrong("unpack ends neither in a table nor in MOE_ERR_FORMAT");
    if (!rc)
        try_table(table, data, size);
    moelookup_close(table);
}

static void try_unpack_sealed(const uint8_t *data, size_t size)
{
    uint8_t *sealed = malloc(size);

    memcpy(sealed, data, size);
    pack_seal(sealed, size);
    try_unpack(sealed, size);
    free(sealed);
}

static void try_plan(const uint8_t *data, size_t size)
{
    struct moe_plan plan = MOE_PLAN_INIT, again = MOE_PLAN_INIT;
    char *text = malloc(size + 1), words[PLAN_TEXT_BYTES];

    memcpy(text, data, size);
    text[size] = 0;
    plan.r = 77;
    if (moe_plan_parse(text, &plan)) {
        if (plan.r != 77)
            fuzz_wrong("a refused plan that was written");
    } else if (moe_plan_format(&plan, words, sizeof(words)) <= 0 || moe_plan_parse(words, &again) ||
               !plan_equal(&plan, &again)) {
        fuzz_wrong("a plan that does not survive its text");
    }
    free(text);
}

static void try_open(const char *path)
{
    struct moelookup *table = NULL;
    int rc = moelookup_open(path, &table);

    if (rc && ((rc != MOE_ERR_FORMAT && rc != MOE_ERR_IO) || table))
        fuzz_wrong("open ends neither in a table nor in an error of its own");
    if (!rc)
        try_table(table, NULL, 0);
    moelookup_close(table);
}

/* As a snapshot, whose pages are checked first, and as a work database, whose pages are not. */
static void try_file(const uint8_t *data, size_t size)
{
    char snapshot[PATH_MAX], work[PATH_MAX];

    snprintf(snapshot, sizeof(snapshot), "%s/x.db.published", fuzz_folder());
    snprintf(work, sizeof(work), "%s/x.db", fuzz_folder());
    fuzz_write_file(snapshot, data, size);
    try_open(work);
    if (!rename(snapshot, work))
        try_open(work);
    unlink(work);
}

static bool looks_like_a_file(const uint8_t *data, size_t size)
{
    return size >= 8 && (!memcmp(data, "SQLite", 6) || pack_claims(data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    setenv("MOELOOKUP_LOG", "never", 1);
    try_unpack(data, size);
    if (size >= 64)
        try_unpack_sealed(data, size);
    if (size <= 256)
        try_plan(data, size);
    if (looks_like_a_file(data, size))
        try_file(data, size);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

/* ---- seeds */

static struct lookup_layer some_layer(uint32_t hidden, uint8_t cluster)
{
    struct lookup_layer layer = { .shape = { .struct_size = sizeof(struct moe_shape),
                                             .experts = 2,
                                             .top_k = 1,
                                             .model_dim = 16,
                                             .hidden_dim = hidden,
                                             .ranks = 8,
                                             .ranks_per_node = 4,
                                             .tokens = 64 },
                                  .window = 128,
                                  .device = "abacus" };

    memset(layer.cluster, cluster, sizeof(layer.cluster));
    return layer;
}

static void add_rows(struct lookup_layer *layer, uint32_t entries, uint32_t pins, uint32_t a,
                     uint32_t proto)
{
    for (uint32_t i = 0; i < entries; i++)
        lookup_layer_add(layer, &(struct lookup_entry){ .plan = { .bucket = 3 * i,
                                                                  .r = 1u << i % 3,
                                                                  .d = 1u << i % 4,
                                                                  .a = i % 2 * a,
                                                                  .proto = i % 2 * proto,
                                                                  .time_us = 10.5f + (float)i,
                                                                  .default_us = 20.5f },
                                                        .flags = i % 4 });
    for (uint32_t i = 0; i < pins; i++)
        lookup_layer_pin(layer, &(struct lookup_pin){ 5 * i, 5 * i + 3, { .r = i % 3, .d = 1 } });
}

static void add_packed(const char *name, uint32_t layers, uint32_t entries, uint32_t pins,
                       uint32_t a, uint32_t proto, const char *force)
{
    struct lookup_set set = { .switches.forced = force != NULL };
    uint8_t *bytes = NULL;
    size_t size;

    for (uint32_t i = 0; i < layers; i++) {
        struct lookup_layer like = some_layer(96 * (i / 2 + 1), (uint8_t)(i % 2));

        add_rows(lookup_set_layer(&set, &like), entries, pins, a, proto);
    }
    if ((force && moe_plan_parse(force, &set.switches.force)) || pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed(name, bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Rows travel without padding. */
static void add_counted(void)
{
    struct lookup_layer like = some_layer(96, 0), *layer;
    struct lookup_set set = { .count = 0 };
    uint8_t *bytes = NULL;
    size_t size;

    layer = lookup_set_layer(&set, &like);
    add_rows(layer, 6, 2, MOE_A2A_2DH, 0);
    for (uint32_t i = 0; i < 6; i++)
        layer->entries[i].plan.e = MOE_SPARSE;
    if (pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed("packed-counted", bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Layers whose shapes need their later words. */
static void add_later(void)
{
    struct lookup_layer like = some_layer(96, 0), other, *layer;
    struct lookup_set set = { .count = 0 };
    uint8_t *bytes = NULL;
    size_t size;

    like.shape.layout = MOE_LAYOUT_HIDDEN;
    like.shape.shares = MOE_SHARES_SPEED;
    like.shape.layers = 4;
    other = like;
    like = some_layer(192, 0);
    like.shape.groups = 2;
    like.shape.group_limit = 1;
    like.shape.router = MOE_ROUTER_SIGMOID;
    add_rows(lookup_set_layer(&set, &like), 4, 1, MOE_A2A_LINEAR, 0);
    layer = lookup_set_layer(&set, &other);
    for (uint32_t i = 0; i < 8; i++)
        lookup_layer_add(layer, &(struct lookup_entry){ .plan = { .bucket = i,
                                                                  .r = i % 2 * 8,
                                                                  .d = 1u << i % 4,
                                                                  .e = MOE_SPARSE,
                                                                  .w = i % 4 == 2 } });
    if (pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed("packed-later", bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Layers whose shapes need their latest words. */
static void add_latest(void)
{
    struct lookup_layer like = some_layer(96, 0);
    struct lookup_set set = { .count = 0 };
    uint8_t *bytes = NULL;
    size_t size;

    like.shape.order = MOE_ORDER_PRIORITY;
    add_rows(lookup_set_layer(&set, &like), 4, 1, MOE_A2A_LINEAR, 0);
    like = some_layer(192, 0);
    like.shape.router = MOE_ROUTER_COSINE;
    like.shape.projection = 16;
    like.shape.combine = MOE_COMBINE_CHOICES;
    like.shape.ranks_per_node = 2;
    like.shape.ranks_per_rack = 4;
    add_rows(lookup_set_layer(&set, &like), 3, 0, MOE_A2A_LINEAR, 0);
    if (pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed("packed-latest", bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

static void add_space(void)
{
    static const char text[] = "space s\naxis a 1 2 3 default 2\naxis w x y default x restart\n"
                               "need w=x | a>1\nkey k edges 10 100\nclass c edges 1.5\n";
    struct lookup_layer like = some_layer(96, 0), *layer;
    struct lookup_set set = { .count = 0 };
    const struct declaration *d;
    uint8_t *bytes = NULL;
    size_t size;

    if (declaration_register(text, &d))
        exit(1);
    like.shape.space = d->id;
    like.window = 1;
    layer = lookup_set_layer(&set, &like);
    for (uint32_t i = 0; i < d->plans; i++) {
        struct moe_plan plan = plan_default(&like.shape);

        plan.choice = d->plan[i];
        plan.bucket = i;
        lookup_layer_add(layer, &(struct lookup_entry){ .plan = plan, .flags = i % 2 });
        lookup_layer_pin(layer, &(struct lookup_pin){ 4, 4, plan });
    }
    set.switches.forced = true;
    set.switches.force = plan_default(&like.shape);
    like = some_layer(96, 1);
    add_rows(lookup_set_layer(&set, &like), 3, 1, 0, 0);
    if (pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed("packed-space", bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Rows of launches: packed, and in a database. */
static void add_launches(void)
{
    static const char text[] = "space l\naxis a 1 2 3 default 2\naxis w x y default x restart\n"
                               "need w=x | a>1\nkey k edges 10 100\n";
    struct lookup_layer like = some_layer(96, 0), *layer;
    struct lookup_set set = { .count = 0 };
    const struct declaration *d;
    uint8_t *bytes = NULL;
    size_t size;

    if (declaration_register(text, &d))
        exit(1);
    like.shape.space = d->id;
    like.window = 1;
    layer = lookup_set_layer(&set, &like);
    for (uint32_t i = 0; i < d->plans; i++) {
        struct moe_plan plan = declared_plan(d->id, d->plan[i]);

        plan.bucket = i % 2;
        plan.time_us = (float)i + 0.5f;
        lookup_layer_launch(layer, &(struct lookup_launch){ .plan = plan, .file = d->plans - i });
        if (i < 2)
            lookup_layer_add(layer, &(struct lookup_entry){ .plan = plan });
    }
    if (pack_set(&set, &bytes, &size))
        exit(1);
    fuzz_seed("packed-launch", bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Only what the library reads, on small pages: a flipped byte then means something. */
static const char *const database =
    "PRAGMA page_size=512; PRAGMA application_id=0x6d6f6574; PRAGMA user_version=13;"
    "CREATE TABLE fingerprint(id INTEGER PRIMARY KEY, hash TEXT, here INTEGER);"
    "CREATE TABLE fingerprint_field(id INTEGER PRIMARY KEY, fingerprint INTEGER, name TEXT,"
    "  class TEXT, value TEXT);"
    "CREATE TABLE shape(id INTEGER PRIMARY KEY, text TEXT);"
    "CREATE TABLE space(id INTEGER PRIMARY KEY, text TEXT);"
    "CREATE TABLE entry(id INTEGER PRIMARY KEY, fingerprint INTEGER, shape INTEGER,"
    "  window INTEGER, bucket INTEGER, plan TEXT, time_us REAL, default_us REAL,"
    "  inferred INTEGER, stale INTEGER, decision TEXT, decided_s INTEGER, tier TEXT, other TEXT,"
    "  other_us REAL, no_other INTEGER);"
    "CREATE TABLE override(id INTEGER PRIMARY KEY, fingerprint INTEGER, shape INTEGER,"
    "  window INTEGER, first_bucket INTEGER, last_bucket INTEGER, plan TEXT);"
    "INSERT INTO fingerprint VALUES(1,"
    "  '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', 1);"
    "INSERT INTO fingerprint_field VALUES(1, 1, 'device', 'hard', 'abacus'),"
    "  (2, 1, 'backend', 'hard', 'host'), (3, 1, 'semantics', 'hard', '1');"
    "INSERT INTO shape VALUES(1, 'E=2 k=1 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4');"
    "INSERT INTO entry VALUES(1, 1, 1, 128, 2, 'r=2 d=4 a=2dh', 10.5, 20.5, 0, 0, 'adopted', 7, "
    "'local',"
    "   'r=0 d=1 a=linear', 12.5, 0),"
    "  (2, 1, 1, 128, 3, 'r=4 d=1 a=linear', 11.5, NULL, 1, 0, 'tie', 8, 'imported', NULL, 0, 1),"
    "  (3, 1, 1, 128, 70000, 'r=0 d=1 a=linear e=sparse', 9.5, 30, 0, 1, 'refuted', 9,"
    "   'local', NULL, 0, 0);"
    "INSERT INTO override VALUES(1, 1, 1, 128, 5, 9, 'r=1 d=8 a=linear');";
static const char *const with_launches =
    "INSERT INTO space VALUES(1, 'space l\naxis a 1 2 default 2 live\n"
    "axis w x y default x restart\nkey k edges 10\n');"
    "INSERT INTO shape VALUES(2, 'E=2 k=1 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4"
    " space=l@%08x');"
    "CREATE TABLE launch(fingerprint INTEGER, shape INTEGER, window INTEGER, launch TEXT,"
    "  bucket INTEGER, plan TEXT, time_us REAL);"
    "INSERT INTO launch VALUES(1, 2, 1, 'w=y', 0, 'a=1 w=y space=l@%08x', 5.5),"
    "  (1, 2, 1, 'w=x', 1, 'a=2 w=x space=l@%08x', 6.5);";

static void add_database(const char *name, const char *more)
{
    static uint8_t bytes[FUZZ_INPUT_MAX];
    char path[PATH_MAX];
    sqlite3 *db = NULL;
    FILE *file;

    snprintf(path, sizeof(path), "%s/seed.db", fuzz_folder());
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, database, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, more, NULL, NULL, NULL) != SQLITE_OK)
        exit(1);
    sqlite3_close(db);
    file = fopen(path, "r");
    fuzz_seed(name, bytes, fread(bytes, 1, sizeof(bytes), file));
    fclose(file);
    unlink(path);
}

static void add_databases(void)
{
    const struct declaration *d;
    char more[1024];

    if (declaration_register("space l\naxis a 1 2 default 2 live\naxis w x y default x restart\n"
                             "key k edges 10\n",
                             &d))
        exit(1);
    snprintf(more, sizeof(more), with_launches, d->id, d->id, d->id);
    add_database("database", "");
    add_database("database-launch", more);
}

static void add_plans(void)
{
    static const char *const plans[] = { "r=2 d=4 a=2dh",
                                         "a=linear",
                                         " d=8   r=0 ",
                                         "r=0 e=sparse",
                                         "r=999999999 d=16 a=3dh",
                                         "r=1 r=1 q=",
                                         "r=0 d=4 e=sparse w=cache",
                                         "proto=ll128 r=0 e=sparse proto=" };

    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        char name[32];

        snprintf(name, sizeof(name), "plan-%zu", i + 1);
        fuzz_seed(name, plans[i], strlen(plans[i]));
    }
}

static void make_seeds(void)
{
    add_packed("packed-empty", 0, 0, 0, 0, 0, NULL);
    add_packed("packed-one", 1, 3, 1, MOE_A2A_2DH, 0, NULL);
    add_packed("packed-forced", 1, 2, 0, MOE_A2A_2DH, 0, "r=2 d=4 a=2dh");
    add_packed("packed-many", 4, 40, 6, MOE_A2A_2DH, 0, NULL);
    add_packed("packed-pins", 2, 0, 30, 0, 0, "r=0");
    add_packed("packed-rail", 1, 6, 2, MOE_A2A_RAIL, 0, NULL);
    add_packed("packed-proto", 1, 6, 2, MOE_A2A_2DH, MOE_PROTO_LL128, NULL);
    add_counted();
    add_later();
    add_latest();
    add_space();
    add_launches();
    add_databases();
    add_plans();
}

/* The total in the header must be right before anything else is looked at. */
static void mend_size(struct fuzz_input *in)
{
    if (in->size >= 64 && pack_claims(in->bytes))
        for (int i = 0; i < 4; i++)
            in->bytes[12 + i] = (uint8_t)(in->size >> 8 * i);
}

/* Most damaged databases are accepted in part; they would crowd out the rest. */
static bool is_worth_keeping(const struct fuzz_input *in)
{
    return pack_claims(in->bytes) || !fuzz_draw(16);
}

static void try_one(const uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    const struct fuzz_target target = { .name = "fuzz_lookup",
                                        .one = try_one,
                                        .make_seeds = make_seeds,
                                        .mend = mend_size,
                                        .is_worth_keeping = is_worth_keeping };

    return fuzz_main(argc, argv, &target);
}

#endif
