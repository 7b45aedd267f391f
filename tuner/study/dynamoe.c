/* What the DynaMoE paper (arXiv 2205.01848) evaluates, as rows. */
#include "dynamoe_rows.h"

struct modelled_ask dynamoe_ask(void)
{
    return (struct modelled_ask){
        .shape = { .struct_size = sizeof(struct moe_shape),
                   .experts = DYNAMOE_EXPERTS,
                   .top_k = 1,
                   .model_dim = 1024,
                   .hidden_dim = 4096,
                   .ranks = DYNAMOE_RANKS,
                   .tokens = 1024,
                   .dtype = MOE_F32,
                   .pass = MOE_TRAIN,
                   .activation = MOE_RELU },
        .plan = { .struct_size = sizeof(struct moe_plan), .r = 1, .d = 1, .a = MOE_A2A_LINEAR }
    };
}

#define TRACE                                                                                      \
    "A made-up trace: the factors that the authors' program sets at some epochs, 200 steps each, " \
    "with shares of tokens moving from one to the next; the paper shows its own as a picture.  "

static const struct study_row rows[] = {
    { "figure6", "A step over one with a static factor of 7", "times as fast",
      TRACE "caching: known routes, of a linear gate.  Published is of a whole training on CIFAR10 "
            "with CNNs of unknown sizes as experts and gate: much of its step does not depend on "
            "the factor, so its gains are smaller.",
      .fill = dynamoe_figure6 },
    { "figure8", "Capacities that follow the experts", "times; ppm; GiB; ms",
      TRACE "EMA rule: of the authors' program, where it stands in a comment; the paper publishes "
            "none.  followed: libmoelookup's controller.  factor: rows over choices; fullest: of "
            "the rank with most rows, for whom all wait.  Bytes and times are of a layer with "
            "these capacities: memory at the end, time the mean over all steps.",
      .fill = dynamoe_figure8 },
    { "figure9", "Time and drops by the factor", "% of static 4; %",
      TRACE "The paper has a picture, whose vertical axis is accuracy; drops are ours instead.  It "
            "goes down to .75.",
      .fill = dynamoe_figure9 },
    { "figure10", "Known routes: what they gain, and what they can", "ms; %; epochs",
      "The gate runs behind the first send, as in run --routes both; no more can be saved than the "
      "gate and its slots take alone (at most).  T tokens per GPU.  140 epochs: a made-up share of "
      "tokens that keep their experts (1 - exp(-epoch/4)/2, at most .985; .88 in epoch 48) and the "
      "paper's rule, as moe_routes_decide() has it: on from .96, off below .90, not before epoch "
      "10.  Published: 1.15 times as fast over all epochs, which is 13 %, with a CNN as gate; ours "
      "is linear.",
      .fill = dynamoe_figure10 },
    { "figure4", "Throughput of a layer, against FastMoE", .assumptions = "",
      .not_yet = "FastMoE's layer" },
    { "figure5", "Throughput of larger models on more GPUs", .assumptions = "",
      .not_yet = "sizes of the models, which the paper does not give" },
    { "figure7", "Accuracy by the loss (also Figure 15)", .assumptions = "",
      .not_yet = "a model that is trained" },
    { NULL },
};

const struct study study_dynamoe = {
    .name = "dynamoe",
    .paper = "DynaMoE: Optimizing Mixture of Experts using Dynamic Recompilations (arXiv "
             "2205.01848)",
    .assumptions = "The cluster was invented, by data sheets: nothing in it is fitted to the "
                   "paper.  The paper's layers are CNNs and MLPs of sizes that it does not give; "
                   "ours is E=8 k=1 D=1024 H=4096, 1024 tokens per GPU, f32, training, r=1 d=1 "
                   "a=linear.  Times are those of our executor on a virtual clock.",
    .most_ranks = DYNAMOE_RANKS,
    .machine = dynamoe_machine,
    .rows = rows,
};
