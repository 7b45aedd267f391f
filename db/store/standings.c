/* What tables are worth as a whole: their rows, the rows in words, whether a row is still current,
 * and values that no rounds can have produced. Also the rows of verifications. */
#include "standings.h"

#include "declaration.h"

#include "plan.h"
#include "schema.h"
#include "status.h"
#include "store_inside.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOCAL(member) ROW_AT(struct standing_row, member)
#define AT(member) LOCAL(member), .since = 3
#define SHARE .decimals = 6, .least = -1e12, .most = 1e12
static const struct row_field standing_fields[] = {
    { "fingerprint", ROW_INTEGER, LOCAL(cluster) },
    { "shape", ROW_INTEGER, LOCAL(shape) },
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "run", ROW_INTEGER, LOCAL(run) },
    { "gain", ROW_REAL, AT(gain.value), SHARE },
    { "gain_low", ROW_REAL, AT(gain.low), SHARE },
    { "gain_high", ROW_REAL, AT(gain.high), SHARE },
    { "static_gain", ROW_REAL, AT(static_gain.value), SHARE },
    { "static_gain_low", ROW_REAL, AT(static_gain.low), SHARE },
    { "static_gain_high", ROW_REAL, AT(static_gain.high), SHARE },
    { "static_plan", ROW_PLAN, AT(static_plan), .optional = true },
    { "rounds", ROW_INTEGER, AT(rounds), .most = UINT32_MAX },
    { "first_round", ROW_INTEGER, LOCAL(first_round) },
    { "rivals", ROW_TEXT, LOCAL(rivals) },
    { "decided_s", ROW_INTEGER, AT(decided_s), .most = 1e12 },
    { "launches", ROW_INTEGER, LOCAL(launches), .most = UINT32_MAX },
    { "given_up", ROW_BOOL, LOCAL(given_up) },
    { "kappa", ROW_REAL, LOCAL(kappa) },
    { "goes", ROW_INTEGER, LOCAL(goes), .most = UINT32_MAX },
    { "more_s", ROW_REAL, LOCAL(more_s) },
};
const struct row_table standing_table = ROW_TABLE("standing", struct standing_row, standing_fields);

const char standing_in_show[] = "gain gain_low gain_high static_gain static_gain_low"
                                " static_gain_high static_plan rounds launches given_up more_s";

int store_standing(struct store *store, const struct standing_row *row)
{
    return row_put(&store->records, &standing_table, row);
}

int store_standing_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       struct standing_row *out)
{
    const int64_t keys[] = { cluster, shape, window };
    const struct row_query query = { .table = &standing_table,
                                     .rest = "WHERE fingerprint=?1 AND shape=?2 AND window=?3",
                                     .keys = keys,
                                     .key_count = 3 };

    return row_find(&store->records, &query, out);
}

/* Looks for the row first, because a deletion is a line of the journal even where it deletes
 * nothing. */
int store_standing_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window)
{
    const int64_t key[] = { cluster, shape, window };
    struct standing_row known;
    int rc = store_standing_get(store, cluster, shape, window, &known);

    if (rc || known.run)
        return rc < 0 ? rc : OK;
    return records_delete(&store->records, "standing", RECORDS_IMPORTED, key, 3);
}

int store_standing_merge(struct store *store, const struct standing_row *row, bool *placed)
{
    struct standing_row known;
    int rc = store_standing_get(store, row->cluster, row->shape, row->window, &known);

    if (rc < 0)
        return rc;
    /* The later row stays. Between two of the same date a fixed order decides, as for entries. */
    *placed = rc == UNSUPPORTED ||
              (!known.run && (row->decided_s != known.decided_s
                                  ? row->decided_s > known.decided_s
                                  : row_order(&standing_table, "rounds", row, &known) > 0));
    return *placed ? store_standing(store, row) : OK;
}

/* ---- Axes that trainers cannot switch. */

