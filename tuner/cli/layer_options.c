/* Makes the shape of a layer from options, which may not contradict a shape that is given as text.
 */
#include "layer_options.h"

#include "plan.h"
#include "status.h"

#include <string.h>

#define AT(field) offsetof(struct layer_options, field)
const struct option_row layer_rows[] = {
    { "experts", "E", OPTION_COUNT, AT(experts), "experts in all [half the ranks]" },
    { "top-k", "K", OPTION_COUNT, AT(top_k), "experts per token [2, or 1 if there is one]" },
    { "tokens", "T", OPTION_COUNT, AT(tokens), "tokens per rank and step [512]" },
    { "model-dim", "D", OPTION_COUNT, AT(model_dim), "model dimension [128]" },
    { "hidden-dim", "H", OPTION_COUNT, AT(hidden_dim), "hidden dimension of an expert [256]" },
    { "dtype", "TYPE", OPTION_WORD, AT(dtype),
      "storage: f32, f16, bf16 [bf16 on GPUs, f32 on cores]", dtype_words },
    { "pass", "PASS", OPTION_WORD, AT(pass), "forward, or train (forward + backward) [train]",
      pass_words },
    { "activation", "ACT", OPTION_WORD, AT(activation), "relu, gelu, swiglu (gated) [relu]",
      activation_words },
    { NULL },
};
#undef AT

/* Where an option goes in a shape, and what it is unless it is given; in the order of the rows. */
#define PART(field, fallback)                                                                      \
    {                                                                                              \
        offsetof(struct layer_options, field), offsetof(struct moe_shape, field), fallback         \
    }
static const struct part {
    size_t option, shape;
    uint32_t fallback;
} parts[] = {
    PART(experts, NOT_GIVEN), PART(top_k, NOT_GIVEN),     PART(tokens, 512),
    PART(model_dim, 128),     PART(hidden_dim, 256),      PART(dtype, NOT_GIVEN),
    PART(pass, MOE_TRAIN),    PART(activation, MOE_RELU),
};
#undef PART
enum { PART_COUNT = sizeof(parts) / sizeof(parts[0]) };

static uint32_t get(const void *from, size_t offset)
{
    return *(const uint32_t *)((const char *)from + offset);
}

static void set(void *to, size_t offset, uint32_t value)
{
    *(uint32_t *)((char *)to + offset) = value;
}

#define AT(field) offsetof(struct stated_layer, field)
const struct option_row stated_layer_rows[] = {
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks of the group [4]" },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "ranks on a node [all of them]" },
    { .kind = OPTION_GROUP, .offset = AT(layer), .rows = layer_rows },
    { "shape", "TEXT", OPTION_TEXT, AT(shape), "the layer as text, as `moetune show` prints it" },
    { NULL },
};
#undef AT

/* On cores nothing is as cheap as a small product: with little of it, how rows travel shows. */
static const struct example {
    const char *device;
    uint32_t experts_per_rank, tokens, model_dim, hidden_dim;
} examples[] = {
    { "host", 2, 256, 256, 16 },
    { "cuda", 2, 4096, 2048, 1024 },
};

bool layer_options_example(const char *device, uint32_t ranks, struct layer_options *inout)
{
    for (int i = 0; i < PART_COUNT; i++)
        if (get(inout, parts[i].option) != NOT_GIVEN)
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

struct moe_shape layer_options_shape(const struct layer_options *o, uint32_t ranks,
                                     uint32_t ranks_per_node, uint32_t dtype)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .ranks = ranks,
                               .ranks_per_node = ranks_per_node };

    for (int i = 0; i < PART_COUNT; i++) {
        uint32_t value = get(o, parts[i].option);

        set(&shape, parts[i].shape, value == NOT_GIVEN ? parts[i].fallback : value);
    }
    if (shape.dtype == NOT_GIVEN)
        shape.dtype = dtype;
    if (shape.experts == NOT_GIVEN)
        shape.experts = ranks % 2 == 0 ? ranks / 2 : 1;
    if (shape.top_k == NOT_GIVEN)
        shape.top_k = shape.experts > 1 ? 2 : 1;
    return shape;
}

/* A value may be said once, or twice if both say the same. */
static int agree(const char *name, const char *text, uint32_t said, uint32_t *given)
{
    if (said != NOT_GIVEN && *given != NOT_GIVEN && said != *given)
        return fail(ERR_ARGUMENT, "--%s says something else than --shape \"%s\": leave one out",
                    name, text);
    *given = said == NOT_GIVEN ? *given : said;
    return OK;
}

int layer_options_text(const char *text, struct layer_options *inout, uint32_t *ranks,
                       uint32_t *ranks_per_node)
{
    struct moe_shape said = { .ranks = NOT_GIVEN, .ranks_per_node = NOT_GIVEN };
    struct layer_options layer = *inout;

    for (int i = 0; i < PART_COUNT; i++)
        set(&said, parts[i].shape, NOT_GIVEN);
    if (shape_parse(text, &said))
        return ERR_ARGUMENT;
    for (int i = 0; i < PART_COUNT; i++) {
        uint32_t given = get(&layer, parts[i].option);

        TRY(agree(layer_rows[i].name, text, get(&said, parts[i].shape), &given));
        set(&layer, parts[i].option, given);
    }
    TRY(agree("ranks", text, said.ranks, ranks));
    TRY(agree("ranks-per-node", text, said.ranks_per_node, ranks_per_node));
    *inout = layer;
    return OK;
}

int layer_options_plan(const char *text, struct moe_plan *out)
{
    return plan_parse(text, out) ? fail(ERR_ARGUMENT,
                                        "--plan \"%s\": a plan reads \"r=1 d=2 a=2dh\"; d is 1, 2, "
                                        "4 or 8, a is linear, 2dh or nccl, e is padded or, with "
                                        "r=0, sparse",
                                        text)
                                 : OK;
}

int stated_layer_shape(const struct stated_layer *stated, uint32_t dtype, struct moe_shape *out)
{
    struct stated_layer s = *stated;
    struct moe_shape shape;

    if (!s.ranks_per_node)
        s.ranks_per_node = NOT_GIVEN;
    if (s.shape)
        TRY(layer_options_text(s.shape, &s.layer, &s.ranks, &s.ranks_per_node));
    if (s.ranks == NOT_GIVEN)
        s.ranks = 4;
    if (s.ranks_per_node == NOT_GIVEN)
        s.ranks_per_node = s.ranks;
    shape = layer_options_shape(&s.layer, s.ranks, s.ranks_per_node, dtype);
    TRY(shape_check(&shape));
    *out = shape;
    return OK;
}
