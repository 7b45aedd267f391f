/* Reads a table line by line into memory, and checks that it is whole, of a version that is known,
 * and vouched for by its first line. */
#include "import_table.h"

#include "array.h"
#include "json.h"
#include "plan.h"
#include "standings.h"
#include "status.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4 << 20, CLUSTERS_MAX = 1 << 12, LINE_MAX = 1 << 16 };

/* ---- the kinds of lines */

/* A first line without `standings` is one of version 1 or 2. */
#define AT(member) ROW_AT(struct import_header, member)
static const struct row_field header_fields[] = {
    { "format", ROW_TEXT, AT(format), .since = 1 },
    { "version", ROW_INTEGER, AT(version), .since = 1, .most = 1e9 },
    { "semantics", ROW_INTEGER, AT(semantics), .since = 1, .most = 1e9 },
    { "clusters", ROW_INTEGER, AT(clusters), .since = 1, .most = CLUSTERS_MAX },
    { "entries", ROW_INTEGER, AT(entries), .since = 1, .most = ENTRIES_MAX },
    { "sha256", ROW_TEXT, AT(sha256), .since = 1 },
    { "standings", ROW_INTEGER, AT(standings), .since = 3, .most = ENTRIES_MAX },
    { "spaces", ROW_INTEGER, AT(spaces), .since = 8, .most = ENTRIES_MAX },
};
#undef AT

/* The members that begin a line: they say whose the rest of it is. */
struct head {
    char cluster[SHA256_HEX_BYTES], layer[SHAPE_TEXT_BYTES];
    uint32_t window, bucket;
    struct moe_plan plan;
};
#define AT(member) ROW_AT(struct head, member), .since = 1
#define LAYER_OF(name)                                                                             \
    { name, ROW_TEXT, AT(cluster) },                                                               \
    {                                                                                              \
        "layer", ROW_TEXT, AT(layer)                                                               \
    }
static const struct row_field cluster_head[] = { { "fingerprint", ROW_TEXT, AT(cluster) } };
static const struct row_field entry_head[] = { LAYER_OF("cluster") };
static const struct row_field standing_head[] = { LAYER_OF("standing_of") };
static const struct row_field sample_head[] = {
    LAYER_OF("sample_of"),
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "bucket", ROW_INTEGER, AT(bucket), .most = UINT32_MAX },
    { "plan", ROW_PLAN, AT(plan) },
};
#undef AT

#define EXPECT(object, fields, version, row)                                                       \
    line_expect(object, fields, sizeof(fields) / sizeof((fields)[0]), version, row)

static int wrong(const struct import_table *r, const char *field, const char *why)
{
    return line_fault(&r->at, field, why);
}

static int read_header(struct import_table *r, const char *text, size_t length)
{
    struct line_object o = { .origin = &r->at };

    EXPECT(&o, header_fields, (int)r->header.version, &r->header);
    TRY(line_read(&o, text, length));
    if (r->header.semantics != CLUSTER_SEMANTICS)
        return wrong(r, "semantics", "is another meaning of r, d and a than this moetune's");
    return r->header.entries ? OK : wrong(r, "entries", "is 0: a table has at least one");
}

/* A line that is a head and the fields of a row. */
static int read_row(const struct import_table *r, const struct row_table *table, void *row,
                    struct line_object *o, const char *text, size_t length)
{
    line_expect(o, table->fields, table->count, (int)r->header.version, row);
    return line_read(o, text, length);
}

static int read_cluster(struct import_table *r, const char *text, size_t length)
{
    struct known_cluster k = { .id = 0 };
    char fields[2 * CLUSTER_TEXT_BYTES] = "", origin[512], hex[SHA256_HEX_BYTES];
    struct head head;
    struct line_object o = {
        .origin = &r->at, .inner = "fields", .inner_text = fields, .inner_size = sizeof(fields)
    };

    EXPECT(&o, cluster_head, 1, &head);
    TRY(line_read(&o, text, length));
    text_put(origin, sizeof(origin), "%s, line %u", TEXT_SHORT(r->at.file, 400), r->at.line);
    TRY(cluster_parse(fields, origin, &k.cluster));
    cluster_hex(&k.cluster, hex);
    memcpy(k.hash, hex, sizeof(k.hash));
    if (strcmp(hex, head.cluster) != 0)
        return wrong(r, "fingerprint", "is not the hash of its fields");
    if (r->cluster_count && strcmp(r->clusters[r->cluster_count - 1].hash, hex) >= 0)
        return wrong(r, "fingerprint", "is out of order");
    if (r->cluster_count == CLUSTERS_MAX)
        return wrong(r, "fingerprint", "is one too many");
    ARRAY_APPEND(r->clusters, r->cluster_count, k);
    return OK;
}

