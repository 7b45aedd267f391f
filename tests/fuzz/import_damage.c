/* Damages exported tables, with knowledge of their lines, members, hashes and checksum. */
#include "import_damage.h"

#include "cluster.h"
#include "export.h"
#include "json.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines */

enum { LINES_MAX = 1024 };

struct line {
    char *bytes;
    size_t size;
};

struct lines {
    struct line list[LINES_MAX]; /* without their ends */
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
        lines.list[lines.count++] = (struct line){ copy, size };
        at += size + 1;
    }
    return lines;
}

/* Frees them. */
static void join(struct lines *lines, struct fuzz_input *in)
{
    in->size = 0;
    for (size_t i = 0; i < lines->count; i++) {
        struct line t = lines->list[i];

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
        lines.list[lines.count] = (struct line){ strdup(lines.list[from].bytes), 0 };
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
        memmove(&lines.list[at], &lines.list[at + 1], (lines.count - at - 1) * sizeof(struct line));
        lines.count--;
    }
    join(&lines, in);
}

static void swap_lines(struct fuzz_input *in)
{
    struct lines lines = split(in);
    size_t a = draw_line(&lines), b = draw_line(&lines);
    struct line t = lines.list[a];

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
                                          "\"r=0 d=1 a=linear e=sparse\"",
                                          "\"r=2 d=1 a=linear e=sparse\"",
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

fuzz_way *const import_ways[] = { repeat_line, drop_line, swap_lines, set_value,
                                  set_value,   set_digit, set_digit,  copy_value };
const size_t import_way_count = sizeof(import_ways) / sizeof(import_ways[0]);

/* ---- mending */

static bool is_cluster(const struct line *t)
{
    return !strncmp(t->bytes, "{\"fingerprint\":\"", 16) && t->size > 16 + 64;
}

static bool is_entry(const struct line *t)
{
    return !strncmp(t->bytes, "{\"cluster\":", 11);
}

static bool is_standing(const struct line *t)
{
    return !strncmp(t->bytes, "{\"standing_of\":", 15);
}

struct fields {
    char text[2 * CLUSTER_TEXT_BYTES];
};

static int on_field(void *self, const struct json_value *v)
{
    struct fields *f = self;

    if (v->depth == 2 && v->kind == JSON_STRING)
        text_add(f->text, sizeof(f->text), "%s = %s\n", v->key, v->value);
    return OK;
}

/* The hash of its fields into a fingerprint's line, and into all lines that name the old one. */
static void mend_hash(struct lines *lines, size_t at)
{
    struct line *t = &lines->list[at];
    struct fields fields = { "" };
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

static struct key key_of(const struct line *t)
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

static const char space_line[] = "{\"space\":";

static int version_of(const struct fuzz_input *in)
{
    if (!holds(in, "\"throttled\":"))
        return 1;
    if (holds(in, space_line))
        return 7;
    return holds(in, "\"sample_of\":") && !holds(in, "\"lost_ns\":") ? 2
           : holds(in, " a=rail")                                    ? 5
           : holds(in, " e=sparse")                                  ? 4
                                                                     : EXPORT_LOWEST;
}

/* A first line that vouches for what follows it, in the version that its lines are of. */
static void seal(struct fuzz_input *in, const struct lines *lines)
{
    uint8_t *body = memchr(in->bytes, '\n', in->size);
    unsigned clusters = 0, spaces = 0, entries = 0, standings = 0;
    int version = version_of(in);
    uint8_t hash[SHA256_BYTES];
    char header[300], hex[SHA256_HEX_BYTES], since_3[40] = "", since_8[40] = "";
    struct sha256 sum;

    for (size_t i = 1; i < lines->count; i++) {
        clusters += is_cluster(&lines->list[i]);
        entries += is_entry(&lines->list[i]);
        spaces += !strncmp(lines->list[i].bytes, space_line, strlen(space_line));
        standings += is_standing(&lines->list[i]);
    }
    sha256_init(&sum);
    sha256_add(&sum, body + 1, in->size - (size_t)(body + 1 - in->bytes));
    sha256_end(&sum, hash);
    sha256_hex(hash, hex);
    if (version >= 3)
        snprintf(since_3, sizeof(since_3), "\"standings\":%u,", standings);
    if (version >= 8)
        snprintf(since_8, sizeof(since_8), "\"spaces\":%u,", spaces);
    snprintf(header, sizeof(header),
             "{\"format\":\"moetune-table\",\"version\":%d,\"semantics\":%d,\"clusters\":%u,"
             "%s\"entries\":%u,%s\"sha256\":\"%s\"}",
             version, CLUSTER_SEMANTICS, clusters, since_8, entries, since_3, hex);
    replace(in, 0, (size_t)(body - in->bytes), header);
}

void import_mend(struct fuzz_input *in)
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
