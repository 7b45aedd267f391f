/* The text form of a layer, what follows from it (slices, experts per rank, capacity, width of
 * buckets), and which layers are illegal. tuner/layer/README.md explains the formulas. */
#include "shape.h"

#include "declaration.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const dtype_words[] = { "f32", "f16", "bf16", NULL };
const char *const pass_words[] = { "forward", "train", NULL };
const char *const activation_words[] = { "relu", "gelu", "swiglu", NULL };
const char *const layout_words[] = { "experts", "hidden", NULL };
const char *const shares_words[] = { "equal", "speed", "tokens", "hidden", NULL };
const char *const router_words[] = { "softmax", "sigmoid", "bilevel", "cosine", NULL };
const char *const order_words[] = { "token", "priority", NULL };
const char *const combine_words[] = { "sum", "choices", NULL };

const struct shape_field shape_fields[] = {
    { "E", offsetof(struct moe_shape, experts), NULL },
    { "k", offsetof(struct moe_shape, top_k), NULL },
    { "T", offsetof(struct moe_shape, tokens), NULL },
    { "D", offsetof(struct moe_shape, model_dim), NULL },
    { "H", offsetof(struct moe_shape, hidden_dim), NULL },
    { "dtype", offsetof(struct moe_shape, dtype), dtype_words },
    { "pass", offsetof(struct moe_shape, pass), pass_words },
    { "act", offsetof(struct moe_shape, activation), activation_words },
    { "W", offsetof(struct moe_shape, ranks), NULL },
    { "m", offsetof(struct moe_shape, ranks_per_node), NULL },
    { "layout", offsetof(struct moe_shape, layout), layout_words, true },
    { "shares", offsetof(struct moe_shape, shares), shares_words, true },
    { "layers", offsetof(struct moe_shape, layers), NULL, true },
    { "G", offsetof(struct moe_shape, groups), NULL, true },
    { "L", offsetof(struct moe_shape, group_limit), NULL, true },
    { "router", offsetof(struct moe_shape, router), router_words, true },
    { "order", offsetof(struct moe_shape, order), order_words, true },
    { "P", offsetof(struct moe_shape, projection), NULL, true },
    { "combine", offsetof(struct moe_shape, combine), combine_words, true },
    { "rack", offsetof(struct moe_shape, ranks_per_rack), NULL, true },
    { "space", offsetof(struct moe_shape, space), NULL, true, true },
};
enum { FIELD_COUNT = sizeof(shape_fields) / sizeof(shape_fields[0]) };
const size_t shape_field_count = FIELD_COUNT;

static uint32_t field_get(const struct shape_field *field, const struct moe_shape *shape)
{
    return *(const uint32_t *)((const char *)shape + field->offset);
}

static void field_set(const struct shape_field *field, struct moe_shape *shape, uint32_t value)
{
    *(uint32_t *)((char *)shape + field->offset) = value;
}

uint32_t shape_value(const struct moe_shape *shape, size_t field)
{
    return field_get(&shape_fields[field], shape);
}

/* How many fields come before those of the ranks: every layer has them. */
enum { LAYER_FIELDS = 8 };
static const uint32_t no_layer[LAYER_FIELDS] = { 1, 1, 1, 1, 1, MOE_F32, MOE_FORWARD, MOE_RELU };

static bool layer_fields_are(const struct moe_shape *shape, const uint32_t values[LAYER_FIELDS])
{
    for (int i = 0; i < LAYER_FIELDS; i++)
        if (field_get(&shape_fields[i], shape) != values[i])
            return false;
    return true;
}

bool shape_is_none(const struct moe_shape *shape)
{
    return shape->space && layer_fields_are(shape, no_layer);
}

void shape_set_none(struct moe_shape *inout)
{
    for (int i = 0; i < LAYER_FIELDS; i++)
        field_set(&shape_fields[i], inout, no_layer[i]);
}

