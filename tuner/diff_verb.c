/* moetune diff: where two tables would tell a trainer something else. */
#include "export.h"
#include "options.h"
#include "status.h"
#include "store.h"
#include "table_file.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(void)
{
    printf(
        "usage: moetune diff A B\n\n"
        "Compares two tables, each a database, a snapshot or an exported file: buckets that only "
        "one of them\nhas, and buckets with another plan.\n\n"
        "exit code 3: they differ\nexample: moetune diff before.jsonl moetune.db\n");
}

/* One entry's line of an exported table; they come sorted. */
struct line {
    char cluster[65], layer[160], plan[64];
    unsigned window, bucket;
};

struct side {
    const char *name;
    char *text, *at;
    struct line line;
    bool ended;
};

static bool read_entry(const char *text, struct line *line)
{
    return sscanf(text,
                  "{\"cluster\":\"%64[^\"]\",\"layer\":\"%159[^\"]\",\"window\":%u,\"bucket\":%u,"
                  "\"capacity\":%*u,\"plan\":\"%63[^\"]\"",
                  line->cluster, line->layer, &line->window, &line->bucket, line->plan) == 5;
}

static void next(struct side *s)
{
    s->ended = true;
    while (s->ended && s->at && *s->at) {
        char *end = strchr(s->at, '\n');

        s->ended = !read_entry(s->at, &s->line);
        s->at = end ? end + 1 : NULL;
    }
}

static int by_key(const struct line *a, const struct line *b)
{
    int by = strcmp(a->cluster, b->cluster);

    by = by ? by : strcmp(a->layer, b->layer);
    by = by ? by : (a->window > b->window) - (a->window < b->window);
    return by ? by : (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

static void print_line(const struct line *l, const char *a, const char *b)
{
    printf("%.12s  %s  bucket %u of width %u: %s | %s\n", l->cluster, l->layer, l->bucket,
           l->window, a, b);
}

static uint32_t compare(struct side *a, struct side *b)
{
    uint32_t differences = 0;

    next(a);
    next(b);
    while (!a->ended || !b->ended) {
        int by = a->ended ? 1 : b->ended ? -1 : by_key(&a->line, &b->line);

        if (by < 0)
            print_line(&a->line, a->line.plan, "-");
        else if (by > 0)
            print_line(&b->line, "-", b->line.plan);
        else if (strcmp(a->line.plan, b->line.plan) != 0)
            print_line(&a->line, a->line.plan, b->line.plan);
        differences += by != 0 || strcmp(a->line.plan, b->line.plan) != 0;
        if (by <= 0)
            next(a);
        if (by >= 0)
            next(b);
    }
    return differences;
}

static int open_side(const char *path, struct side *s)
{
    size_t size;

    *s = (struct side){ .name = path };
    TRY(table_file_read(path, &s->text, &size));
    s->at = s->text;
    return OK;
}

int diff_main(int argc, char **argv)
{
    struct side a, b;
    uint32_t differences;
    bool help = false;
    int first = argc;

    TRY(options_parse(NULL, 0, argc, argv, NULL, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (argc - first != 2)
        return fail(ERR_ARGUMENT, "diff wants two tables (see --help)");
    TRY(open_side(argv[first], &a));
    if (open_side(argv[first + 1], &b)) {
        free(a.text);
        return ERR_IO;
    }
    differences = compare(&a, &b);
    printf(differences ? "%u buckets differ\n" : "the same plans\n", differences);
    free(a.text);
    free(b.text);
    return differences ? ERR_WRONG : OK;
}
