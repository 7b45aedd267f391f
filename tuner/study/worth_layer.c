/* Times every plan of a layer on modelled ranks, and on real ranks the few plans whose steps say
 * most about what tuning will save. */
#include "worth_layer.h"

#include "common_rows.h"
#include "heat.h"
#include "host.h"
#include "measure.h"
#include "plan.h"
#include "shape.h"
#include "stats.h"
#include "status.h"
#include "step_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS_TIMED = 3, /* both ends of the range and its middle: errors in between are alike */
    PASSES_LEAST = 2,  /* over these buckets; each visit of a bucket has a launch of its own */
    PASSES_MOST = 6,
    ROUNDS_LEAST = 7, /* of a visit: one step of each of its plans */
    ROUNDS_MOST = 15,
    STEP_RETRIES = 2 /* of a step that heat or another process held back */
};

/* A visit ends when the error of a plan's median over the rounds is below this, in log time. */
static const double wanted_median_sd = .01;

/* The passes end when the interval of what tuning saves is narrower than this share. */
static const double wanted_interval = .15;

/* How much the same plan differs between launches, in log time: a guess until launches were
 * compared.  We saw .7 to 2.6 %, and more on busy machines.  The guess counts like so many
 * differences between launches (degrees of freedom). */
static const double launch_sd = .015, launch_freedom = 4;

/* How much the ratio of two plans differs in another hour, in which the table is tuned and used:
 * bench-truth saw 4.5 % of the times within minutes. */
static const double hour_sd = .025;

/* One estimate, as worth_layer() makes and frees it. */
struct worth_work {
    const struct tune_request *request;
    const struct layer_plans *space;
    double capacities[WORTH_BUCKETS_MAX]; /* of the buckets, ascending */
    double weights[WORTH_BUCKETS_MAX];    /* of the buckets, in log c */
    double *log_ns;                       /* modelled, (buckets, arms); NAN: cannot run */
    uint32_t bucket[WORTH_BUCKETS_MAX];
    struct observation steps[PASSES_MOST * BUCKETS_TIMED * WORTH_PLANS_MAX]; /* medians of visits */
    struct progress *progress;
    uint32_t steps_taken; /* real ones, so far */
    struct search_setup search;
    struct worth_setup setup;
};

/* Lists the buckets that tune would measure, or an even selection if they are too many.  Weights
 * give each doubling of c the same weight, as in the gain that tune prints. */
static int list_buckets(struct worth_work *w)
{
    const struct layer_plans *space = w->space;
    size_t anchor_count = space->anchor_count,
           count = anchor_count < WORTH_BUCKETS_MAX ? anchor_count : WORTH_BUCKETS_MAX;
    uint32_t *anchors = calloc(anchor_count + 1, sizeof(*anchors));
    double weight_begin, weight_end;

    if (!anchors)
        return fail(ERR_NOMEM, "the estimate of %zu buckets", anchor_count);
    for (size_t i = 0; i < anchor_count; i++)
        anchors[i] = space->anchors[i];
    sort_numbers(anchors, anchor_count);
    for (size_t i = 0; i < count; i++) {
        w->bucket[i] = anchors[count > 1 ? i * (anchor_count - 1) / (count - 1) : 0];
        w->capacities[i] = (double)layer_plans_capacity(space, w->bucket[i]);
    }
    free(anchors);
    weight_begin = log(fmax(space->first, .5) * space->window);
    for (size_t i = 0; i < count; i++) {
        weight_end = i + 1 < count ? log(w->capacities[i] * w->capacities[i + 1]) / 2
                                   : log((space->last + 1.0) * space->window);
        w->weights[i] = weight_end - weight_begin;
        weight_begin = weight_end;
    }
    w->setup.bucket_count = count;
    return OK;
}

static int set_layer(const struct worth_work *w, struct crew *real)
{
    struct order order = { .kind = ORDER_LAYER,
                           .shape = w->space->shape,
                           .seed = w->request->options->setup.seed,
                           .memory_limit_bytes = w->request->memory_limit_bytes,
                           .steps_are = graphs_steps_are(w->request->options->setup.graphs) };
    struct reply reply;

    TRY(load_text(w->space->load, order.load));
    TRY(crew_do(real, &order, &reply));
    return reply.state == TRIAL_OK
               ? OK
               : fail(ERR_DEVICE, "the layer cannot be set up: %s", reply.message);
}

