/* Makes the shape of a layer from options and from the text of --shape, which may not contradict
 * each other. */
#include "layer_options.h"

#include "plan.h"
#include "status.h"

#include <string.h>

#define AT(field) offsetof(struct layer_options, field)
const struct option_row layer_rows[] = {
    { "experts", "E", OPTION_COUNT, AT(experts), "experts in the layer [half the ranks]" },
    { "top-k", "K", OPTION_COUNT, AT(top_k),
      "experts that each token chooses [2, or 1 if there is one]" },
    { "tokens", "T", OPTION_COUNT, AT(tokens), "tokens per rank and step [512]" },
    { "model-dim", "D", OPTION_COUNT, AT(model_dim), "model dimension [128]" },
    { "hidden-dim", "H", OPTION_COUNT, AT(hidden_dim), "hidden dimension of an expert [256]" },
    { "dtype", "TYPE", OPTION_WORD, AT(dtype),
      "storage type: f32, f16, bf16 [bf16 on real and modelled GPUs, f32 on CPUs]", dtype_words },
    { "pass", "PASS", OPTION_WORD, AT(pass),
      "what a step computes: forward, or train (forward and backward) [train]", pass_words },
    { "activation", "ACT", OPTION_WORD, AT(activation),
      "activation function: relu, gelu, swiglu (gated) [relu]", activation_words },
    { "layers", "L", OPTION_COUNT, AT(layers), "layers in a step, one after the other [1]",
      .least = 1, .most = 4096 },
    { "layout", "WORD", OPTION_WORDS, AT(layouts),
      "what a rank holds: experts (whole ones), hidden (some hidden units of every expert) "
      "[experts]",
      layout_words },
    { "shares", "WORD", OPTION_WORDS, AT(shares),
      "how ranks share work: equal, or by speed: tokens, hidden (units of experts), speed (both) "
      "[equal]",
      shares_words },
    { "groups", "G", OPTION_COUNT, AT(groups), "groups of experts, for --group-limit [none]" },
    { "group-limit", "L", OPTION_COUNT, AT(group_limit),
      "largest number of groups that a token's experts come from" },
    { "router", "WORD", OPTION_WORD, AT(router),
      "how the gate chooses: softmax, sigmoid, bilevel (a node, then an expert there), cosine "
      "[softmax]",
      router_words },
    { "projection", "P", OPTION_COUNT, AT(projection),
      "dimensions in which --router cosine compares [256, at most D]", .least = 1 },
    { "order", "WORD", OPTION_WORD, AT(order),
      "which choices get slots first: token (in order of tokens), priority (by the token's largest "
      "gate probability) [token]",
      order_words },
    { "combine", "WORD", OPTION_WORD, AT(combine),
      "what a token gets back: sum (weighted sum over its experts), choices (one row for each "
      "choice) [sum]",
      combine_words },
    { NULL },
};
#undef AT

#define AT(field) offsetof(struct load_options, field)
const struct option_row load_rows[] = {
    { "skew", "X", OPTION_NUMBER, AT(skew),
      "expert load: largest over mean tokens per expert, 1 to E/k [as random tokens choose]",
      .least = 1, .most = 1e6 },
    { "routing", "FILE", OPTION_LIST, AT(routing),
      "expert load as a trainer recorded it, step by step: tokens per expert; may be repeated" },
    { "between", "GFLOP", OPTION_NUMBER, AT(between),
      "matrix products before each layer, for attention; backward takes twice as many after it [0]",
      .least = 0, .most = LOAD_BETWEEN_MOST },
    { NULL },
};
#undef AT

int load_options_check(const struct load_options *o)
{
    return o->skew != 0 && o->routing.count
               ? fail(ERR_ARGUMENT,
                      "--skew and --routing both set the expert load: give one of them")
               : OK;
}

/* For each option: its member in the options, its member in the shape, and its default.  In the
 * order of layer_rows. */
#define PART(field, fallback)                                                                      \
    {                                                                                              \
        offsetof(struct layer_options, field), offsetof(struct moe_shape, field), fallback, false  \
    }
#define MASK(field, member)                                                                        \
    {                                                                                              \
        offsetof(struct layer_options, field), offsetof(struct moe_shape, member), 0, true         \
    }
static const struct part {
    size_t option, shape;
    uint32_t fallback;
    bool mask; /* the option is a set of bits; bit v stands for the value v of the shape */
} parts[] = {
    PART(experts, NOT_GIVEN),
    PART(top_k, NOT_GIVEN),
    PART(tokens, 512),
    PART(model_dim, 128),
    PART(hidden_dim, 256),
    PART(dtype, NOT_GIVEN),
    PART(pass, MOE_TRAIN),
    PART(activation, MOE_RELU),
    PART(layers, 0),
    MASK(layouts, layout),
    MASK(shares, shares),
    PART(groups, 0),
    PART(group_limit, 0),
    PART(router, MOE_ROUTER_SOFTMAX),
    PART(projection, 0),
    PART(order, MOE_ORDER_TOKEN),
    PART(combine, MOE_COMBINE_SUM),
};
#undef MASK
#undef PART
enum { PART_COUNT = sizeof(parts) / sizeof(parts[0]) };

