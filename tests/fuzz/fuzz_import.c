/* Hostile tables for the importer.  Most inputs are mended so that checksum, counts, hashes and
 * order are right: what lies behind those checks is what is looked for. */
#include "cluster.h"
#include "export.h"
#include "fuzzer.h"
#include "import.h"
#include "json.h"
#include "plan.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "store.h"

#include <ctype.h>
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

    if (plan->r == 0)
        return plan->d == 1 && plan->a == MOE_A2A_LINEAR;
    if (s % plan->r || !(plan->d == 1 || plan->d == 2 || plan->d == 4 || plan->d == 8))
        return false;
    return plan->a == MOE_A2A_LINEAR ||
           (plan->a == MOE_A2A_2DH && m > 1 && shape->ranks > m && shape->ranks % m == 0);
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
    if (s.run || !s.rounds || s.decided_s < 1 || (isnan(s.gain) && isnan(s.static_gain)) ||
        !is_interval(s.gain, s.gain_low, s.gain_high) ||
        !is_interval(s.static_gain, s.static_gain_low, s.static_gain_high))
        fuzz_wrong("a standing without sense");
    if (isnan(s.static_gain) ? s.static_plan.struct_size : !is_legal(&s.static_plan, shape))
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
    check_standing(store, e, &shape);
    return OK;
}

/* One line per row and no byte that moves a terminal's cursor, in either form. */
static void other_forms_hold(struct store *store)
{
    const struct export_options all = { .identify = true };
    struct text t = { NULL, 0 };
    FILE *memory = open_memstream(&t.bytes, &t.size);

    if (export_csv(store, &all, memory) || export_header(store, &all, memory))
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

    log_only(false);
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
                           .gain = .1,
                           .gain_low = -.05,
                           .gain_high = .2,
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
                                .gain = .11,
                                .gain_low = .09,
                                .gain_high = .13,
                                .static_gain = NAN,
                                .static_gain_low = NAN,
                                .static_gain_high = NAN,
                                .rounds = 8 + number,
                                .decided_s = 1700000001 + number };

    if (number % 2) {
        row.static_gain = .012;
        row.static_gain_low = -.003;
        row.static_gain_high = .021;
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

        if (store_cluster(store, &c, &e.cluster) || store_shape(store, &shape, &e.shape) ||
            store_entry(store, &e, "seed"))
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
    log_only(false);
    add_seed("one.jsonl", 1, 1, 1, 0);
    add_seed("some.jsonl", 1, 2, 5, 0);
    add_seed("identified.jsonl", 2, 2, 2, SEED_IDENTIFIED);
    add_seed("many.jsonl", 3, 3, 4, 0);
    add_seed("standing.jsonl", 1, 1, 1, SEED_STANDINGS);
    add_seed("standings.jsonl", 2, 2, 2, SEED_STANDINGS);
}

/* ---- lines */

enum { LINES_MAX = 1024 };

struct lines {
    struct text list[LINES_MAX]; /* without their ends */
    size_t count;
};

static struct lines split(const struct fuzz_input *in)
{
    const char *at = (const char *)in->bytes, *end = at + in->size;
    struct lines lines = { .count = 0 };

    while (at < end && lines.count < LINES_MAX) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        char *copy = malloc(size + 1);

        memcpy(copy, at, size);
        copy[size] = 0;
        lines.list[lines.count++] = (struct text){ copy, size };
        at += size + 1;
    }
    return lines;
}

/* Frees them. */
static void join(struct lines *lines, struct fuzz_input *in)
{
    in->size = 0;
    for (size_t i = 0; i < lines->count; i++) {
        struct text t = lines->list[i];

        if (in->size + t.size + 1 <= FUZZ_INPUT_MAX) {
            memcpy(in->bytes + in->size, t.bytes, t.size);
            in->bytes[in->size + t.size] = '\n';
            in->size += t.size + 1;
        }
        free(t.bytes);
    }
}

static size_t draw_line(const struct lines *lines)
{
    return fuzz_draw((uint32_t)lines->count);
}

static void repeat_line(struct fuzz_input *in)
{
    struct lines lines = split(in);
    size_t from = draw_line(&lines);

    if (lines.count && lines.count < LINES_MAX) {
        lines.list[lines.count] = (struct text){ strdup(lines.list[from].bytes), 0 };
        lines.list[lines.count].size = strlen(lines.list[lines.count].bytes);
        lines.count++;
    }
    join(&lines, in);
}

static void drop_line(struct fuzz_input *in)
{
    struct lines lines = split(in);
    size_t at = draw_line(&lines);

    if (lines.count > 1) {
        free(lines.list[at].bytes);
        memmove(&lines.list[at], &lines.list[at + 1], (lines.count - at - 1) * sizeof(struct text));
        lines.count--;
    }
    join(&lines, in);
}

static void swap_lines(struct fuzz_input *in)
{
    struct lines lines = split(in);
    size_t a = draw_line(&lines), b = draw_line(&lines);
    struct text t = lines.list[a];

    lines.list[a] = lines.list[b];
    lines.list[b] = t;
    join(&lines, in);
}

