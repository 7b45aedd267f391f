/* The formulas that lines of a study call, grouped by paper: Tutel, HEXA-MoE, DynaMoE.  The table
 * at the end lists names, arguments and units. */
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

/* Returns the values cached under this key; `found` false: room for them, which the caller fills.
 * A full cache overwrites its first entry. */
static double *cached_values(struct formulas *f, enum formula_cached kind, double key,
                             double second_key, bool *found)
{
    int i = 0;

    while (i < f->cached && (f->cache[i].kind != kind || f->cache[i].key[0] != key ||
                             f->cache[i].key[1] != second_key))
        i++;
    *found = i < f->cached;
    if (!*found) {
        i = f->cached < FORMULA_CACHE ? f->cached++ : 0;
        f->cache[i].kind = kind;
        f->cache[i].key[0] = key;
        f->cache[i].key[1] = second_key;
    }
    return f->cache[i].values;
}

/* ---- Tutel (arXiv 2206.03382) */

/* Times one all-to-all alone, as Figures 16 and 18 do. */
static int a2a_ns(const struct formula_call *call, double *out)
{
    uint32_t ranks = (uint32_t)call->arguments[0];
    uint32_t algorithm = (uint32_t)call->arguments[1]; /* enum moe_a2a */
    uint64_t bytes_per_rank = (uint64_t)call->arguments[2] << 20;

    return modelled_a2a_ns(call->formulas->machine, ranks, algorithm, bytes_per_rank, out);
}

/* Times what 2dh does inside a node before blocks leave it, as appendix A.2 does. */
static int aggregation_ns(const struct formula_call *call, double *out)
{
    uint32_t ranks = (uint32_t)call->arguments[0];
    bool naive = call->arguments[1] > 0; /* a message for each block */
    uint64_t bytes_per_rank = (uint64_t)call->arguments[2] << 20;

    return modelled_aggregation_ns(call->formulas->machine, ranks, naive, bytes_per_rank, out);
}

/* Returns the capacity factor of one step of Figure 1's training. */
static int swing_at_step(const struct formula_call *call, double *out)
{
    size_t step = (size_t)call->arguments[0], steps = (size_t)call->arguments[1];

    *out = swing_factor(step, steps);
    return OK;
}

/* Table 6 compares eight static plans: linear with d = 1, 2, 4, 8, then 2dh with the same; r=1. */
enum { DEGREES = 4, STATIC_PLANS = 2 * DEGREES };