static uint32_t get_member(const void *from, size_t offset)
{
    return *(const uint32_t *)((const char *)from + offset);
}

static void set_member(void *to, size_t offset, uint32_t value)
{
    *(uint32_t *)((char *)to + offset) = value;
}

#define AT(field) offsetof(struct stated_layer, field)
const struct option_row stated_layer_rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(on.ranks), "ranks of the group [4]" },
    { "ranks-per-node", "M", OPTION_COUNT, AT(on.per_node), "ranks on each node [all ranks]" },
    { "ranks-per-rack", "P", OPTION_COUNT, AT(on.per_rack),
      "ranks in a rack of nodes [all nodes are equally near]" },
    { .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_TEXT, AT(shape),
      "the layer as text, as `moetune show` prints it; W is the number of ranks, m the ranks per "
      "node" },
    { NULL },
};
#undef AT

/* On CPUs products take most of a step.  The small hidden dimension lets communication show. */
static const struct example {
    const char *device;
    uint32_t experts_per_rank, tokens, model_dim, hidden_dim;
} examples[] = {
    { "host", 2, 256, 256, 16 },
    { "cuda", 2, 4096, 2048, 1024 },
};

bool layer_options_none(const struct layer_options *options)
{
    for (int i = 0; i < PART_COUNT; i++)
        if (get_member(options, parts[i].option) != NOT_GIVEN)
            return false;
    return true;
}

bool layer_options_example(const char *device, uint32_t ranks, struct layer_options *inout)
{
    if (!layer_options_none(inout))
        return false;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        if (strcmp(examples[i].device, device) != 0)
            continue;
        inout->experts = examples[i].experts_per_rank * ranks;
        inout->tokens = examples[i].tokens;
        inout->model_dim = examples[i].model_dim;
        inout->hidden_dim = examples[i].hidden_dim;
        return true;
    }
    return false;
}

/* Returns the value that a shape has for an option; for a mask, that of its lowest bit. */
static uint32_t value_in_shape(const struct part *part, uint32_t option)
{
    uint32_t value = 0;

    if (!part->mask || option == NOT_GIVEN)
        return option;
    while (!(option >> value & 1))
        value++;
    return value;
}

/* Writes a copy of the options for each bit of the mask at `offset`, or one copy if the option was
 * not given.  Returns the number of copies. */
static size_t split_mask(const struct layer_options *options, size_t offset,
                         struct layer_options *out)
{
    uint32_t mask = get_member(options, offset);
    size_t count = 0;

    out[0] = *options;
    if (mask == NOT_GIVEN)
        return 1;
    for (uint32_t bit = 1; bit <= mask; bit *= 2)
        if (mask & bit) {
            out[count] = *options;
            set_member(&out[count++], offset, bit);
        }
    return count;
}

/* Ranks that hold whole experts can share only tokens by speed.  So there shares=tokens means the
 * same as shares=speed, and shares=hidden falls away. */
static uint32_t shares_of_experts(uint32_t shares)
{
    enum {
        SPEED = 1u << MOE_SHARES_SPEED,
        TOKENS = 1u << MOE_SHARES_TOKENS,
        HIDDEN = 1u << MOE_SHARES_HIDDEN
    };
    uint32_t mask = shares & TOKENS ? (shares & ~(uint32_t)TOKENS) | SPEED : shares;

    return mask & ~(uint32_t)HIDDEN ? mask & ~(uint32_t)HIDDEN : mask;
}

size_t layer_options_settings(const struct layer_options *options,
                              struct layer_options out[LAYER_SETTINGS_MAX])
{
    struct layer_options by_layout[LAYER_SETTINGS_MAX];
    size_t layouts = split_mask(options, offsetof(struct layer_options, layouts), by_layout),
           count = 0;

    for (size_t i = 0; i < layouts; i++) {
        bool is_hidden = by_layout[i].layouts == 1u << MOE_LAYOUT_HIDDEN;

        if (layouts > 1 && !is_hidden && by_layout[i].shares != NOT_GIVEN)
            by_layout[i].shares = shares_of_experts(by_layout[i].shares);
        count += split_mask(&by_layout[i], offsetof(struct layer_options, shares), out + count);
    }
    return count;
}

int layer_options_single(const struct layer_options *options)
{
    struct layer_options settings[LAYER_SETTINGS_MAX];

    if (layer_options_settings(options, settings) == 1)
        return OK;
    return fail(ERR_ARGUMENT, "--layout and --shares: give one word of each here, not several");
}

