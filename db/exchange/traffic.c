/* Reads recorded look-ups line by line, checks every member, and adds the lines up. */
#include "traffic.h"

#include "array.h"
#include "buckets.h"
#include "declaration.h"
#include "input_file.h"
#include "json.h"
#include "lookup_record.h"
#include "sha256.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A line that libmoelookup writes has at most some 20,000 buckets, and a job has a few layers. */
enum { FILE_MAX = 1 << 28, LAYERS_MAX = 1 << 10, BUCKETS_MAX = 1 << 20 };

static const double count_most = 0x1p53; /* JSON numbers beyond have gaps */

/* The line that is being read, and its layer so far. */
struct traffic_line {
    const char *origin;
    uint32_t number;
    unsigned seen; /* members, as bits */
    bool in_asked; /* reading is inside of "asked" */
    struct traffic_layer layer;
    /* One row of "asked"; `place` is the index in the row. */
    int place;
    double bucket, count;
    int source;
    bool cluster, device; /* were not null */
    bool stranger;        /* the layer's space is not known here */
};

static int refuse(const struct traffic_line *line, const char *field, const char *why)
{
    return fail(ERR_FORMAT, "%s, line %u: \"%s\" %s", line->origin, line->number,
                TEXT_SHORT(field, 40), why);
}

static int refuse_line(const struct traffic_line *line)
{
    return fail(
        ERR_FORMAT,
        "%s, line %u is no record of look-ups: a trainer writes one with MOELOOKUP_RECORD=FILE",
        line->origin, line->number);
}

static bool is_whole(const struct json_value *v, double most, double *out)
{
    double value = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (!(value >= 0 && value <= most) || value != floor(value))
        return false;
    *out = value;
    return true;
}

static bool is_text(const struct json_value *v)
{
    return v->kind == JSON_STRING && strlen(v->value) == v->length;
}

/* ---- Members. */

static int read_layer(struct traffic_line *line, const struct json_value *v)
{
    struct moe_shape shape = { .struct_size = sizeof(shape) };
    char why[SHAPE_FAULT_BYTES];
    const char *strange = is_text(v) ? shape_scan(v->value, &shape) : "";

    line->stranger = strange && !strncmp(strange, "space=", 6);
    if (line->stranger)
        return OK;
    if (strange)
        return refuse(line, v->key, "is no layer");
    if (shape_fault(&shape, why, sizeof(why)))
        return refuse(line, v->key, why);
    if (strcmp(SHAPE_TEXT(&shape), v->value) != 0)
        return refuse(line, v->key, "is not written as a layer is");
    line->layer.shape = shape;
    return OK;
}

enum member { FORMAT, VERSION, LAYER, WINDOW, CLUSTER, DEVICE, LOST, ASKED, MEMBERS };
static const char *const member_words[MEMBERS + 1] = { "format",  "version", "layer", "window",
                                                       "cluster", "device",  "lost",  "asked" };

static int read_member(struct traffic_line *line, const struct json_value *v)
{
    int member = word_find(member_words, v->key);
    bool null = v->kind == JSON_NULL, good = false;
    double number = 0;

    if (member < 0)
        return refuse(line, v->key, "is not known to this version");
    if (line->seen >> member & 1)
        return refuse(line, v->key, "comes twice");
    line->seen |= 1u << member;
    switch ((enum member)member) {
    case FORMAT:
        good = is_text(v) && !strcmp(v->value, "moetune-traffic");
        return good ? OK : refuse(line, v->key, "is not moetune-traffic");
    case VERSION:
        good = is_whole(v, 1e9, &number) && number >= 1 && number <= TRAFFIC_VERSION;
        return good ? OK : refuse(line, v->key, "is no version that this moetune reads");
    case LAYER: return read_layer(line, v);
    case WINDOW:
        good = is_whole(v, UINT32_MAX, &number) && number >= 1;
        line->layer.window = (uint32_t)number;
        return good ? OK : refuse(line, v->key, "is no width");
    case CLUSTER:
        line->cluster = !null;
        good = null || (is_text(v) && v->length == SHA256_HEX_BYTES - 1 &&
                        strspn(v->value, "0123456789abcdef") == v->length);
        return good ? OK : refuse(line, v->key, "is no hash");
    case DEVICE:
        line->device = !null;
        return null || is_text(v) ? OK : refuse(line, v->key, "is no name");
    case LOST:
        good = is_whole(v, count_most, &number);
        line->layer.lost = (uint64_t)number;
        return good ? OK : refuse(line, v->key, "is no count");
    case ASKED:
        line->in_asked = v->kind == JSON_ARRAY;
        return line->in_asked ? OK : refuse(line, v->key, "is no list");
    case MEMBERS: break;
    }
    return refuse(line, v->key, "is unknown");
}

