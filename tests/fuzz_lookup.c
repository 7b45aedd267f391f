/* Hostile bytes for everything that reads bytes from elsewhere: packed tables, databases, plans.
 *
 *     fuzz_lookup FILE...                  gives these inputs to every reader
 *     fuzz_lookup --seconds N [--seed S]   makes inputs from its seeds, for that long
 *     fuzz_lookup --write FOLDER           writes the seeds: tests/corpus/lookup
 *
 * Compiled with -DFUZZ_LIBFUZZER it is only the function that libFuzzer and AFL call. */
#include "cluster.h"
#include "lookup.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "store.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is being tried, for whoever reports that it went wrong. */
static struct {
    const uint8_t *data;
    size_t size;
    unsigned long count, accepted, failed;
} now;

static void save(void)
{
    static const char name[] = "fuzz_lookup.failed";
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0 || write(fd, now.data, now.size) != (ssize_t)now.size)
        return;
    close(fd);
    fprintf(stderr, "  input %lu is in %s\n", now.count, name);
}

static void wrong(const char *what)
{
    now.failed++;
    fprintf(stderr, "  FAILED %s\n", what);
    save();
#ifdef FUZZ_LIBFUZZER
    abort();
#endif
}

/* ---- what must hold for a table that was accepted */

/* Written again from DESIGN.md, so that no mistake of plan.c's hides here. */
static bool legal(const struct moe_plan *plan, const struct moe_shape *shape)
{
    uint32_t s = shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
    uint32_t m = shape->ranks_per_node;

    if ((plan->d != 1 && plan->d != 2 && plan->d != 4 && plan->d != 8) || plan->a > MOE_A2A_2DH)
        return false;
    if (plan->r == 0)
        return true;
    return s % plan->r == 0 &&
           (plan->a == MOE_A2A_LINEAR || (m > 1 && shape->ranks > m && shape->ranks % m == 0));
}

static void try_capacity(const struct moelookup_view *view, const struct moe_shape *shape,
                         uint32_t capacity)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    char text[300];
    int length = moelookup_explain(view, capacity, text, sizeof(text));

    if (moelookup_get(view, capacity, &plan) != MOE_OK || !legal(&plan, shape))
        wrong("an illegal plan");
    if (!(plan.time_us >= 0) || !(plan.default_us >= 0) || plan.source > MOE_IMPORTED)
        wrong("an answer without sense");
    if (length <= 0 || (length < (int)sizeof(text) && strlen(text) != (size_t)length) ||
        strchr(text, '\n'))
        wrong("an explanation that is not one line");
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
        wrong("a layer that cannot be bound");
    for (size_t i = 0; view && i < sizeof(capacities) / sizeof(capacities[0]); i++)
        try_capacity(view, &layer->shape, capacities[i]);
    moelookup_view_free(view);
}

static void try_rows(const struct moelookup *table, const uint8_t *bytes)
{
    uint32_t layers = pack_layer_count(bytes);

    for (uint32_t i = 0; i < layers && i < 16; i++) {
        struct lookup_layer layer = pack_layer(bytes, i);
        struct moelookup_view *view = NULL;

        try_layer(table, &layer);
        if (moelookup_bind(table, &layer.shape, NULL, &view) == MOE_OK && layer.entry_count)
            try_capacity(view, &layer.shape, pack_entry(bytes, i, 0).bucket);
        moelookup_view_free(view);
    }
}

