/* Reads a table line by line into memory and checks it: it must be complete, of a known version,
 * and match the hash in its first line. Then puts it into a store. */
#include "import.h"

#include "array.h"
#include "buckets.h"
#include "declaration.h"
#include "json.h"
#include "plan.h"
#include "row.h"
#include "sha256.h"
#include "shape.h"
#include "standings.h"
#include "status.h"
#include "text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4 << 20, CLUSTERS_MAX = 1 << 12, LINE_MAX = 1 << 16, MEMBERS_MAX = 40 };

/* A cluster of the table, and its id in the store. */
struct known_cluster {
    char hash[SHA256_HEX_BYTES];
    struct cluster cluster;
    int64_t id;
};

/* An entry of the table. */
struct incoming {
    size_t cluster; /* index */
    uint32_t line;
    struct moe_shape shape;
    struct entry_row row;
    enum merge_outcome outcome; /* set when it is placed */
};

/* A space that a line declares, and whether an entry has it. */
struct incoming_space {
    const struct declaration *space;
    bool used;
};

struct incoming_standing {
    size_t table; /* index of its table's first entry */
    struct standing_row row;
};

struct incoming_launch {
    size_t table; /* index of its table's first entry */
    struct launch_row row;
};

/* The members of the first line. */
struct header {
    char format[32], sha256[SHA256_HEX_BYTES];
    int64_t version, semantics, clusters, spaces, entries, standings, launches;
};

/* The table as far as it was read. */
struct import_table {
    char file[256]; /* for messages */
    uint32_t line;
    struct header header;
    struct known_cluster *clusters;
    struct incoming *entries;
    struct incoming_space *spaces;
    struct incoming_standing *standings;
    struct incoming_launch *launches;
    size_t cluster_count, space_count, entry_count, standing_count, launch_count;
    char layer[SHAPE_TEXT_BYTES]; /* of the entry before; this entry mostly has the same */
};

/* Refuses a field; with field NULL the line itself. */
static int refuse(const struct import_table *r, const char *field, const char *why)
{
    if (!field)
        return fail(ERR_FORMAT, "%s, line %u %s", r->file, r->line, why);
    return fail(ERR_FORMAT, "%s, line %u: \"%s\" %s", r->file, r->line, TEXT_SHORT(field, 40), why);
}

/* ---- One line: an object of known members, each of them once, of its kind and in its range. */

/* A line that is being read: the members that it may have. */
struct import_line {
    const struct import_table *table;
    struct member {
        const struct row_field *field;
        void *row; /* the row that gets its value */
    } members[MEMBERS_MAX];
    size_t count, next; /* next: index of the member that probably follows */
    uint64_t seen;
    /* The member `inner` is an object of texts. Its members become lines "name = value". */
    const char *inner;
    char *inner_text;
    size_t inner_size, inner_used;
    bool inner_seen;
};

/* Adds the members that a table of this version has. */
static void expect_fields(struct import_line *line, const struct row_field *fields, size_t count,
                          int64_t version, void *row)
{
    for (const struct row_field *f = fields; f < fields + count; f++) {
        if (!f->since || f->since > version)
            continue;
        assert(line->count < MEMBERS_MAX);
        line->members[line->count++] = (struct member){ f, row };
    }
}
#define EXPECT(line, fields, version, row)                                                         \
    expect_fields(line, fields, sizeof(fields) / sizeof((fields)[0]), version, row)

/* Returns whether a text may be printed later: it must not move a terminal's cursor or end a
 * line. */
static bool is_plain(const struct json_value *v)
{
    return utf8_is_plain(v->value, v->length);
}

/* Finds the member with this key, which may come once. Members mostly come in the list's order. */
static int find_member(struct import_line *line, const char *key, const struct member **out)
{
    for (size_t k = 0; k < line->count; k++) {
        size_t i = (line->next + k) % line->count;

        if (strcmp(line->members[i].field->name, key) != 0)
            continue;
        if (line->seen >> i & 1)
            return refuse(line->table, key, "comes twice");
        line->seen |= (uint64_t)1 << i;
        line->next = i + 1;
        *out = &line->members[i];
        return OK;
    }
    return refuse(line->table, key, "is not known to this version");
}