int shape_format(const struct moe_shape *shape, char *text, size_t size)
{
    int first = shape_is_none(shape) ? LAYER_FIELDS : 0;
    size_t used = 0;

    for (int i = first; i < FIELD_COUNT; i++) {
        const struct shape_field *f = &shape_fields[i];
        uint32_t value = field_get(f, shape);
        const struct declaration *d = f->declared ? declaration_find(value) : NULL;
        char tag[DECLARATION_TAG_BYTES], *end;
        const char *word = d ? declaration_tag(d, tag) : f->words ? f->words[value] : NULL;
        size_t room;

        if (f->quiet && !value)
            continue;
        if (i > first && used++ < size)
            text[used - 1] = ' ';
        room = used < size ? size - used : 0;
        end = room ? text + used : NULL;
        used += (size_t)(word ? snprintf(end, room, "%s=%s", f->name, word)
                              : snprintf(end, room, "%s=%u", f->name, value));
    }
    return (int)used;
}

const char *shape_text(const struct moe_shape *shape, char room[SHAPE_TEXT_BYTES])
{
    shape_format(shape, room, SHAPE_TEXT_BYTES);
    return room;
}

static int parse_field(const struct shape_field *field, const char *text, size_t length,
                       struct moe_shape *shape)
{
    const struct declaration *d = field->declared ? declaration_named(text, length) : NULL;
    char value[32], *end;
    unsigned long number;

    if (field->declared) {
        field_set(field, shape, d ? d->id : 0);
        return d ? OK : ERR_FORMAT;
    }
    if (length >= sizeof(value))
        return ERR_FORMAT;
    memcpy(value, text, length);
    value[length] = 0;
    for (uint32_t i = 0; field->words && field->words[i]; i++)
        if (!strcmp(field->words[i], value)) {
            field_set(field, shape, i);
            return OK;
        }
    number = strtoul(value, &end, 10);
    /* Options use UINT32_MAX for "not given". */
    if (field->words || *value < '0' || *value > '9' || *end || number >= UINT32_MAX)
        return ERR_FORMAT;
    field_set(field, shape, (uint32_t)number);
    return OK;
}

const char *shape_scan(const char *text, struct moe_shape *inout)
{
    static const uint32_t not_given[LAYER_FIELDS] = { 0 };
    struct moe_shape shape = *inout;
    uint32_t seen = 0;

    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " "), name_length = strcspn(text, "= ");
        int field = 0;

        while (field < FIELD_COUNT && (strlen(shape_fields[field].name) != name_length ||
                                       memcmp(shape_fields[field].name, text, name_length) != 0))
            field++;
        if (field == FIELD_COUNT || name_length == length || (seen >> field & 1) ||
            parse_field(&shape_fields[field], text + name_length + 1, length - name_length - 1,
                        &shape))
            return text;
        seen |= 1u << field;
        text += length;
    }
    if (shape.space && layer_fields_are(&shape, not_given))
        shape_set_none(&shape);
    *inout = shape;
    return NULL;
}

int shape_parse(const char *text, struct moe_shape *inout)
{
    const char *unread_word = shape_scan(text, inout);

    if (unread_word)
        return fail(ERR_FORMAT,
                    "shape: \"%.*s\" is not understood; a shape reads \"E=8 k=2 T=4096 D=1024 "
                    "H=4096 dtype=bf16 pass=train act=swiglu\"",
                    (int)strcspn(unread_word, " "), unread_word);
    return OK;
}

bool shape_equal(const struct moe_shape *a, const struct moe_shape *b)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (field_get(&shape_fields[i], a) != field_get(&shape_fields[i], b))
            return false;
    return true;
}

bool shape_agrees(const struct moe_shape *shape, const char *text)
{
    struct moe_shape changed = *shape, alone = { 0 };

    if (!text)
        return true;
    /* A whole text without a layer's words describes no layer; it does not agree with every layer.
     */
    if (!shape_scan(text, &alone) && shape_is_none(&alone) && alone.ranks && !shape_is_none(shape))
        return false;
    return !shape_scan(text, &changed) && shape_equal(&changed, shape);
}

