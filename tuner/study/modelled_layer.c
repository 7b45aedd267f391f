/* Turns a study's options into a layer of `tune`, and the layer's plans into true times. */
#include "modelled_layer.h"

#include "layer_options.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <string.h>

static int find_cluster(const struct study_ask *ask, struct cluster *out)
{
    uint32_t ranks = ask->tune.setup.where.ranks;
    uint32_t ranks_per_rack = ask->tune.setup.where.ranks_per_rack;

    if (ask->sim) {
        TRY(cluster_read_model(ask->sim, ranks, out));
    } else {
        TRY(cluster_parse(study_tutel.machine, "the paper's cluster", out));
        if (ranks)
            TRY(cluster_resize(out, ranks));
        TRY(cluster_check_model(out, "the paper's cluster"));
    }
    /* A layer's options have no racks; they belong to the cluster. */
    if (!ranks_per_rack)
        return OK;
    out->ranks_per_rack = ranks_per_rack;
    return rank_layout_has_racks(cluster_layout(out))
               ? OK
               : fail(ERR_ARGUMENT,
                      "--ranks-per-rack %u: %u ranks, %u on a node, do not make several racks of "
                      "several nodes each",
                      ranks_per_rack, out->ranks, out->ranks_per_node);
}

/* Sets how fast the ranks are, for a layer with shares by speed: from the cluster's file, where
 * `tune` uses what `probe` measured. */
static int set_rank_speeds(const struct cluster *cluster, struct layer_plans *space)
{
    struct load *speeds;

    if (space->shape.shares != MOE_SHARES_SPEED)
        return OK;
    TRY(load_open_speeds(&space->shape, cluster->rank_speeds_percent, &speeds));
    speeds->between = load_between(space->load);
    load_close(space->load);
    space->load = speeds;
    space->machine.speeds = load_speeds(speeds);
    return OK;
}

int modelled_layer_open(const struct study_ask *ask, struct modelled_layer *l)
{
    struct layer_options *layer = &l->options.layer;
    int rc = OK;

    *l = (struct modelled_layer){ .options = ask->tune,
                                  .sigma = ask->noise_percent / 100,
                                  .seed = ask->tune.setup.seed };
    if (ask->tune.shapes.count + ask->tune.models.count > 1)
        return fail(ERR_ARGUMENT,
                    "%d layers are named, and this takes one: a single --shape or --model",
                    ask->tune.shapes.count + ask->tune.models.count);
    TRY(load_options_check(&ask->tune.load));
    TRY(find_cluster(ask, &l->cluster));
    if (!ask->tune.shapes.count && !ask->tune.models.count &&
        !memcmp(layer, &tune_defaults.layer, sizeof(*layer))) {
        /* The layer of Tutel's Figure 1, whose numbers are in f32. */
        layer->dtype = MOE_F32;
        layer->experts = 16;
        layer->tokens = 512;
        layer->model_dim = layer->hidden_dim = 2048;
    }
    TRY(tune_request_make(&l->options, &l->cluster, &l->request));
    for (size_t i = 0; i < l->request.space_count && !rc; i++)
        rc = set_rank_speeds(&l->cluster, &l->request.spaces[i]);
    modelled_layer_choose(l, 0);
    if (rc)
        modelled_layer_close(l);
    return rc;
}

void modelled_layer_close(struct modelled_layer *l)
{
    step_times_close(&l->times);
    tune_request_free(&l->request);
}

void modelled_layer_choose(struct modelled_layer *l, size_t setting)
{
    step_times_close(&l->times);
    l->space = &l->request.spaces[setting];
}

int modelled_layer_time(struct modelled_layer *l, const uint64_t *capacities, size_t count)
{
    const struct layer_plans *space = l->space;

    TRY(step_times_open(&(struct step_times_ask){ .cluster = &l->cluster,
                                                  .shape = &space->shape,
                                                  .load = space->load,
                                                  .seed = l->seed,
                                                  .arms = space->arms,
                                                  .arm_count = space->arm_count,
                                                  .capacities = capacities,
                                                  .count = count },
                        &l->times));
    for (size_t i = 0; i < l->times.count; i++)
        for (size_t arm = 0; arm < space->arm_count; arm++)
            if (account_alone(&space->shape, &space->machine, &space->arms[arm],
                              l->times.capacities[i]) > space->memory_limit_bytes)
                l->times.ns[i * space->arm_count + arm] = NAN;
    return OK;
}

double modelled_layer_ns(const struct modelled_layer *l, uint64_t capacity, int arm)
{
    return step_times_at(&l->times, capacity)[arm];
}

bool modelled_layer_bucket(const struct modelled_layer *l, uint32_t bucket, struct true_bucket *out)
{
    out->capacity = layer_plans_capacity(l->space, bucket);
    out->arm_count = l->space->arm_count;
    out->default_arm = l->space->default_arm;
    out->best_ns = NAN;
    for (int arm = 0; arm < (int)out->arm_count; arm++) {
        out->ns[arm] = out->seen_ns[arm] = modelled_layer_ns(l, out->capacity, arm);
        out->usable[arm] = !isnan(out->ns[arm]);
        out->best_ns = fmin(out->best_ns, out->ns[arm]);
    }
    return !isnan(out->best_ns);
}

int modelled_layer_search(const struct modelled_layer *l, const struct search_ops *strategy,
                          uint32_t run, struct search **out)
{
    struct search_setup setup = { .shape = l->space->shape,
                                  .kept = load_kept,
                                  .load = load_counts(l->space->load),
                                  .arms = l->space->arms,
                                  .arm_count = l->space->arm_count,
                                  .machine = l->request.machine,
                                  .worth = l->request.effort->worth,
                                  .repeats = l->options.repeats,
                                  .seed = l->seed + run };

    return search_open(strategy, &setup, out);
}

struct noise modelled_layer_noise(const struct modelled_layer *l, uint32_t run)
{
    return noise_make(random_bits(l->seed + run, 9), l->sigma, 0, false);
}