static int by_hash(const void *hash, const void *cluster)
{
    return strcmp(hash, ((const struct known_cluster *)cluster)->hash);
}

/* Clusters are sorted by their hashes.  Returns -1 if none has this one. */
static long find_cluster(const struct import_table *r, const char *hash)
{
    const struct known_cluster *at = NULL;

    if (r->cluster_count)
        at = bsearch(hash, r->clusters, r->cluster_count, sizeof(*r->clusters), by_hash);
    return at ? at - r->clusters : -1;
}

static int check_plan(const struct import_table *r, const char *name, struct moe_plan *plan,
                      const struct moe_shape *shape)
{
    struct moe_plan canonical = plan_canonical(*plan, shape);

    if (!plan->struct_size)
        return OK;
    if (!plan_legal(plan, shape) || !plan_equal(plan, &canonical))
        return wrong(r, name, "is not legal for its layer");
    return OK;
}

static int read_layer(const struct import_table *r, const char *layer, struct moe_shape *shape)
{
    char why[SHAPE_FAULT_BYTES];

    shape->struct_size = sizeof(*shape);
    if (shape_scan(layer, shape) || shape_fault(shape, why, sizeof(why)))
        return wrong(r, "layer", "is no layer");
    if (strcmp(SHAPE_TEXT(shape), layer) != 0)
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
    return shape->space ? import_use_space(r, shape) : OK;
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

/* Refuses what no measurement can have said. */
static int check_numbers(const struct import_table *r, const struct entry_row *e)
{
    if (e->time_us == 0 || e->default_us == 0)
        return wrong(r, e->time_us == 0 ? "time_us" : "default_us", "is 0: no step takes no time");
    if (e->gain.value > 1 || e->gain.low > 1 || e->gain.high > 1) /* not of what is unknown */
        return wrong(r, "gain", "is above 1: no plan is that much faster");
    if (!e->plan.space && e->capacity < (uint64_t)e->bucket * e->window)
        return wrong(r, "capacity", "lies below its bucket");
    return OK;
}

/* A plan of the other kind comes with its time, or it is known that there is none. */
static int check_other(const struct import_table *r, struct entry_row *e,
                       const struct moe_shape *shape)
{
    TRY(check_plan(r, "other", &e->other, shape));
    if (!e->other.struct_size)
        return e->other_us == 0 ? OK : wrong(r, "other_us", "comes without its plan");
    if (!(e->other_us > 0) || e->no_other)
        return wrong(r, "other",
                     e->no_other ? "is there, and no_other says that none is"
                                 : "comes without other_us");
    return plan_other_kind(&e->plan, &e->other) && !shape->space
               ? OK
               : wrong(r, "other", "is of the same kind as the plan");
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
    TRY(check_other(r, e, &in->shape));
    TRY(import_check_bucket(r, in));
    return e->window ? check_numbers(r, e) : wrong(r, "window", "is 0");
}

static int read_entry(struct import_table *r, const char *text, size_t length)
{
    struct incoming in = { .row.tier = TIER_IMPORTED };
    struct line_object o = { .origin = &r->at };
    struct head head;

    EXPECT(&o, entry_head, 1, &head);
    TRY(read_row(r, &entry_table, &in.row, &o, text, length));
    TRY(check_entry(r, head.cluster, head.layer, &in));
    if (r->entry_count == ENTRIES_MAX)
        return wrong(r, "entry", "is one too many");
    ARRAY_APPEND(r->entries, r->entry_count, in);
    return OK;
}

bool import_is_of_table(const struct incoming *in, size_t cluster, const struct moe_shape *shape,
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
           !import_is_of_table(&r->entries[in->table], cluster, shape, in->row.window))
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
    struct line_object o = { .origin = &r->at };
    struct head head;

    EXPECT(&o, standing_head, 1, &head);
    TRY(read_row(r, &standing_table, &in.row, &o, text, length));
    TRY(check_standing(r, head.cluster, head.layer, &in));
    ARRAY_APPEND(r->standings, r->standing_count, in);
    return OK;
}