uint32_t shape_slices(const struct moe_shape *shape)
{
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        return shape->ranks;
    return shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
}

uint32_t shape_local_experts(const struct moe_shape *shape)
{
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        return shape->experts;
    return shape->experts < shape->ranks ? 1 : shape->experts / shape->ranks;
}

uint32_t shape_gate_columns(const struct moe_shape *shape)
{
    return gate_columns(shape->router, shape->experts, shape->groups);
}

uint32_t shape_gate_rows(const struct moe_shape *shape)
{
    return shape->router == MOE_ROUTER_COSINE ? shape->projection : shape_gate_columns(shape);
}

uint32_t shape_result_rows(const struct moe_shape *shape)
{
    return shape->combine == MOE_COMBINE_CHOICES ? shape->top_k : 1;
}

/* P as in Tutel; tokens with fewer dimensions keep theirs. */
enum { USUAL_PROJECTION = 256 };

void shape_complete(struct moe_shape *inout)
{
    if (inout->layers == 1)
        inout->layers = 0;
    if (inout->router == MOE_ROUTER_COSINE && !inout->projection)
        inout->projection =
            inout->model_dim < USUAL_PROJECTION ? inout->model_dim : USUAL_PROJECTION;
}

uint32_t shape_nodes(const struct moe_shape *shape)
{
    uint32_t m = shape->ranks_per_node;

    return m && shape->ranks % m == 0 ? shape->ranks / m : 0;
}

bool shape_groups_straddle(const struct moe_shape *shape)
{
    uint32_t nodes = shape_nodes(shape);

    return shape->layout == MOE_LAYOUT_EXPERTS && nodes > 1 && shape->groups &&
           shape->groups % nodes != 0;
}

uint32_t shape_bias2_slice(const struct moe_shape *shape)
{
    uint32_t slices = shape_slices(shape);

    return (shape->model_dim + slices - 1) / slices;
}

uint32_t shape_paper_trials(const struct moe_shape *shape)
{
    /* ceil(log_{3/2} n): the least k with 1.5^k >= n. */
    uint32_t steps = 0;
    double reach = 1;

    while (reach < (double)shape_slices(shape)) {
        reach *= 1.5;
        steps++;
    }
    return (steps + 2) * 4 * 2;
}

size_t dtype_bytes(uint32_t dtype)
{
    return dtype == MOE_F32 ? 4 : 2;
}

/* 2^24 is far above any real layer, and products of three such sizes are far from leaving 64
 * bits. */
enum { SIZE_LIMIT = 1 << 24, LAYERS_LIMIT = 1 << 12 };

/* Buffer for the message of a broken rule. */
struct fault_text {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct fault_text fault_text,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_put_list(fault_text.text, fault_text.size, format, args);
    va_end(args);
    return ERR_ARGUMENT;
}

static int check_size(struct fault_text why, const char *name, uint32_t value)
{
    if (value >= 1 && value <= SIZE_LIMIT)
        return OK;
    return refuse(why, "%s is %u: it must be from 1 to %d", name, value, SIZE_LIMIT);
}