static int time_static_plans(const struct cluster *machine, struct modelled_ask *ask,
                             double ns[STATIC_PLANS], int *best)
{
    *best = -1; /* no plan fits into the memory */
    for (int i = 0; i < STATIC_PLANS; i++) {
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

/* Of each static plan over the typical layers that fit into the memory: how much more time than
 * the layer's best plan it takes, in percent, and of how many layers it is the best. */
struct typical_sums {
    double mean[STATIC_PLANS], worst[STATIC_PLANS], wins[STATIC_PLANS];
    int layers;
};
enum typical_output { TYPICAL_MEAN, TYPICAL_WORST, TYPICAL_WINS };

static int add_typical_layer(const struct cluster *machine, const struct moe_shape *shape,
                             struct typical_sums *sums)
{
    struct modelled_ask ask = {
        .shape = *shape,
        .plan = { .struct_size = sizeof(ask.plan), .r = 1 },
        .capacities.most = moe_capacity(1, shape->top_k, shape->experts, shape->tokens, 0),
    };
    double ns[STATIC_PLANS];
    int best;

    TRY(time_static_plans(machine, &ask, ns, &best));
    if (best < 0)
        return OK;
    sums->layers++;
    sums->wins[best]++;
    for (int i = 0; i < STATIC_PLANS; i++) {
        double percent = 100 * (ns[i] / ns[best] - 1);

        sums->mean[i] += percent;
        sums->worst[i] = fmax(sums->worst[i], percent);
    }
    return OK;
}

/* Goes through Table 6's typical layers: every combination of these sizes. */
static int time_typical_layers(const struct cluster *machine, uint32_t ranks,
                               struct typical_sums *sums)
{
    static const uint32_t experts_per_two_ranks[] = { 1, 2, 4 };
    static const uint32_t dims[] = { 1024, 2048, 4096 };
    static const uint32_t tokens_per_rank[] = { 4096, 16384, 65536 };

    *sums = (struct typical_sums){ .layers = 0 };
    for (int e = 0; e < 3; e++)
        for (int d = 0; d < 3; d++)
            for (int h = 0; h < 3; h++)
                for (int t = 0; t < 3; t++)
                    TRY(add_typical_layer(
                        machine,
                        &(struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                                             .experts = ranks * experts_per_two_ranks[e] / 2,
                                             .top_k = 2,
                                             .model_dim = dims[d],
                                             .hidden_dim = dims[h],
                                             .ranks = ranks,
                                             .tokens = tokens_per_rank[t],
                                             .dtype = MOE_F32,
                                             .pass = MOE_TRAIN,
                                             .activation = MOE_RELU },
                        sums));
    for (int i = 0; i < STATIC_PLANS; i++)
        sums->mean[i] /= sums->layers;
    return OK;
}

/* Returns mean, worst or wins (enum typical_output) of one static plan over the typical layers. */
static int typical_plan(const struct formula_call *call, double *out)
{
    double ranks = call->arguments[0], algorithm = call->arguments[1], d = call->arguments[2];
    int degree = d >= 1 ? (int)log2(d) : DEGREES;
    int plan = (algorithm == MOE_A2A_2DH ? DEGREES : 0) + degree;
    bool found;
    double *values = cached_values(call->formulas, CACHED_TYPICAL_LAYERS, ranks, 0, &found);

    _Static_assert((TYPICAL_WINS + 1) * STATIC_PLANS <= FORMULA_VALUES, "room in the cache");
    if (degree >= DEGREES)
        return fail(ERR_ARGUMENT, "typical layers have d=1 to %d, not %g", 1 << (DEGREES - 1), d);
    if (!found) {
        struct typical_sums sums;

        TRY(time_typical_layers(call->formulas->machine, (uint32_t)ranks, &sums));
        memcpy(values + TYPICAL_MEAN * STATIC_PLANS, sums.mean, sizeof(sums.mean));
        memcpy(values + TYPICAL_WORST * STATIC_PLANS, sums.worst, sizeof(sums.worst));
        memcpy(values + TYPICAL_WINS * STATIC_PLANS, sums.wins, sizeof(sums.wins));
    }
    *out = values[call->output * STATIC_PLANS + plan];
    return OK;
}

/* ---- HEXA-MoE (arXiv 2411.01288) */

/* Divides a layer between two devices in proportion to their speed, as Table 3 does.  Returns the
 * share of the first device (output 0) or of the second (output 1). */
static int device_share(const struct formula_call *call, double *out)
{
    enum { UNITS = 10000 }; /* that are divided: shares are whole units */
    double seconds_of_first = call->arguments[0], seconds_of_second = call->arguments[1];
    double speeds[2] = { 1 / seconds_of_first, 1 / seconds_of_second };
    uint64_t units[2];

    TRY(moe_shares(speeds, 2, UNITS, 1, units));
    *out = (double)units[call->output] / UNITS;
    return OK;
}

int formula_unequal(const struct cluster *machine, const double seconds[2], struct cluster *out)
{
    /* The proxy task of Table 3: 1024 products of 2048 x 2048 matrices. */
    static const double operations = 2. * 2048 * 2048 * 2048 * 1024;
    double speeds[2] = { 1 / seconds[0], 1 / seconds[1] };

    *out = *machine;
    snprintf(out->rank_speeds_percent, sizeof(out->rank_speeds_percent), "unknown");
    TRY(cluster_resize(out, 2));
    out->gemm_gflops = operations / fmax(seconds[0], seconds[1]) * 1e-9;
    rank_speeds_format(speeds, 2, out->rank_speeds_percent, sizeof(out->rank_speeds_percent));
    return OK;
}

/* ---- DynaMoE (arXiv 2205.01848) */

/* The paper does not give the sizes of its layers; these are ours (study_dynamoe in study.c). */
enum { EXPERTS = 8, RANKS = 4, TOKENS_PER_RANK = 1024, MODEL_DIM = 1024, HIDDEN_DIM = 4096 };

/* What one training comes to under one rule for capacities. */
enum training_output {
    TRAINING_NS,       /* a step, mean over all steps */
    TRAINING_KNOWN_NS, /* a step with known routes, mean over all steps */
    TRAINING_ROWS,     /* rows of all experts over choices */
    TRAINING_FULLEST,  /* rows of the fullest rank over the choices that an even gate gives it */
    TRAINING_DROPPED,  /* share of choices */
    TRAINING_REPLANS,  /* per thousand steps */
    TRAINING_BYTES,    /* that a rank allocates at the end */
    TRAINING_OUTPUTS
};

/* Times one step of the layer, and counts its bytes, when expert e has rows[e] rows. */
static int time_layer(const struct cluster *machine, const uint64_t rows[EXPERTS],
                      struct modelled_step *step, double *bytes)
{
    struct modelled_ask ask = {
        .shape = { .struct_size = sizeof(ask.shape),
                   .experts = EXPERTS,
                   .top_k = 1,
                   .model_dim = MODEL_DIM,
                   .hidden_dim = HIDDEN_DIM,
                   .ranks = RANKS,
                   .tokens = TOKENS_PER_RANK,
                   .dtype = MOE_F32,
                   .pass = MOE_TRAIN,
                   .activation = MOE_RELU },
        .plan = { .struct_size = sizeof(ask.plan), .r = 1, .d = 1, .a = MOE_A2A_LINEAR },
        .capacities = capacities_of(rows, EXPERTS),
        .known_routes = true,
    };

    TRY(modelled_step_of(machine, &ask, step));
    return modelled_bytes(machine, &ask, bytes);
}

/* Sums over the steps of a training whose capacities change; counts_replay() calls add_step(). */
struct replayed_training {
    const struct cluster *machine;
    struct modelled_step step; /* under the capacities in force */
    double ns, known_ns;       /* of all steps so far */
    double bytes;              /* under the capacities in force */
    int rc;                    /* of the first step that failed */
};

static void add_replayed_step(void *self, const struct counts_step *s)
{
    struct replayed_training *t = self;

    if (!t->rc && (!s->step || s->replanned)) { /* other steps take as long as the one before */
        uint64_t rows[EXPERTS];

        for (int e = 0; e < EXPERTS; e++)
            rows[e] = s->rows[e];
        t->rc = time_layer(t->machine, rows, &t->step, &t->bytes);
    }
    t->ns += t->step.ns;
    t->known_ns += t->step.known_ns;
}

/* Trains under capacities that follow the experts by `rule`. */
static int train_by_rule(const struct cluster *machine, const struct counts_trace *trace,
                         enum counts_way rule, double out[TRAINING_OUTPUTS])
{
    struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
    struct replayed_training training = { .machine = machine };
    struct counts_sum sum;

    options.slack = 50;
    TRY(counts_replay(trace, &options, rule, NULL, add_replayed_step, &training, &sum));
    TRY(training.rc);
    out[TRAINING_NS] = training.ns / (double)sum.steps;
    out[TRAINING_KNOWN_NS] = training.known_ns / (double)sum.steps;
    out[TRAINING_ROWS] = sum.factor;
    out[TRAINING_FULLEST] = sum.fullest_factor;
    out[TRAINING_DROPPED] = sum.dropped_share;
    out[TRAINING_REPLANS] = 1000. * (double)sum.replans / (double)sum.steps;
    out[TRAINING_BYTES] = training.bytes;
    return OK;
}

/* Trains under one capacity factor for all experts and steps. */
static int train_at_factor(const struct cluster *machine, const struct counts_trace *trace,
                           double factor, double out[TRAINING_OUTPUTS])
{
    uint64_t rows[EXPERTS];
    struct modelled_step layer_step;
    double choices = 0, dropped = 0;

    for (int e = 0; e < EXPERTS; e++)
        rows[e] = (uint64_t)ceil(factor * trace->choices / EXPERTS);
    TRY(time_layer(machine, rows, &layer_step, &out[TRAINING_BYTES]));
    for (size_t i = 0; i < trace->steps * trace->experts; i++) {
        choices += trace->counts[i];
        dropped += trace->counts[i] > rows[0] ? (double)(trace->counts[i] - rows[0]) : 0;
    }
    out[TRAINING_NS] = layer_step.ns;
    out[TRAINING_KNOWN_NS] = layer_step.known_ns;
    out[TRAINING_ROWS] = out[TRAINING_FULLEST] = factor;
    out[TRAINING_DROPPED] = dropped / choices;
    out[TRAINING_REPLANS] = 0;
    return OK;
}

/* Returns one enum training_output of a training on the made-up trace of Figure 8. */
static int training_number(const struct formula_call *call, double *out)
{
    struct formulas *f = call->formulas;
    double rule = call->arguments[0]; /* enum counts_way, or FORMULA_HELD */
    double factor = rule == FORMULA_HELD ? call->arguments[1] : 0;
    bool found;
    double *outputs = cached_values(f, CACHED_TRAINING, rule, factor, &found);

    if (!f->trace.steps)
        TRY(made_figure_8(1, 200, TOKENS_PER_RANK, &f->trace));
    if (!found && rule == FORMULA_HELD)
        TRY(train_at_factor(f->machine, &f->trace, factor, outputs));
    else if (!found)
        TRY(train_by_rule(f->machine, &f->trace, (enum counts_way)rule, outputs));
    *out = outputs[call->output];
    return OK;
}

/* The paper trains 140 epochs of CIFAR10's 50,000 images.  It does not publish which share of
 * tokens keeps its experts from one epoch to the next, so this curve is made up: most tokens settle
 * within a few epochs, and in epoch 48 many change once more. */
enum { EPOCHS = 140, TOKENS_PER_EPOCH = 50000 };

static double unchanged_share(int epoch)
{
    return epoch == 48 ? .88 : fmin(.985, 1 - .5 * exp(-epoch / 4.));
}

enum known_output { KNOWN_FIRST, KNOWN_COUNT };

/* Returns the first epoch whose routes are known by the paper's rule, moe_routes_decide(), or how
 * many such epochs there are (enum known_output). */
static int known_epochs(const struct formula_call *call, double *out)
{
    struct moe_routes_options options = MOE_ROUTES_OPTIONS_INIT;
    struct moe_routes *routes;
    int first_known = -1, count = 0;

    options.experts = EXPERTS;
    options.top_k = options.rooms = options.rows = 1; /* no routes are stored here */
    TRY(moe_routes_open(&options, &routes));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t unchanged = (uint64_t)(unchanged_share(epoch) * TOKENS_PER_EPOCH);
        uint32_t is_known;

        if (moe_routes_decide(routes, (uint64_t)epoch, unchanged, TOKENS_PER_EPOCH, &is_known)) {
            moe_routes_close(routes);
            return fail(ERR_ARGUMENT, "epoch %d: the rule for known routes refuses its arguments",
                        epoch);
        }
        count += (int)is_known;
        first_known = is_known && first_known < 0 ? epoch : first_known;
    }
    moe_routes_close(routes);
    *out = call->output == KNOWN_COUNT ? count : first_known;
    return OK;
}

void formulas_close(struct formulas *f)
{
    counts_free(&f->trace);
}

/* Rows: name, number of arguments, function, output. */
const struct formula formula_list[] = {
    /* (ranks, algorithm, MiB that each rank has for all): ns */
    { "a2a_ns", 3, a2a_ns, 0 },
    /* (ranks, 1 = naive, MiB that each rank has for all): ns */
    { "aggregation_ns", 3, aggregation_ns, 0 },
    /* (step from 0 on, steps): capacity factor */
    { "swing", 2, swing_at_step, 0 },
    /* (ranks, algorithm, d): %, %, layers */
    { "typical_mean", 3, typical_plan, TYPICAL_MEAN },
    { "typical_worst", 3, typical_plan, TYPICAL_WORST },
    { "typical_wins", 3, typical_plan, TYPICAL_WINS },
    /* (seconds of the first device, seconds of the second): share from 0 to 1 */
    { "first_share", 2, device_share, 0 },
    { "second_share", 2, device_share, 1 },
    /* (rule, capacity factor of rule "held"): units as in enum training_output */
    { "training_ns", 2, training_number, TRAINING_NS },
    { "training_known_ns", 2, training_number, TRAINING_KNOWN_NS },
    { "training_rows", 2, training_number, TRAINING_ROWS },
    { "training_fullest", 2, training_number, TRAINING_FULLEST },
    { "training_dropped", 2, training_number, TRAINING_DROPPED },
    { "training_replans", 2, training_number, TRAINING_REPLANS },
    { "training_bytes", 2, training_number, TRAINING_BYTES },
    /* (): epoch from 0 on; epochs */
    { "first_known_epoch", 0, known_epochs, KNOWN_FIRST },
    { "known_epochs", 0, known_epochs, KNOWN_COUNT },
    { NULL },
};
