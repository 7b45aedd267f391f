/* Reads a table line by line into memory, checks every member against one list of fields, and
 * places the whole in the store. */
#include "import.h"

#include "export.h"
#include "json.h"
#include "plan.h"
#include "sha256.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4 << 20, CLUSTERS_MAX = 1 << 12, LINE_MAX = 1 << 16 };

struct known_cluster {
    char hash[SHA256_HEX_BYTES];
    struct cluster cluster;
    int64_t id;
};

struct incoming {
    size_t cluster; /* index */
    struct moe_shape shape;
    struct entry_row row;
    enum merge_outcome outcome; /* once it is placed */
};

struct incoming_standing {
    size_t table; /* index of its first entry */
    struct standing_row row;
};

struct import_table;

/* How the first line of a version reads, and how the others do. */
struct version {
    int64_t number;
    int (*header)(struct import_table *r, const char *text, size_t length);
    int (*line)(struct import_table *r, const char *text, size_t length);
};

/* Begun as what reads the lines, and what they said in the end. */
struct import_table {
    char origin[256]; /* for messages: a file's name */
    struct known_cluster *clusters;
    struct incoming *entries;
    struct incoming_standing *standings;
    size_t cluster_count, cluster_room, entry_count, entry_room, standing_count, standing_room;
    uint32_t line;
    char layer[SHAPE_TEXT_BYTES]; /* of the entry before, which is mostly this one's */
    /* The header says: */
    int64_t wanted_clusters, wanted_entries, wanted_standings;
    const struct version *version;
    char sha256[SHA256_HEX_BYTES];
};

/* ---- one line: an object of known members, each once */

enum kind {
    KIND_TEXT,
    KIND_WORD,
    KIND_DECISION,
    KIND_PLAN,
    KIND_PLAN_OR_NULL,
    KIND_COUNT,
    KIND_TIME,
    KIND_SHARE,
    KIND_BOOL
};

struct member {
    const char *name;
    enum kind kind;
    void *to;
    size_t size; /* of a text's room */
    double most; /* of a count */
};

struct object {
    const struct import_table *table;
    const struct member *members;
    size_t count, next; /* next: where the following member probably is */
    uint64_t seen;
    /* A member that is itself an object of texts: lines "name = value". */
    const char *inner;
    char *inner_text;
    size_t inner_size, inner_used;
};

static int wrong(const struct import_table *table, const char *field, const char *why)
{
    return fail(ERR_FORMAT, "%s, line %u: \"%.40s\" %s", table->origin, table->line, field, why);
}

/* What is printed later must be text, and must not move a terminal's cursor or end a line. */
static bool is_plain(const struct json_value *v)
{
    const unsigned char *c = (const unsigned char *)v->value, *end = c + v->length;

    while (c < end) {
        size_t bytes = utf8_bytes(c);

        if (!bytes || utf8_is_control(c))
            return false;
        c += bytes;
    }
    return true;
}

static int take_text(const struct object *o, const struct member *m, const struct json_value *v)
{
    if (v->kind != JSON_STRING || v->length >= m->size || !is_plain(v))
        return wrong(o->table, m->name, "is no text that fits");
    memcpy(m->to, v->value, v->length + 1);
    return OK;
}

static int take_word(const struct object *o, const struct member *m, const struct json_value *v)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_";

    TRY(take_text(o, m, v));
    return strspn(m->to, allowed) == v->length ? OK : wrong(o->table, m->name, "is no word");
}

/* All that an entry ever was, whichever version its table is of. */
static int take_decision(const struct object *o, const struct member *m, const struct json_value *v)
{
    static const char *const words[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                         "static",  "tie",    "inferred", "refuted" };

    TRY(take_text(o, m, v));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(m->to, words[i]))
            return OK;
    return wrong(o->table, m->name, "is no decision");
}

static int take_plan(const struct object *o, const struct member *m, const struct json_value *v)
{
    struct moe_plan plan;

    if (v->kind == JSON_NULL && m->kind == KIND_PLAN_OR_NULL) {
        *(struct moe_plan *)m->to = (struct moe_plan){ 0 };
        return OK;
    }
    if (v->kind != JSON_STRING || strlen(v->value) != v->length || plan_parse(v->value, &plan))
        return wrong(o->table, m->name, "is no plan");
    *(struct moe_plan *)m->to = plan;
    return OK;
}

