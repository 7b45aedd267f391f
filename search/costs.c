/* Computes the time of a step: bytes, messages and operations of a plan, each times a constant of
 * the machine.  search/README.md explains the formula. */
#include "costs.h"

#include "node_rows.h"
#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the machine */

static double known_or(double value, double factor, double guess)
{
    return isnan(value) ? guess : value * factor;
}

/* Seconds per message: the cost to send it, or the time that it loses because small messages do not
 * reach the full rate, whichever is more; and its share of the exchange's latency. */
static double message_s(double latency_us, double message_us, double half_kib, double gbs,
                        uint32_t messages, double guess_s)
{
    double us = fmax(message_us, half_kib * 1.024 / gbs) + latency_us / messages;

    return isnan(us) ? known_or(message_us, 1e-6, guess_s) : us * 1e-6;
}

struct search_machine known_machine(const struct cluster *c, const struct search_machine *guess)
{
    uint32_t others = c->ranks > 1 ? c->ranks - 1 : 1;
    struct search_machine m = *guess;

    m.message_s = c->nodes != 1
                      ? message_s(c->latency_between_us, c->message_between_us, c->half_between_kib,
                                  c->bandwidth_between_gbs, others, m.message_s)
                      : message_s(c->latency_inside_us, c->message_inside_us, c->half_inside_kib,
                                  c->bandwidth_inside_gbs, others, m.message_s);
    m.bytes_per_s_between = known_or(c->bandwidth_between_gbs, 1e9, m.bytes_per_s_between);
    m.bytes_per_s_inside = known_or(c->bandwidth_inside_gbs, 1e9, m.bytes_per_s_inside);
    m.copy_bytes_per_s = known_or(c->memory_gbs, 1e9, m.copy_bytes_per_s);
    m.flops = known_or(c->gemm_gflops, 1e9, m.flops);
    if (!isnan(c->gemm_gflops) && strcmp(c->gemm_dtype, "unknown") != 0)
        snprintf(m.flops_dtype, sizeof(m.flops_dtype), "%s", c->gemm_dtype);
    m.launch_s = known_or(c->launch_us, 1e-6, m.launch_s);
    return m;
}

/* Typical values for constants that the cluster does not record, and the standard deviation of
 * their logarithms.  It is 1 for recorded values. */
static const struct {
    double value, sd;
} typical[COST_CONSTANTS] = {
    [COST_MESSAGE] = { 5e-6, 2 },
    [COST_MESSAGE_2DH] = { 5e-6, 2 },
    [COST_BYTE_BETWEEN] = { 1e-10, 2 },
    [COST_BYTE_INSIDE] = { 1e-11, 2 },
    [COST_BYTE_COPIED] = { 2e-12, 2 },
    [COST_BYTE_WEIGHT] = { 2e-12, 2 },
    [COST_GATHER_STEP] = { 5e-6, 2 },
    [COST_GATHER_BYTE] = { 1e-10, 2 },
    [COST_FLOP] = { 2e-14, 2 },
    [COST_CHUNK] = { 2e-5, 2 },
    [COST_INTERFERE] = { 0.1, 1 },
    [COST_STEP] = { 1e-4, 2 },
    [COST_SCALE] = { 1, 1 },
};

struct costs costs_of(const struct moe_shape *shape, const struct search_machine *m)
{
    bool multiplies = !*m->flops_dtype || !strcmp(m->flops_dtype, dtype_words[shape->dtype]);
    const double known[COST_CONSTANTS] = {
        [COST_MESSAGE] = m->message_s,
        [COST_MESSAGE_2DH] = m->message_s,
        [COST_BYTE_BETWEEN] = 1 / m->bytes_per_s_between,
        [COST_BYTE_INSIDE] = 1 / m->bytes_per_s_inside,
        [COST_BYTE_COPIED] = 1 / m->copy_bytes_per_s,
        [COST_BYTE_WEIGHT] = 1 / m->copy_bytes_per_s,
        [COST_GATHER_STEP] = m->message_s,
        [COST_GATHER_BYTE] = 1 / m->bytes_per_s_between,
        [COST_FLOP] = multiplies ? 1 / m->flops : NAN,
        [COST_CHUNK] = m->launch_s,
        [COST_STEP] = 5 * m->launch_s,
        [COST_SCALE] = 1,
    };
    uint32_t per_node = shape->ranks_per_node ? shape->ranks_per_node : 1;
    struct costs c = { .ranks = shape->ranks,
                       .per_node = per_node < shape->ranks ? per_node : shape->ranks,
                       .slices = shape_slices(shape),
                       .experts = shape->experts,
                       .layers = shape->layers ? shape->layers : 1,
                       .choices = (double)shape->tokens * shape->top_k,
                       .top_k = shape->top_k,
                       .by_hidden = shape->layout == MOE_LAYOUT_HIDDEN,
                       .local_experts = shape_local_experts(shape),
                       .model_dim = shape->model_dim,
                       .hidden_dim = shape->hidden_dim,
                       .token_bytes = (double)dtype_bytes(shape->dtype),
                       .weight_matrices = shape->activation == MOE_SWIGLU ? 3 : 2,
                       .train = shape->pass == MOE_TRAIN };

