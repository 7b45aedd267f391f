/* moetune show: the dictionary. */
#include "common_rows.h"
#include "status.h"
#include "tables.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>

struct options {
    const char *db;
    bool every, trials, json;
};

static const struct option_row rows[] = {
    { "every", NULL, OPTION_FLAG, OPTION(every), "a line for every bucket" },
    { "trials", NULL, OPTION_FLAG, OPTION(trials),
      "every plan that was tried, and what became of it" },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { NULL },
};

static int show(struct store *store, const struct options *o)
{
    if (o->json)
        return tables_json(store, 0, 0, stdout);
    if (o->trials)
        return tables_print_trials(store, stdout);
    return tables_print_all(store, o->every, stdout);
}

static int run(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    char path[PATH_MAX];
    struct store *store;
    int rc;

    (void)call;
    TRY(store_path(o->db, false, path, sizeof(path)));
    TRY(store_read(path, &store));
    rc = show(store, o);
    if (rc == UNSUPPORTED)
        note("%s holds no entry yet (moetune tune writes them)", path);
    store_close(store);
    return rc;
}

const struct verb show_verb = {
    .name = "show",
    .summary = "the dictionary, as text or JSON",
    .about = "Prints the dictionary: the best plan of every capacity bucket.",
    .rows = rows,
    .options_size = sizeof(struct options),
    .notes = "bound%: the plan is slower than the best one by less than this, with 95 % certainty.",
    .example = "show --db moetune.db --every",
    .run = run,
};
