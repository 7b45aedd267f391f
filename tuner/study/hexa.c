/* What the HEXA-MoE paper (arXiv 2411.01288) evaluates, as rows. */
#include "hexa_rows.h"

#include "status.h"

const char *const hexa_scale_names[HEXA_SCALES] = { "Base", "Small" };
const char *const hexa_way_names[HEXA_WAYS] = { "padded", "data", "model", "data, kept" };

/* How many such layers, and what an image brings to one. */
struct hexa_size {
    uint32_t layers, tokens, model_dim;
};

/* Stages of images of 192 x 192: 12 x 12 and 6 x 6 tokens. */
static struct hexa_size hexa_size(enum hexa_scale scale, int i)
{
    uint32_t width = scale == HEXA_BASE ? 512 : 384;

    return i ? (struct hexa_size){ 1, 36, 2 * width } : (struct hexa_size){ 9, 144, width };
}

struct modelled_ask hexa_ask(const struct hexa_model *m, int size, enum hexa_way way)
{
    struct hexa_size s = hexa_size(m->scale, size);
    bool padded = way == HEXA_PADDED;
    struct modelled_ask ask = {
        .shape = { .struct_size = sizeof(ask.shape),
                   .experts = m->experts,
                   .top_k = m->top_k,
                   .model_dim = s.model_dim,
                   .hidden_dim = 4 * s.model_dim,
                   .ranks = m->ranks,
                   .tokens = m->images * s.tokens,
                   .dtype = m->dtype,
                   .pass = MOE_TRAIN,
                   .activation = MOE_GELU,
                   .layout = padded ? MOE_LAYOUT_EXPERTS : MOE_LAYOUT_HIDDEN,
                   .shares = m->shares,
                   .layers = s.layers },
        .plan = { .struct_size = sizeof(ask.plan),
                  .r = padded              ? 1
                       : way == HEXA_MODEL ? m->ranks
                                           : 0,
                  .d = 1,
                  .a = MOE_A2A_LINEAR,
                  .e = padded ? MOE_PADDED : MOE_SPARSE,
                  .w = way == HEXA_DATA ? MOE_CACHE : MOE_KEEP },
    };

    ask.capacities.most = moe_capacity(1, m->top_k, m->experts, ask.shape.tokens, 0);
    return ask;
}

int hexa_bytes(const struct cluster *machine, const struct hexa_model *model, enum hexa_way way,
               double *out)
{
    double sum = 0, one;

    for (int i = 0; i < HEXA_SIZES; i++) {
        struct modelled_ask ask = hexa_ask(model, i, way);

        TRY(modelled_bytes(machine, &ask, &one));
        sum += one;
    }
    *out = sum;
    return OK;
}

int hexa_ns(const struct cluster *machine, const struct hexa_model *model, enum hexa_way way,
            double *out)
{
    struct modelled_step one;
    double sum = 0;

    for (int i = 0; i < HEXA_SIZES; i++) {
        struct modelled_ask ask = hexa_ask(model, i, way);

        TRY(modelled_step_of(machine, &ask, &one));
        sum += one.ns;
    }
    *out = sum;
    return OK;
}

#define SWIN                                                                                       \
    "Swin-MoE's ten MoE layers alone: nine of 144 tokens an image (Base D=512, Small 384) and "    \
    "one "                                                                                         \
    "of 36 tokens and twice the width, H=4D, GELU; that images have 192 x 192 pixels, as Tutel's " \
    "Swin-MoE, is assumed.  padded (for Tutel): r=1 e=padded.  data: layout=hidden r=0 e=sparse "  \
    "w=cache.  model: r=W.  "

