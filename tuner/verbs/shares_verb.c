/* moetune shares: what each of several ranks that are not equally fast should get.  Starts no ranks
 * and measures nothing. */
#include "common_rows.h"
#include "json.h"
#include "known.h"
#include "moelookup.h"
#include "place.h"
#include "rank_speeds.h"
#include "status.h"
#include "verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    struct place_setup where;
    const char *speeds, *db;
    uint32_t batch, hidden;
    bool json;
};

static const struct option_row rows[] = {
    { "batch", "N", OPTION_COUNT, OPTION(batch), "samples or tokens to divide among all ranks",
      .least = 1, .most = UINT32_MAX },
    { "hidden", "H", OPTION_COUNT, OPTION(hidden), "hidden columns of an expert, to divide alike",
      .least = 1, .most = UINT32_MAX },
    { "speeds", "LIST", OPTION_TEXT, OPTION(speeds),
      "of each rank, in any unit: \"1,1.5,2\" (what probe measured)" },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { "where", .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    { NULL },
};

static const struct options defaults = { .where = PLACE_DEFAULTS };

struct shares {
    uint32_t ranks;
    double *speeds;
    uint64_t *batch, *hidden; /* of each rank */
};

static int make_room(uint32_t ranks, struct shares *out)
{
    out->ranks = ranks;
    out->speeds = calloc(ranks, sizeof(*out->speeds));
    out->batch = calloc(ranks, sizeof(*out->batch));
    out->hidden = calloc(ranks, sizeof(*out->hidden));
    return out->speeds && out->batch && out->hidden ? OK : fail(ERR_NOMEM, "%u ranks", ranks);
}

static void free_shares(struct shares *shares)
{
    free(shares->speeds);
    free(shares->batch);
    free(shares->hidden);
}

/* ---- the speeds */

static uint32_t count_items(const char *list)
{
    uint32_t count = 1;

    for (; *list; list++)
        count += *list == ',';
    return count;
}

static int take_speeds(const char *list, struct shares *out)
{
    const char *at = list;

    TRY(make_room(count_items(list), out));
    for (uint32_t q = 0; q < out->ranks; q++) {
        char *end;

        out->speeds[q] = strtod(at, &end);
        if (end == at || *end != (q + 1 < out->ranks ? ',' : 0) || !(out->speeds[q] > 0) ||
            isinf(out->speeds[q]))
            return fail(ERR_ARGUMENT,
                        "--speeds %s: numbers above 0 with commas between are wanted, one per rank",
                        list);
        at = end + 1;
    }
    return OK;
}

static int find_here(const struct options *o, struct cluster *here)
{
    struct launch_where where;
    struct hosts hosts;
    int rc = place_find(&o->where, &hosts, &where, here);

    hosts_free(&hosts);
    return rc;
}

static int look_up_speeds(const struct options *o, struct shares *out)
{
    struct cluster here = cluster_unknown(), known = cluster_unknown();
    struct store *store;
    size_t ranks = 0;
    double slowest;

    TRY(find_here(o, &here));
    store = known_open(o->db);
    known_cluster(store, &here, &known);
    store_close(store);
    if (!rank_speeds_parse(known.rank_speeds_percent, &ranks, &slowest) || ranks != here.ranks)
        return fail(UNSUPPORTED,
                    "the speeds of these ranks (%u) are not known: `moetune probe` measures them, "
                    "or --speeds says them",
                    here.ranks);
    TRY(make_room(here.ranks, out));
    rank_speeds_list(known.rank_speeds_percent, out->speeds);
    return OK;
}

/* ---- the shares */

/* A rank without work would still be waited for. */
static int divide(const struct shares *s, const char *option, uint32_t total, uint64_t *out)
{
    TRY(moe_shares(s->speeds, s->ranks, total, 1, out));
    for (uint32_t q = 0; q < s->ranks; q++)
        if (!out[q])
            return fail(ERR_ARGUMENT, "%s %u among %u ranks: none is left for rank %u", option,
                        total, s->ranks, q);
    return OK;
}

/* Of the time that equal shares take, by compute alone. */
static double part_of_equal(const struct shares *s)
{
    double slowest = s->speeds[0], sum = 0;

    for (uint32_t q = 0; q < s->ranks; q++) {
        slowest = fmin(slowest, s->speeds[q]);
        sum += s->speeds[q];
    }
    return s->ranks * slowest / sum;
}

static void print_text(const struct shares *s)
{
    printf("  rank       speed       batch      hidden\n");
    for (uint32_t q = 0; q < s->ranks; q++)
        printf("%6u  %10g  %10" PRIu64 "  %10" PRIu64 "\n", q, s->speeds[q], s->batch[q],
               s->hidden[q]);
    printf("Compute takes %.2f of its time with equal shares, at best.\n", part_of_equal(s));
}

static void print_list(const char *name, const uint64_t *shares, uint32_t ranks)
{
    printf(",\n \"%s\": [", name);
    for (uint32_t q = 0; q < ranks; q++)
        printf("%s%" PRIu64, q ? ", " : "", shares[q]);
    printf("]");
}

static void print_json(const struct shares *s)
{
    printf("{\"part_of_equal\": ");
    json_print(part_of_equal(s), stdout);
    printf(",\n \"speeds\": [");
    for (uint32_t q = 0; q < s->ranks; q++) {
        printf(q ? ", " : "");
        json_print(s->speeds[q], stdout);
    }
    printf("]");
    print_list("batch", s->batch, s->ranks);
    print_list("hidden", s->hidden, s->ranks);
    printf("}\n");
}

static int check(const struct verb_call *call, struct options *o)
{
    o->where.hosts = call->arguments[0];
    if (!o->batch || !o->hidden)
        return fail(ERR_ARGUMENT, "shares: --batch N and --hidden H are wanted");
    if (o->speeds && (o->where.hosts || o->where.ranks))
        return fail(ERR_ARGUMENT, "--speeds says how many ranks there are: no HOSTS, no --ranks");
    return OK;
}

static int run(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct shares shares = { 0 };
    int rc;

    TRY(check(call, o));
    TRY_OUT(o->speeds ? take_speeds(o->speeds, &shares) : look_up_speeds(o, &shares));
    TRY_OUT(divide(&shares, "--batch", o->batch, shares.batch));
    TRY_OUT(divide(&shares, "--hidden", o->hidden, shares.hidden));
    (o->json ? print_json : print_text)(&shares);
out:
    free_shares(&shares);
    return rc;
}

const struct verb shares_verb = {
    .name = "shares",
    .summary = "how to divide a batch and hidden columns among unequal ranks",
    .arguments = "[HOSTS]",
    .most = 1,
    .about = "Gives each rank work by its speed: of the batch, for weights that are whole on every "
             "rank, and of an expert's hidden columns, for weights that are cut. The speeds are "
             "those that `moetune probe` stored for these ranks, which are not started.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 4: how fast the ranks are is not known.",
    .example = "shares --batch 4096 --hidden 1024 --speeds 1,1.5,2",
    .run = run,
};
