/* Prints how each entry of a bucket came about, and the result of every trial. */
#include "explain.h"

#include "buckets.h"
#include "declaration.h"
#include "facts.h"
#include "grid.h"
#include "load.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "tables.h"
#include "text.h"
#include "trainer_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- trials */

/* Adds a time in ms, or a dash if it was not measured. */
static int add_ms_cell(struct grid *grid, int64_t ns)
{
    return ns > 0 ? grid_cell(grid, "%.3f", (double)ns * 1e-6) : grid_cell(grid, "-");
}

/* Adds three cells in ms: the median of the steps, and the ends of its interval.  One step has no
 * interval. */
static int add_step_cells(struct grid *grid, const struct spread *steps)
{
    bool several = steps->count > 1;

    TRY(add_ms_cell(grid, steps->count ? steps->median_ns : 0));
    TRY(add_ms_cell(grid, several ? steps->low_ns : 0));
    return add_ms_cell(grid, several ? steps->high_ns : 0);
}

static const struct grid_column trial_columns[] = {
    { "layer", GRID_RIGHT },          { "bucket", GRID_RIGHT },
    { "width", GRID_RIGHT },          { "plan", GRID_LEFT },
    { "state", GRID_LEFT },           { "steps", GRID_RIGHT },
    { "median\nms", GRID_POINT },     { "95 %\nlow", GRID_POINT },
    { "95 %\nhigh", GRID_POINT },     { "compute\nalone ms", GRID_POINT },
    { "comm\nalone ms", GRID_POINT }, { "sent\nMiB", GRID_POINT },
    { "memory\nMiB", GRID_POINT },    { "dis-\nturbed", GRID_RIGHT },
    { "clock\nMHz", GRID_RIGHT },     { "why", GRID_LEFT },
};

static int add_trial(struct grid *grid, struct store *store, const char *shape_filter,
                     const struct trial_facts *facts)
{
    const struct trial_row *trial = &facts->row;
    const struct trial_key *key = &trial->key;
    struct moe_shape shape;

    TRY(store_shape_get(store, key->shape, &shape));
    if (!shape_agrees(&shape, shape_filter))
        return OK;
    TRY(grid_row(grid, trial->state == TRIAL_OK ? INK_PLAIN : INK_BAD));
    TRY(grid_cell(grid, "%" PRId64, key->shape));
    if (shape.space) { /* a space has ranges of its key instead of a width */
        TRY(grid_cell(grid, "%s",
                      BUCKETS_TEXT(buckets_of(&shape, key->window), key->bucket, key->bucket)));
        TRY(grid_cell(grid, "-"));
    } else {
        TRY(grid_cell(grid, "%u", key->bucket));
        TRY(grid_cell(grid, "%u", key->window));
    }
    TRY(grid_cell(grid, "%s", PLAN_WORDS(&key->plan)));
    TRY(grid_cell(grid, "%s", trial_state_words[trial->state]));
    TRY(grid_cell(grid, "%" PRIu64, facts->heat.steps));
    TRY(add_step_cells(grid, &facts->steps));
    TRY(add_ms_cell(grid, trial->compute_ns));
    TRY(add_ms_cell(grid, trial->comm_ns));
    TRY(grid_cell(grid, "%.3f", (double)trial->sent_bytes * 0x1p-20));
    TRY(grid_cell(grid, "%.3f", (double)trial->memory_bytes * 0x1p-20));
    TRY(grid_cell(grid, "%" PRIu64, facts->heat.throttled.steps + facts->heat.disturbed.steps));
    if (facts->heat.clock_low_mhz)
        TRY(grid_cell(grid, "%u-%u", facts->heat.clock_low_mhz, facts->heat.clock_high_mhz));
    else
        TRY(grid_cell(grid, "-"));
    return grid_cell(grid, "%s", UTF8_LINE(trial->message));
}

int explain_trials(struct store *store, const char *shape_filter, FILE *out)
{
    const struct trial_key all_buckets = { .bucket = UINT32_MAX };
    struct grid grid = GRID_OF(trial_columns);
    struct trial_list list;
    int rc = trials_read(store, &all_buckets, false, &list);

    for (size_t i = 0; i < list.count && !rc; i++)
        rc = add_trial(&grid, store, shape_filter, &list.items[i]);
    if (!rc)
        grid_print(&grid, out);
    grid_clear(&grid);
    trials_free(&list);
    return rc;
}