/* Takes one real step.  *log_ns is NAN if the plan cannot run in this bucket. */
static int take_step(const struct worth_work *w, struct crew *real, size_t bucket, int arm,
                     double *log_ns)
{
    struct order order = { .kind = ORDER_STEP,
                           .capacity = (uint64_t)w->capacities[bucket],
                           .plan = w->space->arms[arm] };
    struct reply reply;
    int retries = STEP_RETRIES;

    progress_show(w->progress, "c=%.0f %s", w->capacities[bucket],
                  PLAN_WORDS(&w->space->arms[arm]));
    do {
        TRY(crew_do(real, &order, &reply));
        w->progress->steps++;
    } while (reply.state == TRIAL_OK && retries-- &&
             (reply.gpu.throttled || heat_lost_much(reply.ns, reply.lost_ns)));
    *log_ns = reply.state == TRIAL_OK && reply.ns > 0 ? log((double)reply.ns) : (double)NAN;
    if (reply.state != TRIAL_OK)
        note("%s at c=%.0f: %s", PLAN_TEXT(&w->space->arms[arm]), w->capacities[bucket],
             reply.message);
    return OK;
}

/* Models every plan at every bucket, without noise. */
static int model_plans(struct worth_work *w, const struct cluster *model)
{
    size_t arm_count = w->space->arm_count, bucket_count = w->setup.bucket_count;
    uint64_t capacities[WORTH_BUCKETS_MAX];
    struct step_times_ask ask = { .cluster = model,
                                  .shape = &w->space->shape,
                                  .load = w->space->load,
                                  .seed = w->setup.seed,
                                  .arms = w->space->arms,
                                  .arm_count = arm_count,
                                  .capacities = capacities,
                                  .count = bucket_count };
    struct step_times times;

    for (size_t b = 0; b < bucket_count; b++)
        capacities[b] = (uint64_t)w->capacities[b];
    TRY(step_times_open(&ask, &times));
    for (size_t b = 0; b < bucket_count; b++)
        for (size_t arm = 0; arm < arm_count; arm++)
            w->log_ns[b * arm_count + arm] = layer_plans_fits(w->space, (int)arm, w->bucket[b])
                                                 ? log(step_times_at(&times, capacities[b])[arm])
                                                 : (double)NAN;
    step_times_close(&times);
    return OK;
}

/* One visit of a bucket, in one launch: rounds that step each plan once, in shuffled order. */
struct visit_rounds {
    int arms[WORTH_PLANS_MAX], plans; /* of the visit */
    int count;                        /* rounds so far */
    double levels[ROUNDS_MOST];       /* mean log time of a round: what slows all plans alike */
    double off[WORTH_PLANS_MAX][ROUNDS_MOST]; /* a plan's log time less its round's level */
};

/* Writes the median of each plan over the rounds, and returns the variance of such a median.  All
 * plans are assumed to have the same noise.  Medians keep outliers out of both. */
static double plan_medians(const struct visit_rounds *r, double median[WORTH_PLANS_MAX])
{
    static const double sd_over_mad = 1.4826;      /* of normal numbers; mad: median distance */
    static const double median_over_mean = 1.5708; /* pi / 2: their variances, of normal numbers */
    double distance[WORTH_PLANS_MAX * ROUNDS_MOST], plan_off[ROUNDS_MOST], sd;
    int freedom = r->plans > 1 ? r->plans - 1 : 1; /* a round's level takes one */
    size_t distances = 0;

    for (int i = 0; i < r->plans; i++) {
        memcpy(plan_off, r->off[i], sizeof(plan_off));
        median[i] = median_of(plan_off, (size_t)r->count);
        for (int round = 0; round < r->count; round++)
            distance[distances++] = fabs(r->off[i][round] - median[i]);
    }
    sd = sd_over_mad * median_of(distance, distances);
    return median_over_mean * sd * sd * r->plans / freedom / r->count;
}

/* Takes the rounds of one visit.  A plan that fails counts as one that cannot run in this bucket;
 * then the visit begins again with other plans. */
static int take_rounds(struct worth_work *w, struct crew *real, size_t bucket,
                       struct visit_rounds *r)
{
    int order[WORTH_PLANS_MAX];
    double median[WORTH_PLANS_MAX];