static int take_count(const struct object *o, const struct member *m, const struct json_value *v)
{
    double value = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (!(value >= 0 && value <= m->most) || value != floor(value))
        return wrong(o->table, m->name, "is no whole number in range");
    if (m->size == sizeof(uint32_t))
        *(uint32_t *)m->to = (uint32_t)value;
    else
        *(int64_t *)m->to = (int64_t)value;
    return OK;
}

static int take_number(const struct object *o, const struct member *m, const struct json_value *v)
{
    double value = v->kind == JSON_NUMBER ? json_number(v) : (double)NAN;
    bool time = m->kind == KIND_TIME;

    if (v->kind != JSON_NULL && !(isfinite(value) && fabs(value) < 1e12 && (!time || value >= 0)))
        return wrong(o->table, m->name, "is no number in range");
    /* What is compared must be what is written again. */
    *(double *)m->to = export_rounded(value, time ? TIME_DECIMALS : SHARE_DECIMALS);
    return OK;
}

static int take_bool(const struct object *o, const struct member *m, const struct json_value *v)
{
    if (v->kind != JSON_TRUE && v->kind != JSON_FALSE)
        return wrong(o->table, m->name, "is neither true nor false");
    *(bool *)m->to = v->kind == JSON_TRUE;
    return OK;
}

static int take(const struct object *o, const struct member *m, const struct json_value *v)
{
    switch (m->kind) {
    case KIND_TEXT: return take_text(o, m, v);
    case KIND_WORD: return take_word(o, m, v);
    case KIND_DECISION: return take_decision(o, m, v);
    case KIND_PLAN:
    case KIND_PLAN_OR_NULL: return take_plan(o, m, v);
    case KIND_COUNT: return take_count(o, m, v);
    case KIND_TIME:
    case KIND_SHARE: return take_number(o, m, v);
    case KIND_BOOL: return take_bool(o, m, v);
    }
    return ERR_FORMAT;
}

/* "name = value", as the text form of a cluster wants it; '#' would begin a comment there. */
static int take_inner(struct object *o, const struct json_value *v)
{
    if (v->kind != JSON_STRING || !v->key || strlen(v->value) != v->length || !is_plain(v) ||
        strchr(v->value, '#'))
        return wrong(o->table, v->key ? v->key : o->inner, "is no text that fits");
    o->inner_used += (size_t)snprintf(o->inner_text + o->inner_used, o->inner_size - o->inner_used,
                                      "%s = %s\n", v->key, v->value);
    return o->inner_used < o->inner_size ? OK : wrong(o->table, v->key, "is too long");
}

/* Members mostly come in the list's order. */
static int take_member(struct object *o, const struct json_value *v)
{
    for (size_t k = 0; k < o->count; k++) {
        size_t i = (o->next + k) % o->count;

        if (strcmp(o->members[i].name, v->key) != 0)
            continue;
        if (o->seen >> i & 1)
            return wrong(o->table, v->key, "comes twice");
        o->seen |= (uint64_t)1 << i;
        o->next = i + 1;
        return take(o, &o->members[i], v);
    }
    return wrong(o->table, v->key, "is not known to this version");
}

static int on_value(void *self, const struct json_value *v)
{
    struct object *o = self;

    if (v->depth == 0)
        return v->kind == JSON_OBJECT || v->kind == JSON_END
                   ? OK
                   : wrong(o->table, "line", "is no object");
    if (v->depth == 2 && o->inner && v->kind != JSON_END)
        return take_inner(o, v);
    if (v->kind == JSON_END)
        return OK;
    if (v->depth != 1 || !v->key)
        return wrong(o->table, v->key ? v->key : "value", "is in an unexpected place");
    if (o->inner && !strcmp(v->key, o->inner) && v->kind == JSON_OBJECT && !(o->seen >> 63)) {
        o->seen |= (uint64_t)1 << 63;
        return OK;
    }
    return take_member(o, v);
}

static int read_object(struct object *o, const char *text, size_t length)
{
    int rc = json_read(text, length, NULL, on_value, o);

    if (rc == UNSUPPORTED)
        return wrong(o->table, "line", "is no JSON");
    TRY(rc);
    for (size_t i = 0; i < o->count; i++)
        if (!(o->seen >> i & 1))
            return wrong(o->table, o->members[i].name, "is missing");
    return o->inner && !(o->seen >> 63) ? wrong(o->table, o->inner, "is missing") : OK;
}