/* Puts a value into its field of a row. Returns why that cannot be; NULL: it is done. */
static const char *set_field(const struct member *m, const struct json_value *v, char why[64])
{
    static const char in_names[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_";
    const struct row_field *f = m->field;
    void *target = (char *)m->row + f->offset;
    double number = v->kind == JSON_NUMBER ? json_number(v) : (double)NAN;
    struct moe_plan plan = { 0 };

    switch (f->kind) {
    case ROW_INTEGER:
        if (!(number >= 0 && number <= f->most) || number != floor(number))
            return "is no whole number in range";
        row_set_integer(f, m->row, (int64_t)number);
        return NULL;
    case ROW_REAL:
        if (v->kind != JSON_NULL && !(number >= f->least && fabs(number) < f->most))
            return "is no number in range";
        /* Stores the number as an export would write it again, because that is what merging
         * compares. */
        *(double *)target = row_rounded(f, number);
        return NULL;
    case ROW_BOOL:
        if (v->kind != JSON_TRUE && v->kind != JSON_FALSE)
            return "is neither true nor false";
        row_set_integer(f, m->row, v->kind == JSON_TRUE);
        return NULL;
    case ROW_PLAN:
        if (!(v->kind == JSON_NULL && f->optional) &&
            (v->kind != JSON_STRING || strlen(v->value) != v->length ||
             plan_parse(v->value, &plan)))
            return "is no plan";
        memcpy(target, &plan, sizeof(plan));
        return NULL;
    default:
        if (v->kind != JSON_STRING || v->length >= f->bytes || !is_plain(v))
            return "is no text that fits";
        if (f->kind == ROW_NAME && strspn(v->value, in_names) != v->length)
            return "is no word";
        if (f->words && word_find(f->words, v->value) < 0) {
            snprintf(why, 64, "is no %s", f->name);
            return why;
        }
        memcpy(target, v->value, v->length + 1);
        return NULL;
    }
}

static int set_member(struct import_line *line, const struct json_value *v)
{
    const struct member *m = NULL;
    const char *fault;
    char why[64];

    TRY(find_member(line, v->key, &m));
    fault = set_field(m, v, why);
    return fault ? refuse(line->table, v->key, fault) : OK;
}

static int read_line_member(void *self, const struct json_value *v)
{
    struct import_line *line = self;

    if (v->depth == 0)
        return v->kind == JSON_OBJECT || v->kind == JSON_END
                   ? OK
                   : refuse(line->table, NULL, "is no object");
    if (v->depth == 2 && line->inner && v->kind != JSON_END) {
        /* The text form of a cluster has lines "name = value", in which '#' begins a comment. */
        if (v->kind != JSON_STRING || !v->key || strlen(v->value) != v->length || !is_plain(v) ||
            strchr(v->value, '#'))
            return refuse(line->table, v->key ? v->key : line->inner, "is no text that fits");
        line->inner_used +=
            (size_t)snprintf(line->inner_text + line->inner_used,
                             line->inner_size - line->inner_used, "%s = %s\n", v->key, v->value);
        return line->inner_used < line->inner_size ? OK
                                                   : refuse(line->table, v->key, "is too long");
    }
    if (v->kind == JSON_END)
        return OK;
    if (v->depth != 1 || !v->key)
        return refuse(line->table, v->key ? v->key : "value", "is in an unexpected place");
    if (line->inner && !strcmp(v->key, line->inner) && v->kind == JSON_OBJECT &&
        !line->inner_seen) {
        line->inner_seen = true;
        return OK;
    }
    return set_member(line, v);
}

/* Reads a line with the members of `line` and, if `rows` is given, the fields of such a row. */
static int read_members(struct import_line *line, const struct row_table *rows, void *row,
                        const char *text, size_t length)
{
    int rc;

    if (rows)
        expect_fields(line, rows->fields, rows->count, line->table->header.version, row);
    rc = json_read(text, length, NULL, read_line_member, line);
    if (rc == UNSUPPORTED)
        return refuse(line->table, NULL, "is no JSON");
    TRY(rc);
    for (size_t i = 0; i < line->count; i++) {
        const struct row_field *f = line->members[i].field;

        if (!(line->seen >> i & 1) && !f->quiet && !(f->kind == ROW_TEXT && f->optional))
            return refuse(line->table, f->name, "is missing");
    }
    return line->inner && !line->inner_seen ? refuse(line->table, line->inner, "is missing") : OK;
}

/* ---- The first line. */

/* The first line of versions 1 and 2 has no `standings`. */
#define AT(member) ROW_AT(struct header, member)
static const struct row_field header_fields[] = {
    { "format", ROW_TEXT, AT(format), .since = 1 },
    { "version", ROW_INTEGER, AT(version), .since = 1, .most = 1e9 },
    { "semantics", ROW_INTEGER, AT(semantics), .since = 1, .most = 1e9 },
    { "clusters", ROW_INTEGER, AT(clusters), .since = 1, .most = CLUSTERS_MAX },
    { "entries", ROW_INTEGER, AT(entries), .since = 1, .most = ENTRIES_MAX },
    { "sha256", ROW_TEXT, AT(sha256), .since = 1 },
    { "standings", ROW_INTEGER, AT(standings), .since = 3, .most = ENTRIES_MAX },
    { "spaces", ROW_INTEGER, AT(spaces), .since = 8, .most = ENTRIES_MAX },
    { "launches", ROW_INTEGER, AT(launches), .since = 10, .most = ENTRIES_MAX },
};
#undef AT

struct version_claim {
    char format[32];
    double version;
};

/* Reads only two members, because another version's first line may have other ones. */
static int read_claim_member(void *self, const struct json_value *v)
{
    struct version_claim *claim = self;

    if (v->depth != 1 || !v->key)
        return OK;
    if (!strcmp(v->key, "format") && v->kind == JSON_STRING)
        text_put(claim->format, sizeof(claim->format), "%s", v->value);
    if (!strcmp(v->key, "version") && v->kind == JSON_NUMBER)
        claim->version = json_number(v);
    return OK;
}

/* Reads whether the first line is that of a table, and its version. */
static bool read_claim(const char *text, size_t length, struct version_claim *claim)
{
    *claim = (struct version_claim){ .version = -1 };
    return length <= LINE_MAX && !json_read(text, length, NULL, read_claim_member, claim) &&
           !strcmp(claim->format, "moetune-table");
}

bool import_is_begun(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    struct version_claim claim;

    return end && read_claim(text, (size_t)(end - text), &claim);
}

static int read_version(struct import_table *r, const char *text, size_t length)
{
    struct version_claim claim;

    if (!read_claim(text, length, &claim))
        return fail(ERR_FORMAT, "%s is no table of moetune (moetune export writes tables)",
                    r->file);
    /* Every version that was ever written can be read. */
    for (int version = 1; version <= EXPORT_VERSION; version++)
        if ((double)version == claim.version)
            r->header.version = version;
    if (r->header.version)
        return OK;
    if (claim.version > EXPORT_VERSION)
        return fail(ERR_FORMAT,
                    "%s is a table of version %.0f; this moetune (" MOETUNE_VERSION
                    ") reads versions up to %d: a newer moetune is needed",
                    r->file, claim.version, EXPORT_VERSION);
    return fail(ERR_FORMAT, "%s: there is no version %g of moetune's tables", r->file,
                claim.version);
}

/* ---- Clusters. */

/* The first members of a line: they say to what the others belong. */
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
static const struct row_field launch_head[] = { LAYER_OF("launch_of") };
static const struct row_field sample_head[] = {
    LAYER_OF("sample_of"),
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "bucket", ROW_INTEGER, AT(bucket), .most = UINT32_MAX },
    { "plan", ROW_PLAN, AT(plan) },
};
#undef AT

