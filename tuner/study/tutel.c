/* What the Tutel paper (arXiv 2206.03382) evaluates, as rows. */
#include "plan.h"
#include "status.h"
#include "tutel_rows.h"

#include <math.h>

int tutel_step(const struct cluster *machine, const struct tutel_layer *l,
               const struct moe_plan *plan, struct modelled_step *out)
{
    return tutel_baseline(machine, l, plan, 0, out);
}

int tutel_baseline(const struct cluster *machine, const struct tutel_layer *l,
                   const struct moe_plan *plan, uint32_t baseline, struct modelled_step *out)
{
    struct moe_shape shape = { .struct_size = sizeof(shape),
                               .experts = l->experts,
                               .top_k = l->top_k,
                               .model_dim = l->model_dim,
                               .hidden_dim = l->hidden_dim,
                               .ranks = l->ranks,
                               .tokens = l->tokens,
                               .dtype = MOE_F32,
                               .pass = MOE_TRAIN,
                               .activation = MOE_RELU };
    uint64_t capacity = moe_capacity(l->factor, l->top_k, l->experts, l->tokens, 0);
    struct modelled_ask ask = {
        .shape = shape, .plan = *plan, .capacities = { .most = capacity }, .baseline = baseline
    };

    return modelled_step_of(machine, &ask, out);
}

struct moe_plan tutel_way(int i)
{
    return (struct moe_plan){ .struct_size = sizeof(struct moe_plan),
                              .r = 1,
                              .d = 1u << (i % TUTEL_DEGREES),
                              .a = i < TUTEL_DEGREES ? MOE_A2A_LINEAR : MOE_A2A_2DH };
}

const char *tutel_way_name(int i, char room[24])
{
    snprintf(room, 24, "%s d=%d", i < TUTEL_DEGREES ? "linear" : "2dh", 1 << (i % TUTEL_DEGREES));
    return room;
}

int tutel_ways(const struct cluster *machine, const struct tutel_layer *layer,
               double ns[TUTEL_WAYS], int *best)
{
    *best = -1;
    for (int i = 0; i < TUTEL_WAYS; i++) {
        struct moe_plan plan = tutel_way(i);
        struct modelled_step step;

        TRY(tutel_step(machine, layer, &plan, &step));
        ns[i] = step.ns;
        if (!isnan(ns[i]) && (*best < 0 || ns[i] < ns[*best]))
            *best = i;
    }
    return OK;
}

int tutel_put(struct study_table *table, const char *row, const char *column, double value,
              double published, enum study_mark mark)
{
    return study_put(table, row, column,
                     (struct study_cell){ .value = value, .published = published, .mark = mark });
}

#define TYPICAL                                                                                    \
    "81 layers: experts per GPU .5, 1, 2; D and H 1024, 2048, 4096; tokens per GPU 4096, 16384, "  \
    "65536.  The paper says 243: what its third factor of 3 is, it does not say."

