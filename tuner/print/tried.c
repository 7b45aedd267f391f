/* Reads trials with their steps, and prints them. */
#include "tried.h"

#include "array.h"
#include "grid.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int add_trial(void *self, const struct trial_row *trial)
{
    struct tried_list *list = self;
    const struct tried fresh = { .trial = *trial };

    ARRAY_APPEND(list->items, list->count, fresh);
    return OK;
}

static int by_id(const void *a, const void *b)
{
    const struct tried *x = a, *y = b;

    return (x->trial.id > y->trial.id) - (x->trial.id < y->trial.id);
}

static void forget_steps(struct tried *t)
{
    *t = (struct tried){ .trial = t->trial, .steps_ns = t->steps_ns };
}

static int add_sample(void *self, const struct trial_row *trial, const struct sample_row *sample)
{
    struct tried_list *list = self;
    const struct tried wanted = { .trial.id = trial->id };
    struct tried *t = bsearch(&wanted, list->items, list->count, sizeof(wanted), by_id);

    if (!t)
        return OK;
    if (strcmp(t->load, sample->load) != 0)
        forget_steps(t);
    memcpy(t->load, sample->load, sizeof(t->load));
    heat_add(&t->heat, sample);
    if (sample->gpu.throttled != SAMPLE_SET_ASIDE)
        ARRAY_APPEND(t->steps_ns, t->step_count, sample->ns);
    return OK;
}

static int leave_out_others(struct store *store, struct tried_list *list)
{
    for (struct tried *t = list->items; t < list->items + list->count; t++) {
        const struct trial_key *k = &t->trial.key;
        struct entry_row e;
        int rc = store_entry_get(store, k->cluster, k->shape, k->window, k->bucket, &e);

        if (rc < 0)
            return rc;
        if (!rc && strcmp(e.load, t->load) != 0)
            forget_steps(t);
    }
    return OK;
}

int tried_read(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
               uint32_t bucket, struct tried_list *out)
{
    *out = (struct tried_list){ NULL, 0 };
    TRY(store_trials(store, cluster, shape, window, bucket, add_trial, out));
    if (!out->count)
        return OK;
    qsort(out->items, out->count, sizeof(*out->items), by_id);
    TRY(bucket == UINT32_MAX
            ? store_samples_all(store, add_sample, out)
            : store_samples(store, cluster, shape, window, bucket, add_sample, out));
    if (bucket != UINT32_MAX)
        TRY(leave_out_others(store, out));
    for (size_t i = 0; i < out->count; i++)
        out->items[i].step = spread_of(out->items[i].steps_ns, out->items[i].step_count);
    return OK;
}

void tried_free(struct tried_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].steps_ns);
    free(list->items);
    *list = (struct tried_list){ NULL, 0 };
}

static int by_median(const void *a, const void *b)
{
    const struct tried *x = a, *y = b;

    if (!x->step.count || !y->step.count)
        return !x->step.count - !y->step.count;
    return (x->step.median_ns > y->step.median_ns) - (x->step.median_ns < y->step.median_ns);
}

void tried_sort(struct tried_list *list)
{
    if (list->count)
        qsort(list->items, list->count, sizeof(*list->items), by_median);
}

const struct tried *tried_find(const struct tried_list *list, const struct moe_plan *plan)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].step.count && plan_equal(&list->items[i].trial.key.plan, plan))
            return &list->items[i];
    return NULL;
}

const struct tried *tried_fastest(const struct tried_list *list)
{
    const struct tried *best = NULL;

    for (const struct tried *t = list->items; t < list->items + list->count; t++)
        if (t->step.count && t->trial.state == TRIAL_OK &&
            (!best || t->step.median_ns < best->step.median_ns))
            best = t;
    return best;
}

/* ---- all of them */

static const struct grid_column columns[] = {
    { "layer", GRID_RIGHT },          { "bucket", GRID_RIGHT },
    { "width", GRID_RIGHT },          { "plan", GRID_LEFT },
    { "state", GRID_LEFT },           { "steps", GRID_RIGHT },
    { "median\nms", GRID_POINT },     { "95 %\nlow", GRID_POINT },
    { "95 %\nhigh", GRID_POINT },     { "compute\nalone ms", GRID_POINT },
    { "comm\nalone ms", GRID_POINT }, { "sent\nMiB", GRID_POINT },
    { "memory\nMiB", GRID_POINT },    { "dis-\nturbed", GRID_RIGHT },
    { "clock\nMHz", GRID_RIGHT },     { "why", GRID_LEFT },
};

/* A dash for what was not measured. */
static int cell_of_ms(struct grid *grid, int64_t ns)
{
    return ns > 0 ? grid_cell(grid, "%.3f", (double)ns * 1e-6) : grid_cell(grid, "-");
}

/* One step has no interval. */
int tried_cells(struct grid *grid, const struct tried *t)
{
    bool several = t->step.count > 1;

    TRY(cell_of_ms(grid, t->step.count ? t->step.median_ns : 0));
    TRY(cell_of_ms(grid, several ? t->step.low_ns : 0));
    return cell_of_ms(grid, several ? t->step.high_ns : 0);
}

/* Two cells: which bucket; of a declared space its range, and no width. */
static int cells_of_bucket(struct grid *grid, struct store *store, const struct trial_key *key)
{
    struct moe_shape shape;

    TRY(store_shape_get(store, key->shape, &shape));
    if (shape.space) {
        TRY(grid_cell(grid, "%s", RANGE_TEXT(&shape, key->window, key->bucket, key->bucket)));
        return grid_cell(grid, "-");
    }
    TRY(grid_cell(grid, "%u", key->bucket));
    return grid_cell(grid, "%u", key->window);
}

static int add_row(struct grid *grid, struct store *store, const struct tried *t)
{
    const struct trial_row *trial = &t->trial;
    const struct trial_key *key = &trial->key;

    TRY(grid_row(grid, trial->state == TRIAL_OK ? INK_PLAIN : INK_BAD));
    TRY(grid_cell(grid, "%" PRId64, key->shape));
    TRY(cells_of_bucket(grid, store, key));
    TRY(grid_cell(grid, "%s", PLAN_WORDS(&key->plan)));
    TRY(grid_cell(grid, "%s", trial_state_words[trial->state]));
    TRY(grid_cell(grid, "%" PRIu64, t->heat.steps));
    TRY(tried_cells(grid, t));
    TRY(cell_of_ms(grid, trial->compute_ns));
    TRY(cell_of_ms(grid, trial->comm_ns));
    TRY(grid_cell(grid, "%.3f", (double)trial->sent_bytes * 0x1p-20));
    TRY(grid_cell(grid, "%.3f", (double)trial->memory_bytes * 0x1p-20));
    TRY(grid_cell(grid, "%" PRIu64, t->heat.throttled.steps + t->heat.disturbed.steps));
    TRY(t->heat.clock_low_mhz
            ? grid_cell(grid, "%u-%u", t->heat.clock_low_mhz, t->heat.clock_high_mhz)
            : grid_cell(grid, "-"));
    return grid_cell(grid, "%s", UTF8_LINE(trial->message));
}

int tried_print(struct store *store, FILE *to)
{
    struct grid grid = GRID_OF(columns);
    struct tried_list list;
    int rc = tried_read(store, 0, 0, 0, UINT32_MAX, &list);

    for (size_t i = 0; i < list.count && !rc; i++)
        rc = add_row(&grid, store, &list.items[i]);
    if (!rc)
        grid_print(&grid, to);
    grid_clear(&grid);
    tried_free(&list);
    return rc;
}