static int read_cluster(struct import_table *r, const char *text, size_t length)
{
    struct known_cluster described = { .id = 0 };
    char fields[2 * CLUSTER_TEXT_BYTES] = "", origin[512], hex[SHA256_HEX_BYTES];
    struct head head;
    struct import_line line = {
        .table = r, .inner = "fields", .inner_text = fields, .inner_size = sizeof(fields)
    };

    EXPECT(&line, cluster_head, 1, &head);
    TRY(read_members(&line, NULL, NULL, text, length));
    text_put(origin, sizeof(origin), "%s, line %u", TEXT_SHORT(r->file, 400), r->line);
    TRY(cluster_parse(fields, origin, &described.cluster));
    cluster_hex(&described.cluster, hex);
    memcpy(described.hash, hex, sizeof(described.hash));
    if (strcmp(hex, head.cluster) != 0)
        return refuse(r, "fingerprint", "is not the hash of its fields");
    if (r->cluster_count && strcmp(r->clusters[r->cluster_count - 1].hash, hex) >= 0)
        return refuse(r, "fingerprint", "is out of order");
    if (r->cluster_count == CLUSTERS_MAX)
        return refuse(r, "fingerprint", "is one too many");
    ARRAY_APPEND(r->clusters, r->cluster_count, described);
    return OK;
}