static const struct study_row rows[] = {
    { "table2", "All-to-all and computation of a typical layer", "ms, and times as fast",
      "D=H=4096, 2 experts and 65536 tokens per GPU, r=1 d=1 a=linear.  ideal: the step over the "
      "longer of its two parts.  best: over the fastest plan with r=1.",
      .fill = tutel_table2 },
    { "table4", "Bytes that a rank sends, by parallelism", "MB",
      "64 GPUs, E=16, D=H=2048, 4096 tokens per GPU.  The paper has complexities; formula is ours, "
      "with their constants: for r=0, 2 P (W-1)/W; else 4 Cg r (W-1)/W + 2 (P/E/r)(1 - r E/W), of "
      "a training step.  Not in it: the bias of the second product, which every r gathers.",
      .fill = tutel_table4 },
    { "table5", "GPU memory of a single layer (also Table 9)", "GiB",
      "D=H=4096, 2 experts per GPU.  Neither type nor number of GPUs is given.  A token more costs "
      "Tutel 102 KiB.  In f32 its rows that backward needs again are 112 KiB (x, 2 dispatched, 2 "
      "hidden, 2 returned): so 16 bits are taken, and one GPU, as on more ours has buffers to "
      "receive rows.  Ours is what the layer allocates, Fairseq's the baseline dense, and to both "
      "comes what libraries take: one number, fitted to Tutel's four.  Only what dense adds is "
      "free "
      "of it.",
      .fill = tutel_table5 },
    { "table6", "How far each static plan is behind the best of each layer, mean", "%",
      TYPICAL "  Best of r=1, d=1 to 8, linear and 2dh.", .fill = tutel_table6 },
    { "table6b", "The same, worst of all layers", "%", TYPICAL, .fill = tutel_table6b },
    { "figure1", "A training whose capacity swings 4.38 times", "ms of 64 steps",
      "A made-up trace: two waves of the capacity factor between 1 and 4.38; the paper shows its "
      "own as a picture.  64 GPUs, E=16, D=H=2048, 512 tokens per GPU, all r, d, a; with 4096 "
      "tokens "
      "one plan is the best at every step.",
      .fill = tutel_figure1 },
    { "figure3", "Throughput of EP+MP (r=4) over EP+DP (r=1)", "times",
      "H=16384, D=2048, four GPUs for an expert.  How many GPUs, the paper does not say: those of "
      "Figure 12 are taken.  2048 tokens per GPU (4 samples of 512) are assumed.  The paper says "
      "that which is better depends on k and f, by gaps of 7.39 to 27.76 %: here it does so on 8 "
      "GPUs; on 64, r=1 is always better.",
      .fill = tutel_figure3 },
    { "figure5", "Layers of which each static plan is the best", "layers of 81",
      TYPICAL "  The paper has a picture.", .fill = tutel_figure5 },
    { "figure11", "Throughput of experts by the flexible and the rigid layout", "TFLOP/s",
      "The layer of Figure 14, training.  flexible: (Eg, W C, D), a product for each expert.  "
      "rigid: (W, Eg, C, D), so the rows of each rank are one of their own; but weights' gradients "
      "are sums over all, for which rows are copied together.  The paper has a picture: rigid "
      "falls as W rises.",
      .fill = tutel_figure11 },
    { "figure12", "Throughput by r and capacity factor, best of each factor 1", "share of the best",
      "The paper says 64 GPUs and E=16, and in the same paragraph a single node: 8 GPUs with as "
      "many "
      "of them for an expert, E=2.  D=2048.  Base: 4096 tokens per GPU, H=2048; Large: 1024 and "
      "32768.  d=1 a=linear.  The paper has a picture: r falls as f rises.  Here it does so in "
      "Large on 8 GPUs; on 64 one r stays the best, and would fall from 4 to 1 with a quarter of "
      "the tokens.",
      .fill = tutel_figure12 },
    { "figure13", "Gain of adaptive pipelining over r=1 d=1 a=linear", "%",
      "D=H=4096, 2 experts and 4096 tokens per GPU.  Published is the most over all scales.",
      .fill = tutel_figure13 },
    { "figure14", "A single layer up to 2,048 GPUs", "ms, and times as fast",
      "D=H=2048, 2 experts and 16384 tokens per GPU, r=1.  base: dense, rigid and linear.  Then "
      "each over all before it: sparse; 2dh, d=1; flexible; d, the fastest of all degrees and both "
      "all-to-alls; all of them over base.  At 2,048 GPUs rigid products have 8 rows, to which the "
      "model gives a ninth of the rate: the paper lost less, and 2dh gained more.  2dh over "
      "linear: "
      "both flexible, d=1.",
      .fill = tutel_figure14 },
    { "figure15", "Encode and decode, dense and sparse", "ms, and times as long",
      "16 GPUs, E=32, D=H=2048, by tokens per GPU, training.  dense: the products of the paper's "
      "Figure 20a.  computation: all but exchanges, with dense over with sparse.  The paper has a "
      "picture.",
      .fill = tutel_figure15 },
    { "figure16", "Bus bandwidth of the direct all-to-all", "GB/s",
      "(W-1)/W of the bytes that each GPU has for all, over the time, as nccl-tests counts.  The "
      "paper has a picture of it, and of what one link gives to messages of several sizes.",
      .fill = tutel_figure16 },
    { "appendixA2", "Aggregation inside a node, naive and aligned", "ms",
      "128 MiB per GPU, nodes of 8.  naive: a message for each block.  aligned: as in 2dh, with "
      "both of its copies.  Published is what appendix A.2 says beside Figure 16; the model's "
      "times of a message and of a byte inside a node were chosen by it.",
      .fill = tutel_appendix_a2 },
    { "figure18", "All-to-all alone", "ms; GB/s",
      "Bytes are those that each GPU has for all.  The paper has a picture: 2dh is the first to "
      "win at 1 MiB; at 32 and 256 MiB it is slower at small scales.",
      .fill = tutel_figure18 },
    { NULL },
};

const struct study study_tutel = {
    .name = "tutel",
    .paper = "Tutel: Adaptive Mixture-of-Experts at Scale (arXiv 2206.03382)",
    .assumptions =
        "k=2, f=1 and f32 where the paper does not say; training: forward and backward.  "
        "Times are those of our executor on a virtual clock.",
    .most_ranks = 2048,
    .machine = tutel_machine,
    .rows = rows,
};