    c.nodes = c.ranks / c.per_node;
    c.racks = shape->ranks_per_rack ? c.ranks / shape->ranks_per_rack : 1;
    c.reach = shape_node_share(shape, (uint32_t)c.nodes);
    for (int i = 0; i < COST_CONSTANTS; i++) {
        bool given = known[i] > 0 && isfinite(known[i]);

        c.prior[i] = log(given ? known[i] : typical[i].value);
        c.prior_sd[i] = given ? 1 : typical[i].sd;
    }
    return c;
}

/* ---- one step */

/* The share of a message volume that leaves the node. */
static double between(const struct costs *c)
{
    return 1 - 1 / c->nodes;
}

/* One all-to-all of `bytes` per rank by algorithm `a`; k: the constants. */
static double exchange(const struct costs *c, const double *k, uint32_t a, double bytes)
{
    double racks = a == MOE_A2A_3DH ? c->racks : 1, nodes = c->nodes / racks, more = racks > 1;
    double outside = 1 - 1 / nodes + (1 - 1 / racks) * more;

    /* 3dh: a further exchange of what goes to other racks, and a further copy of all. */
    if (a == MOE_A2A_2DH || a == MOE_A2A_3DH)
        return k[COST_MESSAGE_2DH] * (c->per_node + nodes + racks * more) +
               bytes * ((1 - 1 / c->per_node) * k[COST_BYTE_INSIDE] +
                        (2 + more) * k[COST_BYTE_COPIED] + outside * k[COST_BYTE_BETWEEN]);
    return k[COST_MESSAGE] * (c->ranks - 1) +
           bytes * ((c->per_node - 1) / c->ranks * k[COST_BYTE_INSIDE] +
                    between(c) * k[COST_BYTE_BETWEEN]);
}

/* The hop between nodes of a=rail.  It moves whole tokens, so r and d do not matter.  A rank sends
 * each token to a node once.  The buffer grows with c over its mean, up to T tokens if T is
 * known. */
static double hop_between(const struct costs *c, const double *k, double capacity)
{
    double tokens = c->choices / c->top_k, rows = c->reach * capacity * c->experts / c->top_k;
    double bytes =
        c->nodes * (tokens > 0 && tokens < rows ? tokens : rows) * c->model_dim * c->token_bytes;

    return k[COST_MESSAGE_2DH] * c->nodes +
           bytes * (k[COST_BYTE_COPIED] + between(c) * k[COST_BYTE_BETWEEN]);
}

/* The hop inside a node of a=rail: the relay forwards rows to every rank that a=linear sends to. */
static double hop_inside(const struct costs *c, const double *k, double bytes)
{
    return k[COST_MESSAGE_2DH] * c->per_node +
           bytes * ((1 - 1 / c->per_node) * k[COST_BYTE_INSIDE] + k[COST_BYTE_COPIED]);
}

/* `group` neighbouring ranks gather weights; each of them receives `bytes`. */
static double gather(const struct costs *c, const double *k, double group, double bytes)
{
    double out = group > c->per_node ? 1 - c->per_node / group : 0;

    if (group <= 1)
        return 0;
    return k[COST_GATHER_STEP] * (1 + 2 * log2(group)) +
           bytes * (out * k[COST_GATHER_BYTE] + (1 - out) * k[COST_BYTE_INSIDE]);
}

