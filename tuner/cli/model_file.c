/* Reads config.json; models name the same thing differently. */
#include "model_file.h"

#include "input_file.h"
#include "json.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

struct found {
    double experts, top_k, model_dim, moe_hidden, hidden;
    char type[32], activation[32];
};

/* Earlier names win: what only MoE models have before what others have too. */
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    { "num_local_experts", offsetof(struct found, experts) },
    { "num_experts", offsetof(struct found, experts) },
    { "n_routed_experts", offsetof(struct found, experts) },
    { "num_experts_per_tok", offsetof(struct found, top_k) },
    { "hidden_size", offsetof(struct found, model_dim) },
    { "moe_intermediate_size", offsetof(struct found, moe_hidden) },
    { "intermediate_size", offsetof(struct found, hidden) },
};

static const struct {
    const char *name;
    uint32_t value;
} types[] = { { "float32", MOE_F32 }, { "float16", MOE_F16 }, { "bfloat16", MOE_BF16 } },
  activations[] = {
      { "relu", MOE_RELU }, { "gelu", MOE_GELU }, { "silu", MOE_SWIGLU }, { "swiglu", MOE_SWIGLU }
  };

static int take(void *self, const struct json_value *v)
{
    struct found *found = self;

    if (v->depth != 1 || !v->key)
        return OK;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double *to = (void *)((char *)found + numbers[i].offset);

        if (v->kind == JSON_NUMBER && !strcmp(v->key, numbers[i].key) && isnan(*to))
            *to = json_number(v);
    }
    if (v->kind == JSON_STRING && !strcmp(v->key, "torch_dtype"))
        snprintf(found->type, sizeof(found->type), "%s", v->value);
    if (v->kind == JSON_STRING && !strcmp(v->key, "hidden_act"))
        snprintf(found->activation, sizeof(found->activation), "%s", v->value);
    return OK;
}

static int take_size(const char *path, const char *names, double value, uint32_t *to)
{
    if (!(value >= 1 && value <= 1 << 24 && value == floor(value)))
        return fail(ERR_ARGUMENT, "%s: %s is missing, or no whole number from 1 to %d", path, names,
                    1 << 24);
    *to = (uint32_t)value;
    return OK;
}

static int apply(const char *path, const struct found *f, struct layer_options *o)
{
    struct layer_options layer = *o;

    TRY(take_size(path, "num_local_experts, num_experts or n_routed_experts", f->experts,
                  &layer.experts));
    TRY(take_size(path, "num_experts_per_tok", f->top_k, &layer.top_k));
    TRY(take_size(path, "hidden_size", f->model_dim, &layer.model_dim));
    TRY(take_size(path, "moe_intermediate_size or intermediate_size",
                  isnan(f->moe_hidden) ? f->hidden : f->moe_hidden, &layer.hidden_dim));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(f->type, types[i].name))
            layer.dtype = types[i].value;
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++)
        if (!strcmp(f->activation, activations[i].name))
            layer.activation = activations[i].value;
    *o = layer;
    return OK;
}

int model_file_read(const char *path, struct layer_options *inout)
{
    struct found found = { NAN, NAN, NAN, NAN, NAN, "", "" };
    char *text = NULL;
    size_t length = 0;
    int rc = input_read(path, FILE_BYTES_MAX, &text, &length);

    if (!rc)
        rc = json_read(text, length, path, take, &found);
    if (!rc)
        rc = apply(path, &found, inout);
    free(text);
    return rc;
}