#define LOCAL_FIXED(member) ROW_AT(struct fixed_row, member)
static const struct row_field fixed_fields[] = {
    { "fingerprint", ROW_INTEGER, LOCAL_FIXED(cluster) },
    { "shape", ROW_INTEGER, LOCAL_FIXED(shape) },
    { "window", ROW_INTEGER, LOCAL_FIXED(window) },
    { "axes", ROW_TEXT, LOCAL_FIXED(axes) },
    { "asked", ROW_TEXT, LOCAL_FIXED(asked) },
    { "launch", ROW_TEXT, LOCAL_FIXED(launch) },
    { "plans", ROW_TEXT, LOCAL_FIXED(plans) },
    { "whole", ROW_BOOL, LOCAL_FIXED(whole) },
    { "price", ROW_REAL, LOCAL_FIXED(price.value) },
    { "price_low", ROW_REAL, LOCAL_FIXED(price.low) },
    { "price_high", ROW_REAL, LOCAL_FIXED(price.high) },
};
#undef LOCAL_FIXED
const struct row_table fixed_table = ROW_TABLE("fixed", struct fixed_row, fixed_fields);
const char fixed_in_show[] = "axes=fixed launch price price_low price_high";

bool fixed_is_all(const struct fixed_row *row)
{
    size_t count = *row->axes != 0;

    for (const char *comma = row->axes; (comma = strchr(comma, ',')); comma++)
        count++;
    return count == plan_axis_count;
}

int store_fixed_put(struct store *store, const struct fixed_row *row)
{
    int rc = schema_make(store->records.db, store->path, fixed_table.name);

    if (rc) /* SQLite may have ended the transaction */
        records_rollback(&store->records);
    return rc ? rc : row_put(&store->records, &fixed_table, row);
}

int store_fixed_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    struct fixed_row *out)
{
    const int64_t keys[] = { cluster, shape, window };
    const struct row_query query = { .table = &fixed_table,
                                     .rest = "WHERE fingerprint=?1 AND shape=?2 AND window=?3",
                                     .keys = keys,
                                     .key_count = 3 };

    if (!schema_has(store->records.db, "main", fixed_table.name))
        return UNSUPPORTED;
    TRY(row_find(&store->records, &query, out));
    return *out->axes ? OK : UNSUPPORTED;
}

/* ---- Words. */

/* Rounds to a tenth of a percent. Adding 0 turns the "-0.0" of a small loss into 0. */
static double percent(double share)
{
    return round(share * 1000) / 10 + 0.0;
}

static void gain_text(const struct gain *gain, const char *against, char *text, size_t size)
{
    *text = 0;
    if (!isnan(gain->value))
        text_put(text, size, "%.1f %%%s against %s", percent(gain->value),
                 INTERVAL_TEXT("%.1f", percent(gain->low), percent(gain->high)), against);
}

bool standing_is_one_plan(const struct standing_row *row)
{
    const struct gain *g = &row->static_gain;

    return g->value == 0 && g->low == 0 && g->high == 0;
}

const char *standing_text(const struct standing_row *row, const struct moe_plan *default_plan,
                          char room[STANDING_TEXT_BYTES])
{
    const struct gain *main_gain = isnan(row->gain.value) ? &row->static_gain : &row->gain;
    const char *verdict;
    char launch_words[DECLARATION_PLAN_BYTES], over_default[80], over_static[64 + PLAN_TEXT_BYTES],
        best_static[16 + PLAN_TEXT_BYTES];

    snprintf(best_static, sizeof(best_static), "always %s",
             row->static_plan.struct_size ? PLAN_TEXT(&row->static_plan) : "one plan");
    gain_text(&row->gain,
              default_plan->space &&
                      *declaration_launch_words(declaration_find(default_plan->space),
                                                default_plan->choice, launch_words)
                  ? "the default launch"
                  : "the default",
              over_default, sizeof(over_default));
    gain_text(&row->static_gain, best_static, over_static, sizeof(over_static));
    if (*over_default && *over_static && plan_equal(&row->static_plan, default_plan))
        snprintf(over_static, sizeof(over_static), "which is the best single plan, too");
    else if (standing_is_one_plan(row))
        snprintf(over_static, sizeof(over_static), "the same as %s", best_static);
    if (row->given_up || (row->gain.low == 0 && row->gain.high == 0)) {
        snprintf(room, STANDING_TEXT_BYTES, "%s: the default plan stands everywhere",
                 row->given_up ? "Given up as slower over the whole table"
                               : "Nothing is proven to be faster");
        return room;
    }
    if (!*over_default && !*over_static) {
        snprintf(room, STANDING_TEXT_BYTES, "No gain is known");
        return room;
    }
    verdict = "No gain is certain:";
    if (main_gain->low > 0)
        verdict = "Saves";
    else if (main_gain->high < 0)
        verdict = "Loses time:";
    snprintf(room, STANDING_TEXT_BYTES, "%s%s %s%s%s",
             row->launches == 1 ? "In this launch of the ranks: " : "", verdict, over_default,
             *over_default && *over_static ? ", " : "", over_static);
    return room;
}