static int by_hash(const void *hash, const void *cluster)
{
    return strcmp(hash, ((const struct known_cluster *)cluster)->hash);
}

/* Clusters are sorted by their hashes. Returns -1 if none has this hash. */
static long find_cluster(const struct import_table *r, const char *hash)
{
    const struct known_cluster *found = NULL;

    if (r->cluster_count)
        found = bsearch(hash, r->clusters, r->cluster_count, sizeof(*r->clusters), by_hash);
    return found ? found - r->clusters : -1;
}

/* ---- Spaces. */

/* The members of a line that declares a space. Only its text may contain line feeds. */
struct declared_line {
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_TEXT_BYTES + 1];
    bool has_tag, has_text, strange;
};

static int read_space_member(void *self, const struct json_value *v)
{
    struct declared_line *line = self;
    bool is_tag = v->key && !strcmp(v->key, "space"), is_text = v->key && !strcmp(v->key, "text");
    bool *has = is_tag ? &line->has_tag : &line->has_text;

    if (v->depth == 0) {
        line->strange |= v->kind != JSON_OBJECT && v->kind != JSON_END;
        return OK;
    }
    if (v->kind == JSON_END)
        return OK;
    if (v->depth != 1 || (!is_tag && !is_text) || v->kind != JSON_STRING || *has ||
        v->length >= (is_tag ? sizeof(line->tag) : sizeof(line->text)) ||
        strlen(v->value) != v->length) {
        line->strange = true;
        return OK;
    }
    memcpy(is_tag ? line->tag : line->text, v->value, v->length + 1);
    *has = true;
    return OK;
}

/* Reads a space. Its tag must follow from its text. This process knows the space from here on. */
static int read_space(struct import_table *r, const char *text, size_t length)
{
    struct declared_line line = { .strange = false };
    struct incoming_space incoming = { .space = NULL };
    char tag[DECLARATION_TAG_BYTES];
    int rc = json_read(text, length, NULL, read_space_member, &line);

    if (rc == ERR_NOMEM)
        return rc;
    if (rc || line.strange || !line.has_tag || !line.has_text)
        return refuse(r, "space", "is no space with its text");
    if (declaration_register_silently(line.text, &incoming.space) ||
        strcmp(incoming.space->text, line.text) != 0)
        return refuse(r, "text", "declares no space in its one form");
    if (strcmp(declaration_tag(incoming.space, tag), line.tag) != 0)
        return refuse(r, "space", "is not what its text is called");
    if (r->space_count &&
        strcmp(declaration_tag(r->spaces[r->space_count - 1].space, tag), line.tag) >= 0)
        return refuse(r, "space", "comes twice, or is out of order");
    ARRAY_APPEND(r->spaces, r->space_count, incoming);
    return OK;
}

/* ---- Layers and plans. */

static int read_layer(const struct import_table *r, const char *layer, struct moe_shape *shape)
{
    char why[SHAPE_FAULT_BYTES];

    shape->struct_size = sizeof(*shape);
    if (shape_scan(layer, shape) || shape_fault(shape, why, sizeof(why)))
        return refuse(r, "layer", "is no layer");
    if (strcmp(SHAPE_TEXT(shape), layer) != 0)
        return refuse(r, "layer", "is not in its one form");
    return OK;
}

static int check_plan(const struct import_table *r, const char *name, const struct moe_plan *plan,
                      const struct moe_shape *shape)
{
    struct moe_plan canonical = plan_canonical(*plan, shape);

    if (!plan->struct_size)
        return OK;
    if (!plan_legal(plan, shape) || !plan_equal(plan, &canonical))
        return refuse(r, name, "is not legal for its layer");
    return OK;
}

/* ---- Entries. */

/* Entries must ascend strictly, as they are exported, and each described cluster must have one. */
static int check_order(const struct import_table *r, const char *layer, const struct incoming *in)
{
    const struct incoming *last = r->entries + r->entry_count - (r->entry_count > 0);
    int order;

    if (!r->entry_count)
        return in->cluster ? refuse(r, "cluster", "is not the first one described") : OK;
    if (in->cluster != last->cluster)
        return in->cluster == last->cluster + 1 ? OK : refuse(r, "cluster", "is out of order");
    order = strcmp(layer, r->layer);
    order =
        order ? order : (in->row.window > last->row.window) - (in->row.window < last->row.window);
    order =
        order ? order : (in->row.bucket > last->row.bucket) - (in->row.bucket < last->row.bucket);
    return order > 0 ? OK : refuse(r, "bucket", "comes twice, or is out of order");
}