/* The products of `experts` experts with `rows` rows each: operations, or the time to read the
 * weights, whichever takes longer. */
static double feed_forward(const struct costs *c, const double *k, double experts, double rows,
                           double hidden)
{
    double weights = experts * c->weight_matrices * c->model_dim * hidden;
    double flops = 2 * rows * weights * k[COST_FLOP];
    double reads = weights * c->token_bytes * k[COST_BYTE_WEIGHT];

    return flops > reads ? flops : reads;
}

/* A smooth maximum of two times that are not both 0.  It lies 4 % above the maximum where they are
 * equal, and hardly above it where one is much longer. */
static double greater(double x, double y)
{
    double high = x > y ? x : y, q = (x < y ? x : y) / high;

    q *= q;
    q *= q;
    q *= q;
    q *= q;
    return high * sqrt(sqrt(sqrt(sqrt(1 + q))));
}

/* d chunks, overlapped: each has two exchanges and one feed-forward. */
static double pipeline(const double *k, double d, double a2a, double ffn)
{
    double slower = 1 + k[COST_INTERFERE];

    if (d <= 1)
        return 2 * a2a + ffn;
    return greater(2 * a2a + d * ffn * slower, 2 * d * a2a * slower + ffn) * 1.02 +
           d * k[COST_CHUNK];
}

/* The rows that an expert computes.  With e=sparse these are the rows that it was sent: by the load
 * if there is one, else their mean if T is known.  How uneven the load is, `guided` then learns
 * from samples. */
static double expert_rows(const struct costs *c, double capacity, uint32_t e)
{
    double mean = c->choices / c->experts;

    if (e != MOE_SPARSE)
        return capacity;
    if (c->kept)
        return (double)c->kept(c->load, (uint64_t)capacity, (uint32_t)c->experts) / c->experts;
    return mean > 0 && mean < capacity ? mean : capacity;
}

/* r = 0: each rank gathers the weights of all experts. */
static double local_step(const struct costs *c, const double *k, double capacity, uint32_t e)
{
    double rows = expert_rows(c, capacity, e);
    double weight_bytes = c->experts * c->weight_matrices * c->model_dim * c->hidden_dim *
                          c->token_bytes * (1 - 1 / c->ranks);

    return gather(c, k, c->ranks, weight_bytes) * (c->train ? 2 : 1) +
           feed_forward(c, k, c->experts, rows, c->hidden_dim) * (c->train ? 3 : 1);
}

/* d pieces of weights: each is gathered while the piece before it is in use. */
static double in_pieces(const double *k, double d, double piece, double compute)
{
    double slower = 1 + (d > 1 ? k[COST_INTERFERE] : 0);

    if (d <= 1)
        return piece + compute;
    return greater(d * piece + compute, piece + d * compute) * slower + d * k[COST_CHUNK];
}

/* layout=hidden, r = 0: the weights come in d pieces.  Backward, pieces that are still cached need
 * not be gathered again, and all gradients leave in one exchange. */
static double pieces_step(const struct costs *c, const double *k, double capacity,
                          const struct moe_plan *plan)
{
    double d = plan->d, rows = expert_rows(c, capacity, MOE_SPARSE);
    double weight_bytes = c->experts * c->weight_matrices * c->model_dim * c->hidden_dim *
                          c->token_bytes * (1 - 1 / c->ranks);
    double piece = gather(c, k, c->ranks, weight_bytes / d);
    double ffn = feed_forward(c, k, c->experts, rows, c->hidden_dim / d);
    double seconds = in_pieces(k, d, piece, ffn), gathered_again;

    if (!c->train)
        return seconds;
    seconds += gather(c, k, c->ranks, weight_bytes);
    gathered_again = plan->w == MOE_CACHE ? fmax(0, 1 - (d > 1 ? 2 : 1) / (d * c->layers)) : 0;
    return seconds + gathered_again * in_pieces(k, d, piece, 2 * ffn) +
           (1 - gathered_again) * 2 * d * ffn;
}

/* layout=hidden, r >= 1: each rank receives the tokens of all ranks, computes its hidden units of
 * all experts, and sends partial results back, which are summed.  If T is unknown, as many tokens
 * as fill the experts. */
