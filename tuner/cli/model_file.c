/* Reads the shape of a layer from a model's config.json.  Models have different names for the same
 * thing. */
#include "model_file.h"

#include "input_file.h"
#include "json.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

enum { WORD_BYTES = 48 };

/* What a layer needs from the file.  Each thing has several names; the first name in the file
 * counts. */
enum thing {
    EXPERTS,
    TOP_K,
    MODEL_DIM,
    HIDDEN_DIM,
    DTYPE,
    ACTIVATION,
    QUANTIZATION,
    GROUPS,
    GROUP_LIMIT,
    ROUTER,
    PRIORITY,
    COSINE,
    PROJECTION,
    THING_COUNT
};

static const struct {
    enum thing thing;
    const char *key;
} key_names[] = {
    { EXPERTS, "num_local_experts" },
    { EXPERTS, "num_experts" },
    { EXPERTS, "n_routed_experts" },
    { EXPERTS, "moe_num_experts" },
    { TOP_K, "num_experts_per_tok" },
    { TOP_K, "num_experts_per_token" },
    { TOP_K, "experts_per_token" },
    { TOP_K, "moe_top_k" },
    { TOP_K, "moe_topk" },
    { TOP_K, "moe_k" },
    { MODEL_DIM, "hidden_size" },
    { MODEL_DIM, "d_model" },
    /* If this name is there, the names below mean layers without experts. */
    { HIDDEN_DIM, "moe_intermediate_size" },
    { HIDDEN_DIM, "intermediate_size" },
    { HIDDEN_DIM, "ffn_hidden_size" },
    { DTYPE, "dtype" },
    { DTYPE, "torch_dtype" },
    { ACTIVATION, "hidden_act" },
    { ACTIVATION, "hidden_activation" },
    { QUANTIZATION, "quant_method" },
    { GROUPS, "n_group" },
    { GROUPS, "n_groups" },
    { GROUP_LIMIT, "topk_group" },
    { GROUP_LIMIT, "topk_groups" },
    { ROUTER, "scoring_func" },
    { ROUTER, "score_function" },
    { ROUTER, "score_func" },
    { PRIORITY, "batch_prioritized_routing" }, /* NLLB-MoE, Tutel */
    { COSINE, "cosine_router" },               /* Swin-MoE */
    { PROJECTION, "cosine_router_dim" },
};
enum { NAME_COUNT = sizeof(key_names) / sizeof(key_names[0]) };

/* Objects whose members count as well: a model with several parts has its text part in one of them.
 */
static const char *const inner_objects[] = { "text_config",         "llm_config",
                                             "language_config",     "ffn_config",
                                             "quantization_config", NULL };

/* Whether the name of a key says that it is about experts. */
static bool is_of_experts(const char *key)
{
    return (strstr(key, "expert") || strstr(key, "moe")) && !strstr(key, "loss") &&
           !strstr(key, "jitter");
}

/* What was read from the file so far.  `rank` of a thing: members of an inner object go before
 * those of the whole file, and then the order of key_names counts. */
struct found {
    bool inside;        /* the reader is in one of the inner objects */
    char left_out[200]; /* keys about experts that moetune does not know */
    struct {
        int rank; /* of the name that was read: a higher one replaces it; 0: none */
        double number;
        char word[WORD_BYTES];
    } things[THING_COUNT];
};

static const struct known_word {
    const char *name;
    uint32_t value;
} types[] = { { "float32", MOE_F32 }, { "float", MOE_F32 },     { "float16", MOE_F16 },
              { "half", MOE_F16 },    { "bfloat16", MOE_BF16 }, { NULL } },
  activations[] = { { "relu", MOE_RELU },    { "gelu", MOE_GELU },     { "silu", MOE_SWIGLU },
                    { "swish", MOE_SWIGLU }, { "swiglu", MOE_SWIGLU }, { NULL } },
  routers[] = { { "softmax", MOE_ROUTER_SOFTMAX }, { "sigmoid", MOE_ROUTER_SIGMOID }, { NULL } };

static void note_unknown_key(struct found *found, const char *key)
{
    for (int i = 0; i < NAME_COUNT; i++)
        if (!strcmp(key, key_names[i].key))
            return;
    if (is_of_experts(key))
        text_add(found->left_out, sizeof(found->left_out), "%s%s", *found->left_out ? ", " : "",
                 key);
}

/* Stores a member of the JSON file if it is one of ours. */
static int read_member(void *self, const struct json_value *member)
{
    struct found *found = self;

    if (member->depth == 1)
        found->inside = member->kind == JSON_OBJECT && member->key &&
                        word_find(inner_objects, member->key) >= 0;
    if ((member->kind != JSON_NUMBER && member->kind != JSON_STRING && member->kind != JSON_TRUE) ||
        !member->key || member->depth != 1 + found->inside)
        return OK;
    note_unknown_key(found, member->key);
    for (int i = 0; i < NAME_COUNT; i++) {
        int rank = (found->inside ? 2 : 1) * NAME_COUNT - i;

        if (strcmp(member->key, key_names[i].key) != 0 ||
            found->things[key_names[i].thing].rank >= rank)
            continue;
        found->things[key_names[i].thing].rank = rank;
        found->things[key_names[i].thing].number = member->kind == JSON_NUMBER ? json_number(member)
                                                   : member->kind == JSON_TRUE ? 1
                                                                               : NAN;
        text_put(found->things[key_names[i].thing].word, WORD_BYTES, "%s", member->value);
    }
    return OK;
}