/* ---- an entry */

/* What explain_entry_of_bucket() needs while it goes through the entries. */
struct explainer {
    struct store *store;
    FILE *out;
    const struct trainer_view *trainers;
    const char *shape_filter; /* only layers that shape_agrees() with it; NULL: all */
    uint32_t bucket, count;   /* count: entries explained so far */
    struct moe_shape shape;   /* of the current entry */
};

/* Returns what a word of search/decision.h means. */
static const char *decision_meaning(const char *decision)
{
    static const struct {
        const char *word, *meaning;
    } meanings[] = {
        { "adopted",
          "it is faster than the default; the chance that this is wrong is small (--harm)" },
        { "likely", "it is probably faster, and hardly 1 % or more slower" },
        { "default", "no plan that may be published is proven to be faster" },
        { "incumbent", "the earlier plan stays, because no other is better by the margin" },
        { "alone", "the default plan cannot run here" },
        { "static", "it is of the one plan, or launch, that is best for the whole table" },
        { "inferred", "no plans were compared here: that of a neighbour, by the fitted model" },
        { "refuted", "a later measurement contradicts it; moetune tune measures it anew" },
        { "tie", "an earlier version could not tell; moetune tune decides it" },
    };

    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (!strcmp(meanings[i].word, decision))
            return meanings[i].meaning;
    return "";
}

static const struct grid_column tried_columns[] = {
    { "plan", GRID_LEFT },       { "steps", GRID_RIGHT },      { "median\nms", GRID_POINT },
    { "95 %\nlow", GRID_POINT }, { "95 %\nhigh", GRID_POINT }, { "against\nthe entry", GRID_POINT },
    { "", GRID_LEFT },
};

static int add_tried_plan(struct grid *grid, const struct trial_facts *facts,
                          const struct trial_facts *chosen, const struct entry_row *e,
                          const struct moe_shape *shape)
{
    const struct moe_plan *plan = &facts->row.key.plan;
    bool ok = facts->row.state == TRIAL_OK, is_entry = plan_equal(plan, &e->plan), is_default;

    TRY(grid_row(grid, is_entry ? INK_GOOD : ok ? INK_PLAIN : INK_BAD));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(plan)));
    TRY(grid_cell(grid, "%zu", facts->steps.count));
    TRY(add_step_cells(grid, &facts->steps));
    if (facts->steps.count && chosen)
        TRY(grid_cell(grid, "%+.1f %%",
                      100 * ((double)facts->steps.median_ns / (double)chosen->steps.median_ns - 1) +
                          0.0));
    else
        TRY(grid_cell(grid, "-"));
    if (!ok)
        return grid_cell(grid, "%s: %s", trial_state_words[facts->row.state],
                         UTF8_LINE(facts->row.message));
    is_default = plan_is_default(plan, shape);
    if (is_entry)
        return grid_cell(grid, "%s", is_default ? "the entry, the default" : "the entry");
    return grid_cell(grid, "%s", is_default ? "the default" : "");
}

/* Orders trials by the median of their steps; those without steps come last. */
static int compare_medians(const void *a, const void *b)
{
    const struct spread *a_steps = &((const struct trial_facts *)a)->steps;
    const struct spread *b_steps = &((const struct trial_facts *)b)->steps;

    if (!a_steps->count || !b_steps->count)
        return !a_steps->count - !b_steps->count;
    return (a_steps->median_ns > b_steps->median_ns) - (a_steps->median_ns < b_steps->median_ns);
}

