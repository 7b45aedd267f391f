/* moetune capacities: replays recorded counts, and prints what capacities that follow the experts
 * would have been.  Starts no ranks and measures nothing. */
#include "common_rows.h"
#include "facts.h"
#include "followed.h"
#include "grid.h"
#include "json.h"
#include "known.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The values of the options in `rows`. */
struct options {
    struct moe_capacities_options policy;
    const char *db, *shape;
    bool replans, json;
};

#define POLICY(member) OPTION(policy.member)

static const struct option_row rows[] = {
    { "ranks", "W", OPTION_COUNT, POLICY(ranks), "ranks of the layer [those of --shape, else 1]",
      .least = 1, .most = 65536 },
    { "start", "ROWS", OPTION_COUNT, POLICY(start),
      "capacity of each expert before counts act [2.5 times an even share]", .least = 1,
      .most = UINT32_MAX - 1 },
    { "most", "ROWS", OPTION_COUNT, POLICY(most),
      "largest capacity that an expert may get [the largest count]", .least = 1,
      .most = UINT32_MAX - 1 },
    { "grid", "ROWS", OPTION_COUNT, POLICY(grid), "capacities are multiples of it", .least = 1,
      .most = 1 << 30 },
    { "hold", "STEPS", OPTION_COUNT, POLICY(hold), "steps for which a peak is remembered, at least",
      .least = 1, .most = 1 << 30 },
    { "gap", "STEPS", OPTION_COUNT, POLICY(gap), "steps over which drops are counted", .least = 1,
      .most = 1 << 15 },
    { "low", "N", OPTION_COUNT, POLICY(low),
      "shrink an expert if its new capacity is below N thousandths of the old", .least = 0,
      .most = 999 },
    { "slack", "N", OPTION_COUNT, POLICY(slack),
      "thousandths of its peak that an expert gets in addition [0]", .least = 0, .most = 1000000 },
    { "drops", "PPM", OPTION_COUNT, POLICY(drops),
      "grow at once if more than so many of a million choices are dropped", .least = 0,
      .most = 1000000 },
    { "delta", "STEPS", OPTION_COUNT, POLICY(delta), "steps after which counts act", .least = 1,
      .most = 1 << 30 },
    { "replans", NULL, OPTION_FLAG, OPTION(replans), "also print the capacities of each re-plan" },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), "; its table gives the step times"),
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

static const struct options defaults = { .policy = MOE_CAPACITIES_OPTIONS_INIT };

/* One replay: the counts, the layer whose table gives step times, and the sums of each way to
 * choose capacities.  counts_free() and facts_free() free it. */
struct capacities_replay {
    const char *path;
    struct counts_trace trace;
    struct facts facts;
    const struct layer_facts *layer; /* NULL: no table gives step times */
    struct counts_sum sums[COUNTS_WAYS];
    size_t printed; /* re-plans printed as JSON so far */
};

/* ---- the table */

static int find_layer(const struct options *o, struct capacities_replay *r)
{
    char path[PATH_MAX];
    struct store *store;
    int rc;

    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    TRY(store_read(path, &store));
    rc = facts_read(store, o->shape, &r->facts);
    store_close(store);
    TRY(rc);
    if (r->facts.layer_count != 1) {
        note("%s holds %zu layers%s%s: choose one by --shape (moetune show lists them)", path,
             r->facts.layer_count, o->shape ? " " : "", o->shape ? o->shape : "");
        return UNSUPPORTED;
    }
    r->layer = &r->facts.layers[0];
    return OK;
}

/* ---- text */

static const struct grid_column columns[] = {
    { "way", GRID_LEFT },
    { "rows per\nchoice", GRID_POINT },
    { "fullest\nrank", GRID_POINT },
    { "dealt out\nby size", GRID_POINT },
    { "\nre-plans", GRID_RIGHT },
    { "dropped\n%", GRID_POINT },
    { "step\nms", GRID_POINT },
};

static const enum counts_way way_order[] = { COUNTS_STATIC, COUNTS_EMA, COUNTS_FOLLOWED };

static int print_table(const struct capacities_replay *r)
{
    struct grid grid = GRID_OF(columns);
    int rc;

    for (int i = 0; i < COUNTS_WAYS; i++) {
        const struct counts_sum *sum = &r->sums[way_order[i]];

        TRY_OUT(grid_row(&grid, INK_PLAIN));
        TRY_OUT(grid_cell(&grid, "%s", counts_names[way_order[i]]));
        TRY_OUT(grid_cell(&grid, "%.3f", sum->factor));
        TRY_OUT(grid_cell(&grid, "%.3f", sum->fullest_factor));
        TRY_OUT(grid_cell(&grid, "%.3f", sum->balanced_factor));
        TRY_OUT(grid_cell(&grid, "%zu", sum->replans));
        TRY_OUT(grid_cell(&grid, "%.4f", 100 * sum->dropped_share));
        if (isnan(sum->step_ms))
            TRY_OUT(grid_cell(&grid, "-"));
        else
            TRY_OUT(grid_cell(&grid, "%.4g", sum->step_ms));
    }
    grid_print(&grid, stdout);
out:
    grid_clear(&grid);
    return rc;
}

static void print_replan_text(void *self, const struct counts_step *step)
{
    const struct capacities_replay *r = self;

    if (!step->replanned)
        return;
    printf("step %zu:", step->step);
    for (uint32_t e = 0; e < r->trace.experts; e++)
        printf(" %u", step->rows[e]);
    printf("\n");
}