/* Packs, unpacks, packs: the same bytes.  `from` is NULL if the table came from a database. */
static void try_table(const struct moelookup *table, const uint8_t *from, size_t from_size)
{
    struct moelookup *again = NULL;
    size_t size = 0, room;
    uint8_t *bytes, *twice;

    now.accepted++;
    moelookup_pack(table, NULL, &size);
    bytes = malloc(size);
    twice = malloc(size);
    room = size;
    if (moelookup_pack(table, bytes, &room) || moelookup_unpack(bytes, size, &again))
        wrong("a table that cannot be packed");
    if (again &&
        (moelookup_pack(again, twice, &room) || room != size || memcmp(bytes, twice, size)))
        wrong("a table that packs to other bytes");
    if (from && (from_size != size || memcmp(from, bytes, size) != 0))
        wrong("bytes that are not what pack writes");
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
        wrong("unpack ends neither in a table nor in MOE_ERR_FORMAT");
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
    struct moe_plan plan = { .r = 77 }, again;
    char *text = malloc(size + 1), words[PLAN_TEXT_BYTES];

    memcpy(text, data, size);
    text[size] = 0;
    if (moe_plan_parse(text, &plan)) {
        if (plan.r != 77)
            wrong("a refused plan that was written");
    } else if (moe_plan_format(&plan, words, sizeof(words)) <= 0 || moe_plan_parse(words, &again) ||
               !plan_equal(&plan, &again)) {
        wrong("a plan that does not survive its text");
    }
    free(text);
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void try_open(const char *path)
{
    struct moelookup *table = NULL;
    int rc = moelookup_open(path, &table);

    if (rc && ((rc != MOE_ERR_FORMAT && rc != MOE_ERR_IO) || table))
        wrong("open ends neither in a table nor in an error of its own");
    if (!rc)
        try_table(table, NULL, 0);
    moelookup_close(table);
}

static const char *folder(void)
{
    static char name[] = "/tmp/moetune-fuzz-XXXXXX";
    static bool made;

    if (!made && !mkdtemp(name)) {
        perror(name);
        exit(1);
    }
    made = true;
    return name;
}

/* As a snapshot, whose pages are checked first, and as a work database, whose pages are not. */
static void try_file(const uint8_t *data, size_t size)
{
    char snapshot[PATH_MAX], work[PATH_MAX];

    snprintf(snapshot, sizeof(snapshot), "%s/x.db.published", folder());
    snprintf(work, sizeof(work), "%s/x.db", folder());
    write_file(snapshot, data, size);
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
    if (!now.count++)
        setenv("MOELOOKUP_LOG", "never", 1);
    now.data = data;
    now.size = size;
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

enum { SEEDS_MAX = 256, INPUT_MAX = 1 << 16 };

struct seed {
    char name[32];
    uint8_t *bytes;
    size_t size;
};

static struct seed seeds[SEEDS_MAX];
static uint32_t seed_count;

static void set_seed(struct seed *s, const char *name, const void *bytes, size_t size)
{
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->bytes = malloc(size + 1);
    memcpy(s->bytes, bytes, size);
    s->size = size;
}

static void add_seed(const char *name, const void *bytes, size_t size)
{
    set_seed(&seeds[seed_count++], name, bytes, size);
}

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

static void add_rows(struct lookup_layer *layer, uint32_t entries, uint32_t pins)
{
    for (uint32_t i = 0; i < entries; i++)
        lookup_layer_add(layer, &(struct lookup_entry){ .bucket = 3 * i,
                                                        .r = 1u << i % 3,
                                                        .d = (uint8_t)(1u << i % 4),
                                                        .a = i % 2,
                                                        .flags = i % 4,
                                                        .time_us = 10.5f + (float)i,
                                                        .default_us = 20.5f });
    for (uint32_t i = 0; i < pins; i++)
        lookup_layer_pin(layer, &(struct lookup_pin){ 5 * i, 5 * i + 3, i % 3, 1, 0 });
}

static void add_packed(const char *name, uint32_t layers, uint32_t entries, uint32_t pins,
                       const char *force)
{
    struct lookup_set set = { .switches.forced = force != NULL };
    uint8_t *bytes = NULL;
    size_t size;

    for (uint32_t i = 0; i < layers; i++) {
        struct lookup_layer like = some_layer(96 * (i / 2 + 1), (uint8_t)(i % 2));

        add_rows(lookup_set_layer(&set, &like), entries, pins);
    }
    if ((force && moe_plan_parse(force, &set.switches.force)) || pack_set(&set, &bytes, &size))
        exit(1);
    add_seed(name, bytes, size);
    free(bytes);
    lookup_set_free(&set);
}

/* Only what the library reads, on small pages: a flipped byte then means something. */
static const char *const database =
    "PRAGMA page_size=512; PRAGMA application_id=0x6d6f6574; PRAGMA user_version=1;"
    "CREATE TABLE fingerprint(id INTEGER PRIMARY KEY, hash TEXT, text TEXT, created_s INTEGER);"
    "CREATE TABLE fingerprint_field(id INTEGER PRIMARY KEY, fingerprint INTEGER, name TEXT,"
    "  class TEXT, value TEXT);"
    "CREATE TABLE shape(id INTEGER PRIMARY KEY, text TEXT);"
    "CREATE TABLE entry(id INTEGER PRIMARY KEY, fingerprint INTEGER, shape INTEGER,"
    "  window INTEGER, bucket INTEGER, plan TEXT, time_us REAL, default_us REAL,"
    "  inferred INTEGER, stale INTEGER, decision TEXT);"
    "CREATE TABLE override(id INTEGER PRIMARY KEY, fingerprint INTEGER, shape INTEGER,"
    "  window INTEGER, first_bucket INTEGER, last_bucket INTEGER, plan TEXT);"
    "INSERT INTO fingerprint VALUES(1,"
    "  '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', '', 0);"
    "INSERT INTO fingerprint_field VALUES(1, 1, 'device', 'hard', 'abacus'),"
    "  (2, 1, 'backend', 'hard', 'host'), (3, 1, 'semantics', 'hard', '1');"
    "INSERT INTO shape VALUES(1, 'E=2 k=1 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4');"
    "INSERT INTO entry VALUES(1, 1, 1, 128, 2, 'r=2 d=4 a=2dh', 10.5, 20.5, 0, 0, 'adopted'),"
    "  (2, 1, 1, 128, 3, 'r=4 d=1 a=linear', 11.5, NULL, 1, 0, 'tie'),"
    "  (3, 1, 1, 128, 70000, 'r=0 d=1 a=linear', 9.5, 30, 0, 1, 'refuted');"
    "INSERT INTO override VALUES(1, 1, 1, 128, 5, 9, 'r=1 d=8 a=linear');";

static void add_database(void)
{
    static uint8_t bytes[INPUT_MAX];
    char path[PATH_MAX];
    sqlite3 *db = NULL;
    FILE *file;

    snprintf(path, sizeof(path), "%s/seed.db", folder());
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, database, NULL, NULL, NULL) != SQLITE_OK)
        exit(1);
    sqlite3_close(db);
    file = fopen(path, "r");
    add_seed("database", bytes, fread(bytes, 1, sizeof(bytes), file));
    fclose(file);
    unlink(path);
}