#define MEMBERS(list) .members = (list), .count = sizeof(list) / sizeof((list)[0])

/* ---- the kinds of lines */

/* Since version 2 lines close with what clocks were held back. */
static bool knows_clocks(const struct import_table *r)
{
    return r->version->number >= 2;
}

/* Since version 3: what other processes took of a sample, and what a table is worth as a whole. */
static bool knows_standings(const struct import_table *r)
{
    return r->version->number >= 3;
}

static int read_header(struct import_table *r, const char *text, size_t length)
{
    char format[32];
    int64_t version, semantics;
    const struct member members[] = {
        { "format", KIND_TEXT, format, sizeof(format), 0 },
        { "version", KIND_COUNT, &version, sizeof(version), 1e9 },
        { "semantics", KIND_COUNT, &semantics, sizeof(semantics), 1e9 },
        { "clusters", KIND_COUNT, &r->wanted_clusters, sizeof(int64_t), CLUSTERS_MAX },
        { "entries", KIND_COUNT, &r->wanted_entries, sizeof(int64_t), ENTRIES_MAX },
        { "sha256", KIND_TEXT, r->sha256, sizeof(r->sha256), 0 },
        { "standings", KIND_COUNT, &r->wanted_standings, sizeof(int64_t), ENTRIES_MAX },
    };
    struct object o = { .table = r, MEMBERS(members) };

    o.count -= knows_standings(r) ? 0 : 1;
    TRY(read_object(&o, text, length));
    if (semantics != CLUSTER_SEMANTICS)
        return wrong(r, "semantics", "is another meaning of r, d and a than this moetune's");
    return r->wanted_entries ? OK : wrong(r, "entries", "is 0: a table has at least one");
}

static int grow(void **items, size_t count, size_t *room, size_t item_bytes)
{
    size_t more = *room ? 2 * *room : 64;
    void *grown;

    if (count < *room)
        return OK;
    grown = realloc(*items, more * item_bytes);
    if (!grown)
        return fail(ERR_NOMEM, "%zu rows", more);
    *items = grown;
    *room = more;
    return OK;
}

static int read_cluster(struct import_table *r, const char *text, size_t length)
{
    struct known_cluster k = { .id = 0 };
    char fields[2 * CLUSTER_TEXT_BYTES] = "", origin[512], hex[SHA256_HEX_BYTES];
    uint8_t hash[HASH_BYTES];
    const struct member members[] = { { "fingerprint", KIND_TEXT, k.hash, sizeof(k.hash), 0 } };
    struct object o = { .table = r,
                        MEMBERS(members),
                        .inner = "fields",
                        .inner_text = fields,
                        .inner_size = sizeof(fields) };

    TRY(read_object(&o, text, length));
    snprintf(origin, sizeof(origin), "%.400s, line %u", r->origin, r->line);
    TRY(cluster_parse(fields, origin, &k.cluster));
    cluster_hash(&k.cluster, hash);
    sha256_hex(hash, hex);
    if (strcmp(hex, k.hash) != 0)
        return wrong(r, "fingerprint", "is not the hash of its fields");
    if (r->cluster_count && strcmp(r->clusters[r->cluster_count - 1].hash, hex) >= 0)
        return wrong(r, "fingerprint", "is out of order");
    if (r->cluster_count == CLUSTERS_MAX)
        return wrong(r, "fingerprint", "is one too many");
    TRY(grow((void **)&r->clusters, r->cluster_count, &r->cluster_room, sizeof(k)));
    r->clusters[r->cluster_count++] = k;
    return OK;
}

/* Sorted by hash; -1: not there. */
static long find_cluster(const struct import_table *r, const char *hash)
{
    size_t low = 0, high = r->cluster_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(r->clusters[middle].hash, hash) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->cluster_count && !strcmp(r->clusters[low].hash, hash) ? (long)low : -1;
}

static int check_plan(const struct import_table *r, const char *name, struct moe_plan *plan,
                      const struct moe_shape *shape)
{
    struct moe_plan canonical = plan_canonical(*plan);

    if (!plan->struct_size)
        return OK;
    if (!plan_legal(plan, shape) || !plan_equal(plan, &canonical))
        return wrong(r, name, "is not legal for its layer");
    return OK;
}

