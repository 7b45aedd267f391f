/* Tells how each entry of a bucket came about. */
#include "explain.h"

#include "declaration.h"
#include "grid.h"
#include "load_words.h"
#include "plan.h"
#include "progress.h"
#include "shape.h"
#include "status.h"
#include "tables.h"
#include "text.h"
#include "told.h"
#include "tried.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct explainer {
    struct store *store;
    FILE *to;
    const struct told *told;
    uint32_t bucket, found;
    struct moe_shape shape; /* of the entry at hand */
};

/* What the words of decision.h mean. */
static const char *meaning(const char *decision)
{
    static const struct {
        const char *word, *meaning;
    } meanings[] = {
        { "adopted",
          "it is faster than the default; the chance that this is wrong is small (--harm)" },
        { "likely", "it is expected to be faster, and is hardly slower by 1 % or more" },
        { "default", "no plan that may be published is proven to be faster" },
        { "incumbent",
          "kept: the plan that stood here stays, for no other is better by the margin" },
        { "alone", "the default plan cannot run here" },
        { "static", "the best static plan was faster than what stood here" },
        { "inferred", "no plans were compared here: that of a neighbour, by the fitted model" },
        { "refuted", "a later measurement contradicts it; moetune tune measures it anew" },
        { "tie", "an earlier version could not tell; moetune tune decides it" },
    };

    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (!strcmp(meanings[i].word, decision))
            return meanings[i].meaning;
    return "";
}

static const struct grid_column columns[] = {
    { "plan", GRID_LEFT },       { "steps", GRID_RIGHT },      { "median\nms", GRID_POINT },
    { "95 %\nlow", GRID_POINT }, { "95 %\nhigh", GRID_POINT }, { "against\nthe entry", GRID_POINT },
    { "", GRID_LEFT },
};

static int add_tried(struct grid *grid, const struct tried *t, const struct tried *chosen,
                     const struct entry_row *e, const struct moe_shape *shape)
{
    const struct moe_plan *plan = &t->trial.key.plan;
    bool ok = t->trial.state == TRIAL_OK, is_entry = plan_equal(plan, &e->plan);

    TRY(grid_row(grid, is_entry ? INK_GOOD : ok ? INK_PLAIN : INK_BAD));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(plan)));
    TRY(grid_cell(grid, "%zu", t->step.count));
    TRY(tried_cells(grid, t));
    if (t->step.count && chosen)
        TRY(grid_cell(grid, "%+.1f %%",
                      100 * ((double)t->step.median_ns / (double)chosen->step.median_ns - 1) +
                          0.0));
    else
        TRY(grid_cell(grid, "-"));
    if (!ok)
        return grid_cell(grid, "%s: %s", trial_state_words[t->trial.state],
                         UTF8_LINE(t->trial.message));
    return grid_cell(grid, "%s%s", is_entry ? "the entry" : "",
                     !plan_is_default(plan, shape) ? ""
                     : is_entry                    ? ", the default"
                                                   : "the default");
}

static int print_tried(const struct explainer *x, const struct entry_row *e)
{
    struct grid grid = GRID_OF(columns);
    struct tried_list list;
    int rc = tried_read(x->store, e->cluster, e->shape, e->window, e->bucket, &list);
    const struct tried *chosen;

    tried_sort(&list);
    chosen = tried_find(&list, &e->plan);
    for (size_t i = 0; i < list.count && !rc; i++)
        rc = add_tried(&grid, &list.items[i], chosen, e, &x->shape);
    if (!rc && list.count) {
        fprintf(x->to, "\ntried    %zu plan%s, the fastest median first\n", list.count,
                list.count == 1 ? "" : "s");
        grid_print(&grid, x->to);
        fprintf(x->to,
                "Steps of different plans are judged in pairs of time, together with those of "
                "the neighbouring\nbuckets: the order of the medians alone decides nothing.\n");
    } else if (!rc) {
        fprintf(x->to, "\ntried    nothing here\n");
    }
    grid_clear(&grid);
    tried_free(&list);
    return rc;
}

static void print_times(const struct entry_row *e, const struct moe_shape *shape, FILE *to)
{
    bool saves = !isnan(e->default_us) && !plan_is_default(&e->plan, shape);

    if (isnan(e->low_us))
        fprintf(to, "takes    %.4g ms, expected\n", e->time_us * 1e-3);
    else
        fprintf(to, "takes    %.4g ms%s, from %u steps of it and the default%s\n",
                e->time_us * 1e-3, INTERVAL_TEXT("%.4g", e->low_us * 1e-3, e->high_us * 1e-3),
                e->samples, e->throttled ? ", some of them disturbed" : "");
    if (saves)
        fprintf(to, "saves    %.1f %%%s of the default's %.4g ms\n", e->gain.value * 100,
                INTERVAL_TEXT("%.1f", e->gain.low * 100, e->gain.high * 100), e->default_us * 1e-3);
    if (e->other.struct_size)
        fprintf(to, "or       %s takes %.4g ms here: compared where capacities differ\n",
                PLAN_WORDS(&e->other), e->other_us * 1e-3);
    if (!isnan(e->bound))
        fprintf(to, "is left  at most %.2g %%, with 95 %% certainty\n", fmax(e->bound * 100, 0.1));
}

