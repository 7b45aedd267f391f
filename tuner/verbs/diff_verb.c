/* moetune diff: lists the buckets in which two tables have different plans, or only one has a plan.
 */
#include "buckets.h"
#include "grid.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "table_file.h"
#include "verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One of the two tables, and the entry at which the comparison is. */
struct diff_side {
    struct import_table *table; /* NULL: it has no entries */
    size_t current, count;      /* the current entry; how many entries */
};

static struct import_entry current_entry(const struct diff_side *s)
{
    return import_entry(s->table, s->current);
}

static int compare_keys(const struct import_entry *a, const struct import_entry *b)
{
    int order = strcmp(a->cluster, b->cluster);

    order = order ? order : strcmp(SHAPE_TEXT(a->shape), SHAPE_TEXT(b->shape));
    order = order ? order : (a->row->window > b->row->window) - (a->row->window < b->row->window);
    return order ? order : (a->row->bucket > b->row->bucket) - (a->row->bucket < b->row->bucket);
}

static const struct grid_column columns[] = {
    { "bucket", GRID_LEFT },
    { "key", GRID_LEFT },
    { "A", GRID_LEFT },
    { "B", GRID_LEFT },
};

/* The differences found so far in one table.  Neighbouring buckets with the same difference share a
 * line. */
struct difference {
    struct grid grid;
    struct import_entry first; /* of the current line; row NULL: there is no line yet */
    uint32_t last;             /* the last bucket of the line */
    char plan_a[PLAN_TEXT_BYTES], plan_b[PLAN_TEXT_BYTES]; /* of the line; "-": none */
    uint32_t count;                                        /* buckets that differ, in all tables */
};

static bool same_table(const struct import_entry *a, const struct import_entry *b)
{
    return !strcmp(a->cluster, b->cluster) && shape_equal(a->shape, b->shape) &&
           a->row->window == b->row->window;
}

static int add_line(struct difference *d)
{
    uint32_t window, first_bucket;
    char buckets[32];

    if (!d->first.row)
        return OK;
    window = d->first.row->window;
    first_bucket = d->first.row->bucket;
    snprintf(buckets, sizeof(buckets), first_bucket == d->last ? "%u" : "%u-%u", first_bucket,
             d->last);
    TRY(grid_row(&d->grid, INK_PLAIN));
    TRY(grid_cell(&d->grid, "%s", buckets));
    TRY(grid_cell(&d->grid, "%s",
                  BUCKETS_TEXT(buckets_of(d->first.shape, window), first_bucket, d->last)));
    TRY(grid_cell(&d->grid, "%s", d->plan_a));
    return grid_cell(&d->grid, "%s", d->plan_b);
}

static int print_table(struct difference *d)
{
    TRY(add_line(d));
    if (!d->first.row)
        return OK;
    printf("\nlayer    %s\ncluster  %.12s, buckets ", SHAPE_TEXT(d->first.shape), d->first.cluster);
    if (d->first.shape->space)
        printf("by %s\n", buckets_key_name(buckets_of(d->first.shape, 1)));
    else
        printf("of width %u\n", d->first.row->window);
    grid_print(&d->grid, stdout);
    grid_clear(&d->grid);
    return OK;
}

/* `order`: as in compare_sides(). */
static int add_difference(struct difference *d, const struct diff_side *a,
                          const struct diff_side *b, int order)
{
    struct import_entry entry = current_entry(order <= 0 ? a : b);
    char plan_a[PLAN_TEXT_BYTES] = "-", plan_b[PLAN_TEXT_BYTES] = "-";
    bool continues_table = d->first.row && same_table(&entry, &d->first);

    if (order <= 0)
        plan_text(&current_entry(a).row->plan, plan_a);
    if (order >= 0)
        plan_text(&current_entry(b).row->plan, plan_b);
    d->count++;
    if (!continues_table)
        TRY(print_table(d));
    if (continues_table && entry.row->bucket == d->last + 1 && !strcmp(plan_a, d->plan_a) &&
        !strcmp(plan_b, d->plan_b)) {
        d->last++;
        return OK;
    }
    if (continues_table)
        TRY(add_line(d));
    d->first = entry;
    d->last = entry.row->bucket;
    memcpy(d->plan_a, plan_a, sizeof(plan_a));
    memcpy(d->plan_b, plan_b, sizeof(plan_b));
    return OK;
}

static int compare_sides(struct diff_side *a, struct diff_side *b, struct difference *d)
{
    while (a->current < a->count || b->current < b->count) {
        int order; /* below 0: only A has this bucket; above 0: only B */

        if (a->current == a->count) {
            order = 1;
        } else if (b->current == b->count) {
            order = -1;
        } else {
            struct import_entry entry_a = current_entry(a), entry_b = current_entry(b);

            order = compare_keys(&entry_a, &entry_b);
        }
        if (order || !plan_equal(&current_entry(a).row->plan, &current_entry(b).row->plan))
            TRY(add_difference(d, a, b, order));
        if (order <= 0)
            a->current++;
        if (order >= 0)
            b->current++;
    }
    return print_table(d);
}

static bool begins_table(const struct diff_side *s, size_t index, struct import_entry *entry)
{
    struct import_entry previous;

    *entry = import_entry(s->table, index);
    if (!index)
        return true;
    previous = import_entry(s->table, index - 1);
    return !same_table(entry, &previous);
}

/* Whether both sides have a table of the same layer, cluster and width. */
static bool share_a_table(const struct diff_side *a, const struct diff_side *b)
{
    struct import_entry entry_a, entry_b;

    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; begins_table(a, i, &entry_a) && j < b->count; j++)
            if (begins_table(b, j, &entry_b) && same_table(&entry_a, &entry_b))
                return true;
    return false;
}

/* Reads one side.  A table without entries can be compared; a damaged file is an error. */
static int open_side(const char *path, struct diff_side *s)
{
    int rc = table_file_read(path, path, &s->table);

    if (!rc)
        s->count = import_count(s->table);
    return rc == UNSUPPORTED ? OK : rc;
}

static int verb_diff(const struct verb_call *call, void *options)
{
    struct diff_side a = { 0 }, b = { 0 };
    struct difference d = { .grid = GRID_OF(columns) };
    int rc;

    (void)options;
    TRY_OUT(open_side(call->arguments[0], &a));
    TRY_OUT(open_side(call->arguments[1], &b));
    printf("A        %s\nB        %s\n", call->arguments[0], call->arguments[1]);
    TRY_OUT(compare_sides(&a, &b, &d));
    printf(d.count ? "\n%u bucket%s differ%s\n" : "\nthe same plans\n", d.count,
           d.count == 1 ? "" : "s", d.count == 1 ? "s" : "");
    if (a.count && b.count && !share_a_table(&a, &b))
        printf("no layer of A is in B\n");
    rc = d.count ? ERR_WRONG : OK;
out:
    grid_clear(&d.grid);
    import_free(a.table);
    import_free(b.table);
    return rc;
}

const struct verb diff_verb = {
    .name = "diff",
    .summary = "list the buckets in which two tables differ",
    .arguments = "FILE FILE",
    .least = 2,
    .most = 2,
    .about = "Compares two tables. Each is a database, a snapshot or an exported file. Lists the "
             "buckets that only one table has, and the buckets with different plans. A is the "
             "first file.",
    .notes = "Exit code 3: the tables differ.",
    .example = "diff before.jsonl moetune.db",
    .run = verb_diff,
};