static int check_experts(struct fault_text why, const struct moe_shape *shape)
{
    uint32_t e = shape->experts, w = shape->ranks;
    bool hidden = shape->layout == MOE_LAYOUT_HIDDEN;

    if (shape->top_k < 1 || shape->top_k > e)
        return refuse(why, "top-k is %u: with %u expert%s it must be from 1 to %u", shape->top_k, e,
                      e == 1 ? "" : "s", e);
    /* Kernels count the choices of all ranks' tokens in 32 bits, and a row of units in 31. */
    if (hidden && (uint64_t)w * shape->tokens > UINT32_MAX / shape->top_k)
        return refuse(why, "%u ranks of %u tokens with layout=hidden: W T k must stay below 2^32",
                      w, shape->tokens);
    if (hidden && (uint64_t)e * shape->model_dim > INT32_MAX)
        return refuse(why, "%u experts of width %u with layout=hidden: E D must stay below 2^31", e,
                      shape->model_dim);
    if (hidden && shape->hidden_dim < w)
        return refuse(why,
                      "hidden dimension %u with layout=hidden: %u ranks need at least %u units",
                      shape->hidden_dim, w, w);
    if (hidden)
        return OK;
    if (e < w && w % e)
        return refuse(why, "%u experts on %u ranks: fewer experts than ranks must divide the ranks",
                      e, w);
    if (e > w && e % w)
        return refuse(
            why, "%u experts on %u ranks: more experts than ranks must be a multiple of the ranks",
            e, w);
    if (shape->hidden_dim % shape_slices(shape))
        return refuse(why,
                      "hidden dimension %u: %u ranks share an expert, so it must be a multiple of "
                      "%u",
                      shape->hidden_dim, shape_slices(shape), shape_slices(shape));
    return OK;
}

static int check_router(struct fault_text why, const struct moe_shape *shape)
{
    uint32_t g = shape->groups, l = shape->group_limit, p = shape->projection;
    uint32_t nodes = shape_nodes(shape);

    if (shape->router > MOE_ROUTER_COSINE)
        return refuse(why, "unknown router %u", shape->router);
    if (shape->router != MOE_ROUTER_COSINE && p)
        return refuse(why, "P is %u with router=%s: only router=cosine projects tokens", p,
                      router_words[shape->router]);
    if (shape->router == MOE_ROUTER_COSINE && (p < 1 || p > shape->model_dim))
        return refuse(why, "P is %u: router=cosine projects tokens to 1 to D = %u dimensions", p,
                      shape->model_dim);
    if (g && shape->experts % g)
        return refuse(why, "%u groups of %u experts: groups must divide the experts", g,
                      shape->experts);
    if (!g != !l)
        return refuse(why,
                      g ? "%u groups without a limit: L (--group-limit) must say how many of them "
                          "a token uses"
                        : "a limit of %u groups, but no groups: G says how many there are",
                      g ? g : l);
    if (l > g)
        return refuse(why, "a limit of %u groups: there are only %u", l, g);
    if (shape->router == MOE_ROUTER_BILEVEL) { /* a token chooses a node, and an expert there */
        if (nodes < 2) {
            refuse(why, "router=bilevel needs several nodes of equally many ranks");
            return UNSUPPORTED;
        }
        if (g != nodes)
            return refuse(why, "router=bilevel with G=%u: a group is a node, of which there are %u",
                          g, nodes);
        if (l != 1 || shape->top_k != 1)
            return refuse(why,
                          "router=bilevel with L=%u and k=%u: a token goes to one expert of one "
                          "node, so both must be 1",
                          l, shape->top_k);
    }
    if (g && shape->top_k > l * (shape->experts / g))
        return refuse(why, "top-k is %u: %u groups of %u experts have only %u", shape->top_k, l,
                      shape->experts / g, l * (shape->experts / g));
    return OK;
}