char *standing_lines(char *text)
{
    static const char *const first_lines[] = { "default, ", "default launch, " };

    for (size_t i = 0; i < sizeof(first_lines) / sizeof(first_lines[0]); i++) {
        char *found = strstr(text, first_lines[i]);

        if (found)
            found[strlen(first_lines[i]) - 1] = '\n';
    }
    return text;
}

struct later_search {
    const struct standing_row *row;
    bool found;
};

static int note_later_entry(void *self, const struct entry_row *e)
{
    struct later_search *s = self;

    s->found |= e->window == s->row->window && !e->inferred && e->decided_s > s->row->decided_s;
    return OK;
}

int standing_is_current(struct store *store, const struct standing_row *row, bool *current)
{
    struct later_search later = { .row = row };

    TRY(store_entries(store, row->cluster, row->shape, note_later_entry, &later));
    *current = row->decided_s && !later.found;
    return OK;
}

bool standing_is_whole(const struct standing_row *row)
{
    return row->rounds || !isnan(row->gain.value) || !isnan(row->static_gain.value);
}

int standing_current(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                     struct standing_row *out)
{
    bool current;

    TRY(store_standing_get(store, cluster, shape, window, out));
    TRY(standing_is_current(store, out, &current));
    return current && standing_is_whole(out) ? OK : UNSUPPORTED;
}

/* A table that takes a million times the default's time was never measured. */
static const double smallest_gain = -1e6;

static bool is_interval(const struct gain *g)
{
    if (isnan(g->value))
        return isnan(g->low) && isnan(g->high);
    return g->low >= smallest_gain && g->low <= g->value && g->value <= g->high && g->high <= 1;
}

struct standing_fault standing_fault(const struct standing_row *row)
{
    bool over_default = !isnan(row->gain.value), over_static = !isnan(row->static_gain.value);
    bool has_plan = row->static_plan.struct_size != 0;

    if (!is_interval(&row->gain))
        return (struct standing_fault){ "gain", "is above 1, or not between its low and high" };
    if (!is_interval(&row->static_gain))
        return (struct standing_fault){ "static_gain",
                                        "is above 1, or not between its low and high" };
    if (has_plan != over_static)
        return (struct standing_fault){ "static_plan",
                                        "is known without static_gain, or unknown with it" };
    if (!over_default && !over_static)
        return (struct standing_fault){ "gain", "is not known, nor is static_gain" };
    if (!row->rounds)
        return (struct standing_fault){ "rounds", "is 0" };
    if (row->decided_s <= 0)
        return (struct standing_fault){ "decided_s", "is 0" };
    return (struct standing_fault){ NULL, NULL };
}

/* ---- Verifications. */

#undef AT
#define AT(member) ROW_AT(struct verification_row, member)
static const struct row_field verification_fields[] = {
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "shape", ROW_INTEGER, AT(shape) },
    { "window", ROW_INTEGER, AT(window) },
    { "bucket", ROW_INTEGER, AT(bucket) },
    { "run", ROW_INTEGER, AT(run) },
    { "claim", ROW_REAL, AT(claim.value) },
    { "claim_low", ROW_REAL, AT(claim.low) },
    { "claim_high", ROW_REAL, AT(claim.high) },
    { "kappa", ROW_REAL, AT(kappa) },
    { "found", ROW_REAL, AT(found.value) },
    { "found_low", ROW_REAL, AT(found.low) },
    { "found_high", ROW_REAL, AT(found.high) },
    { "decided_s", ROW_INTEGER, AT(decided_s) },
};
#undef AT
const struct row_table verification_table =
    ROW_TABLE("verification", struct verification_row, verification_fields);

int store_verification(struct store *store, const struct verification_row *row)
{
    return row_put(&store->records, &verification_table, row);
}

int store_verifications(struct store *store, int64_t cluster, struct row_list *out)
{
    const struct row_query query = { .table = &verification_table,
                                     .rest = "WHERE fingerprint=?1 ORDER BY shape, window, bucket",
                                     .keys = &cluster,
                                     .key_count = 1 };

    return row_list(&store->records, &query, out);
}