/* ---- values */

static void replace(struct fuzz_input *in, size_t at, size_t length, const char *with)
{
    size_t n = strlen(with);

    if (in->size - length + n > FUZZ_INPUT_MAX)
        return;
    memmove(in->bytes + at + n, in->bytes + at + length, in->size - at - length);
    memcpy(in->bytes + at, with, n);
    in->size += n - length;
}

/* The next place from somewhere on where a value begins: after ':'. */
static bool draw_value(const struct fuzz_input *in, size_t *at, size_t *length)
{
    size_t from = fuzz_draw((uint32_t)in->size), i = from;
    bool quoted;

    while (i + 1 < in->size && in->bytes[i] != ':')
        i++;
    if (++i >= in->size)
        return false;
    *at = i;
    quoted = in->bytes[i] == '"';
    for (i++; i < in->size && (quoted ? in->bytes[i] != '"' : !strchr(",}\n", in->bytes[i]));)
        i++;
    *length = i - *at + (quoted && i < in->size);
    return true;
}

static void set_value(struct fuzz_input *in)
{
    static const char *const values[] = { "0",
                                          "1",
                                          "-1",
                                          "-0",
                                          "-0.0004",
                                          "0.1",
                                          "-1000000",
                                          "1.0000004",
                                          "1.0005",
                                          "100.0004999",
                                          "123456789012.123456",
                                          "999999999999.9999",
                                          "9007199254740993",
                                          "0.0000005",
                                          "127",
                                          "128",
                                          "4294967294",
                                          "4294967295",
                                          "4294967296",
                                          "1e3",
                                          "1e12",
                                          "1e308",
                                          "1e-320",
                                          "1E999",
                                          "null",
                                          "true",
                                          "false",
                                          "{}",
                                          "[]",
                                          "{\"a\":{}}",
                                          "\"\"",
                                          "\"unknown\"",
                                          "\"adopted\"",
                                          "\"thorough\"",
                                          "\"refuted\"",
                                          "\"static\"",
                                          "\"a = b\\nranks = 7\"",
                                          "\"x # y\"",
                                          "\"=1+1\"",
                                          "\" \"",
                                          "\"\\u0000\"",
                                          "\"\\u0085\\u009b2J\"",
                                          "\"\\ud83d\\ude00\"",
                                          "\"*/ int x;\"",
                                          "\"'); DROP TABLE entry; --\"",
                                          "\"<script>alert(1)</script>\"",
                                          "\"../../etc/passwd\"",
                                          "\"r=2 d=4 a=2dh\"",
                                          "\"r=0 d=1 a=linear\"",
                                          "\"r=4 d=1 a=linear\"",
                                          "\"r=1  d=2\"",
                                          "\"d=2 r=1\"" };
    size_t at, length;

    if (draw_value(in, &at, &length))
        replace(in, at, length, values[fuzz_draw(sizeof(values) / sizeof(values[0]))]);
}

/* One digit another: a number nearby. */
static void set_digit(struct fuzz_input *in)
{
    size_t at = fuzz_draw((uint32_t)in->size);

    while (at < in->size && !isdigit(in->bytes[at]))
        at++;
    if (at < in->size)
        in->bytes[at] = (uint8_t)('0' + fuzz_draw(10));
}

/* What one member says, another does. */
static void copy_value(struct fuzz_input *in)
{
    size_t from, to, length, room;
    char value[128];

    if (!draw_value(in, &from, &length) || length >= sizeof(value) || !draw_value(in, &to, &room))
        return;
    memcpy(value, in->bytes + from, length);
    value[length] = 0;
    if (!memchr(value, 0, length))
        replace(in, to, room, value);
}

static fuzz_way *const ways[] = { repeat_line, drop_line, swap_lines, set_value,
                                  set_value,   set_digit, set_digit,  copy_value };

/* ---- mending */

static bool is_cluster(const struct text *t)
{
    return !strncmp(t->bytes, "{\"fingerprint\":\"", 16) && t->size > 16 + 64;
}

static bool is_entry(const struct text *t)
{
    return !strncmp(t->bytes, "{\"cluster\":", 11);
}

static bool is_standing(const struct text *t)
{
    return !strncmp(t->bytes, "{\"standing_of\":", 15);
}

struct fields {
    char text[2 * CLUSTER_TEXT_BYTES];
    size_t used;
};

static int on_field(void *self, const struct json_value *v)
{
    struct fields *f = self;

    if (v->depth == 2 && v->kind == JSON_STRING && f->used < sizeof(f->text))
        f->used += (size_t)snprintf(f->text + f->used, sizeof(f->text) - f->used, "%s = %s\n",
                                    v->key, v->value);
    return OK;
}

