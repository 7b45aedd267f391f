/* moetune lookup: what a trainer would be told, by the library it links. */
#include "json.h"
#include "layer_options.h"
#include "moelookup.h"
#include "options.h"
#include "plan.h"
#include "sha256.h"
#include "status.h"
#include "verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct lookup_options {
    struct layer_options layer;
    uint32_t ranks, ranks_per_node;
    const char *shape, *device, *db;
    struct option_list capacities;
    bool explain, digest, json;
};

#define AT(field) offsetof(struct lookup_options, field)
static const struct option_row rows[] = {
    { "capacity", "C", OPTION_LIST, AT(capacities), "rows of an expert and rank (again for more)",
      NULL, 'c' },
    { "explain", NULL, OPTION_FLAG, AT(explain), "which rung of the ladder answers, and why",
      NULL },
    { "digest", NULL, OPTION_FLAG, AT(digest), "print the table's digest, to compare it elsewhere",
      NULL },
    { "ranks", "N", OPTION_COUNT, AT(ranks), "ranks of the group", NULL },
    { "ranks-per-node", "M", OPTION_COUNT, AT(ranks_per_node), "ranks on a node (all of them)",
      NULL },
    LAYER_OPTION_ROWS(struct lookup_options),
    { "shape", "TEXT", OPTION_TEXT, AT(shape), "the layer as text, as `moetune show` prints it",
      NULL },
    { "device", "NAME", OPTION_TEXT, AT(device), "where several tables fit: a device or a hash",
      NULL },
    { "db", "FILE", OPTION_TEXT, AT(db), "database, snapshot or packed table (the search path)",
      NULL },
    { "json", NULL, OPTION_FLAG, AT(json), "one JSON array", NULL },
};
#undef AT
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct lookup_options defaults = { .layer = LAYER_DEFAULTS, .ranks = 4 };

static void print_help(void)
{
    printf("usage: moetune lookup -c C [options]\n\n"
           "Answers as libmoelookup answers a trainer.  Search path: $MOELOOKUP_DB, $MOETUNE_DB, "
           "the user's,\n/etc/moetune, PREFIX/share/moetune.  Exit code 4: only the default plan "
           "is known.\n\n");
    options_print(rows, ROW_COUNT, &defaults);
    printf("\nexample: moetune lookup -c 300 --explain --db moetune.db\n");
}

static int take_shape(const struct lookup_options *o, struct moe_shape *shape)
{
    *shape =
        layer_options_shape(&o->layer, o->ranks, o->ranks_per_node ? o->ranks_per_node : o->ranks);
    if (o->shape && shape_parse(o->shape, shape))
        return ERR_ARGUMENT;
    return shape_check(shape);
}

static int take_capacity(const char *text, uint32_t *capacity)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || value > UINT32_MAX)
        return fail(ERR_ARGUMENT, "--capacity %s: a number of rows is wanted", text);
    *capacity = (uint32_t)value;
    return OK;
}

static void print_json(uint32_t capacity, const struct moe_plan *plan, const char *why, bool first)
{
    char words[PLAN_TEXT_BYTES];

    moe_plan_format(plan, words, sizeof(words));
    printf("%s\n {\"capacity\": %u, \"bucket\": %u, \"plan\": \"%s\", \"source\": %u, "
           "\"time_us\": %.3f, \"default_us\": %.3f, \"why\": ",
           first ? "" : ",", capacity, plan->bucket, words, plan->source, (double)plan->time_us,
           (double)plan->default_us);
    json_quote(why, stdout);
    printf("}");
}

static int answer(const struct moelookup_view *view, const struct lookup_options *o, int at,
                  bool *known)
{
    struct moe_plan plan = MOE_PLAN_INIT;
    uint32_t capacity = 0;
    char words[PLAN_TEXT_BYTES], why[512];

    TRY(take_capacity(o->capacities.items[at], &capacity));
    moelookup_get(view, capacity, &plan);
    moelookup_explain(view, capacity, why, sizeof(why));
    moe_plan_format(&plan, words, sizeof(words));
    if (o->json)
        print_json(capacity, &plan, why, at == 0);
    else
        printf("%s\n", o->explain ? why : words);
    *known &= plan.source != MOE_DEFAULT;
    return OK;
}

static int answer_all(const struct moelookup *table, const struct lookup_options *o)
{
    struct moe_shape shape;
    struct moelookup_view *view;
    bool known = true;
    int rc = OK;

    TRY(take_shape(o, &shape));
    TRY(moelookup_bind(table, &shape, o->device, &view));
    if (o->json)
        printf("[");
    for (int i = 0; i < o->capacities.count && !rc; i++)
        rc = answer(view, o, i, &known);
    if (o->json)
        printf("\n]\n");
    moelookup_view_free(view);
    return rc ? rc : known ? OK : UNSUPPORTED;
}

static int look_up(const struct lookup_options *o)
{
    struct moelookup *table;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    int rc = OK;

    TRY(moelookup_open(o->db, &table));
    moelookup_digest(table, digest);
    sha256_hex(digest, hex);
    if (o->digest)
        printf("%s\n", hex);
    if (o->capacities.count)
        rc = answer_all(table, o);
    moelookup_close(table);
    return rc;
}

int lookup_main(int argc, char **argv)
{
    struct lookup_options o = defaults;
    bool help = false;
    int first = argc;

    TRY(options_parse(rows, ROW_COUNT, argc, argv, &o, &first, &help));
    if (help) {
        print_help();
        return OK;
    }
    if (first < argc)
        return fail(ERR_ARGUMENT, "lookup takes no argument \"%s\"", argv[first]);
    if (!o.capacities.count && !o.digest)
        return fail(ERR_ARGUMENT, "lookup: --capacity C or --digest is wanted");
    return look_up(&o);
}