static void add_plans(void)
{
    static const char *const plans[] = { "r=2 d=4 a=2dh", "a=linear", " d=8   r=0 ",
                                         "r=999999999 d=16 a=3dh", "r=1 r=1 q=" };

    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        char name[32];

        snprintf(name, sizeof(name), "plan-%zu", i + 1);
        add_seed(name, plans[i], strlen(plans[i]));
    }
}

static void make_seeds(void)
{
    add_packed("packed-empty", 0, 0, 0, NULL);
    add_packed("packed-one", 1, 3, 1, NULL);
    add_packed("packed-forced", 1, 2, 0, "r=2 d=4 a=2dh");
    add_packed("packed-many", 4, 40, 6, NULL);
    add_packed("packed-pins", 2, 0, 30, "r=0");
    add_database();
    add_plans();
}

/* ---- mutation */

static uint64_t key, drawn;

static uint32_t draw(uint32_t below)
{
    return below ? random_below(key, drawn++, below) : 0;
}

struct input {
    uint8_t bytes[INPUT_MAX];
    size_t size;
};

static size_t draw_place(const struct input *in)
{
    /* Headers decide more than what follows. */
    return draw(in->size > 300 && draw(3) == 0 ? 300 : (uint32_t)in->size);
}

static void flip_bit(struct input *in)
{
    in->bytes[draw_place(in)] ^= (uint8_t)(1u << draw(8));
}

static void set_byte(struct input *in)
{
    in->bytes[draw_place(in)] = (uint8_t)(draw(2) ? draw(256) : draw(3) - 1);
}

/* A number as counts, sizes and offsets are written, in either order of bytes. */
static void set_number(struct input *in)
{
    static const uint32_t edges[] = { 0,   1,          2,          0x7f,       0xff,  0xffff,
                                      192, 0x7fffffff, 0x80000000, 0xffffffff, 65536, 4096 };
    uint32_t value = draw(2) ? edges[draw(12)] : (uint32_t)in->size + draw(9) - 4;
    size_t at = draw_place(in) & ~(size_t)3;
    bool big = draw(2);

    for (size_t i = 0; i < 4 && at + i < in->size; i++)
        in->bytes[at + i] = (uint8_t)(value >> 8 * (big ? 3 - i : i));
}

static void copy_block(struct input *in)
{
    size_t from = draw_place(in), to = draw_place(in), most = in->size - (from > to ? from : to);

    memmove(in->bytes + to, in->bytes + from, draw((uint32_t)(most < 64 ? most : 64)));
}

static void delete_block(struct input *in)
{
    size_t at = draw_place(in), left = in->size - at, n = draw((uint32_t)(left < 64 ? left : 64));

    memmove(in->bytes + at, in->bytes + at + n, left - n);
    in->size -= n;
}