static int read_layer(const struct import_table *r, const char *layer, struct moe_shape *shape)
{
    char why[SHAPE_FAULT_BYTES], again[SHAPE_TEXT_BYTES];

    shape->struct_size = sizeof(*shape);
    if (shape_scan(layer, shape) || shape_fault(shape, why, sizeof(why)))
        return wrong(r, "layer", "is no layer");
    shape_format(shape, again, sizeof(again));
    if (strcmp(again, layer) != 0)
        return wrong(r, "layer", "is not in its one form");
    return OK;
}

static int read_entry_layer(struct import_table *r, const char *layer, struct moe_shape *shape)
{
    if (r->entry_count && !strcmp(layer, r->layer)) {
        *shape = r->entries[r->entry_count - 1].shape;
        return OK;
    }
    TRY(read_layer(r, layer, shape));
    memcpy(r->layer, layer, strlen(layer) + 1);
    return OK;
}

/* Strictly ascending, as they are exported; of a cluster that was described, all are used. */
static int check_order(const struct import_table *r, const char *layer, const struct incoming *in)
{
    const struct incoming *last = r->entries + r->entry_count - (r->entry_count > 0);
    int by;

    if (!r->entry_count)
        return in->cluster ? wrong(r, "cluster", "is not the first one described") : OK;
    if (in->cluster != last->cluster)
        return in->cluster == last->cluster + 1 ? OK : wrong(r, "cluster", "is out of order");
    by = strcmp(layer, r->layer);
    by = by ? by : (in->row.window > last->row.window) - (in->row.window < last->row.window);
    by = by ? by : (in->row.bucket > last->row.bucket) - (in->row.bucket < last->row.bucket);
    return by > 0 ? OK : wrong(r, "bucket", "comes twice, or is out of order");
}

static bool is_past_whole(double share)
{
    return share > 1; /* not of what is unknown */
}

/* What no measurement can have said. */
static int check_numbers(const struct import_table *r, const struct entry_row *e)
{
    if (e->time_us == 0 || e->default_us == 0)
        return wrong(r, e->time_us == 0 ? "time_us" : "default_us", "is 0: no step takes no time");
    if (is_past_whole(e->gain) || is_past_whole(e->gain_low) || is_past_whole(e->gain_high))
        return wrong(r, "gain", "is above 1: no plan is that much faster");
    if (e->capacity < (uint64_t)e->bucket * e->window)
        return wrong(r, "capacity", "lies below its bucket");
    return OK;
}

static int check_entry(struct import_table *r, const char *cluster, const char *layer,
                       struct incoming *in)
{
    struct entry_row *e = &in->row;
    long at = find_cluster(r, cluster);

    if (at < 0)
        return wrong(r, "cluster", "was not described before");
    in->cluster = (size_t)at;
    TRY(check_order(r, layer, in));
    TRY(read_entry_layer(r, layer, &in->shape));
    if (in->shape.ranks != r->clusters[at].cluster.ranks)
        return wrong(r, "layer", "has other ranks than its cluster");
    TRY(check_plan(r, "plan", &e->plan, &in->shape));
    TRY(check_plan(r, "runner_up", &e->runner_up, &in->shape));
    TRY(check_plan(r, "search_winner", &e->search_winner, &in->shape));
    return e->window ? check_numbers(r, e) : wrong(r, "window", "is 0");
}

