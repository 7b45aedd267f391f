/* moetune prune: entries that are of no use any more. */
#include "options.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

struct prune_options {
    const char *db;
    double days;
    bool stale, imported, dry;
};

#define AT(field) offsetof(struct prune_options, field)
static const struct option_row rows[] = {
    { "stale", NULL, OPTION_FLAG, AT(stale), "entries measured before the software changed", NULL },
    { "imported", NULL, OPTION_FLAG, AT(imported), "entries of other sites, unless verified here",
      NULL },
    { "older-than", "DAYS", OPTION_NUMBER, AT(days), "of those only what was decided before",
      NULL },
    { "dry-run", NULL, OPTION_FLAG, AT(dry), "only count", NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "the database ($MOETUNE_DB, or the user's)", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
    static const struct prune_options defaults = { 0 };

    printf("usage: moetune prune --stale|--imported [options]\n\nTakes entries out of the "
           "dictionary; they stay in its history (moetune log).\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune prune --imported --dry-run\n");
}

struct pruning {
    const struct prune_options *options;
    struct store *store;
    int64_t before_s;
    uint32_t count;
};

static int prune(void *self, const struct entry_row *e)
{
    struct pruning *p = self;
    const struct prune_options *o = p->options;
    bool wanted = (o->stale && e->stale) || (o->imported && e->tier == TIER_IMPORTED);

    if (!wanted || e->decided_s > p->before_s)
        return OK;
    p->count++;
    return o->dry ? OK : store_entry_end(p->store, e, "pruned");
}

static int prune_all(struct pruning *p)
{
    TRY(store_entries(p->store, 0, 0, prune, p));
    printf("%u entries%s\n", p->count, p->options->dry ? " would go" : " taken out");
    return p->options->dry ? OK : store_publish(p->store);
}

int prune_main(int argc, char **argv)
{
    struct prune_options o = { 0 };
    struct pruning p = { .options = &o };
    char path[PATH_MAX];
    bool help = false;
    int first = argc, rc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc || !(o.stale || o.imported))
        return fail(ERR_ARGUMENT, "prune: --stale or --imported is wanted");
    TRY(store_path(o.db, false, path, sizeof(path)));
    /* Nothing is pruned from what is not there. */
    TRY(store_read(path, &p.store));
    store_close(p.store);
    TRY(store_open(path, 0, &p.store));
    p.before_s = time(NULL) - (int64_t)(o.days * 86400);
    rc = prune_all(&p);
    store_close(p.store);
    return rc ? rc : (p.count ? OK : UNSUPPORTED);
}