/* ---- JSON */

static void print_replan_json(void *self, const struct counts_step *step)
{
    struct capacities_replay *r = self;

    if (!step->replanned)
        return;
    json_write(stdout, "%s\n  {'step': %zu, 'key': %u, 'key_r0': %u, 'rows': [",
               r->printed++ ? "," : "", step->step, step->key, step->key_r0);
    for (uint32_t e = 0; e < r->trace.experts; e++)
        printf("%s%u", e ? ", " : "", step->rows[e]);
    printf("]}");
}

static int print_json(const struct options *o, struct capacities_replay *r)
{
    struct counts_sum followed_sum;

    json_write(stdout, "{'steps': %zu, 'experts': %u, 'ranks': %u, 'choices': %g, 'gains_time': %s",
               r->trace.steps, r->trace.experts, r->trace.ranks, r->trace.choices,
               counts_remark(&r->trace) ? "false" : "true");
    for (int i = 0; i < COUNTS_WAYS; i++) {
        const struct counts_sum *sum = &r->sums[way_order[i]];

        json_write(stdout,
                   ",\n '%s': {'replans': %zu, 'factor': %g, 'fullest_factor': %g, "
                   "'balanced_factor': %g, 'dropped_share': %g, 'step_ms': %g",
                   counts_words[way_order[i]], sum->replans, sum->factor, sum->fullest_factor,
                   sum->balanced_factor, sum->dropped_share, sum->step_ms);
        if (way_order[i] == COUNTS_FOLLOWED)
            json_write(stdout, ", 'digest': '%016" PRIx64 "'", sum->digest);
        printf("}");
    }
    if (o->replans) {
        json_write(stdout, ",\n 'capacities': [");
        TRY(counts_replay(&r->trace, &o->policy, COUNTS_FOLLOWED, NULL, print_replan_json, r,
                          &followed_sum));
        printf("]");
    }
    printf("}\n");
    return OK;
}

static int print_text(const struct options *o, struct capacities_replay *r)
{
    struct counts_sum followed_sum;

    printf("%s: %zu steps, %u experts on %u rank%s, %.0f choices of a rank in a step\n", r->path,
           r->trace.steps, r->trace.experts, r->trace.ranks, r->trace.ranks == 1 ? "" : "s",
           r->trace.choices);
    if (r->layer)
        printf("layer %s\n", SHAPE_TEXT(&r->layer->shape));
    if (counts_remark(&r->trace))
        printf("%s\n", counts_remark(&r->trace));
    TRY(print_table(r));
    if (o->replans)
        TRY(counts_replay(&r->trace, &o->policy, COUNTS_FOLLOWED, NULL, print_replan_text, r,
                          &followed_sum));
    return OK;
}

/* ---- the verb */

static int verb_capacities(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct capacities_replay r = { .path = call->arguments[0] };
    struct counts_price price = { followed_ms, NULL };
    const struct moe_shape *shape;
    uint32_t ranks = 1;
    int rc = OK;

    if (!r.path)
        return fail(ERR_ARGUMENT, "capacities: a FILE of counts is wanted, a line {\"counts\": "
                                  "[12, 7, ...]} for each step");
    if (o->db || o->shape)
        TRY_OUT(find_layer(o, &r));
    shape = r.layer ? &r.layer->shape : NULL;
    price.self = (void *)(uintptr_t)r.layer; /* followed_ms() does not change it */
    if (shape)
        ranks = shape->ranks;
    if (o->policy.ranks)
        ranks = o->policy.ranks;
    TRY_OUT(counts_read(r.path, ranks, &r.trace));
    if (shape && shape->experts != r.trace.experts)
        rc = fail(ERR_ARGUMENT, "%s counts %u experts, but the layer is %s", r.path,
                  r.trace.experts, SHAPE_TEXT(shape));
    else if (shape && o->policy.ranks && o->policy.ranks != shape->ranks)
        rc = fail(ERR_ARGUMENT, "--ranks %u, but the layer is %s", o->policy.ranks,
                  SHAPE_TEXT(shape));
    TRY_OUT(rc);
    for (int way = 0; way < COUNTS_WAYS; way++)
        TRY_OUT(counts_replay(&r.trace, &o->policy, way, shape ? &price : NULL, NULL, NULL,
                              &r.sums[way]));
    rc = o->json ? print_json(o, &r) : print_text(o, &r);
out:
    counts_free(&r.trace);
    facts_free(&r.facts);
    return rc;
}

const struct verb capacities_verb = {
    .name = "capacities",
    .summary = "replay recorded counts with capacities that follow the experts",
    .arguments = "FILE",
    .most = 1,
    .about = "Replays what a gate chose. FILE has a line {\"counts\": [..E numbers..]} for each "
             "step, as for `run --routing`. The verb prints what the capacity controller of "
             "libmoelookup would have done: rows per choice, over all experts and on the fullest "
             "rank, re-plans, and drops. Beside it are one static capacity (factor 2.5), and a "
             "rule that DynaMoE's authors left in a comment. With --shape or --db a layer's table "
             "gives the step times. A line may have \"largest\": [...], the largest counts over "
             "ranks. Without it all ranks count as equal. With r >= 1 all ranks wait for the "
             "fullest one. If there are at least as many ranks as experts, different capacities "
             "then save memory, but no time. With r=0 every rank computes the rows of all experts.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 4: the database holds no such layer, or several.",
    .example = "capacities routing.jsonl --ranks 8 --slack 50",
    .run = verb_capacities,
};
