/* Layout and capacity rules of DESIGN.md section 2. */
#include "shape.h"

#include "status.h"

const char *const dtype_words[] = { "f32", "f16", "bf16", NULL };
const char *const pass_words[] = { "forward", "train", NULL };
const char *const activation_words[] = { "relu", "gelu", "swiglu", NULL };

uint32_t shape_slices(const struct moe_shape *shape)
{
    return shape->experts < shape->ranks ? shape->ranks / shape->experts : 1;
}

uint32_t shape_local_experts(const struct moe_shape *shape)
{
    return shape->experts < shape->ranks ? 1 : shape->experts / shape->ranks;
}

uint32_t shape_bias2_slice(const struct moe_shape *shape)
{
    uint32_t slices = shape_slices(shape);

    return (shape->model_dim + slices - 1) / slices;
}

size_t dtype_bytes(uint32_t dtype)
{
    return dtype == MOE_F32 ? 4 : 2;
}

/* 2^24: far above any real layer, far below where products of three sizes leave 64 bits. */
enum { SIZE_LIMIT = 1 << 24 };

static int check_size(const char *name, uint32_t value)
{
    if (value >= 1 && value <= SIZE_LIMIT)
        return OK;
    return fail(ERR_ARGUMENT, "%s is %u: it must be from 1 to %d", name, value, SIZE_LIMIT);
}

int shape_check(const struct moe_shape *shape)
{
    uint32_t e = shape->experts, w = shape->ranks;

    TRY(check_size("number of experts", e));
    TRY(check_size("number of ranks", w));
    TRY(check_size("model dimension", shape->model_dim));
    TRY(check_size("hidden dimension", shape->hidden_dim));
    if (shape->tokens > SIZE_LIMIT)
        return fail(ERR_ARGUMENT, "tokens is %u: it must be from 0 to %d", shape->tokens,
                    SIZE_LIMIT);
    if (shape->top_k < 1 || shape->top_k > e)
        return fail(ERR_ARGUMENT, "top-k is %u: with %u expert%s it must be from 1 to %u",
                    shape->top_k, e, e == 1 ? "" : "s", e);
    if (e < w && w % e)
        return fail(ERR_ARGUMENT,
                    "%u experts on %u ranks: fewer experts than ranks must divide the ranks", e, w);
    if (e > w && e % w)
        return fail(
            ERR_ARGUMENT,
            "%u experts on %u ranks: more experts than ranks must be a multiple of the ranks", e,
            w);
    if (shape->hidden_dim % shape_slices(shape))
        return fail(ERR_ARGUMENT,
                    "hidden dimension %u: %u ranks share an expert, so it must be a multiple of %u",
                    shape->hidden_dim, shape_slices(shape), shape_slices(shape));
    if (shape->dtype > MOE_BF16 || shape->pass > MOE_TRAIN || shape->activation > MOE_SWIGLU)
        return fail(ERR_ARGUMENT, "unknown dtype %u, pass %u or activation %u", shape->dtype,
                    shape->pass, shape->activation);
    return OK;
}

static uint64_t static_rows(double factor, uint32_t top_k, uint32_t experts, uint64_t tokens)
{
    /* trunc(f * ceil(T/E)) in IEEE double, then times k: frameworks truncate before they multiply,
     * and (k * f * T) / E rounds differently. */
    double rows = factor * (double)((tokens + experts - 1) / experts);

    return top_k * (uint64_t)rows;
}

uint64_t capacity_rows(double factor, uint32_t top_k, uint32_t experts, uint64_t tokens,
                       uint64_t needed)
{
    uint64_t bound;

    if (factor > 0)
        return static_rows(factor, top_k, experts, tokens);
    if (factor == 0)
        return needed;
    bound = static_rows(-factor, top_k, experts, tokens);
    return needed < bound ? needed : bound;
}