static const struct study_row rows[] = {
    { "table3", "Computing capacity of two unequal devices", "share",
      "Exact: our shares by speed of 10000 units, for the times of the paper's proxy task.",
      .fill = hexa_table3 },
    { "table7", "Memory of training (also Figure 18)", "GB (1e9 bytes)",
      SWIN
      "2 GPUs, E=8, 40 images per GPU, f16 (the paper: mixed precision).  What the whole model "
      "takes besides is unknown, so rows are differences in which it cancels: more than the "
      "same way with top-1, and saved against padded experts.  Ours is what the layers "
      "allocate.  Swin-MoE's own configuration has f=1.25, with which padded rows grow by a "
      "quarter more.  MegaBlocks: not here.",
      .fill = hexa_table7 },
    { "table8", "A training step (also Figure 19): differences of ways", "s",
      SWIN "4 GPUs, E=4, images per GPU as published, f16.  What the model computes besides is the "
           "same whatever the way, so rows are differences; published are those of the averages "
           "over 2k steps.  Nothing of ours overlaps with attention.  MegaBlocks: not here.",
      .fill = hexa_table8 },
    { "figure13", "Rows that one more choice per token adds to a forward pass", "rows of D",
      "Base's first size, 1 GPU, E=8, 5760 tokens, f32, ReLU; bytes over those of all tokens.  "
      "Published counts a hidden row as 4 (and, naively, a result as 1); the rest of ours says "
      "where choices lie.",
      .fill = hexa_figure13 },
    { "traffic", "Bytes that a rank sends in a training step: weights or tokens", "MB",
      "Base's first size, L=9 layers, 4 GPUs, E=4, f16, 80 images.  formula: exact, of our layer: "
      "data, "
      "kept 2 L P (W-1)/W; with the cache (3 L - 1) P (W-1)/W, for the last layer's weights are "
      "still there; P is W1, W2, b1, b2.  model: for each layer 4 (W-1) T D elements, 12 (W-1) T k "
      "bytes of choices, and b2 and its gradient.  The paper says in words which is less.",
      .fill = hexa_traffic },
    { "figure20", "Data- against model-centric by images per GPU", "ms; images",
      SWIN "Base, 4 GPUs, E=4, top-1, f16.  The paper has a picture: model-centric is faster for "
           "small batches, data-centric for large ones.  turn: from how many images on the "
           "data-centric way sends less, by formula, and is faster.",
      .fill = hexa_figure20 },
    { "figure22", "Unequal devices: time saved by shares that follow the speed", "ms; %",
      SWIN
      "Small, 2 GPUs, E=4, top-2; 40 images per GPU are assumed.  f32: products are as fast as "
      "the paper's proxy task in Table 3 (2 x 2048^3 x 1024 operations in its time); all else "
      "is this cluster's, not a TITAN RTX's and an RTX 2080 Ti's.  even: all ranks wait for "
      "the slower device.  Published is of whole models, of which only the batch (data) or "
      "only the hidden units of MoE layers (model) follow the speed; ours is MoE layers, of "
      "which the same follow.  bound: 1 - 2 R of the slower, of computing "
      "alone.",
      .fill = hexa_figure22 },
    { "figure24", "Memory with and without the cache of weights", "GB (1e9 bytes)",
      SWIN
      "Base, 2 GPUs, E=8, top-4, 40 images per GPU, f16.  data, kept: w=keep.  The paper has a "
      "picture: without the cache more than Tutel takes, with it less.",
      .fill = hexa_figure24 },
    { "figure24b", "Latency without the fused kernel", .assumptions = "",
      .not_yet = "kernels of a backward pass in one launch" },
    { "figure25", "Accuracy after the same time", .assumptions = "",
      .not_yet = "a model that is trained" },
    { NULL },
};

const struct study study_hexa = {
    .name = "hexa",
    .paper = "HEXA-MoE: Efficient and Heterogeneous-aware MoE Acceleration with ZERO Computation "
             "Redundancy (arXiv 2411.01288)",
    .assumptions = "The cluster was invented, by data sheets: nothing in it is fitted to the "
                   "paper.  Times are those of our executor on a virtual clock, bytes those that "
                   "its layer allocates; f=1 where the paper does not say.",
    .most_ranks = 4,
    .machine = hexa_machine,
    .rows = rows,
};
