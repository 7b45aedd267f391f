/* Lets every strategy tune the same buckets by the same noisy clock, and judges what it would
 * publish by the truth. */
#include "modelled_layer.h"
#include "status.h"
#include "study_cells.h"

#include <math.h>
#include <stdlib.h>

static int time_buckets(struct modelled_layer *l)
{
    size_t count = l->space->anchor_count;
    uint64_t *capacities = malloc(count * sizeof(*capacities));
    int rc = capacities ? OK : fail(ERR_NOMEM, "%zu buckets", count);

    for (size_t i = 0; i < count && !rc; i++)
        capacities[i] = space_capacity(l->space, l->space->anchors[i]);
    if (!rc)
        rc = modelled_layer_time(l, capacities, count);
    free(capacities);
    return rc;
}

static int tune_once(const struct modelled_layer *l, const struct search_ops *strategy,
                     uint32_t run, struct summary *sum)
{
    struct noise noise = modelled_layer_noise(l, run);
    struct search *search;

    TRY(modelled_layer_search(l, strategy, run, &search));
    for (size_t i = 0; i < l->space->anchor_count; i++) {
        struct known_bucket bucket;
        struct outcome outcome;

        if (!modelled_layer_bucket(l, l->space->anchors[i], &bucket))
            continue;
        outcome = true_bucket_tune(&bucket.truth, search, &noise, l->request.effort);
        summary_add(sum, &outcome);
    }
    search_close(search);
    return OK;
}

static int put_summary(struct study_table *table, const char *row, struct summary *s)
{
    double share = 100 / (double)s->regret.count, bounded = (double)s->bound.count;

    TRY(put_value(table, row, "regret, %", column_mean(&s->regret)));
    TRY(put_value(table, row, "worst, %", column_at(&s->regret, 1)));
    TRY(put_value(table, row, "best plan, %", share * (double)s->best));
    TRY(put_value(table, row, "steps", column_mean(&s->samples)));
    TRY(put_value(table, row, "bound, %", column_mean(&s->bound)));
    TRY(put_value(table, row, "bound fails, %",
                  bounded > 0 ? 100 * (1 - (double)s->covered / bounded) : NAN));
    TRY(put_value(table, row, "undecided, %", share * (double)s->undecided));
    return put_value(table, row, "hidden, %", s->undecided ? 100 * s->hidden : NAN);
}

static int judge(const struct modelled_layer *l, const struct search_ops *strategy, uint32_t seeds,
                 struct study_table *table)
{
    struct summary sum = { .best = 0 };
    int rc = OK;

    for (uint32_t run = 0; run < seeds && !rc; run++)
        rc = tune_once(l, strategy, run, &sum);
    if (!rc && !sum.regret.count)
        rc = fail(ERR_NOMEM, "no plan fits into %s in any bucket",
                  ACCOUNT_TEXT(l->space->memory_limit_bytes));
    if (!rc)
        rc = put_summary(table, strategy->name, &sum);
    summary_free(&sum);
    return rc;
}

static int judge_all(const struct study_ask *ask, struct modelled_layer *l,
                     struct study_result *result)
{
    const struct space *space = l->space;

    result->machine = l->cluster;
    snprintf(result->remark, sizeof(result->remark),
             "%s: %zu plans; %zu of the buckets %u to %u of width %u, as `tune --effort %s` "
             "measures; noise %g %%, seeds %llu to %llu",
             SHAPE_TEXT(&space->shape), space->arm_count, space->anchor_count, space->first,
             space->last, space->window, l->request.effort->name, ask->noise_percent,
             (unsigned long long)l->seed, (unsigned long long)(l->seed + ask->seeds - 1));
    TRY(time_buckets(l));
    for (size_t i = 0; search_strategies[i]; i++)
        if (!ask->strategies || ask->strategies >> i & 1)
            TRY(judge(l, search_strategies[i], ask->seeds, &result->tables[0]));
    return OK;
}

static int run(const struct study_ask *ask, struct study_result *result)
{
    struct modelled_layer layer;
    int rc;

    TRY(modelled_layer_open(ask, &layer));
    rc = judge_all(ask, &layer, result);
    modelled_layer_close(&layer);
    return rc;
}

static const struct study_row rows[] = {
    { "regret", "What each strategy publishes, beside the best plan of each bucket", "%, and steps",
      "Regret: the true time of the published plan over the least of any plan, minus 1: its mean "
      "and the worst.  Best plan: buckets without regret.  Steps: of a bucket, the decision's, "
      "too.  "
      "Bound: what the entry says that it may lose, 95 % sure; bound fails: how often the regret "
      "is above it; -: the strategy cannot say.  Undecided: buckets that `tune` and `show` call "
      "so; hidden: the largest regret of one of them." },
    { NULL },
};

const struct study study_search = {
    .name = "search",
    .summary = "How good the plans are that each search finds, where the truth is known",
    .assumptions = "True times are those of our executor on a virtual clock; each strategy is told "
                   "them with log-normal noise, fresh for every step, and decides as `tune` does.",
    .options = STUDY_OF_LAYER | STUDY_OF_SEARCH,
    .run = run,
    .rows = rows,
};