/* Refuses numbers that no measurement can have given, and buckets that the layer's space does not
 * have. */
static int check_entry(const struct import_table *r, const struct entry_row *e,
                       const struct moe_shape *shape)
{
    struct buckets buckets = buckets_of(shape, e->window);
    const struct declaration *d = buckets.declared;

    TRY(check_plan(r, "plan", &e->plan, shape));
    TRY(check_plan(r, "runner_up", &e->runner_up, shape));
    TRY(check_plan(r, "search_winner", &e->search_winner, shape));
    TRY(check_plan(r, "other", &e->other, shape));
    /* A plan of the other kind comes with its time, or `no_other` says that there is none. */
    if (!e->other.struct_size && e->other_us != 0)
        return refuse(r, "other_us", "comes without its plan");
    if (e->other.struct_size && (!(e->other_us > 0) || e->no_other))
        return refuse(r, "other",
                      e->no_other ? "is there, and no_other says that none is"
                                  : "comes without other_us");
    if (e->other.struct_size && (!plan_other_kind(&e->plan, &e->other) || shape->space))
        return refuse(r, "other", "is of the same kind as the plan");
    if (d && e->window != 1)
        return refuse(r, "window", "is not 1, as those of declared spaces are");
    if (d && e->bucket >= buckets_end(buckets))
        return refuse(r, "bucket", "is none of its space");
    if (d && !buckets_contain(buckets, e->bucket, e->capacity))
        return refuse(r, "capacity", "lies outside of its bucket");
    if (!e->window)
        return refuse(r, "window", "is 0");
    if (e->time_us == 0 || e->default_us == 0)
        return refuse(r, e->time_us == 0 ? "time_us" : "default_us", "is 0: no step takes no time");
    if (e->gain.value > 1 || e->gain.low > 1 || e->gain.high > 1) /* false for unknown numbers */
        return refuse(r, "gain", "is above 1: no plan is that much faster");
    if (!d && e->capacity < buckets_lowest(buckets, e->bucket))
        return refuse(r, "capacity", "lies below its bucket");
    return OK;
}

static int read_entry(struct import_table *r, const char *text, size_t length)
{
    struct incoming in = { .line = r->line, .row.tier = TIER_IMPORTED };
    struct import_line line = { .table = r };
    struct head head;
    size_t space = 0;
    long cluster;

    EXPECT(&line, entry_head, 1, &head);
    TRY(read_members(&line, &entry_table, &in.row, text, length));
    cluster = find_cluster(r, head.cluster);
    if (cluster < 0)
        return refuse(r, "cluster", "was not described before");
    in.cluster = (size_t)cluster;
    TRY(check_order(r, head.layer, &in));
    if (r->entry_count && !strcmp(head.layer, r->layer)) {
        in.shape = r->entries[r->entry_count - 1].shape;
    } else {
        TRY(read_layer(r, head.layer, &in.shape));
        memcpy(r->layer, head.layer, strlen(head.layer) + 1);
        while (in.shape.space && space < r->space_count &&
               r->spaces[space].space->id != in.shape.space)
            space++;
        if (in.shape.space && space == r->space_count)
            return refuse(r, "layer", "has a space that no line before declares");
        if (in.shape.space)
            r->spaces[space].used = true;
    }
    if (in.shape.ranks != r->clusters[cluster].cluster.ranks)
        return refuse(r, "layer", "has other ranks than its cluster");
    TRY(check_entry(r, &in.row, &in.shape));
    if (r->entry_count == ENTRIES_MAX)
        return refuse(r, "entry", "is one too many");
    ARRAY_APPEND(r->entries, r->entry_count, in);
    return OK;
}

/* Returns whether an entry is of that layer on that cluster, with buckets of that width. */
static bool is_of_table(const struct incoming *in, size_t cluster, const struct moe_shape *shape,
                        uint32_t window)
{
    return in->cluster == cluster && in->row.window == window && shape_equal(&in->shape, shape);
}

/* ---- Standings, launches and samples. */