static double tour_step(const struct costs *c, const double *k, double capacity,
                        const struct moe_plan *plan)
{
    double d = plan->d, rows = expert_rows(c, capacity, MOE_SPARSE);
    double tokens = (c->choices > 0 ? c->choices : c->experts * capacity) / c->top_k;
    double bytes = c->ranks * tokens * c->model_dim * c->token_bytes;
    double a2a = exchange(c, k, MOE_A2A_LINEAR, bytes / d);
    double ffn = feed_forward(c, k, c->experts, c->ranks * rows / d, c->hidden_dim / c->ranks);
    double t = pipeline(k, d, a2a, ffn) + bytes * k[COST_BYTE_COPIED];

    return c->train ? t + pipeline(k, d, a2a, 2 * ffn) + bytes * k[COST_BYTE_COPIED] : t;
}

/* The mean rows of an expert on the rank with most rows. */
static double fullest_rows(const struct costs *c, double capacity)
{
    if (c->kept)
        return (double)c->kept(c->load, (uint64_t)capacity, (uint32_t)c->local_experts) /
               c->local_experts;
    return expert_rows(c, capacity, MOE_SPARSE);
}

/* r >= 1.  Without padding the fullest rank's rows count, and before rows are sent the ranks
 * exchange counts, for which the host waits. */
static double sharded_step(const struct costs *c, const double *k, double capacity,
                           const struct moe_plan *plan)
{
    double r = plan->r, d = plan->d, group = c->slices / r;
    bool counted = plan->e == MOE_SPARSE;
    double rows = counted ? fullest_rows(c, capacity) : ceil(capacity / (group * d)) * group * d;
    double bytes = r * c->experts * rows * c->model_dim * c->token_bytes;
    double hidden = c->hidden_dim / r;
    double weight_bytes = c->local_experts * c->weight_matrices * c->model_dim * hidden *
                          c->token_bytes * (1 - 1 / group);
    bool rail = plan->a == MOE_A2A_RAIL;
    double a2a = rail ? hop_inside(c, k, bytes / d) : exchange(c, k, plan->a, bytes / d);
    double ffn = feed_forward(c, k, c->local_experts, c->ranks * rows / (group * d), hidden);
    double whole = (r > 1 ? bytes * k[COST_BYTE_COPIED] : 0) +
                   (rail ? 2 * hop_between(c, k, capacity) : 0); /* not in chunks */
    double t = gather(c, k, group, weight_bytes) + pipeline(k, d, a2a, ffn) + whole;

    if (counted)
        t += gather(c, k, c->ranks, c->ranks * c->experts * 8) + k[COST_CHUNK];
    if (c->train) /* backward: twice the compute, the same exchanges */
        t += gather(c, k, group, weight_bytes) + pipeline(k, d, a2a, 2 * ffn) + whole;
    return t;
}

static double step_log_ns(const struct costs *c, const double *k, double capacity,
                          const struct moe_plan *plan)
{
    double t = 0;

    if (c->by_hidden)
        t = plan->r ? tour_step(c, k, capacity, plan) : pieces_step(c, k, capacity, plan);
    else
        t = plan->r ? sharded_step(c, k, capacity, plan) : local_step(c, k, capacity, plan->e);

    return log((t + k[COST_STEP]) * k[COST_SCALE] * 1e9);
}

double costs_log_ns(const struct costs *costs, const double *constants, double capacity,
                    const struct moe_plan *plan)
{
    double k[COST_CONSTANTS];

    for (int i = 0; i < COST_CONSTANTS; i++)
        k[i] = exp(constants[i]);
    return step_log_ns(costs, k, capacity, plan);
}

double costs_gradient(const struct costs *costs, const double *constants, double capacity,
                      const struct moe_plan *plan, double *gradient)
{
    static const double step = 1e-3;
    double k[COST_CONSTANTS], value, grown = exp(step);

    for (int i = 0; i < COST_CONSTANTS; i++)
        k[i] = exp(constants[i]);
    value = step_log_ns(costs, k, capacity, plan);
    for (int i = 0; i < COST_CONSTANTS; i++) {
        double kept = k[i];

        k[i] *= grown;
        gradient[i] = (step_log_ns(costs, k, capacity, plan) - value) / step;
        k[i] = kept;
    }
    return value;
}
