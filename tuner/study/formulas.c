/* Each formula that lines of a study call, with its arguments. */
#include "formulas.h"

#include "baseline.h"
#include "capacity_trace.h"
#include "counts_replay.h"
#include "made_traces.h"
#include "modelled_step.h"
#include "rank_speeds.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <string.h>

/* Returns what was computed of this before; else room for it. */
static double *kept_values(struct formulas *f, enum formula_kept of, double a, double b,
                           bool *found)
{
    int i = 0;

    while (i < f->kept_count &&
           (f->kept[i].of != of || f->kept[i].key[0] != a || f->kept[i].key[1] != b))
        i++;
    *found = i < f->kept_count;
    if (!*found) {
        i = f->kept_count < FORMULA_KEPT ? f->kept_count++ : 0;
        f->kept[i].of = of;
        f->kept[i].key[0] = a;
        f->kept[i].key[1] = b;
    }
    return f->kept[i].values;
}

/* ---- all-to-alls alone */

/* Nanoseconds, by ranks, algorithm, and MiB that each rank has for all. */
static int a2a_ns(struct formulas *f, int part, const double *at, double *out)
{
    (void)part;
    return modelled_a2a_ns(f->machine, (uint32_t)at[0], (uint32_t)at[1], (uint64_t)at[2] << 20,
                           out);
}

/* What comes before blocks leave a node, by ranks, whether it is naive, and MiB. */
static int aggregation_ns(struct formulas *f, int part, const double *at, double *out)
{
    (void)part;
    return modelled_aggregation_ns(f->machine, (uint32_t)at[0], at[1] > 0, (uint64_t)at[2] << 20,
                                   out);
}

/* ---- Tutel */

/* The capacity factor in this step of so many. */
static int swing(struct formulas *f, int part, const double *at, double *out)
{
    (void)f;
    (void)part;
    *out = swing_factor((size_t)at[0], (size_t)at[1]);
    return OK;
}

/* The paper's eight static ways to move tokens: linear with d = 1, 2, 4, 8, then 2dh; r = 1. */
enum { DEGREES = 4, WAYS = 8, TYPICAL_LAYERS = 81 };

static int time_ways(const struct cluster *machine, struct modelled_ask *ask, double ns[WAYS],
                     int *best)
{
    *best = -1;
    for (int i = 0; i < WAYS; i++) {
        struct modelled_step step;

        ask->plan.d = 1u << (i % DEGREES);
        ask->plan.a = i < DEGREES ? MOE_A2A_LINEAR : MOE_A2A_2DH;
        TRY(modelled_step_of(machine, ask, &step));
        ns[i] = step.ns;
        if (!isnan(ns[i]) && (*best < 0 || ns[i] < ns[*best]))
            *best = i;
    }
    return OK;
}

/* Says of all typical layers that fit into the memory how far each way is behind the best, in % of
 * its time, on average and at worst, and how many layers it is the best of. */
static int time_typical(const struct cluster *machine, uint32_t ranks, double out[3 * WAYS])
{
    static const uint32_t widths[] = { 1024, 2048, 4096 }, tokens[] = { 4096, 16384, 65536 };
    static const uint32_t halves[] = { 1, 2, 4 }; /* experts per two GPUs */
    double *mean = out, *worst = out + WAYS, *wins = out + 2 * WAYS;
    int layers = 0, best;

    memset(out, 0, 3 * WAYS * sizeof(*out));
    for (int i = 0; i < TYPICAL_LAYERS; i++) {
        struct modelled_ask ask = {
            .shape = { .struct_size = sizeof(ask.shape),
                       .experts = ranks * halves[i / 27] / 2,
                       .top_k = 2,
                       .model_dim = widths[i / 9 % 3],
                       .hidden_dim = widths[i / 3 % 3],
                       .ranks = ranks,
                       .tokens = tokens[i % 3],
                       .dtype = MOE_F32,
                       .pass = MOE_TRAIN,
                       .activation = MOE_RELU },
            .plan = { .struct_size = sizeof(ask.plan), .r = 1 },
        };
        double ns[WAYS];

        ask.capacities.most = moe_capacity(1, 2, ask.shape.experts, ask.shape.tokens, 0);
        TRY(time_ways(machine, &ask, ns, &best));
        if (best < 0)
            continue;
        layers++;
        wins[best]++;
        for (int w = 0; w < WAYS; w++) {
            double percent = 100 * (ns[w] / ns[best] - 1);

            mean[w] += percent;
            worst[w] = fmax(worst[w], percent);
        }
    }
    for (int w = 0; w < WAYS; w++)
        mean[w] /= layers;
    return OK;
}