int shape_fault(const struct moe_shape *shape, char *text, size_t size)
{
    struct rank_layout layout = { shape->ranks, shape->ranks_per_node, shape->ranks_per_rack };
    bool choices = shape->combine == MOE_COMBINE_CHOICES;
    struct fault_text why = { text, size };

    TRY(check_size(why, "number of experts", shape->experts));
    TRY(check_size(why, "number of ranks", shape->ranks));
    TRY(check_size(why, "model dimension", shape->model_dim));
    TRY(check_size(why, "hidden dimension", shape->hidden_dim));
    if (shape->tokens > SIZE_LIMIT)
        return refuse(why, "tokens is %u: it must be from 0 to %d", shape->tokens, SIZE_LIMIT);
    if (shape->dtype > MOE_BF16 || shape->pass > MOE_TRAIN || shape->activation > MOE_SWIGLU)
        return refuse(why, "unknown dtype %u, pass %u or activation %u", shape->dtype, shape->pass,
                      shape->activation);
    if (shape->layout > MOE_LAYOUT_HIDDEN || shape->shares > MOE_SHARES_HIDDEN)
        return refuse(why, "unknown layout %u or shares %u", shape->layout, shape->shares);
    if (shape->layout != MOE_LAYOUT_HIDDEN && shape->shares > MOE_SHARES_SPEED)
        return refuse(
            why, "shares=%s needs layout=hidden: this layout shares only tokens, with shares=speed",
            shares_words[shape->shares]);
    if (shape->layers > LAYERS_LIMIT)
        return refuse(why, "layers is %u: it must be from 0 to %d", shape->layers, LAYERS_LIMIT);
    if (shape->ranks_per_rack && !rank_layout_has_racks(layout))
        return refuse(why,
                      "racks of %u ranks: each rack must have several nodes of %u ranks, and there "
                      "must be several equal racks in all %u ranks",
                      shape->ranks_per_rack, shape->ranks_per_node, shape->ranks);
    if (shape->space) /* its program decides what it can run */
        return declaration_find(shape->space)
                   ? OK
                   : refuse(why, "the layer's space (%08x) is not known here", shape->space);
    TRY(check_experts(why, shape));
    if (shape->order > MOE_ORDER_PRIORITY || shape->combine > MOE_COMBINE_CHOICES)
        return refuse(why, "unknown order %u or combine %u", shape->order, shape->combine);
    if (choices && shape->layers > 1)
        return refuse(why,
                      "combine=choices with layers=%u: it returns a row per choice, which cannot "
                      "be the next layer's input",
                      shape->layers);
    if (choices && (uint64_t)shape->tokens * shape->top_k > INT32_MAX)
        return refuse(why, "combine=choices with %u tokens of %u choices: T k must stay below 2^31",
                      shape->tokens, shape->top_k);
    return check_router(why, shape);
}

int shape_check(const struct moe_shape *shape)
{
    char why[SHAPE_FAULT_BYTES];
    int rc = shape_fault(shape, why, sizeof(why));

    return rc ? fail(rc, "%s", why) : OK;
}

/* Computes trunc(f * ceil(T/E)) in IEEE double, times k. Frameworks truncate before they multiply,
 * and (k * f * T) / E rounds differently. */
static uint64_t static_rows(double factor, uint32_t top_k, uint32_t experts, uint64_t tokens)
{
    double rows = factor * (double)(tokens / experts + (tokens % experts != 0));

    if (rows != rows) /* an infinite factor times 0 tokens */
        return 0;
    if (rows >= 0x1p64 || (top_k && (uint64_t)rows > UINT64_MAX / top_k))
        return UINT64_MAX;
    return top_k * (uint64_t)rows;
}

uint64_t moe_capacity(double factor, uint32_t top_k, uint32_t experts, uint64_t tokens,
                      uint64_t needed)
{
    uint64_t bound;

    if (!experts || factor != factor)
        return 0;
    if (factor == 0)
        return needed;
    bound = static_rows(factor < 0 ? -factor : factor, top_k, experts, tokens);
    return factor > 0 || bound < needed ? bound : needed;
}

enum { WINDOW_MOST = 128, WINDOW_BUCKET = 8 };

uint32_t moe_window(uint32_t top_k, uint32_t experts, uint64_t tokens)
{
    uint64_t rows = moe_capacity(1, top_k, experts, tokens, 0);
    uint32_t window = WINDOW_MOST;

    while (tokens && window > 1 && rows / window < WINDOW_BUCKET)
        window /= 2;
    return window;
}

uint32_t shape_window(const struct moe_shape *shape)
{
    if (shape->space)
        return 1;
    return moe_window(shape->top_k, shape->experts, shape->tokens);
}
