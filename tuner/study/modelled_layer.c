/* Turns what a study is asked into a layer of `tune`, and its plans into times. */
#include "modelled_layer.h"

#include "layer_options.h"
#include "random.h"
#include "status.h"
#include "tutel_rows.h"

#include <math.h>
#include <string.h>

static int find_cluster(const struct study_ask *ask, struct cluster *out)
{
    uint32_t ranks = ask->tune.setup.where.ranks;

    if (ask->sim)
        return cluster_read_model(ask->sim, ranks, out);
    TRY(cluster_parse(tutel_machine(), "the paper's cluster", out));
    if (ranks)
        TRY(cluster_resize(out, ranks));
    return cluster_check_model(out, "the paper's cluster");
}

static bool names_a_layer(const struct tune_options *o)
{
    return o->shapes.count || o->models.count ||
           memcmp(&o->layer, &tune_defaults.layer, sizeof(o->layer)) != 0;
}

/* Of Tutel's Figure 1. */
static void take_example(struct layer_options *layer)
{
    layer->experts = 16;
    layer->tokens = 512;
    layer->model_dim = layer->hidden_dim = 2048;
}

int modelled_layer_open(const struct study_ask *ask, struct modelled_layer *l)
{
    *l = (struct modelled_layer){ .options = ask->tune,
                                  .sigma = ask->noise_percent / 100,
                                  .seed = ask->tune.setup.seed };
    TRY(find_cluster(ask, &l->cluster));
    if (!names_a_layer(&l->options))
        take_example(&l->options.layer);
    TRY(tune_request_make(&l->options, &l->cluster, &l->request));
    if (l->request.space_count != 1) {
        modelled_layer_close(l);
        return fail(ERR_ARGUMENT, "one layer is wanted: a single --shape or --model, one layout");
    }
    l->space = &l->request.spaces[0];
    return OK;
}

void modelled_layer_close(struct modelled_layer *l)
{
    step_times_close(&l->times);
    tune_request_free(&l->request);
}

int modelled_layer_time(struct modelled_layer *l, const uint64_t *capacities, size_t count)
{
    const struct space *space = l->space;

    TRY(step_times_open(&l->cluster, &space->shape, space->arms, space->arm_count, capacities,
                        count, &l->times));
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

bool modelled_layer_bucket(const struct modelled_layer *l, uint32_t bucket,
                           struct known_bucket *out)
{
    out->truth = (struct true_bucket){ .capacity = space_capacity(l->space, bucket),
                                       .ns = out->ns,
                                       .usable = out->usable,
                                       .default_arm = l->space->default_arm,
                                       .best_ns = NAN };
    for (int arm = 0; arm < (int)l->space->arm_count; arm++) {
        out->ns[arm] = modelled_layer_ns(l, out->truth.capacity, arm);
        out->usable[arm] = !isnan(out->ns[arm]);
        out->truth.best_ns = fmin(out->truth.best_ns, out->ns[arm]);
    }
    return !isnan(out->truth.best_ns);
}

int modelled_layer_search(const struct modelled_layer *l, const struct search_ops *strategy,
                          uint32_t run, struct search **out)
{
    struct search_setup setup = { .shape = l->space->shape,
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