static int read_entry(struct import_table *r, const char *text, size_t length)
{
    struct incoming in = { .row.tier = TIER_IMPORTED };
    struct entry_row *e = &in.row;
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    int64_t capacity;
    const struct member members[] = {
        { "cluster", KIND_TEXT, cluster, sizeof(cluster), 0 },
        { "layer", KIND_TEXT, layer, sizeof(layer), 0 },
        { "window", KIND_COUNT, &e->window, sizeof(e->window), UINT32_MAX },
        { "bucket", KIND_COUNT, &e->bucket, sizeof(e->bucket), UINT32_MAX - 1 },
        { "capacity", KIND_COUNT, &capacity, sizeof(capacity), 1e15 },
        { "plan", KIND_PLAN, &e->plan, 0, 0 },
        { "runner_up", KIND_PLAN_OR_NULL, &e->runner_up, 0, 0 },
        { "search_winner", KIND_PLAN_OR_NULL, &e->search_winner, 0, 0 },
        { "time_us", KIND_TIME, &e->time_us, 0, 0 },
        { "low_us", KIND_TIME, &e->low_us, 0, 0 },
        { "high_us", KIND_TIME, &e->high_us, 0, 0 },
        { "default_us", KIND_TIME, &e->default_us, 0, 0 },
        { "gain", KIND_SHARE, &e->gain, 0, 0 },
        { "gain_low", KIND_SHARE, &e->gain_low, 0, 0 },
        { "gain_high", KIND_SHARE, &e->gain_high, 0, 0 },
        { "bound", KIND_SHARE, &e->bound, 0, 0 },
        { "samples", KIND_COUNT, &e->samples, sizeof(e->samples), UINT32_MAX },
        { "inferred", KIND_BOOL, &e->inferred, 0, 0 },
        { "stale", KIND_BOOL, &e->stale, 0, 0 },
        { "effort", KIND_WORD, e->effort, sizeof(e->effort), 0 },
        { "search", KIND_WORD, e->search, sizeof(e->search), 0 },
        { "reason", KIND_WORD, e->reason, sizeof(e->reason), 0 },
        { "decision", KIND_DECISION, e->decision, sizeof(e->decision), 0 },
        { "decided_s", KIND_COUNT, &e->decided_s, sizeof(e->decided_s), 1e12 },
        { "throttled", KIND_COUNT, &e->throttled, sizeof(e->throttled), UINT32_MAX },
    };
    struct object o = { .table = r, MEMBERS(members) };

    o.count -= knows_clocks(r) ? 0 : 1;
    TRY(read_object(&o, text, length));
    e->capacity = (uint64_t)capacity;
    TRY(check_entry(r, cluster, layer, &in));
    if (r->entry_count == ENTRIES_MAX)
        return wrong(r, "entry", "is one too many");
    TRY(grow((void **)&r->entries, r->entry_count, &r->entry_room, sizeof(in)));
    r->entries[r->entry_count++] = in;
    return OK;
}

static bool is_of_table(const struct incoming *in, size_t cluster, const struct moe_shape *shape,
                        uint32_t window)
{
    return in->cluster == cluster && in->row.window == window && shape_equal(&in->shape, shape);
}

/* Its entries are there: the table's first one after those of the standing before, which come in
 * the same order. */
static int find_table(const struct import_table *r, struct incoming_standing *in, size_t cluster,
                      const struct moe_shape *shape)
{
    const struct incoming_standing *last = r->standings + r->standing_count;

    in->table = r->standing_count ? last[-1].table : 0;
    while (in->table < r->entry_count &&
           !is_of_table(&r->entries[in->table], cluster, shape, in->row.window))
        in->table++;
    if (in->table == r->entry_count)
        return wrong(r, "standing_of", "has no entries, or is out of order");
    if (r->standing_count && in->table == last[-1].table)
        return wrong(r, "standing_of", "comes twice");
    return OK;
}

static int check_standing(struct import_table *r, const char *cluster, const char *layer,
                          struct incoming_standing *in)
{
    struct standing_fault fault = standing_fault(&in->row);
    struct moe_shape shape = { 0 };
    long at = find_cluster(r, cluster);

    if (at < 0)
        return wrong(r, "standing_of", "was not described before");
    TRY(read_layer(r, layer, &shape));
    TRY(find_table(r, in, (size_t)at, &shape));
    TRY(check_plan(r, "static_plan", &in->row.static_plan, &shape));
    return fault.field ? wrong(r, fault.field, fault.why) : OK;
}