    *r = (struct visit_rounds){ .count = 0 };
    r->plans = worth_plans(&w->setup, bucket, r->arms);
    while (
        r->count < ROUNDS_LEAST ||
        (r->count < ROUNDS_MOST && plan_medians(r, median) > wanted_median_sd * wanted_median_sd)) {
        double log_ns[WORTH_PLANS_MAX], *level = &r->levels[r->count];

        measure_order(w->setup.seed + bucket, (uint64_t)r->count, r->plans, order);
        for (int i = 0; i < r->plans; i++) {
            int arm = r->arms[order[i]];

            TRY(take_step(w, real, bucket, arm, &log_ns[order[i]]));
            if (!isnan(log_ns[order[i]]))
                continue;
            if (arm == w->space->default_arm)
                return fail(ERR_DEVICE, "the default plan fails on the ranks at c=%.0f",
                            w->capacities[bucket]);
            w->log_ns[bucket * w->space->arm_count + (size_t)arm] = NAN;
            return take_rounds(w, real, bucket, r);
        }
        for (int i = 0; i < r->plans; i++)
            *level += log_ns[i] / r->plans;
        for (int i = 0; i < r->plans; i++)
            r->off[i][r->count] = log_ns[i] - *level;
        r->count++;
    }
    return OK;
}

/* Visits a bucket, and adds the median of each of its plans to w->steps. */
static int visit_bucket(struct worth_work *w, struct crew *real, size_t bucket, uint32_t launch)
{
    struct visit_rounds r;
    double median[WORTH_PLANS_MAX], variance, level;

    TRY(take_rounds(w, real, bucket, &r));
    variance = plan_medians(&r, median);
    level = median_of(r.levels, (size_t)r.count);
    for (int i = 0; i < r.plans; i++)
        w->steps[w->setup.step_count++] =
            (struct observation){ .arm = r.arms[i],
                                  .group = launch,
                                  .log_c = log(w->capacities[bucket]),
                                  .log_ns = level + median[i],
                                  .variance = variance,
                                  .offset_variance = 1 }; /* large: only ratios count */
    w->steps_taken += (uint32_t)(r.count * r.plans);
    return OK;
}

/* Returns the end of the steps of one launch, whose first is steps[first]. */
static size_t end_of_launch(const struct worth_work *w, size_t first)
{
    size_t end = first;

    while (end < w->setup.step_count && w->steps[end].group == w->steps[first].group)
        end++;
    return end;
}

/* Returns the variance of a plan between launches, beyond the noise of its steps.  For every two
 * launches that timed the same bucket, it sums the squared deviations of the plans' differences
 * from their mean, and subtracts what noise explains. */
static double launch_variance(const struct worth_work *w)
{
    double squares = launch_freedom * launch_sd * launch_sd, freedom = launch_freedom;
    size_t count = w->setup.step_count;

    /* Two launches begin at the steps i and k. */
    for (size_t i = 0; i < count; i = end_of_launch(w, i))
        for (size_t k = end_of_launch(w, i); k < count; k = end_of_launch(w, k)) {
            const struct observation *a = &w->steps[i], *b = &w->steps[k];
            double sum_differences = 0, sum_squares = 0, noise = 0, plans = 0;

            if (a->log_c != b->log_c)
                continue;
            for (; a < w->steps + end_of_launch(w, i) && b < w->steps + count; a++, b++)
                if (a->arm == b->arm) { /* otherwise a plan failed in between */
                    sum_differences += a->log_ns - b->log_ns;
                    sum_squares += (a->log_ns - b->log_ns) * (a->log_ns - b->log_ns);
                    noise += a->variance + b->variance;
                    plans++;
                }
            if (plans > 1) { /* halved: a difference has the variance of two launches */
                squares += (sum_squares - sum_differences * sum_differences / plans -
                            (plans - 1) * noise / plans) /
                           2;
                freedom += plans - 1;
            }
        }
    return fmax(launch_sd * launch_sd / 4, squares / freedom);
}

/* Estimates what tuning saves, from the model and the real steps so far. */
static int expect_worth(struct worth_work *w, struct worth *out)
{
    struct observation steps[sizeof(w->steps) / sizeof(w->steps[0])];
    double between_launches = launch_variance(w);

    for (size_t i = 0; i < w->setup.step_count; i++) {
        steps[i] = w->steps[i];
        steps[i].variance += between_launches;
    }
    w->setup.steps = steps;
    w->setup.launch_variance = between_launches + hour_sd * hour_sd;
    return worth_of(&w->setup, out);
}

/* Passes over the buckets until the estimate is narrow enough.  If the time is up, the steps so far
 * count; without any, the model alone does. */