/* Mean, worst or wins of the way that has this all-to-all and this d, by ranks. */
static int typical(struct formulas *f, int part, const double *at, double *out)
{
    int degree = at[2] >= 1 ? (int)log2(at[2]) : DEGREES;
    int way = (at[1] == MOE_A2A_2DH ? DEGREES : 0) + degree;
    bool found;
    double *values = kept_values(f, KEPT_TYPICAL, at[0], 0, &found);

    if (degree >= DEGREES)
        return fail(ERR_ARGUMENT, "typical layers have d=1 to %d, not %g", 1 << (DEGREES - 1),
                    at[2]);
    if (!found)
        TRY(time_typical(f->machine, (uint32_t)at[0], values));
    *out = values[WAYS * part + way];
    return OK;
}

/* ---- HEXA-MoE */

/* What the first device of two is given of a layer, or the second, by the seconds that each takes
 * for the same. */
static int share(struct formulas *f, int part, const double *at, double *out)
{
    enum { UNITS = 10000 };
    double speeds[2] = { 1 / at[0], 1 / at[1] };
    uint64_t shares[2];

    (void)f;
    TRY(moe_shares(speeds, 2, UNITS, 1, shares));
    *out = (double)shares[part] / UNITS;
    return OK;
}

int formula_unequal(const struct cluster *machine, const double seconds[2], struct cluster *out)
{
    static const double operations = 2. * 2048 * 2048 * 2048 * 1024;
    double speeds[2] = { 1 / seconds[0], 1 / seconds[1] };

    *out = *machine;
    snprintf(out->rank_speeds_percent, sizeof(out->rank_speeds_percent), "unknown");
    TRY(cluster_resize(out, 2));
    out->gemm_gflops = operations / fmax(seconds[0], seconds[1]) * 1e-9;
    rank_speeds_format(speeds, 2, out->rank_speeds_percent, sizeof(out->rank_speeds_percent));
    return OK;
}

/* ---- DynaMoE */

enum { EXPERTS = 8 };

/* What a training under one rule for capacities comes to: ns and known_ns are the mean of all
 * steps, rows those over choices (fullest: of the rank with most), bytes at the end, dropped a
 * share of choices, replans per thousand steps. */
enum outcome {
    OUTCOME_NS,
    OUTCOME_KNOWN_NS,
    OUTCOME_ROWS,
    OUTCOME_FULLEST,
    OUTCOME_DROPPED,
    OUTCOME_REPLANS,
    OUTCOME_BYTES,
    OUTCOMES
};

/* The layer of all rows, with these capacities. */
static int time_layer(const struct cluster *machine, const uint64_t rows[EXPERTS],
                      struct modelled_step *step, double *bytes)
{
    struct modelled_ask ask = {
        .shape = { .struct_size = sizeof(ask.shape),
                   .experts = EXPERTS,
                   .top_k = 1,
                   .model_dim = 1024,
                   .hidden_dim = 4096,
                   .ranks = 4,
                   .tokens = 1024,
                   .dtype = MOE_F32,
                   .pass = MOE_TRAIN,
                   .activation = MOE_RELU },
        .plan = { .struct_size = sizeof(ask.plan), .r = 1, .d = 1, .a = MOE_A2A_LINEAR },
        .capacities = capacities_of(rows, EXPERTS),
        .known = true,
    };

    TRY(modelled_step_of(machine, &ask, step));
    return modelled_bytes(machine, &ask, bytes);
}

struct follower {
    const struct cluster *machine;
    struct modelled_step step; /* under the capacities in force */
    double ns, known_ns, bytes;
    int rc;
};

static void on_step(void *self, const struct counts_step *s)
{
    struct follower *f = self;

    if (!f->rc && (!s->step || s->replanned)) {
        uint64_t rows[EXPERTS];

        for (int e = 0; e < EXPERTS; e++)
            rows[e] = s->rows[e];
        f->rc = time_layer(f->machine, rows, &f->step, &f->bytes);
    }
    f->ns += f->step.ns;
    f->known_ns += f->step.known_ns;
}

/* Trains under capacities that change as `way` has it. */
static int follow(const struct cluster *machine, const struct counts_trace *trace,
                  enum counts_way way, double out[OUTCOMES])
{
    struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct follower f = { .machine = machine };
    struct counts_sum sum;