/* The hash of its fields into a fingerprint's line, and into all lines that name the old one. */
static void mend_hash(struct lines *lines, size_t at)
{
    struct text *t = &lines->list[at];
    struct fields fields = { .used = 0 };
    struct cluster cluster;
    uint8_t hash[HASH_BYTES];
    char was[65] = "", is[SHA256_HEX_BYTES];

    if (json_read(t->bytes, t->size, NULL, on_field, &fields) ||
        cluster_parse(fields.text, "mended", &cluster))
        return;
    cluster_hash(&cluster, hash);
    sha256_hex(hash, is);
    memcpy(was, t->bytes + 16, 64);
    for (size_t i = at; i < lines->count; i++) {
        char *found = strstr(lines->list[i].bytes, was);

        if (found)
            memcpy(found, is, 64);
    }
}

struct key {
    int kind;
    char cluster[65], layer[SHAPE_TEXT_BYTES];
    double window, bucket;
};

static struct key key_of(const struct text *t)
{
    enum { CLUSTER, ENTRY, STANDING, OTHER };
    struct key k = { .kind = is_cluster(t)
                                 ? CLUSTER
                                 : (is_entry(t) ? ENTRY : (is_standing(t) ? STANDING : OTHER)) };

    if (k.kind == CLUSTER)
        memcpy(k.cluster, t->bytes + 16, 64);
    else if (sscanf(
                 t->bytes,
                 "{\"%*[a-z_]\":\"%64[^\"]\",\"layer\":\"%159[^\"]\",\"window\":%lf,\"bucket\":%lf",
                 k.cluster, k.layer, &k.window, &k.bucket) < 1)
        k.kind = OTHER;
    return k;
}

static int by_key(const void *a, const void *b)
{
    struct key x = key_of(a), y = key_of(b);
    int by = x.kind - y.kind;

    by = by ? by : strcmp(x.cluster, y.cluster);
    by = by ? by : strcmp(x.layer, y.layer);
    by = by ? by : (x.window > y.window) - (x.window < y.window);
    return by ? by : (x.bucket > y.bucket) - (x.bucket < y.bucket);
}

static void drop_repeated(struct lines *lines)
{
    size_t kept = 2;

    for (size_t i = 2; i < lines->count; i++)
        if (by_key(&lines->list[kept - 1], &lines->list[i]))
            lines->list[kept++] = lines->list[i];
        else
            free(lines->list[i].bytes);
    lines->count = kept;
}

static bool holds(const struct fuzz_input *in, const char *text)
{
    return memmem(in->bytes, in->size, text, strlen(text)) != NULL;
}

static int version_of(const struct fuzz_input *in)
{
    if (!holds(in, "\"throttled\":"))
        return 1;
    return holds(in, "\"sample_of\":") && !holds(in, "\"lost_ns\":") ? 2 : EXPORT_VERSION;
}

/* A first line that vouches for what follows it, in the version that its lines are of. */
static void seal(struct fuzz_input *in, const struct lines *lines)
{
    uint8_t *body = memchr(in->bytes, '\n', in->size);
    unsigned clusters = 0, entries = 0, standings = 0;
    int version = version_of(in);
    uint8_t hash[SHA256_BYTES];
    char header[300], hex[SHA256_HEX_BYTES], since_3[40] = "";
    struct sha256 sum;

    for (size_t i = 1; i < lines->count; i++) {
        clusters += is_cluster(&lines->list[i]);
        entries += is_entry(&lines->list[i]);
        standings += is_standing(&lines->list[i]);
    }
    sha256_init(&sum);
    sha256_add(&sum, body + 1, in->size - (size_t)(body + 1 - in->bytes));
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
    if (version >= 3)
        snprintf(since_3, sizeof(since_3), "\"standings\":%u,", standings);
    snprintf(header, sizeof(header),
             "{\"format\":\"moetune-table\",\"version\":%d,\"semantics\":%d,\"clusters\":%u,"
             "\"entries\":%u,%s\"sha256\":\"%s\"}",
             version, CLUSTER_SEMANTICS, clusters, entries, since_3, hex);
    replace(in, 0, (size_t)(body - in->bytes), header);
}

static void mend(struct fuzz_input *in)
{
    struct lines lines = split(in), again;

    if (fuzz_draw(8))
        for (size_t i = 1; i < lines.count; i++)
            if (is_cluster(&lines.list[i]))
                mend_hash(&lines, i);
    if (lines.count > 2 && fuzz_draw(8)) {
        qsort(lines.list + 1, lines.count - 1, sizeof(lines.list[0]), by_key);
        drop_repeated(&lines);
    }
    join(&lines, in);
    again = split(in);
    if (memchr(in->bytes, '\n', in->size))
        seal(in, &again);
    for (size_t i = 0; i < again.count; i++)
        free(again.list[i].bytes);
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
                                        .ways = ways,
                                        .way_count = sizeof(ways) / sizeof(ways[0]),
                                        .mend = mend,
                                        .is_worth_keeping = is_worth_keeping };
    int rc = fuzz_main(argc, argv, &target);

    free(previous.bytes);
    free(base_text.bytes);
    store_close(base);
    return rc;
}

#endif