static int time_plans(struct worth_work *w, struct crew *real, struct worth *out)
{
    size_t bucket_count = w->setup.bucket_count,
           timed = bucket_count < BUCKETS_TIMED ? bucket_count : BUCKETS_TIMED;
    uint32_t launch = 0;
    int rc = set_layer(w, real);

    for (int pass = 0; pass < PASSES_MOST && !rc; pass++) {
        for (size_t i = 0; i < timed && !rc; i++, launch++) {
            if (launch && w->progress->deadline_ns && host_clock_ns() >= w->progress->deadline_ns)
                rc = ERR_CUT;
            else
                rc = launch ? crew_relaunch(real, launch) : OK;
            if (!rc)
                rc = visit_bucket(w, real, timed > 1 ? i * (bucket_count - 1) / (timed - 1) : 0,
                                  launch);
        }
        if (pass + 1 < PASSES_LEAST || rc)
            continue;
        rc = expect_worth(w, out);
        if (!rc && out->over_default.high - out->over_default.low <= wanted_interval)
            break;
    }
    if (rc == ERR_CUT)
        note("the time was up before enough steps were taken: the interval is wider");
    return rc == ERR_CUT ? OK : rc;
}

/* Returns the modelled log time of the plan and the bucket of an observation. */
static double log_modelled(const struct worth_work *w, const struct observation *o)
{
    size_t b = 0;

    while (b + 1 < w->setup.bucket_count && log(w->capacities[b]) < o->log_c)
        b++;
    return w->log_ns[b * w->space->arm_count + (size_t)o->arm];
}

/* Returns the sum over the buckets of one step of the default plan, in seconds.  Modelled times are
 * corrected by the mean ratio of real to modelled steps. */
static double default_seconds(const struct worth_work *w)
{
    size_t arm_count = w->space->arm_count, default_steps = 0;
    double sum = 0, log_ratio = 0;

    for (size_t b = 0; b < w->setup.bucket_count; b++)
        sum += exp(w->log_ns[b * arm_count + (size_t)w->space->default_arm]) * 1e-9;
    for (const struct observation *o = w->steps; o < w->steps + w->setup.step_count; o++)
        if (o->arm == w->space->default_arm) {
            log_ratio += o->log_ns - log_modelled(w, o);
            default_steps++;
        }
    return default_steps ? sum * exp(log_ratio / (double)default_steps) : sum;
}

static int estimate_layer(struct worth_work *w, const struct cluster *model, struct crew *real,
                          struct worth_layer *out)
{
    int rc;

    TRY(model_plans(w, model));
    rc = real ? time_plans(w, real, &out->worth) : OK;
    if (!rc)
        rc = expect_worth(w, &out->worth);
    if (rc == UNSUPPORTED)
        return fail(rc, "%s: the default plan cannot run, so there is nothing to compare with",
                    SHAPE_TEXT(&w->space->shape));
    out->buckets = w->setup.bucket_count;
    out->plans = w->space->arm_count;
    for (size_t i = 0; i < w->setup.step_count; i++) /* counts each plan and bucket once */
        for (size_t k = 0; k <= i; k++)
            if (w->steps[k].arm == w->steps[i].arm && w->steps[k].log_c == w->steps[i].log_c) {
                out->timed_plans += k == i;
                break;
            }
    out->steps = w->steps_taken;
    out->default_s =
        default_seconds(w) * (double)w->space->anchor_count / (double)w->setup.bucket_count;
    out->launch_s = real ? (double)crew_launch_ns(real) * 1e-9 : 0;
    return rc;
}

int worth_layer(const struct cluster *model, struct crew *real, struct progress *progress,
                const struct tune_request *request, const struct layer_plans *space,
                struct worth_layer *out)
{
    struct worth_work *w = calloc(1, sizeof(*w));
    int rc = w ? OK : fail(ERR_NOMEM, "the estimate of %zu plans", space->arm_count);

    *out = (struct worth_layer){ .steps = 0 };
    if (!rc) {
        w->progress = progress;
        w->request = request;
        w->space = space;
        w->log_ns = calloc(WORTH_BUCKETS_MAX * space->arm_count, sizeof(*w->log_ns));
        w->search = (struct search_setup){ .shape = space->shape,
                                           .arms = space->arms,
                                           .arm_count = space->arm_count,
                                           .machine = request->machine };
        w->setup = (struct worth_setup){ .search = &w->search,
                                         .default_arm = space->default_arm,
                                         .capacities = w->capacities,
                                         .weights = w->weights,
                                         .log_ns = w->log_ns,
                                         .margin = request->options->margin,
                                         .seed = request->options->setup.seed };
        rc = w->log_ns ? list_buckets(w)
                       : fail(ERR_NOMEM, "the estimate of %zu plans", space->arm_count);
    }
    if (!rc)
        rc = estimate_layer(w, model, real, out);
    if (w)
        free(w->log_ns);
    free(w);
    return rc;
}
