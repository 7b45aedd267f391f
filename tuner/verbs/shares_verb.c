/* moetune shares: divides work among ranks of unequal speed.  Starts no ranks and measures nothing.
 */
#include "common_rows.h"
#include "json.h"
#include "moelookup.h"
#include "place.h"
#include "shape.h"
#include "speeds.h"
#include "status.h"
#include "store.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The values of the options in `rows`. */
struct options {
    struct place_setup where;
    const char *speeds, *db;
    uint32_t batch, hidden;
    bool json;
};

static const struct option_row rows[] = {
    { "batch", "N", OPTION_COUNT, OPTION(batch), "tokens to divide among all ranks (shares=tokens)",
      .least = 1, .most = UINT32_MAX - 1 },
    { "hidden", "H", OPTION_COUNT, OPTION(hidden),
      "hidden units of an expert to divide among all ranks (shares=hidden)", .least = 1,
      .most = UINT32_MAX - 1 },
    { "speeds", "LIST", OPTION_TEXT, OPTION(speeds),
      "speed of each rank, in any unit, as \"1,1.5,2\" [what probe measured]" },
    DB_ROW(OPTION(db)),
    JSON_ROW(OPTION(json)),
    { "where", .kind = OPTION_GROUP, .offset = OPTION(where), .rows = place_rows },
    { NULL },
};

static const struct options defaults = { .where = PLACE_DEFAULTS };

/* Speeds and shares of each rank; verb_shares() frees the arrays. */
struct rank_shares {
    uint32_t ranks;
    double *speeds;
    uint64_t *batch, *hidden; /* tokens and hidden units of each rank */
};

/* ---- the speeds */

static int find_speeds(const struct options *o, struct rank_shares *out)
{
    struct cluster here = cluster_unknown();
    struct launch_where where;
    struct hosts hosts;
    char path[PATH_MAX];
    int rc;

    if (o->speeds)
        return speeds_parse(o->speeds, &out->speeds, &out->ranks);
    /* A name of no file is an error here.  speeds_from_database() reports if no probe has run. */
    TRY(store_path(o->db, STORE_TO_READ, path, sizeof(path)));
    rc = place_find(&o->where, &hosts, &where, &here);
    hosts_free(&hosts);
    TRY(rc);
    out->ranks = here.ranks;
    return speeds_from_database(o->db, &here, &out->speeds);
}

/* ---- the shares */

/* Divides `total` among ranks.  Refuses shares of 0: all ranks would still wait for such a rank. */
static int divide_work(const struct rank_shares *s, const char *option, uint32_t total,
                       uint64_t *work)
{
    TRY(moe_shares(s->speeds, s->ranks, total, 1, work));
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        if (!work[rank])
            return fail(ERR_ARGUMENT, "%s %u among %u ranks: none is left for rank %u", option,
                        total, s->ranks, rank);
    return OK;
}

/* Returns the word of shares= for a layer whose ranks get these shares. */
static const char *shares_word(const struct options *o)
{
    return shares_words[o->batch && o->hidden ? MOE_SHARES_SPEED
                        : o->batch            ? MOE_SHARES_TOKENS
                                              : MOE_SHARES_HIDDEN];
}

/* Returns the time of compute as a share of its time with equal shares. */
static double part_of_equal(const struct rank_shares *s)
{
    double slowest = s->speeds[0], sum = 0;

    for (uint32_t rank = 0; rank < s->ranks; rank++) {
        slowest = fmin(slowest, s->speeds[rank]);
        sum += s->speeds[rank];
    }
    return s->ranks * slowest / sum;
}

static void print_text(const struct options *o, const struct rank_shares *s)
{
    printf("  rank       speed%s%s\n", o->batch ? "      tokens" : "",
           o->hidden ? "      hidden" : "");
    for (uint32_t rank = 0; rank < s->ranks; rank++) {
        printf("%6u  %10g", rank, s->speeds[rank]);
        if (o->batch)
            printf("  %10" PRIu64, s->batch[rank]);
        if (o->hidden)
            printf("  %10" PRIu64, s->hidden[rank]);
        printf("\n");
    }
    printf("Compute takes %.2f of its time with equal shares, at best.\n", part_of_equal(s));
    if (o->batch && o->hidden)
        printf(
            "A layer with layout=hidden that is given both is one of shares=speed. One of them is "
            "enough:\n--batch alone, shares=tokens, or --hidden alone, shares=hidden.\n");
    else
        printf("A layer with layout=hidden that is given these is one of shares=%s.\n",
               shares_word(o));
}

static void print_json_list(const char *name, const uint64_t *shares, uint32_t ranks)
{
    json_write(stdout, ",\n '%s': [", name);
    for (uint32_t rank = 0; rank < ranks; rank++)
        printf("%s%" PRIu64, rank ? ", " : "", shares[rank]);
    printf("]");
}

static void print_json(const struct options *o, const struct rank_shares *s)
{
    json_write(stdout, "{'shares': '%s',\n 'part_of_equal': %g,\n 'speeds': [", shares_word(o),
               part_of_equal(s));
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        json_write(stdout, "%s%g", rank ? ", " : "", s->speeds[rank]);
    printf("]");
    if (o->batch)
        print_json_list("batch", s->batch, s->ranks);
    if (o->hidden)
        print_json_list("hidden", s->hidden, s->ranks);
    printf("}\n");
}

static int verb_shares(const struct verb_call *call, void *options)
{
    struct options *o = options;
    struct rank_shares shares = { 0 };
    int rc;

    o->where.hosts = call->arguments[0];
    if (!o->batch && !o->hidden)
        return fail(ERR_ARGUMENT, "shares: --batch N or --hidden H is wanted");
    if (o->speeds && (o->where.hosts || o->where.ranks))
        return fail(ERR_ARGUMENT, "--speeds sets the number of ranks: leave out HOSTS and --ranks");
    TRY_OUT(find_speeds(o, &shares));
    shares.batch = calloc(shares.ranks, sizeof(*shares.batch));
    shares.hidden = calloc(shares.ranks, sizeof(*shares.hidden));
    TRY_OUT(shares.batch && shares.hidden ? OK : fail(ERR_NOMEM, "%u ranks", shares.ranks));
    if (o->batch)
        TRY_OUT(divide_work(&shares, "--batch", o->batch, shares.batch));
    if (o->hidden)
        TRY_OUT(divide_work(&shares, "--hidden", o->hidden, shares.hidden));
    (o->json ? print_json : print_text)(o, &shares);
out:
    free(shares.speeds);
    free(shares.batch);
    free(shares.hidden);
    return rc;
}

const struct verb shares_verb = {
    .name = "shares",
    .summary = "divide a batch or hidden units among ranks of unequal speed",
    .arguments = "[HOSTS]",
    .most = 1,
    .about =
        "Gives each rank work by its speed. With --batch it divides the tokens of a batch: every "
        "rank computes its own tokens with all weights (r=0). With --hidden it divides an expert's "
        "hidden units: every rank computes all tokens with its part of the weights. The speeds are "
        "those that `moetune probe` stored for these ranks. No rank is started.",
    .rows = rows,
    .defaults = &defaults,
    .options_size = sizeof(defaults),
    .notes = "Exit code 4: the speeds of the ranks are not known.",
    .example = "shares --batch 4096 --hidden 1024 --speeds 1,1.5,2",
    .run = verb_shares,
};