/* Samples are for people; they are read as carefully and left behind. */
static int read_sample(struct import_table *r, const char *text, size_t length)
{
    struct line_object o = { .origin = &r->at };
    struct sample_row sample;
    struct head head;

    EXPECT(&o, sample_head, 1, &head);
    return read_row(r, &sample_table, &sample, &o, text, length);
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
        return r->entry_count || r->space_count
                   ? wrong(r, "fingerprint", "comes after entries or spaces")
                   : read_cluster(r, text, length);
    if (begins(text, length, "{\"space\":") && r->header.version >= 8)
        return r->entry_count ? wrong(r, "space", "comes after entries")
                              : import_read_space(r, text, length);
    if (begins(text, length, "{\"sample_of\":"))
        return read_sample(r, text, length);
    if (begins(text, length, "{\"standing_of\":") && r->header.version >= 3)
        return read_standing(r, text, length);
    if (r->standing_count)
        return wrong(r, "line", "comes after standings");
    return read_entry(r, text, length);
}

static int check_sum(const struct import_table *r, const char *body, size_t size)
{
    char hex[SHA256_HEX_BYTES];

    sha256_text(body, size, hex);
    if (!strcmp(hex, r->header.sha256))
        return OK;
    return fail(ERR_FORMAT, "%s is damaged: its lines are not those its first line vouches for",
                r->at.file);
}

/* ---- versions */

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
        text_put(claim->format, sizeof(claim->format), "%s", v->value);
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
                    r->at.file);
    /* What was ever written is read. */
    for (int version = 1; version <= EXPORT_VERSION; version++)
        if ((double)version == claim.version)
            r->header.version = version;
    if (r->header.version)
        return OK;
    if (claim.version > EXPORT_VERSION)
        return fail(ERR_FORMAT,
                    "%s is a table of version %.0f; this moetune (" MOETUNE_VERSION
                    ") reads versions up to %d: a newer moetune is needed",
                    r->at.file, claim.version, EXPORT_VERSION);
    return fail(ERR_FORMAT, "%s: there is no version %g of moetune's tables", r->at.file,
                claim.version);
}

static int check_count(const struct import_table *r, const char *what, size_t count, int64_t wanted)
{
    if ((int64_t)count == wanted)
        return OK;
    return fail(ERR_FORMAT, "%s holds %zu %s, its first line says %lld", r->at.file, count, what,
                (long long)wanted);
}

static int read_all(struct import_table *r, const char *text, size_t size)
{
    const char *end = text + size, *at = memchr(text, '\n', size);

    r->at.line = 1;
    TRY(find_version(r, text, at ? (size_t)(at - text) : size));
    if (!at)
        return wrong(r, "line", "does not end");
    TRY(read_header(r, text, (size_t)(at - text)));
    TRY(check_sum(r, at + 1, (size_t)(end - at - 1)));
    for (text = at + 1; text < end; text = at + 1) {
        r->at.line++;
        at = memchr(text, '\n', (size_t)(end - text));
        if (!at)
            return wrong(r, "line", "does not end");
        TRY(read_line(r, text, (size_t)(at - text)));
    }
    TRY(check_count(r, "clusters", r->cluster_count, r->header.clusters));
    TRY(check_count(r, "spaces", r->space_count, r->header.spaces));
    TRY(check_count(r, "entries", r->entry_count, r->header.entries));
    TRY(check_count(r, "standings", r->standing_count, r->header.standings));
    if (r->entries[r->entry_count - 1].cluster + 1 != r->cluster_count)
        return fail(ERR_FORMAT, "%s describes a cluster without entries", r->at.file);
    return import_check_spaces(r);
}

int import_read(const char *text, size_t size, const char *origin, struct import_table **out)
{
    struct import_table *table = calloc(1, sizeof(*table));
    int rc;

    if (!table)
        return fail(ERR_NOMEM, "a table");
    text_put(table->at.file, sizeof(table->at.file), "%s", origin);
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
    free(table->spaces);
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
