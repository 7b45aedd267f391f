/* moetune report: plots of what the database holds. */
#include "options.h"
#include "report.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

struct report_options {
    uint32_t format;
    const char *folder, *db, *shape;
    struct option_list traffic;
};

#define AT(field) offsetof(struct report_options, field)
static const struct option_row rows[] = {
    { "format", "WORD", OPTION_WORD, AT(format), "one page, pictures, or text for a terminal",
      report_words },
    { "output", "DIR", OPTION_TEXT, AT(folder), "where data, scripts and pictures go", NULL, 'o' },
    { "db", "FILE", OPTION_TEXT, AT(db), "database or snapshot ($MOETUNE_DB, or the user's)",
      NULL },
    { "shape", "TEXT", OPTION_TEXT, AT(shape), "only layers of which this is true: \"H=4096\"",
      NULL },
    { "traffic", "FILE", OPTION_LIST, AT(traffic),
      "weight gains by what trainers asked, as MOELOOKUP_RECORD has it (again: more)", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct report_options defaults = { .folder = "moetune-report" };

static void print_help(void)
{
    printf("usage: moetune report [options]\n\n"
           "Plots what the database holds with gnuplot: which plan wins, by how much, where the "
           "time\ngoes, what the table cost.  Each plot has its data file and a script that draws "
           "it again.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune report --db moetune.db -o report; "
           "moetune report --format txt --shape \"H=4096\"\n");
}

int report_main(int argc, char **argv)
{
    struct report_options o = defaults;
    char path[PATH_MAX];
    struct store *store;
    struct traffic traffic = { 0 };
    struct report_request request;
    bool help = false;
    int first = argc, rc = OK;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc)
        return fail(ERR_ARGUMENT, "report takes no argument \"%s\"", argv[first]);
    TRY(store_path(o.db, false, path, sizeof(path)));
    TRY(store_read(path, &store));
    request = (struct report_request){ .db = path,
                                       .shape = o.shape,
                                       .folder = o.folder,
                                       .format = (enum report_format)o.format,
                                       .traffic = o.traffic.count ? &traffic : NULL };
    for (int i = 0; i < o.traffic.count && !rc; i++)
        rc = traffic_read(o.traffic.items[i], &traffic);
    if (!rc)
        rc = report_write(store, &request);
    traffic_free(&traffic);
    store_close(store);
    return rc;
}