/* Writes all names of a thing, for a message. */
static void write_names(enum thing thing, char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < NAME_COUNT; i++)
        if (key_names[i].thing == thing)
            text_add(text, size, "%s%s", *text ? ", " : "", key_names[i].key);
}

/* Reads a size from what was found, unless the option of the same meaning was given. */
static int read_size(const char *path, const struct found *found, enum thing thing,
                     const char *option, uint32_t *given)
{
    double value = found->things[thing].number;
    char names[160];

    if (*given != NOT_GIVEN)
        return OK;
    if (found->things[thing].rank && value >= 1 && value <= 1 << 24 && value == floor(value)) {
        *given = (uint32_t)value;
        return OK;
    }
    write_names(thing, names, sizeof(names));
    if (found->things[thing].rank)
        return fail(ERR_ARGUMENT, "%s: %s: a whole number from 1 to %d is wanted, or --%s", path,
                    names, 1 << 24, option);
    return fail(ERR_ARGUMENT, "%s: there is no %s; give it by --%s", path, names, option);
}

/* Reads a word from what was found, unless the option of the same meaning was given. */
static int read_word(const char *path, const struct found *found, enum thing thing,
                     const struct known_word *words, const char *option, const char *fallback,
                     uint32_t *given)
{
    const char *word = found->things[thing].word;
    char names[160];

    if (*given != NOT_GIVEN)
        return OK;
    write_names(thing, names, sizeof(names));
    if (!found->things[thing].rank) {
        note("%s: there is no %s: the layer gets %s (--%s changes that)", path, names, fallback,
             option);
        return OK;
    }
    word += strncmp(word, "torch.", 6) ? 0 : 6;
    for (; words->name; words++)
        if (!strcmp(word, words->name)) {
            *given = words->value;
            return OK;
        }
    return fail(ERR_ARGUMENT, "%s: moetune has no %s \"%s\"; --%s says what to tune with", path,
                option, word, option);
}

static int apply_found(const char *path, const struct found *found, struct layer_options *options)
{
    struct layer_options layer = *options;

    TRY(read_size(path, found, EXPERTS, "experts", &layer.experts));
    TRY(read_size(path, found, TOP_K, "top-k", &layer.top_k));
    TRY(read_size(path, found, MODEL_DIM, "model-dim", &layer.model_dim));
    TRY(read_size(path, found, HIDDEN_DIM, "hidden-dim", &layer.hidden_dim));
    TRY(read_word(path, found, DTYPE, types, "dtype", "f32", &layer.dtype));
    TRY(read_word(path, found, ACTIVATION, activations, "activation", "relu", &layer.activation));
    /* A model without these two has no such key, or `false`. */
    if (found->things[PRIORITY].number == 1 && layer.order == NOT_GIVEN)
        layer.order = MOE_ORDER_PRIORITY;
    if (found->things[COSINE].number == 1) {
        if (layer.router == NOT_GIVEN)
            layer.router = MOE_ROUTER_COSINE;
        if (layer.router == MOE_ROUTER_COSINE && found->things[PROJECTION].rank)
            TRY(read_size(path, found, PROJECTION, "projection", &layer.projection));
    }
    if (found->things[ROUTER].rank)
        TRY(read_word(path, found, ROUTER, routers, "router", "softmax", &layer.router));
    /* Most models have no groups of experts: no key, 0 groups, or one. */
    if (layer.groups == NOT_GIVEN) {
        if (found->things[GROUP_LIMIT].rank && !found->things[GROUPS].rank)
            return fail(ERR_ARGUMENT, "%s: there is a topk_group, but no n_group", path);
        if (found->things[GROUPS].rank && found->things[GROUPS].number > 1) {
            TRY(read_size(path, found, GROUPS, "groups", &layer.groups));
            TRY(read_size(path, found, GROUP_LIMIT, "group-limit", &layer.group_limit));
        }
    }
    if (*found->left_out)
        note("%s: moetune ignores %s: the layer is measured without", path, found->left_out);
    if (found->things[QUANTIZATION].rank)
        note("%s: weights are stored as %s, which moetune does not have: experts are measured in "
             "%s",
             path, found->things[QUANTIZATION].word,
             dtype_words[layer.dtype == NOT_GIVEN ? MOE_F32 : layer.dtype]);
    *options = layer;
    return OK;
}

int model_file_read(const char *path, struct layer_options *inout)
{
    struct found found = { .inside = false };
    char *text = NULL;
    size_t length = 0;
    int rc = input_read(path, FILE_BYTES_MAX, &text, &length);

    if (!rc)
        rc = json_read(text, length, path, read_member, &found);
    if (!rc)
        rc = apply_found(path, &found, inout);
    free(text);
    return rc;
}