    options.slack = 50;
    TRY(counts_replay(trace, &options, way, NULL, on_step, &f, &sum));
    TRY(f.rc);
    out[OUTCOME_NS] = f.ns / (double)sum.steps;
    out[OUTCOME_KNOWN_NS] = f.known_ns / (double)sum.steps;
    out[OUTCOME_ROWS] = sum.factor;
    out[OUTCOME_FULLEST] = sum.fullest_factor;
    out[OUTCOME_DROPPED] = sum.dropped_share;
    out[OUTCOME_REPLANS] = 1000. * (double)sum.replans / (double)sum.steps;
    out[OUTCOME_BYTES] = f.bytes;
    return OK;
}

/* Trains under one capacity for all experts and steps. */
static int hold(const struct cluster *machine, const struct counts_trace *trace, double factor,
                double out[OUTCOMES])
{
    uint64_t rows[EXPERTS];
    struct modelled_step step;
    double all = 0, dropped = 0;

    for (int e = 0; e < EXPERTS; e++)
        rows[e] = (uint64_t)ceil(factor * trace->choices / EXPERTS);
    TRY(time_layer(machine, rows, &step, &out[OUTCOME_BYTES]));
    for (size_t i = 0; i < trace->steps * trace->experts; i++) {
        all += trace->counts[i];
        dropped += trace->counts[i] > rows[0] ? (double)(trace->counts[i] - rows[0]) : 0;
    }
    out[OUTCOME_NS] = step.ns;
    out[OUTCOME_KNOWN_NS] = step.known_ns;
    out[OUTCOME_ROWS] = out[OUTCOME_FULLEST] = factor;
    out[OUTCOME_DROPPED] = dropped / all;
    out[OUTCOME_REPLANS] = 0;
    return OK;
}

/* An outcome of the made-up trace of Figure 8, by rule and the factor that rule "held" has. */
static int training(struct formulas *f, int part, const double *at, double *out)
{
    bool found;
    double factor = at[0] == FORMULA_HELD ? at[1] : 0;
    double *outcomes = kept_values(f, KEPT_TRAINING, at[0], factor, &found);

    if (!f->trace.steps)
        TRY(made_figure_8(1, 200, 1024, &f->trace));
    if (!found)
        TRY(at[0] == FORMULA_HELD
                ? hold(f->machine, &f->trace, factor, outcomes)
                : follow(f->machine, &f->trace, (enum counts_way)at[0], outcomes));
    *out = outcomes[part];
    return OK;
}

/* The first of 140 epochs whose routes are known, or how many are, by the paper's rule.  Which
 * share of tokens keeps its experts is made up: most settle soon, and in one epoch many change. */
static int known_epochs(struct formulas *f, int part, const double *at, double *out)
{
    enum { EPOCHS = 140, TOKENS_OF_EPOCH = 50000 };
    struct moe_routes_options options = MOE_ROUTES_OPTIONS_INIT;
    struct moe_routes *routes;
    int first = -1, known = 0;

    (void)f;
    (void)at;
    options.experts = EXPERTS;
    options.top_k = options.rooms = options.rows = 1; /* none is put */
    TRY(moe_routes_open(&options, &routes));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double unchanged = epoch == 48 ? .88 : fmin(.985, 1 - .5 * exp(-epoch / 4.));
        uint32_t on;

        if (moe_routes_decide(routes, (uint64_t)epoch, (uint64_t)(unchanged * TOKENS_OF_EPOCH),
                              TOKENS_OF_EPOCH, &on)) {
            moe_routes_close(routes);
            return fail(ERR_ARGUMENT, "deciding on known routes");
        }
        known += (int)on;
        first = on && first < 0 ? epoch : first;
    }
    moe_routes_close(routes);
    *out = part ? known : first;
    return OK;
}

void formulas_close(struct formulas *f)
{
    counts_free(&f->trace);
}

const struct formula formula_list[] = {
    { "a2a_ns", 3, a2a_ns, 0 },
    { "aggregation_ns", 3, aggregation_ns, 0 },
    { "swing", 2, swing, 0 },
    { "typical_mean", 3, typical, 0 },
    { "typical_worst", 3, typical, 1 },
    { "typical_wins", 3, typical, 2 },
    { "first_share", 2, share, 0 },
    { "second_share", 2, share, 1 },
    { "training_ns", 2, training, OUTCOME_NS },
    { "training_known_ns", 2, training, OUTCOME_KNOWN_NS },
    { "training_rows", 2, training, OUTCOME_ROWS },
    { "training_fullest", 2, training, OUTCOME_FULLEST },
    { "training_dropped", 2, training, OUTCOME_DROPPED },
    { "training_replans", 2, training, OUTCOME_REPLANS },
    { "training_bytes", 2, training, OUTCOME_BYTES },
    { "first_known_epoch", 0, known_epochs, 0 },
    { "known_epochs", 0, known_epochs, 1 },
    { NULL },
};
