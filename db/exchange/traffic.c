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

static const double largest_count = 0x1p53; /* JSON numbers beyond have gaps */

/* The line that is being read, and its layer so far. */
struct traffic_line {
    const char *origin;
    uint32_t number;
    unsigned seen; /* members, as bits */
    bool in_asked; /* reading is inside of "asked" */
    struct traffic_layer layer;
    /* One row of "asked": [bucket, source, count]. `column` is the index in the row. */
    int column;
    double bucket, count;
    int source;
    bool has_cluster, has_device; /* the members were not null */
    bool has_unknown_space;       /* the layer's space is not known here */
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

static bool read_whole_number(const struct json_value *v, double most, double *out)
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
    const char *unread_word = is_text(v) ? shape_scan(v->value, &shape) : "";

    line->has_unknown_space = unread_word && !strncmp(unread_word, "space=", 6);
    if (line->has_unknown_space)
        return OK;
    if (unread_word)
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
    bool is_null = v->kind == JSON_NULL, is_valid = false;
    double number = 0;

    if (member < 0)
        return refuse(line, v->key, "is not known to this version");
    if (line->seen >> member & 1)
        return refuse(line, v->key, "comes twice");
    line->seen |= 1u << member;
    switch ((enum member)member) {
    case FORMAT:
        is_valid = is_text(v) && !strcmp(v->value, "moetune-traffic");
        return is_valid ? OK : refuse(line, v->key, "is not moetune-traffic");
    case VERSION:
        is_valid = read_whole_number(v, 1e9, &number) && number >= 1 && number <= TRAFFIC_VERSION;
        return is_valid ? OK : refuse(line, v->key, "is no version that this moetune reads");
    case LAYER: return read_layer(line, v);
    case WINDOW:
        is_valid = read_whole_number(v, UINT32_MAX, &number) && number >= 1;
        line->layer.window = (uint32_t)number;
        return is_valid ? OK : refuse(line, v->key, "is no width");
    case CLUSTER:
        line->has_cluster = !is_null;
        is_valid = is_null || (is_text(v) && v->length == SHA256_HEX_BYTES - 1 &&
                               strspn(v->value, "0123456789abcdef") == v->length);
        return is_valid ? OK : refuse(line, v->key, "is no hash");
    case DEVICE:
        line->has_device = !is_null;
        return is_null || is_text(v) ? OK : refuse(line, v->key, "is no name");
    case LOST:
        is_valid = read_whole_number(v, largest_count, &number);
        line->layer.lost = (uint64_t)number;
        return is_valid ? OK : refuse(line, v->key, "is no count");
    case ASKED:
        line->in_asked = v->kind == JSON_ARRAY;
        return line->in_asked ? OK : refuse(line, v->key, "is no list");
    case MEMBERS: break;
    }
    return refuse(line, v->key, "is unknown");
}

static int read_value(void *self, const struct json_value *v)
{
    struct traffic_line *line = self;
    struct traffic_layer *layer = &line->layer;
    struct traffic_bucket row = { .bucket = (uint32_t)line->bucket };
    bool is_valid = false;

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
        is_valid = line->column == 3;
        if (is_valid && layer->bucket_count &&
            layer->buckets[layer->bucket_count - 1].bucket >= row.bucket)
            return refuse(line, "asked", "is not by bucket, each once");
        if (is_valid && layer->bucket_count == BUCKETS_MAX)
            return refuse(line, "asked", "has too many buckets");
        if (is_valid) {
            row.asked[line->source] = (uint64_t)line->count;
            ARRAY_APPEND(layer->buckets, layer->bucket_count, row);
        }
    } else if (v->depth == 2) {
        is_valid = v->kind == JSON_ARRAY;
        line->column = 0;
    } else {
        if (line->column == 0)
            is_valid = read_whole_number(v, UINT32_MAX, &line->bucket);
        if (line->column == 1 && is_text(v)) {
            line->source = word_find(plan_source_words, v->value);
            is_valid = line->source >= 0;
        }
        if (line->column == 2)
            is_valid = read_whole_number(v, largest_count, &line->count) && line->count >= 1;
        line->column++;
    }
    return is_valid ? OK : refuse(line, "asked", "has an item that is no [bucket, source, count]");
}

/* ---- Sums. */