static int read_standing(struct import_table *r, const char *text, size_t length)
{
    struct incoming_standing in = { .table = 0 };
    struct standing_row *s = &in.row;
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    const struct member members[] = {
        { "standing_of", KIND_TEXT, cluster, sizeof(cluster), 0 },
        { "layer", KIND_TEXT, layer, sizeof(layer), 0 },
        { "window", KIND_COUNT, &s->window, sizeof(s->window), UINT32_MAX },
        { "gain", KIND_SHARE, &s->gain, 0, 0 },
        { "gain_low", KIND_SHARE, &s->gain_low, 0, 0 },
        { "gain_high", KIND_SHARE, &s->gain_high, 0, 0 },
        { "static_gain", KIND_SHARE, &s->static_gain, 0, 0 },
        { "static_gain_low", KIND_SHARE, &s->static_gain_low, 0, 0 },
        { "static_gain_high", KIND_SHARE, &s->static_gain_high, 0, 0 },
        { "static_plan", KIND_PLAN_OR_NULL, &s->static_plan, 0, 0 },
        { "rounds", KIND_COUNT, &s->rounds, sizeof(s->rounds), UINT32_MAX },
        { "decided_s", KIND_COUNT, &s->decided_s, sizeof(s->decided_s), 1e12 },
    };
    struct object o = { .table = r, MEMBERS(members) };

    TRY(read_object(&o, text, length));
    TRY(check_standing(r, cluster, layer, &in));
    TRY(grow((void **)&r->standings, r->standing_count, &r->standing_room, sizeof(in)));
    r->standings[r->standing_count++] = in;
    return OK;
}

/* Samples are for people; they are read as carefully and left behind. */
static int read_sample(struct import_table *r, const char *text, size_t length)
{
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    struct moe_plan plan;
    int64_t window, bucket, kind, round, ns, clock_mhz, throttled, lost_ns;
    const struct member members[] = {
        { "sample_of", KIND_TEXT, cluster, sizeof(cluster), 0 },
        { "layer", KIND_TEXT, layer, sizeof(layer), 0 },
        { "window", KIND_COUNT, &window, sizeof(window), UINT32_MAX },
        { "bucket", KIND_COUNT, &bucket, sizeof(bucket), UINT32_MAX },
        { "plan", KIND_PLAN, &plan, 0, 0 },
        { "kind", KIND_COUNT, &kind, sizeof(kind), SAMPLE_ROUNDS },
        { "round", KIND_COUNT, &round, sizeof(round), UINT32_MAX },
        { "ns", KIND_COUNT, &ns, sizeof(ns), 1e18 },
        { "clock_mhz", KIND_COUNT, &clock_mhz, sizeof(clock_mhz), 1e6 },
        { "throttled", KIND_COUNT, &throttled, sizeof(throttled), SAMPLE_SET_ASIDE },
        { "lost_ns", KIND_COUNT, &lost_ns, sizeof(lost_ns), 1e18 },
    };
    struct object o = { .table = r, MEMBERS(members) };

    o.count -= knows_standings(r) ? 0 : (knows_clocks(r) ? 1 : 3);
    return read_object(&o, text, length);
}

static bool begins(const char *text, size_t length, const char *with)
{
    return length > strlen(with) && !memcmp(text, with, strlen(with));
}

static int read_line(struct import_table *r, const char *text, size_t length)
{
    if (length > LINE_MAX)
        return wrong(r, "line", "is too long");
    if (begins(text, length, "{\"fingerprint\":"))
        return r->entry_count ? wrong(r, "fingerprint", "comes after entries")
                              : read_cluster(r, text, length);
    if (begins(text, length, "{\"sample_of\":"))
        return read_sample(r, text, length);
    if (begins(text, length, "{\"standing_of\":") && knows_standings(r))
        return read_standing(r, text, length);
    if (r->standing_count)
        return wrong(r, "line", "comes after standings");
    return read_entry(r, text, length);
}

static int check_sum(const struct import_table *r, const char *body, size_t size)
{
    struct sha256 sum;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    sha256_init(&sum);
    sha256_add(&sum, body, size);
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
    if (!strcmp(hex, r->sha256))
        return OK;
    return fail(ERR_FORMAT, "%s is damaged: its lines are not those its first line vouches for",
                r->origin);
}

/* ---- versions */

static const struct version versions[] = {
    { 1, read_header, read_line },
    { 2, read_header, read_line },
    { 3, read_header, read_line },
};
enum { VERSION_COUNT = sizeof(versions) / sizeof(versions[0]) };
_Static_assert((int)VERSION_COUNT == (int)EXPORT_VERSION, "what was ever written is read");

struct claim {
    char format[32];
    double version;
};