/* Why the search stopped, and what nearly won. */
static void print_search(const struct entry_row *e, FILE *to)
{
    fprintf(to, "search   %s, effort %s", UTF8_LINE(e->search), UTF8_LINE(e->effort));
    if (*e->reason)
        fprintf(to, "; it ended: %s", UTF8_LINE(e->reason));
    if (e->search_winner.struct_size && !plan_equal(&e->search_winner, &e->plan))
        fprintf(to, "; it favours %s", PLAN_WORDS(&e->search_winner));
    if (e->runner_up.struct_size)
        fprintf(to, "; next %s", PLAN_WORDS(&e->runner_up));
    fprintf(to, "\n");
}

static int print_history(const struct explainer *x, const struct entry_row *e)
{
    struct row_list rows;

    TRY(store_history(x->store, &rows));
    EACH_ROW (history_row, row, rows)
        if (SAME_TABLE(&row->entry, e) && row->entry.bucket == e->bucket)
            fprintf(x->to, "before   %s, until %s UTC: %s\n", PLAN_WORDS(&row->entry.plan),
                    DATE_TEXT(row->replaced_s, DATE_MINUTE), UTF8_LINE(row->why));
    free(rows.rows);
    return OK;
}

static void print_bucket(const struct explainer *x, const struct entry_row *e)
{
    const struct declaration *d = declaration_find(x->shape.space);

    if (d)
        fprintf(x->to, "bucket   %u: %s %s\n\n", e->bucket, d->key,
                RANGE_TEXT(&x->shape, 1, e->bucket, e->bucket));
    else
        fprintf(x->to, "bucket   %u of width %u: capacities %" PRIu64 " to %" PRIu64 "\n\n",
                e->bucket, e->window, (uint64_t)e->bucket * e->window,
                bucket_capacity(e->window, e->bucket));
}

int explain_load(struct store *store, const struct moe_shape *shape, const struct entry_row *e,
                 FILE *to)
{
    char text[LOAD_TEXT_BYTES], words[LOAD_WORDS_BYTES] = "";
    struct load *load = NULL;
    int rc = *e->load ? store_load_get(store, e->load, text, sizeof(text)) : UNSUPPORTED;

    if (rc < 0)
        return rc;
    log_only(false);
    if (rc == OK && !load_open_text(shape, 0, text, &load))
        load_words_at(load, e->capacity, words);
    log_only(true);
    load_close(load);
    if (*e->load)
        fprintf(to, "load     %s\n", UTF8_LINE(e->load));
    if (*words)
        fprintf(to, "         %s\n", words);
    return OK;
}

void explain_doubts(const struct entry_row *e, unsigned states, FILE *to)
{
    for (int i = 1; i < ENTRY_STATE_COUNT; i++)
        if (entry_is(e, states & (1u << i)) && strcmp(e->decision, entry_state_words[i]) != 0)
            fprintf(to, "but      %s\n", entry_state_words[i]);
}

static int explain_entry(void *self, const struct entry_row *e)
{
    struct explainer *x = self;
    const struct override_row *pin = told_pin(x->told, e);
    char why[WHY_SILENT_BYTES];

    if (e->bucket != x->bucket)
        return OK;
    fprintf(x->to, "%s", x->found++ ? "\n" : "");
    TRY(store_shape_get(x->store, e->shape, &x->shape));
    TRY(tables_heading(x->store, e->cluster, e->shape, x->to));
    print_bucket(x, e);
    fprintf(x->to, "plan     %s\nbecause  %s: %s\n", PLAN_WORDS(&e->plan), UTF8_LINE(e->decision),
            meaning(e->decision));
    explain_doubts(e, ENTRY_OPEN, x->to);
    if (pin && pin->plan.struct_size)
        fprintf(x->to, "pinned   trainers get %s: %s\n", PLAN_WORDS(&pin->plan),
                UTF8_LINE(pin->why));
    TRY(told_why_silent(x->told, x->store, e, why));
    if (*why)
        fprintf(x->to, "silent   trainers are not told this: %s\n", why);
    TRY(explain_load(x->store, &x->shape, e, x->to));
    print_times(e, &x->shape, x->to);
    print_search(e, x->to);
    fprintf(x->to, "decided  %s UTC, %s ago\n", DATE_TEXT(e->decided_s, DATE_MINUTE),
            DURATION_TEXT(fmax(0, difftime(time(NULL), (time_t)e->decided_s))));
    TRY(print_history(x, e));
    return print_tried(x, e);
}

int explain_bucket(struct store *store, uint32_t bucket, FILE *to)
{
    struct told told;
    struct explainer x = { .store = store, .to = to, .told = &told, .bucket = bucket };
    int rc = told_read(store, &told);

    if (!rc)
        rc = store_entries(store, 0, 0, explain_entry, &x);
    told_free(&told);
    return rc ? rc : x.found ? OK : UNSUPPORTED;
}
