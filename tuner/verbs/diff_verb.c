/* moetune diff: where two tables would tell a trainer something else. */
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "table_file.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

struct side {
    struct import_table *table; /* NULL: without entries */
    size_t at, count;
};

static struct import_entry current(const struct side *s)
{
    return import_entry(s->table, s->at);
}

static int by_key(const struct import_entry *a, const struct import_entry *b)
{
    int by = strcmp(a->cluster, b->cluster);

    by = by ? by : strcmp(SHAPE_TEXT(a->shape), SHAPE_TEXT(b->shape));
    by = by ? by : (a->row->window > b->row->window) - (a->row->window < b->row->window);
    return by ? by : (a->row->bucket > b->row->bucket) - (a->row->bucket < b->row->bucket);
}

/* Below 0: only A has this bucket; above 0: only B. */
static int compare_next(const struct side *a, const struct side *b)
{
    struct import_entry x, y;

    if (a->at == a->count || b->at == b->count)
        return a->at == a->count ? 1 : -1;
    x = current(a);
    y = current(b);
    return by_key(&x, &y);
}

static void print_difference(const struct side *a, const struct side *b, int by)
{
    struct import_entry e = current(by <= 0 ? a : b);

    printf("%.12s  %s  bucket %u of width %u: %s | %s\n", e.cluster, SHAPE_TEXT(e.shape),
           e.row->bucket, e.row->window, by <= 0 ? PLAN_TEXT(&current(a).row->plan) : "-",
           by >= 0 ? PLAN_TEXT(&current(b).row->plan) : "-");
}

static uint32_t compare(struct side *a, struct side *b)
{
    uint32_t differences = 0;

    while (a->at < a->count || b->at < b->count) {
        int by = compare_next(a, b);

        if (by || !plan_equal(&current(a).row->plan, &current(b).row->plan)) {
            print_difference(a, b, by);
            differences++;
        }
        a->at += by <= 0;
        b->at += by >= 0;
    }
    return differences;
}

/* A file that is damaged is not "the same". */
static int open_side(const char *path, struct side *s)
{
    int rc = table_file_read(path, path, &s->table);

    if (!rc)
        s->count = import_count(s->table);
    return rc == UNSUPPORTED ? OK : rc;
}

static int run(const struct verb_call *call, void *options)
{
    struct side a = { 0 }, b = { 0 };
    uint32_t differences = 0;
    int rc = open_side(call->arguments[0], &a);

    (void)options;
    if (!rc)
        rc = open_side(call->arguments[1], &b);
    if (!rc) {
        differences = compare(&a, &b);
        printf(differences ? "%u buckets differ\n" : "the same plans\n", differences);
    }
    import_free(a.table);
    import_free(b.table);
    return rc ? rc : (differences ? ERR_WRONG : OK);
}

const struct verb diff_verb = {
    .name = "diff",
    .summary = "where two tables say something else",
    .arguments = "FILE FILE",
    .least = 2,
    .most = 2,
    .about = "Compares two tables, each a database, a snapshot or an exported file: buckets that "
             "only one of them has, and buckets with another plan.",
    .notes = "Exit code 3: they differ.",
    .example = "diff before.jsonl moetune.db",
    .run = run,
};