static int read_standing(struct import_table *r, const char *text, size_t length)
{
    const struct incoming_standing *last =
        r->standing_count ? &r->standings[r->standing_count - 1] : NULL;
    struct incoming_standing in = { .table = last ? last->table : 0 };
    struct import_line line = { .table = r };
    struct moe_shape shape = { 0 };
    struct standing_fault fault;
    struct head head;
    long cluster;

    EXPECT(&line, standing_head, 1, &head);
    TRY(read_members(&line, &standing_table, &in.row, text, length));
    cluster = find_cluster(r, head.cluster);
    if (cluster < 0)
        return refuse(r, "standing_of", "was not described before");
    TRY(read_layer(r, head.layer, &shape));
    /* Standings come in the order of their tables, so the search begins at the standing before. */
    while (in.table < r->entry_count &&
           !is_of_table(&r->entries[in.table], (size_t)cluster, &shape, in.row.window))
        in.table++;
    if (in.table == r->entry_count)
        return refuse(r, "standing_of", "has no entries, or is out of order");
    if (last && in.table == last->table)
        return refuse(r, "standing_of", "comes twice");
    TRY(check_plan(r, "static_plan", &in.row.static_plan, &shape));
    fault = standing_fault(&in.row);
    if (fault.field)
        return refuse(r, fault.field, fault.why);
    ARRAY_APPEND(r->standings, r->standing_count, in);
    return OK;
}