static int print_tried_plans(const struct explainer *explainer, const struct entry_row *e)
{
    const struct trial_key key = { e->cluster, e->shape, e->window, e->bucket, .plan = e->plan };
    struct grid grid = GRID_OF(tried_columns);
    const struct trial_facts *chosen = NULL;
    char beyond[BEYOND_TEXT_BYTES];
    struct trial_list list;
    int rc = trials_read(explainer->store, &key, true, &list);

    if (list.count)
        qsort(list.items, list.count, sizeof(*list.items), compare_medians);
    for (size_t i = 0; i < list.count && !chosen; i++)
        if (list.items[i].steps.count && plan_equal(&list.items[i].row.key.plan, &e->plan))
            chosen = &list.items[i];
    for (size_t i = 0; i < list.count && !rc; i++)
        rc = add_tried_plan(&grid, &list.items[i], chosen, e, &explainer->shape);
    trials_beyond(list.items, list.count, e->bucket, &e->plan, beyond);
    if (!rc && *beyond)
        fprintf(explainer->out, "note     %s\n", beyond);
    if (!rc && list.count) {
        fprintf(explainer->out, "\ntried    %zu plan%s, the fastest median first\n", list.count,
                list.count == 1 ? "" : "s");
        grid_print(&grid, explainer->out);
        fprintf(explainer->out,
                "Steps of different plans are judged in pairs of time, together with those of "
                "the neighbouring\nbuckets: the order of the medians alone decides nothing.\n");
    } else if (!rc) {
        fprintf(explainer->out, "\ntried    nothing here\n");
    }
    grid_clear(&grid);
    trials_free(&list);
    return rc;
}

static void print_times(const struct entry_row *e, const struct moe_shape *shape, FILE *out)
{
    bool saves_time =
        !isnan(e->gain.value) && !isnan(e->default_us) && !plan_is_default(&e->plan, shape);

    if (isnan(e->low_us))
        fprintf(out, "takes    %.4g ms, expected\n", e->time_us * 1e-3);
    else
        fprintf(out, "takes    %.4g ms%s, from %u steps of it and the default%s\n",
                e->time_us * 1e-3, INTERVAL_TEXT("%.4g", e->low_us * 1e-3, e->high_us * 1e-3),
                e->samples, e->throttled ? ", some of them disturbed" : "");
    if (saves_time)
        fprintf(out, "saves    %.1f %%%s of the default's %.4g ms\n", e->gain.value * 100,
                INTERVAL_TEXT("%.1f", e->gain.low * 100, e->gain.high * 100), e->default_us * 1e-3);
    if (e->other.struct_size)
        fprintf(out, "or       %s takes %.4g ms here: compared where capacities differ\n",
                PLAN_WORDS(&e->other), e->other_us * 1e-3);
    if (!isnan(e->bound))
        fprintf(out, "to gain  %s\n", LEFT_TEXT(e));
}

int explain_load(struct store *store, const struct moe_shape *shape, const struct entry_row *e,
                 FILE *out)
{
    char text[LOAD_TEXT_BYTES], words[LOAD_WORDS_BYTES] = "";
    struct load *load = NULL;
    /* UNSUPPORTED: the entry has no load, or the database does not have its counts. */
    int rc = *e->load ? store_load_get(store, e->load, text, sizeof(text)) : UNSUPPORTED;

    if (rc < 0)
        return rc;
    log_enable(false);
    if (rc == OK && !load_open_text(shape, 0, text, &load))
        load_words_at(load, e->capacity, words);
    log_enable(true);
    load_close(load);
    if (*e->load)
        fprintf(out, "load     %s\n", UTF8_LINE(e->load));
    if (*words)
        fprintf(out, "         %s\n", words);
    return OK;
}

void explain_doubts(const struct entry_row *e, unsigned states, FILE *out)
{
    for (int i = 1; i < ENTRY_STATE_COUNT; i++)
        if (entry_is(e, states & (1u << i)) && strcmp(e->decision, entry_state_words[i]) != 0)
            fprintf(out, "but      %s\n", entry_state_words[i]);
    if (e->fault && states & ENTRY_UNSOUND)
        fprintf(out, "         the entry's %s %s: trainers get the default plan\n", e->fault->field,
                e->fault->why);
}

/* Prints the best plan of each launch in the entry's bucket.  A trainer inside that launch gets it.
 */
static int print_launches(const struct explainer *explainer, const struct entry_row *e)
{
    struct row_list rows;

    TRY(store_launches(explainer->store, e->cluster, e->shape, e->window, &rows));
    EACH_ROW (launch_row, row, rows)
        if (row->bucket == e->bucket)
            fprintf(explainer->out, "inside   %s: %s takes %.4g ms, from %u sample%s\n",
                    UTF8_LINE(row->launch), PLAN_WORDS(&row->plan), row->time_us * 1e-3,
                    row->samples, row->samples == 1 ? "" : "s");
    free(rows.rows);
    return OK;
}

