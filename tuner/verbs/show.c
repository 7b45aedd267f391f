/* moetune show: the dictionary. */
#include "options.h"
#include "status.h"
#include "tables.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

struct show_options {
    const char *db;
    bool every, trials, json;
};

#define AT(field) offsetof(struct show_options, field)
static const struct option_row rows[] = {
    { "db", "FILE", OPTION_TEXT, AT(db), "database or snapshot ($MOETUNE_DB, or the user's)",
      NULL },
    { "every", NULL, OPTION_FLAG, AT(every), "a line for every bucket", NULL },
    { "trials", NULL, OPTION_FLAG, AT(trials), "every plan that was tried, and what became of it",
      NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "one JSON array", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
    static const struct show_options defaults = { 0 };

    printf("usage: moetune show [options]\n\nPrints the dictionary: the best plan of every "
           "capacity bucket.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nbound%%: the plan is slower than the best one by less than this, with 95 %% "
           "certainty.\nexample: moetune show --db moetune.db --every\n");
}

static int show(struct store *store, const struct show_options *o)
{
    if (o->json)
        return tables_json(store, 0, 0, stdout);
    if (o->trials)
        return tables_print_trials(store, stdout);
    return tables_print(store, 0, 0, o->every, stdout);
}

int show_main(int argc, char **argv)
{
    struct show_options o = { 0 };
    char path[PATH_MAX];
    struct store *store;
    bool help = false;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc)
        return fail(ERR_ARGUMENT, "show takes no argument \"%s\"", argv[first]);
    TRY(store_path(o.db, false, path, sizeof(path)));
    TRY(store_read(path, &store));
    rc = show(store, &o);
    if (rc == UNSUPPORTED)
        note("%s holds no entry yet (moetune tune writes them)", path);
    store_close(store);
    return rc;
}
