/* moetune report: plots what the database holds. */
#include "common_rows.h"
#include "report.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>

/* The values of the options in `rows`. */
struct options {
    uint32_t format;
    const char *folder, *db, *shape, *counts;
    struct option_list traffic;
};

static const struct option_row rows[] = {
    { "format", "WORD", OPTION_WORD, OPTION(format),
      "one page (html), pictures (svg, png, pdf), or text for a terminal (txt)", report_words },
    { "output", "DIR", OPTION_TEXT, OPTION(folder), "folder for data, scripts and pictures",
      .letter = 'o' },
    SHAPE_FILTER_ROW(OPTION_TEXT, OPTION(shape), ""),
    TRAFFIC_ROW("traffic", OPTION(traffic), "weight gains by this traffic"),
    { "counts", "FILE", OPTION_TEXT, OPTION(counts),
      "plot capacities that follow these counts of a gate; one step per line, as for --routing" },
    DB_ROW(OPTION(db)),
    { NULL },
};

static const struct options defaults = { .folder = "moetune-report" };

static int verb_report(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    char path[PATH_MAX];
    struct store *store;
    struct traffic traffic = { 0 };
    struct report_request request = { .db = path,
                                      .shape = o->shape,
                                      .folder = o->folder,
                                      .format = (enum report_format)o->format,
                                      .counts = o->counts,
                                      .traffic = o->traffic.count ? &traffic : NULL };
    int rc = OK;

    (void)call;
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    TRY(store_read(path, &store));
    for (int i = 0; i < o->traffic.count && !rc; i++)
        rc = traffic_read(o->traffic.items[i], &traffic);
    if (!rc)
        rc = report_write(store, &request);
    traffic_free(&traffic);
    store_close(store);
    return rc;
}

const struct verb report_verb = {
    .name = "report",
    .summary = "plot the table, and what it was decided from",
    .about = "Plots what the database holds with gnuplot: which plan wins, by how much, where the "
             "time goes, and what the table cost. Each plot has its data file, and a script that "
             "draws it again.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .example = "report --db moetune.db -o report",
    .run = verb_report,
};