static int explain_entry_of_bucket(void *self, const struct entry_row *e)
{
    struct explainer *explainer = self;
    const struct override_row *pin = trainer_view_pin(explainer->trainers, e);
    struct buckets buckets;
    char why[WHY_SILENT_BYTES];
    struct row_list history;

    if (e->bucket != explainer->bucket)
        return OK;
    TRY(store_shape_get(explainer->store, e->shape, &explainer->shape));
    if (!shape_agrees(&explainer->shape, explainer->shape_filter))
        return OK;
    fprintf(explainer->out, "%s", explainer->count++ ? "\n" : "");
    TRY(tables_heading(explainer->store, e->cluster, e->shape, explainer->out));
    buckets = buckets_of(&explainer->shape, e->window);
    if (buckets.declared)
        fprintf(explainer->out, "bucket   %u: %s %s\n\n", e->bucket, buckets_key_name(buckets),
                BUCKETS_TEXT(buckets, e->bucket, e->bucket));
    else
        fprintf(explainer->out,
                "bucket   %u of width %u: capacities %" PRIu64 " to %" PRIu64 "\n\n", e->bucket,
                e->window, buckets_lowest(buckets, e->bucket), buckets_highest(buckets, e->bucket));
    fprintf(explainer->out, "plan     %s\nbecause  %s: %s\n", PLAN_WORDS(&e->plan),
            UTF8_LINE(e->decision), decision_meaning(e->decision));
    explain_doubts(e, ENTRY_OPEN, explainer->out);
    if (pin && pin->plan.struct_size)
        fprintf(explainer->out, "pinned   trainers get %s: %s\n", PLAN_WORDS(&pin->plan),
                UTF8_LINE(pin->why));
    TRY(trainer_view_why_silent(explainer->trainers, explainer->store, e, why));
    if (*why)
        fprintf(explainer->out, "silent   trainers do not get this plan: %s\n", why);
    TRY(explain_load(explainer->store, &explainer->shape, e, explainer->out));
    print_times(e, &explainer->shape, explainer->out);
    TRY(print_launches(explainer, e));
    /* Print why the search stopped, and which plan nearly won. */
    fprintf(explainer->out, "search   %s, effort %s", UTF8_LINE(e->search), UTF8_LINE(e->effort));
    if (*e->reason)
        fprintf(explainer->out, "; it ended: %s", UTF8_LINE(e->reason));
    if (e->search_winner.struct_size && !plan_equal(&e->search_winner, &e->plan))
        fprintf(explainer->out, "; it favours %s", PLAN_WORDS(&e->search_winner));
    if (e->likely.struct_size)
        fprintf(explainer->out, "; undecided: %s", LIKELY_TEXT(e));
    else if (e->runner_up.struct_size)
        fprintf(explainer->out, "; next %s", PLAN_WORDS(&e->runner_up));
    fprintf(explainer->out, "\n");
    fprintf(explainer->out, "decided  %s UTC, %s ago\n", DATE_TEXT(e->decided_s, DATE_MINUTE),
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)e->decided_s))));
    TRY(store_history(explainer->store, &history));
    EACH_ROW (history_row, row, history)
        if (SAME_TABLE(&row->entry, e) && row->entry.bucket == e->bucket)
            fprintf(explainer->out, "before   %s, until %s UTC: %s\n", PLAN_WORDS(&row->entry.plan),
                    DATE_TEXT(row->replaced_s, DATE_MINUTE), UTF8_LINE(row->why));
    free(history.rows);
    return print_tried_plans(explainer, e);
}

int explain_bucket(struct store *store, const char *shape_filter, uint32_t bucket, FILE *out)
{
    struct trainer_view trainers;
    struct explainer explainer = { .store = store,
                                   .out = out,
                                   .trainers = &trainers,
                                   .shape_filter = shape_filter,
                                   .bucket = bucket };
    int rc = trainer_view_read(store, &trainers);

    if (!rc)
        rc = store_entries(store, 0, 0, explain_entry_of_bucket, &explainer);
    trainer_view_free(&trainers);
    return rc ? rc : explainer.count ? OK : UNSUPPORTED;
}