static int on_value(void *self, const struct json_value *v)
{
    struct traffic_line *line = self;
    struct traffic_layer *l = &line->layer;
    struct traffic_bucket row = { .bucket = (uint32_t)line->bucket };
    bool good = false;

    if (v->depth == 0)
        return v->kind == JSON_OBJECT || v->kind == JSON_END ? OK : refuse_line(line);
    if (v->depth == 1 && v->kind == JSON_END) {
        line->in_asked = false;
        return OK;
    }
    if (v->depth == 1)
        return read_member(line, v);
    if (!line->in_asked || v->depth > 3)
        return refuse(line, v->key ? v->key : "value", "is in an unexpected place");
    if (v->depth == 2 && v->kind == JSON_END) {
        good = line->place == 3;
        if (good && l->bucket_count && l->buckets[l->bucket_count - 1].bucket >= row.bucket)
            return refuse(line, "asked", "is not by bucket, each once");
        if (good && l->bucket_count == BUCKETS_MAX)
            return refuse(line, "asked", "has too many buckets");
        if (good) {
            row.asked[line->source] = (uint64_t)line->count;
            ARRAY_APPEND(l->buckets, l->bucket_count, row);
        }
    } else if (v->depth == 2) {
        good = v->kind == JSON_ARRAY;
        line->place = 0;
    } else {
        if (line->place == 0)
            good = is_whole(v, UINT32_MAX, &line->bucket);
        if (line->place == 1 && is_text(v)) {
            line->source = word_find(plan_source_words, v->value);
            good = line->source >= 0;
        }
        if (line->place == 2)
            good = is_whole(v, count_most, &line->count) && line->count >= 1;
        line->place++;
    }
    return good ? OK : refuse(line, "asked", "has an item that is no [bucket, source, count]");
}

/* ---- Sums. */

