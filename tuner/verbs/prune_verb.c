/* moetune prune: removes stale or imported entries from the table. */
#include "common_rows.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

/* The values of the options in `rows`. */
struct options {
    const char *db;
    double days;
    bool stale, imported, dry;
};

static const struct option_row rows[] = {
    { "stale", NULL, OPTION_FLAG, OPTION(stale), "remove stale entries" },
    { "imported", NULL, OPTION_FLAG, OPTION(imported),
      "remove entries of other sites, unless verified here" },
    { "older-than", "DAYS", OPTION_NUMBER, OPTION(days),
      "only entries that were decided more than DAYS days ago", .least = 0, .most = 36500 },
    DRY_RUN_ROW(OPTION(dry)),
    DB_ROW(OPTION(db)),
    { NULL },
};

/* One call: which entries to remove, and how many there were. */
struct pruning {
    const struct options *options;
    struct store *store;
    int64_t before_s;
    uint32_t count;
};

static int prune_entry(void *self, const struct entry_row *e)
{
    struct pruning *p = self;
    const struct options *o = p->options;
    bool wanted = entry_is(e, (o->stale ? ENTRY_STALE : 0u) | (o->imported ? ENTRY_IMPORTED : 0u));

    if (!wanted || e->decided_s > p->before_s)
        return OK;
    p->count++;
    return o->dry ? OK : store_entry_end(p->store, e, "pruned");
}

static int verb_prune(const struct verb_call *call, void *options)
{
    const struct options *o = options;
    struct pruning p = { .options = o };
    char path[PATH_MAX];
    int rc;

    (void)call;
    if (!o->stale && !o->imported)
        return fail(ERR_ARGUMENT, "prune: --stale or --imported is wanted");
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    /* Opened to read first: store_open() would create a database. */
    TRY(store_read(path, &p.store));
    store_close(p.store);
    TRY(store_open(path, 0, &p.store));
    p.before_s = time(NULL) - (int64_t)(o->days * 86400);
    rc = store_entries(p.store, 0, 0, prune_entry, &p);
    if (!rc)
        printf("%u entries%s\n", p.count, o->dry ? " would go" : " taken out");
    if (!rc && !o->dry)
        rc = store_publish(p.store);
    store_close(p.store);
    return rc ? rc : (p.count ? OK : UNSUPPORTED);
}

const struct verb prune_verb = {
    .name = "prune",
    .summary = "remove entries that are stale or imported",
    .about = "Removes entries from the table. They stay in its history (`moetune log`). The "
             "options --stale and --imported say which ones; one of the two is needed.",
    .rows = rows,
    .options_size = sizeof(struct options),
    .example = "prune --imported --dry-run",
    .run = verb_prune,
};