/* Compares two launch rows of one table. */
static int launch_order(const struct launch_row *a, const struct launch_row *b)
{
    int order = strcmp(a->launch, b->launch);

    return order ? order : (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Reads a launch row. Launch rows come in the order of their tables, as standings do. */
static int read_launch(struct import_table *r, const char *text, size_t length)
{
    const struct incoming_launch *last = r->launch_count ? &r->launches[r->launch_count - 1] : NULL;
    struct incoming_launch in = { .table = last ? last->table : 0 };
    struct import_line line = { .table = r };
    struct moe_shape shape = { 0 };
    const struct claim_fault *fault;
    struct head head;
    long cluster;

    EXPECT(&line, launch_head, 1, &head);
    TRY(read_members(&line, &launch_table, &in.row, text, length));
    cluster = find_cluster(r, head.cluster);
    if (cluster < 0)
        return refuse(r, "launch_of", "was not described before");
    TRY(read_layer(r, head.layer, &shape));
    while (in.table < r->entry_count &&
           !is_of_table(&r->entries[in.table], (size_t)cluster, &shape, in.row.window))
        in.table++;
    if (in.table == r->entry_count)
        return refuse(r, "launch_of", "has no entries, or is out of order");
    if (last && in.table == last->table && launch_order(&last->row, &in.row) >= 0)
        return refuse(r, "launch", "comes twice, or is out of order");
    TRY(check_plan(r, "plan", &in.row.plan, &shape));
    fault = launch_fault(&in.row, &shape);
    if (fault)
        return refuse(r, fault->field, fault->why);
    if (isnan(in.row.sd))
        return refuse(r, "sd", "is not known");
    if (r->launch_count == ENTRIES_MAX)
        return refuse(r, "launch", "is one too many");
    ARRAY_APPEND(r->launches, r->launch_count, in);
    return OK;
}

/* Does what standing_is_current() does for rows in the store. */
static bool is_current(const struct import_table *r, const struct incoming_standing *s)
{
    const struct incoming *first = &r->entries[s->table];

    for (size_t i = s->table; i < r->entry_count; i++) {
        const struct incoming *in = &r->entries[i];

        if (!is_of_table(in, first->cluster, &first->shape, first->row.window))
            break;
        if (!in->row.inferred && in->row.decided_s > s->row.decided_s)
            return false;
    }
    return true;
}

/* Refuses entries whose own numbers forbid their plan. For a static plan the gain of the whole
 * table counts, which is known only after the standings were read. */
static int check_claims(struct import_table *r)
{
    const struct standing_row *standing = NULL;
    size_t next_standing = 0;

    for (size_t i = 0; i < r->entry_count; i++) {
        const struct incoming *in = &r->entries[i];
        const struct claim_fault *fault;

        if (i && !is_of_table(in, in[-1].cluster, &in[-1].shape, in[-1].row.window))
            standing = NULL;
        if (next_standing < r->standing_count && r->standings[next_standing].table == i) {
            standing = is_current(r, &r->standings[next_standing])
                           ? &r->standings[next_standing].row
                           : NULL;
            next_standing++;
        }
        fault = entry_fault(&in->row, &in->shape, standing);
        r->line = in->line;
        if (fault)
            return refuse(r, fault->field, fault->why);
    }
    return OK;
}

/* Checks a sample like any other line, and drops it: samples are for people. */
static int read_sample(struct import_table *r, const char *text, size_t length)
{
    struct import_line line = { .table = r };
    struct sample_row sample;
    struct head head;

    EXPECT(&line, sample_head, 1, &head);
    return read_members(&line, &sample_table, &sample, text, length);
}

/* ---- The whole table. */

static bool begins_with(const char *text, size_t length, const char *beginning)
{
    return length > strlen(beginning) && !memcmp(text, beginning, strlen(beginning));
}

static int read_line(struct import_table *r, const char *text, size_t length)
{
    if (length > LINE_MAX)
        return refuse(r, NULL, "is too long");
    if (begins_with(text, length, "{\"fingerprint\":"))
        return r->entry_count || r->space_count
                   ? refuse(r, "fingerprint", "comes after entries or spaces")
                   : read_cluster(r, text, length);
    if (begins_with(text, length, "{\"space\":") && r->header.version >= 8)
        return r->entry_count ? refuse(r, "space", "comes after entries")
                              : read_space(r, text, length);
    if (begins_with(text, length, "{\"sample_of\":"))
        return read_sample(r, text, length);
    if (begins_with(text, length, "{\"launch_of\":") && r->header.version >= 10)
        return read_launch(r, text, length);
    if (r->launch_count)
        return refuse(r, NULL, "comes after launches");
    if (begins_with(text, length, "{\"standing_of\":") && r->header.version >= 3)
        return read_standing(r, text, length);
    if (r->standing_count)
        return refuse(r, NULL, "comes after standings");
    return read_entry(r, text, length);
}

static int read_all(struct import_table *r, const char *text, size_t size)
{
    const char *text_end = text + size, *line_end = memchr(text, '\n', size);
    const struct {
        const char *what;
        const size_t *count;
        const int64_t *wanted;
    } counts[] = { { "clusters", &r->cluster_count, &r->header.clusters },
                   { "spaces", &r->space_count, &r->header.spaces },
                   { "entries", &r->entry_count, &r->header.entries },
                   { "standings", &r->standing_count, &r->header.standings },
                   { "launches", &r->launch_count, &r->header.launches } };
    struct import_line first = { .table = r };
    char hex[SHA256_HEX_BYTES];

    r->line = 1;
    TRY(read_version(r, text, line_end ? (size_t)(line_end - text) : size));
    if (!line_end)
        return refuse(r, NULL, "does not end");
    EXPECT(&first, header_fields, r->header.version, &r->header);
    TRY(read_members(&first, NULL, NULL, text, (size_t)(line_end - text)));
    if (r->header.semantics != CLUSTER_SEMANTICS)
        return refuse(r, "semantics", "is another meaning of r, d and a than this moetune's");
    if (!r->header.entries)
        return refuse(r, "entries", "is 0: a table has at least one");
    sha256_text(line_end + 1, (size_t)(text_end - line_end - 1), hex);
    if (strcmp(hex, r->header.sha256) != 0)
        return fail(ERR_FORMAT, "%s is damaged: its lines do not match the hash in its first line",
                    r->file);
    for (text = line_end + 1; text < text_end; text = line_end + 1) {
        r->line++;
        line_end = memchr(text, '\n', (size_t)(text_end - text));
        if (!line_end)
            return refuse(r, NULL, "does not end");
        TRY(read_line(r, text, (size_t)(line_end - text)));
    }
    /* Only the end of the text can show the following faults. */
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if ((int64_t)*counts[i].count != *counts[i].wanted)
            return fail(ERR_FORMAT, "%s holds %zu %s, its first line says %lld", r->file,
                        *counts[i].count, counts[i].what, (long long)*counts[i].wanted);
    if (r->entries[r->entry_count - 1].cluster + 1 != r->cluster_count)
        return fail(ERR_FORMAT, "%s describes a cluster without entries", r->file);
    for (size_t i = 0; i < r->space_count; i++)
        if (!r->spaces[i].used)
            return fail(ERR_FORMAT, "%s declares the space %s, which no entry has", r->file,
                        r->spaces[i].space->name);
    return check_claims(r);
}

int import_read(const char *text, size_t size, const char *origin, struct import_table **out)
{
    struct import_table *table = calloc(1, sizeof(*table));
    int rc;

    if (!table)
        return fail(ERR_NOMEM, "a table");
    text_put(table->file, sizeof(table->file), "%s", origin);
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
    free(table->launches);
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

/* ---- Into the store. */

/* Counts the entries of one width that a layer has in the store. */
struct width_count {
    uint32_t window;
    size_t entries;
};

static int count_entries_of_width(void *self, const struct entry_row *e)
{
    struct width_count *width = self;

    width->entries += e->window == width->window;
    return OK;
}

static int place_entry(struct import_table *t, struct store *store, struct incoming *in,
                       const struct import_options *options, struct import_result *out)
{
    struct entry_row existing;
    bool differs;

    in->row.cluster = t->clusters[in->cluster].id;
    /* Entries come sorted, so the entry before mostly has the same layer. */
    if (in > t->entries && shape_equal(&in->shape, &in[-1].shape))
        in->row.shape = in[-1].row.shape;
    else
        TRY(store_shape_add(store, &in->shape, &in->row.shape));
    TRY(store_entry_merge(store, &in->row, "import", &existing, &in->outcome));
    differs = in->outcome != MERGE_ADDED && !plan_equal(&existing.plan, &in->row.plan);
    out->added += in->outcome == MERGE_ADDED;
    out->same += in->outcome == MERGE_SAME;
    out->replaced += in->outcome == MERGE_REPLACED;
    out->lost += in->outcome == MERGE_LOST;
    out->conflicts += differs;
    if (differs && options->conflict && out->conflicts <= IMPORT_CONFLICTS_KEPT)
        options->conflict(options->self, &existing, &in->row, in->outcome);
    return OK;
}

static int place_all(struct import_table *t, struct store *store,
                     const struct import_options *options, struct import_result *out)
{
    size_t next_standing = 0, table_end;

    for (size_t i = 0; i < t->cluster_count; i++)
        TRY(store_cluster_elsewhere(store, &t->clusters[i].cluster, &t->clusters[i].id));
    for (size_t i = 0; i < t->entry_count; i++)
        TRY(place_entry(t, store, &t->entries[i], options, out));
    for (size_t i = 0; i < t->entry_count; i = table_end) { /* one layer's entries of one width */
        const struct incoming *first_entry = &t->entries[i];
        struct width_count in_store = { .window = first_entry->row.window };
        bool any_changed = false, added;
        bool all_stored = true; /* every entry that came in is there now */
        struct standing_row *standing;

        for (table_end = i;
             table_end < t->entry_count && is_of_table(&t->entries[table_end], first_entry->cluster,
                                                       &first_entry->shape, in_store.window);
             table_end++) {
            any_changed |= t->entries[table_end].outcome == MERGE_ADDED ||
                           t->entries[table_end].outcome == MERGE_REPLACED;
            all_stored &= t->entries[table_end].outcome != MERGE_LOST;
        }
        if (any_changed)
            TRY(store_standing_end(store, first_entry->row.cluster, first_entry->row.shape,
                                   in_store.window));
        if (next_standing == t->standing_count || t->standings[next_standing].table != i)
            continue;
        /* A standing comes in only beside exactly the entries that it was measured with. So the
         * standings that stay depend on the entries that stay, and not on the order of imports. */
        standing = &t->standings[next_standing++].row;
        TRY(store_entries(store, first_entry->row.cluster, first_entry->row.shape,
                          count_entries_of_width, &in_store));
        if (!all_stored || in_store.entries != table_end - i)
            continue;
        standing->cluster = first_entry->row.cluster;
        standing->shape = first_entry->row.shape;
        TRY(store_standing_merge(store, standing, &added));
        out->standings += added;
    }
    for (size_t i = 0; i < t->launch_count; i++) {
        struct launch_row *row = &t->launches[i].row;
        bool placed;

        row->cluster = t->entries[t->launches[i].table].row.cluster;
        row->shape = t->entries[t->launches[i].table].row.shape;
        TRY(store_launch_merge(store, row, &placed));
    }
    TRY(store_import_add(store, &(struct import_row){ .sha256 = t->header.sha256,
                                                      .file = t->file,
                                                      .added = out->added,
                                                      .same = out->same,
                                                      .conflicts = out->conflicts }));
    return store_commit(store);
}

int import_place(struct import_table *table, struct store *store,
                 const struct import_options *options, struct import_result *out)
{
    struct import_result result = { .clusters = (uint32_t)table->cluster_count,
                                    .entries = (uint32_t)table->entry_count };
    int rc = store_import_known(store, table->header.sha256, &result.known);

    if (!rc && !result.known)
        rc = place_all(table, store, options, &result);
    if (rc)
        store_rollback(store); /* also when the disk becomes full half-way */
    else
        *out = result;
    return rc;
}