static uint64_t add_counts(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Adds two lists that are sorted by bucket; the sum is sorted, too. */
static int merge_layers(struct traffic_layer *into, const struct traffic_layer *from)
{
    const struct traffic_bucket *a = into->buckets, *a_end = a + into->bucket_count;
    const struct traffic_bucket *b = from->buckets, *b_end = b + from->bucket_count;
    size_t room = into->bucket_count + from->bucket_count + 1, count = 0;
    struct traffic_bucket *merged = malloc(room * sizeof(*merged));

    if (!merged)
        return fail(ERR_NOMEM, "%zu rows of traffic", room);
    while (a < a_end || b < b_end) {
        bool takes_a = b == b_end || (a < a_end && a->bucket <= b->bucket);

        merged[count] = takes_a ? *a++ : *b++;
        if (takes_a && b < b_end && b->bucket == merged[count].bucket) {
            for (int source = 0; source < PLAN_SOURCE_COUNT; source++)
                merged[count].asked[source] =
                    add_counts(merged[count].asked[source], b->asked[source]);
            b++;
        }
        count++;
    }
    free(into->buckets);
    into->buckets = merged;
    into->bucket_count = count;
    into->lost = add_counts(into->lost, from->lost);
    return OK;
}

/* Members come in any order, so what must fit together is checked at the end of the line. */
static int add_line(const struct traffic_line *line, struct traffic *t)
{
    const struct traffic_layer *layer = &line->layer;
    struct buckets buckets = buckets_of(&layer->shape, layer->window);
    size_t index = 0;

    for (int i = 0; i < MEMBERS; i++)
        if (!(line->seen >> i & 1))
            return refuse(line, member_words[i], "is missing");
    if (buckets.declared && layer->window != 1)
        return refuse(line, "window", "is not 1, as buckets of a declared space are");
    if (layer->bucket_count &&
        layer->buckets[layer->bucket_count - 1].bucket >= buckets_end(buckets))
        return refuse(line, "asked", "has a bucket that is none of the layer's space");
    if (line->has_cluster != line->has_device)
        return refuse(line, "device", "and \"cluster\" are both there or both null");
    if (line->has_unknown_space) {
        t->unknown_spaces++;
        return OK;
    }
    while (index < t->count && (t->layers[index].window != layer->window ||
                                !shape_equal(&t->layers[index].shape, &layer->shape)))
        index++;
    if (index == LAYERS_MAX)
        return refuse(line, "layer", "is one too many");
    if (index == t->count) {
        struct traffic_layer new_layer = { .shape = layer->shape, .window = layer->window };

        ARRAY_APPEND(t->layers, t->count, new_layer);
    }
    return merge_layers(&t->layers[index], layer);
}

static int read_line(const char *text, size_t length, const char *origin, uint32_t number,
                     struct traffic *inout)
{
    struct traffic_line line = { .origin = origin, .number = number };
    int rc = json_read(text, length, NULL, read_value, &line);

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
    uint64_t sum = 0;

    for (int i = 0; i < PLAN_SOURCE_COUNT; i++)
        sum = add_counts(sum, bucket->asked[i]);
    return sum;
}

uint64_t traffic_unpinned(const struct traffic_bucket *bucket)
{
    return traffic_lookups(bucket) - bucket->asked[MOE_OVERRIDE];
}

uint64_t traffic_total(const struct traffic_layer *layer)
{
    uint64_t sum = layer->lost;

    for (size_t i = 0; i < layer->bucket_count; i++)
        sum = add_counts(sum, traffic_lookups(&layer->buckets[i]));
    return sum;
}

/* ---- Weights. */

int traffic_weights(const struct traffic *traffic, const struct moe_shape *shape, uint32_t window,
                    double *weights, size_t count)
{
    bool found = false;
    double total = 0;

    for (size_t b = 0; b < count; b++)
        weights[b] = 0;
    for (size_t i = 0; i < traffic->count; i++) {
        const struct traffic_layer *layer = &traffic->layers[i];
        struct moe_shape asked_shape = layer->shape;

        asked_shape.tokens = asked_shape.tokens ? asked_shape.tokens : shape->tokens;
        if (layer->window != window || !shape_equal(&asked_shape, shape))
            continue;
        found = true;
        for (size_t k = 0; k < layer->bucket_count; k++)
            if (layer->buckets[k].bucket < count) {
                weights[layer->buckets[k].bucket] += (double)traffic_lookups(&layer->buckets[k]);
                total += (double)traffic_lookups(&layer->buckets[k]);
            }
    }
    if (!found)
        return fail(ERR_ARGUMENT, "the traffic is of other spaces or layers than %s",
                    SHAPE_TEXT(shape));
    if (!(total > 0))
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