struct moe_shape layer_options_shape(const struct layer_options *o, struct rank_layout placement,
                                     uint32_t dtype)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .ranks = placement.ranks,
                               .ranks_per_node = placement.per_node,
                               .ranks_per_rack = placement.per_rack };

    for (int i = 0; i < PART_COUNT; i++) {
        uint32_t value = value_in_shape(&parts[i], get_member(o, parts[i].option));

        set_member(&shape, parts[i].shape, value == NOT_GIVEN ? parts[i].fallback : value);
    }
    if (shape.dtype == NOT_GIVEN)
        shape.dtype = dtype;
    if (shape.experts == NOT_GIVEN)
        shape.experts = placement.ranks % 2 == 0 ? placement.ranks / 2 : 1;
    if (shape.top_k == NOT_GIVEN)
        shape.top_k = shape.experts > 1 && shape.router != MOE_ROUTER_BILEVEL ? 2 : 1;
    shape_complete(&shape); /* writes members that mean the same in one way */
    return shape;
}

int layer_options_check(const struct moe_shape *shape)
{
    static bool noted; /* once for all layers */

    TRY(shape_check(shape));
    if (shape_groups_straddle(shape) && !noted)
        note(
            "G=%u: groups of experts lie across the borders of %u nodes; a limit on groups is then "
            "none on nodes",
            shape->groups, shape_nodes(shape));
    noted |= shape_groups_straddle(shape);
    return OK;
}

/* Merges a value of --shape with that of the option `option`.  ERR_ARGUMENT if they differ. */
static int merge_value(const char *option, const char *text, uint32_t from_shape, uint32_t *given)
{
    if (from_shape != NOT_GIVEN && *given != NOT_GIVEN && from_shape != *given)
        return fail(ERR_ARGUMENT, "--%s contradicts --shape \"%s\": leave one of them out", option,
                    text);
    *given = from_shape == NOT_GIVEN ? *given : from_shape;
    return OK;
}

int layer_options_text(const char *text, struct layer_options *inout, struct rank_layout *placement)
{
    struct moe_shape from_shape = { .ranks = NOT_GIVEN,
                                    .ranks_per_node = NOT_GIVEN,
                                    .ranks_per_rack = NOT_GIVEN };
    struct layer_options layer = *inout;

    for (int i = 0; i < PART_COUNT; i++)
        set_member(&from_shape, parts[i].shape, NOT_GIVEN);
    if (shape_parse(text, &from_shape))
        return ERR_ARGUMENT;
    for (int i = 0; i < PART_COUNT; i++) {
        uint32_t given = get_member(&layer, parts[i].option),
                 value = get_member(&from_shape, parts[i].shape);

        if (parts[i].mask && value != NOT_GIVEN)
            value = 1u << value;
        TRY(merge_value(layer_rows[i].name, text, value, &given));
        set_member(&layer, parts[i].option, given);
    }
    TRY(merge_value("ranks", text, from_shape.ranks, &placement->ranks));
    TRY(merge_value("ranks-per-node", text, from_shape.ranks_per_node, &placement->per_node));
    TRY(merge_value("ranks-per-rack", text, from_shape.ranks_per_rack, &placement->per_rack));
    *inout = layer;
    return OK;
}

int layer_options_plan(const char *text, struct moe_plan *out)
{
    return plan_parse(text, out)
               ? fail(ERR_ARGUMENT,
                      "--plan \"%s\": a plan reads \"r=1 d=2 a=2dh\"; d is 1, 2, "
                      "4 or 8, a is linear, 2dh, nccl, rail or 3dh, e is padded or sparse",
                      text)
               : OK;
}

int stated_layer_shape(const struct stated_layer *stated, uint32_t dtype, struct moe_shape *out)
{
    struct stated_layer filled = *stated;
    struct moe_shape shape;

    if (!filled.on.per_node)
        filled.on.per_node = NOT_GIVEN;
    TRY(layer_options_single(&filled.layer));
    if (filled.shape)
        TRY(layer_options_text(filled.shape, &filled.layer, &filled.on));
    if (filled.on.ranks == NOT_GIVEN)
        filled.on.ranks = 4;
    if (filled.on.per_node == NOT_GIVEN)
        filled.on.per_node = filled.on.ranks;
    if (filled.on.per_rack == NOT_GIVEN)
        filled.on.per_rack = 0;
    shape = layer_options_shape(&filled.layer, filled.on, dtype);
    if (filled.shape) { /* the space is a word that no option has */
        struct moe_shape from_shape = { 0 };

        TRY(shape_parse(filled.shape, &from_shape));
        shape.space = from_shape.space;
        if (from_shape.space && layer_options_none(&filled.layer))
            shape_set_none(&shape);
    }
    TRY(layer_options_check(&shape));
    *out = shape;
    return OK;
}

bool stated_layer_fits(const struct stated_layer *stated, const struct moe_shape *shape)
{
    const struct rank_layout *placement = &stated->on;

    for (int i = 0; i < PART_COUNT; i++) {
        uint32_t value = value_in_shape(&parts[i], get_member(&stated->layer, parts[i].option));

        if (value != NOT_GIVEN && value != get_member(shape, parts[i].shape))
            return false;
    }
    return shape_agrees(shape, stated->shape) &&
           (placement->ranks == NOT_GIVEN || placement->ranks == shape->ranks) &&
           (placement->per_node == NOT_GIVEN || placement->per_node == shape->ranks_per_node) &&
           (placement->per_rack == NOT_GIVEN || placement->per_rack == shape->ranks_per_rack);
}