/* Another version's first line may have other members: of these two alone it is told. */
static int on_claim(void *self, const struct json_value *v)
{
    struct claim *claim = self;

    if (v->depth != 1 || !v->key)
        return OK;
    if (!strcmp(v->key, "format") && v->kind == JSON_STRING)
        snprintf(claim->format, sizeof(claim->format), "%s", v->value);
    if (!strcmp(v->key, "version") && v->kind == JSON_NUMBER)
        claim->version = json_number(v);
    return OK;
}

static int find_version(struct import_table *r, const char *text, size_t length)
{
    struct claim claim = { .version = -1 };

    if (length > LINE_MAX || json_read(text, length, NULL, on_claim, &claim) ||
        strcmp(claim.format, "moetune-table") != 0)
        return fail(ERR_FORMAT, "%s is no table of moetune (moetune export writes them)",
                    r->origin);
    for (int i = 0; i < VERSION_COUNT; i++)
        if ((double)versions[i].number == claim.version)
            r->version = &versions[i];
    if (r->version)
        return OK;
    if (claim.version > EXPORT_VERSION)
        return fail(ERR_FORMAT,
                    "%s is a table of version %.0f; this moetune (" MOETUNE_VERSION
                    ") reads versions up to %d: a newer moetune is needed",
                    r->origin, claim.version, EXPORT_VERSION);
    return fail(ERR_FORMAT, "%s: there is no version %g of moetune's tables", r->origin,
                claim.version);
}

static int check_count(const struct import_table *r, const char *what, size_t count, int64_t wanted)
{
    if ((int64_t)count == wanted)
        return OK;
    return fail(ERR_FORMAT, "%s holds %zu %s, its first line says %lld", r->origin, count, what,
                (long long)wanted);
}

static int check_counts(const struct import_table *r)
{
    TRY(check_count(r, "clusters", r->cluster_count, r->wanted_clusters));
    TRY(check_count(r, "entries", r->entry_count, r->wanted_entries));
    return check_count(r, "standings", r->standing_count, r->wanted_standings);
}

static int read_all(struct import_table *r, const char *text, size_t size)
{
    const char *end = text + size, *at = memchr(text, '\n', size);

    r->line = 1;
    TRY(find_version(r, text, at ? (size_t)(at - text) : size));
    if (!at)
        return wrong(r, "line", "does not end");
    TRY(r->version->header(r, text, (size_t)(at - text)));
    TRY(check_sum(r, at + 1, (size_t)(end - at - 1)));
    for (text = at + 1; text < end; text = at + 1) {
        r->line++;
        at = memchr(text, '\n', (size_t)(end - text));
        if (!at)
            return wrong(r, "line", "does not end");
        TRY(r->version->line(r, text, (size_t)(at - text)));
    }
    TRY(check_counts(r));
    if (r->entries[r->entry_count - 1].cluster + 1 != r->cluster_count)
        return fail(ERR_FORMAT, "%s describes a cluster without entries", r->origin);
    return OK;
}

int import_read(const char *text, size_t size, const char *origin, struct import_table **out)
{
    struct import_table *table = calloc(1, sizeof(*table));
    int rc;

    if (!table)
        return fail(ERR_NOMEM, "a table");
    snprintf(table->origin, sizeof(table->origin), "%s", origin);
    rc = read_all(table, text, size);
    if (rc) {
        import_free(table);
        return rc;
    }
    *out = table;
    return OK;
}

void import_free(struct import_table *table)
{
    if (!table)
        return;
    free(table->clusters);
    free(table->entries);
    free(table->standings);
    free(table);
}

size_t import_count(const struct import_table *table)
{
    return table->entry_count;
}

struct import_entry import_entry(const struct import_table *table, size_t at)
{
    const struct incoming *in = &table->entries[at];

    return (struct import_entry){ table->clusters[in->cluster].hash, &in->shape, &in->row };
}

/* ---- into the store */

struct placing {
    struct import_table *table;
    struct store *store;
    const struct import_options *options;
    struct import_result *result;
};

/* Entries come sorted: the layer of the one before is mostly this one's. */
static int place_shape(const struct placing *p, struct incoming *in)
{
    if (in > p->table->entries && shape_equal(&in->shape, &in[-1].shape)) {
        in->row.shape = in[-1].row.shape;
        return OK;
    }
    return store_shape(p->store, &in->shape, &in->row.shape);
}