static void insert_block(struct input *in)
{
    size_t at = draw_place(in), n = draw(2) ? 20 : draw(64);

    if (in->size + n > INPUT_MAX)
        return;
    memmove(in->bytes + at + n, in->bytes + at, in->size - at);
    in->size += n;
}

static void truncate_input(struct input *in)
{
    in->size = draw_place(in);
}

static void join_seed(struct input *in)
{
    const struct seed *s = &seeds[draw(seed_count)];
    size_t at = draw_place(in), from = draw((uint32_t)s->size), n = s->size - from;

    n = n < INPUT_MAX - at ? n : INPUT_MAX - at;
    memcpy(in->bytes + at, s->bytes + from, n);
    in->size = at + n > in->size || draw(2) ? at + n : in->size;
}

/* The total in the header must be right before anything else is looked at. */
static void mend_size(struct input *in)
{
    if (in->size >= 64 && pack_claims(in->bytes))
        for (int i = 0; i < 4; i++)
            in->bytes[12 + i] = (uint8_t)(in->size >> 8 * i);
}

static void mutate(struct input *in)
{
    static void (*const ways[])(
        struct input *) = { flip_bit,   flip_bit,     set_byte,     set_number,     set_number,
                            copy_block, delete_block, insert_block, truncate_input, join_seed };
    const struct seed *s = &seeds[draw(seed_count)];

    memcpy(in->bytes, s->bytes, s->size);
    in->size = s->size;
    for (uint32_t i = 1 + draw(draw(4) ? 3 : 12); i > 0 && in->size; i--)
        ways[draw(sizeof(ways) / sizeof(ways[0]))](in);
    if (draw(4))
        mend_size(in);
}

/* What was accepted after all is worth going on from; the first seeds stay. */
static void keep(const struct input *in, uint32_t first)
{
    struct seed *old;

    if (seed_count < SEEDS_MAX) {
        add_seed("found", in->bytes, in->size);
        return;
    }
    old = &seeds[first + draw(SEEDS_MAX - first)];
    free(old->bytes);
    set_seed(old, "found", in->bytes, in->size);
}

static void fuzz(long seconds)
{
    static struct input in;
    time_t end = time(NULL) + seconds;
    uint32_t first = seed_count;

    do {
        unsigned long accepted = now.accepted;
        uint8_t *exact;

        mutate(&in);
        exact = malloc(in.size ? in.size : 1); /* so that a read past the end is seen */
        memcpy(exact, in.bytes, in.size);
        alarm(60); /* stuck */
        LLVMFuzzerTestOneInput(exact, in.size);
        free(exact);
        /* Most damaged databases are accepted in part; they would crowd out the rest. */
        if (now.accepted > accepted && (pack_claims(in.bytes) || !draw(16)))
            keep(&in, first);
    } while (time(NULL) < end && now.failed < 10);
    alarm(0);
}

/* ---- main */

static void replay(const char *path)
{
    static uint8_t bytes[1 << 22];
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
    uint8_t *exact = malloc(size ? size : 1);

    if (!file) {
        perror(path);
        now.failed++;
    } else {
        fclose(file);
        memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
}

static void write_seeds(const char *to)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < seed_count; i++) {
        snprintf(path, sizeof(path), "%.4000s/%.31s", to, seeds[i].name);
        write_file(path, seeds[i].bytes, seeds[i].size);
    }
}

/* There in a sanitized build only. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void save_on_signal(int number)
{
    save();
    signal(number, SIG_DFL);
    raise(number);
}

static void save_whatever_ends_us(void)
{
    static const int signals[] = { SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE };

    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (!__sanitizer_set_death_callback || signals[i] == SIGALRM)
            signal(signals[i], save_on_signal);
}

static int finish(void)
{
    for (uint32_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    rmdir(folder());
    printf("  seed %llu, %lu inputs, %lu tables accepted\n", (unsigned long long)key, now.count,
           now.accepted);
    printf("%d passed, %d failed\n", !now.failed, now.failed != 0);
    return now.failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    long seconds = argc > 1 ? 0 : 10;

    key = (uint64_t)time(NULL);
    save_whatever_ends_us();
    make_seeds();
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;

        if (more && !strcmp(argv[i], "--seconds"))
            seconds = atol(argv[++i]);
        else if (more && !strcmp(argv[i], "--seed"))
            key = strtoull(argv[++i], NULL, 10);
        else if (more && !strcmp(argv[i], "--write"))
            write_seeds(argv[++i]);
        else
            replay(argv[i]);
    }
    if (seconds)
        fuzz(seconds);
    return finish();
}

#endif