static uint64_t add_counts(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Adds two lists that are sorted by bucket; the sum is sorted, too. */
static int merge(struct traffic_layer *into, const struct traffic_layer *from)
{
    const struct traffic_bucket *a = into->buckets, *a_end = a + into->bucket_count;
    const struct traffic_bucket *b = from->buckets, *b_end = b + from->bucket_count;
    size_t room = into->bucket_count + from->bucket_count + 1, n = 0;
    struct traffic_bucket *both = malloc(room * sizeof(*both));

    if (!both)
        return fail(ERR_NOMEM, "%zu rows of traffic", room);
    while (a < a_end || b < b_end) {
        bool first = b == b_end || (a < a_end && a->bucket <= b->bucket);

        both[n] = first ? *a++ : *b++;
        if (first && b < b_end && b->bucket == both[n].bucket) {
            for (int s = 0; s < PLAN_SOURCE_COUNT; s++)
                both[n].asked[s] = add_counts(both[n].asked[s], b->asked[s]);
            b++;
        }
        n++;
    }
    free(into->buckets);
    into->buckets = both;
    into->bucket_count = n;
    into->lost = add_counts(into->lost, from->lost);
    return OK;
}

/* Members come in any order, so what must fit together is checked at the end of the line. */
static int add_line(const struct traffic_line *line, struct traffic *t)
{
    const struct traffic_layer *l = &line->layer;
    struct buckets buckets = buckets_of(&l->shape, l->window);
    size_t at = 0;

    for (int i = 0; i < MEMBERS; i++)
        if (!(line->seen >> i & 1))
            return refuse(line, member_words[i], "is missing");
    if (buckets.declared && l->window != 1)
        return refuse(line, "window", "is not 1, as buckets of a declared space are");
    if (l->bucket_count && l->buckets[l->bucket_count - 1].bucket >= buckets_end(buckets))
        return refuse(line, "asked", "has a bucket that is none of the layer's space");
    if (line->cluster != line->device)
        return refuse(line, "device", "and \"cluster\" are both there or both null");
    if (line->stranger) {
        t->unknown_spaces++;
        return OK;
    }
    while (at < t->count &&
           (t->layers[at].window != l->window || !shape_equal(&t->layers[at].shape, &l->shape)))
        at++;
    if (at == LAYERS_MAX)
        return refuse(line, "layer", "is one too many");
    if (at == t->count) {
        struct traffic_layer fresh = { .shape = l->shape, .window = l->window };

        ARRAY_APPEND(t->layers, t->count, fresh);
    }
    return merge(&t->layers[at], l);
}

static int read_line(const char *text, size_t length, const char *origin, uint32_t number,
                     struct traffic *inout)
{
    struct traffic_line line = { .origin = origin, .number = number };
    int rc = json_read(text, length, NULL, on_value, &line);

    if (rc == UNSUPPORTED)
        rc = refuse_line(&line);
    if (!rc)
        rc = add_line(&line, inout);
    free(line.layer.buckets);
    return rc;
}

int traffic_parse(const char *text, size_t length, const char *origin, struct traffic *inout)
{
    uint32_t number = 0;

    while (length) {
        const char *end = memchr(text, '\n', length);
        size_t bytes = end ? (size_t)(end - text) : length;

        number++;
        if (!end)
            return fail(ERR_FORMAT, "%s, line %u has no end: the file may be cut", origin, number);
        if (bytes)
            TRY(read_line(text, bytes, origin, number, inout));
        text += bytes + 1;
        length -= bytes + 1;
    }
    return OK;
}

int traffic_read(const char *path, struct traffic *inout)
{
    char *text;
    size_t length;
    int rc;

    TRY(input_read(path, FILE_MAX, &text, &length));
    rc = traffic_parse(text, length, path, inout);
    free(text);
    return rc;
}

void traffic_free(struct traffic *traffic)
{
    for (size_t i = 0; i < traffic->count; i++)
        free(traffic->layers[i].buckets);
    free(traffic->layers);
    *traffic = (struct traffic){ 0 };
}

/* ---- Counts. */

uint64_t traffic_lookups(const struct traffic_bucket *bucket)
{
    uint64_t all = 0;

    for (int i = 0; i < PLAN_SOURCE_COUNT; i++)
        all = add_counts(all, bucket->asked[i]);
    return all;
}

uint64_t traffic_unpinned(const struct traffic_bucket *bucket)
{
    return traffic_lookups(bucket) - bucket->asked[MOE_OVERRIDE];
}

uint64_t traffic_total(const struct traffic_layer *layer)
{
    uint64_t all = layer->lost;

    for (size_t i = 0; i < layer->bucket_count; i++)
        all = add_counts(all, traffic_lookups(&layer->buckets[i]));
    return all;
}

/* ---- Weights. */

int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t count)
{
    bool found = false;
    double all = 0;

    for (size_t b = 0; b < count; b++)
        weights[b] = 0;
    for (size_t i = 0; i < traffic->count; i++) {
        const struct traffic_layer *layer = &traffic->layers[i];
        struct moe_shape own = layer->shape;

        own.tokens = own.tokens ? own.tokens : shape->tokens;
        if (layer->window != window || !shape_equal(&own, shape))
            continue;
        found = true;
        for (size_t k = 0; k < layer->bucket_count; k++)
            if (layer->buckets[k].bucket < count) {
                weights[layer->buckets[k].bucket] += (double)traffic_lookups(&layer->buckets[k]);
                all += (double)traffic_lookups(&layer->buckets[k]);
            }
    }
    if (!found)
        return fail(ERR_ARGUMENT, "the traffic is of other spaces or layers than %s",
                    SHAPE_TEXT(shape));
    if (!(all > 0))
        return fail(ERR_ARGUMENT, "the traffic has no look-ups in these buckets of %s",
                    SHAPE_TEXT(shape));
    return OK;
}

void traffic_even(struct buckets buckets, double *weights, size_t count)
{
    for (size_t b = 0; b < count; b++) {
        uint64_t from = buckets_lowest(buckets, (uint32_t)b),
                 to = buckets_highest(buckets, (uint32_t)b);

        weights[b] = from > 1 && to < UINT64_MAX ? log2((double)to / (double)(from - 1)) : 1;
    }
}