static int place_entry(const struct placing *p, struct incoming *in)
{
    struct import_result *out = p->result;
    struct entry_row known;
    bool differs;

    in->row.cluster = p->table->clusters[in->cluster].id;
    TRY(place_shape(p, in));
    TRY(store_entry_merge(p->store, &in->row, "import", &known, &in->outcome));
    differs = in->outcome != MERGE_ADDED && !plan_equal(&known.plan, &in->row.plan);
    out->added += in->outcome == MERGE_ADDED;
    out->same += in->outcome == MERGE_SAME;
    out->replaced += in->outcome == MERGE_REPLACED;
    out->lost += in->outcome == MERGE_LOST;
    out->conflicts += differs;
    if (differs && p->options->conflict && out->conflicts <= IMPORT_CONFLICTS_KEPT)
        p->options->conflict(p->options->self, &known, &in->row, in->outcome);
    return OK;
}

/* What became of one layer's entries of one width. */
struct placed_table {
    size_t first, count; /* of the incoming entries */
    uint32_t window;
    bool changed, whole; /* what was there is not any more; what came in is there */
    size_t known;        /* entries that are there now */
};

static void follow_entries(const struct import_table *t, struct placed_table *placed)
{
    const struct incoming *first = &t->entries[placed->first], *end = t->entries + t->entry_count;

    placed->window = first->row.window;
    placed->whole = true;
    for (const struct incoming *in = first;
         in < end && is_of_table(in, first->cluster, &first->shape, placed->window); in++) {
        placed->count++;
        placed->changed |= in->outcome == MERGE_ADDED || in->outcome == MERGE_REPLACED;
        placed->whole &= in->outcome != MERGE_LOST;
    }
}

static int count_known(void *self, const struct entry_row *e)
{
    struct placed_table *placed = self;

    placed->known += e->window == placed->window;
    return OK;
}

/* Only beside the very entries that it was measured with: so the standings that stay depend on the
 * entries that stay, and not on the order of imports. */
static int place_standing(const struct placing *p, struct placed_table *placed,
                          struct standing_row *row)
{
    const struct entry_row *e = &p->table->entries[placed->first].row;
    bool added;

    TRY(store_entries(p->store, e->cluster, e->shape, count_known, placed));
    if (!placed->whole || placed->known != placed->count)
        return OK;
    row->cluster = e->cluster;
    row->shape = e->shape;
    TRY(store_standing_merge(p->store, row, &added));
    p->result->standings += added;
    return OK;
}

static int place_standings(const struct placing *p)
{
    struct import_table *t = p->table;
    struct placed_table placed;
    size_t next = 0;

    for (size_t i = 0; i < t->entry_count; i += placed.count) {
        const struct entry_row *e = &t->entries[i].row;

        placed = (struct placed_table){ .first = i };
        follow_entries(t, &placed);
        if (placed.changed)
            TRY(store_standing_end(p->store, e->cluster, e->shape, e->window));
        if (next < t->standing_count && t->standings[next].table == i)
            TRY(place_standing(p, &placed, &t->standings[next++].row));
    }
    return OK;
}

static int place_all(const struct placing *p)
{
    struct import_table *t = p->table;

    for (size_t i = 0; i < t->cluster_count; i++)
        TRY(store_cluster_elsewhere(p->store, &t->clusters[i].cluster, &t->clusters[i].id));
    for (size_t i = 0; i < t->entry_count; i++)
        TRY(place_entry(p, &t->entries[i]));
    TRY(place_standings(p));
    TRY(store_import(p->store, &(struct import_row){ .sha256 = t->sha256,
                                                     .file = t->origin,
                                                     .added = p->result->added,
                                                     .same = p->result->same,
                                                     .conflicts = p->result->conflicts }));
    return store_commit(p->store);
}

int import_place(struct import_table *table, struct store *store,
                 const struct import_options *options, struct import_result *out)
{
    struct import_result result = { .clusters = (uint32_t)table->cluster_count,
                                    .entries = (uint32_t)table->entry_count };
    struct placing placing = { table, store, options, &result };
    int rc = store_import_known(store, table->sha256, &result.known);

    if (!rc && !result.known)
        rc = place_all(&placing);
    if (rc)
        store_rollback(store); /* also when the disk is full half-way */
    else
        *out = result;
    return rc;
}
