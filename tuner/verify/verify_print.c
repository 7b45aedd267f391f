/* Prints what came of each entry: a line, or a JSON object. */
#include "verify_print.h"

#include "grid.h"
#include "json.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const verify_words[] = { "pending", "earlier", "default", "beats",
                                     "tie",     "alone",   "refuted", NULL };

struct verify_count verify_count(const struct verify_entries *claims)
{
    struct verify_count n = { 0 };

    for (size_t i = 0; i < claims->count; i++) {
        n.of[claims->verdicts[i].kind]++;
        n.refuted_earlier += claims->verdicts[i].kind == VERIFY_EARLIER &&
                             entry_is(&claims->verdicts[i].claim, ENTRY_REFUTED);
    }
    return n;
}

/* ---- text */

static const char *words_of(const struct verify_result *v)
{
    switch (v->kind) {
    case VERIFY_PENDING: return "not reached";
    case VERIFY_EARLIER: return "refuted before the cut";
    case VERIFY_DEFAULT: return "the default";
    case VERIFY_BEATS: return "beats the default";
    case VERIFY_TIE: return "not slower";
    case VERIFY_ALONE: return "runs; the default";
    case VERIFY_REFUTED: break;
    }
    return "refuted";
}

static const struct grid_column columns[] = {
    { "bucket", GRID_LEFT },      { "capacity", GRID_LEFT }, { "plan", GRID_LEFT },
    { "claimed\n%", GRID_POINT }, { "now\n%", GRID_POINT },  { "99 %\nlow", GRID_POINT },
    { "99 %\nhigh", GRID_POINT }, { "verdict", GRID_LEFT },
};

static enum ink ink_of(const struct verify_result *v)
{
    bool refuted = v->kind == VERIFY_REFUTED || v->kind == VERIFY_EARLIER;

    return refuted ? INK_BAD : v->kind == VERIFY_BEATS ? INK_GOOD : INK_PLAIN;
}

static int add_row(const struct verify_result *v, struct grid *grid)
{
    uint64_t first = (uint64_t)v->claim.bucket * v->claim.window;

    TRY(grid_row(grid, ink_of(v)));
    TRY(grid_cell(grid, "%u", v->claim.bucket));
    TRY(grid_cell(grid, "%" PRIu64 "-%" PRIu64, first, first + v->claim.window - 1));
    TRY(grid_cell(grid, "%s", PLAN_TEXT(&v->claim.plan)));
    /* What an earlier run found has replaced the claim. */
    TRY(grid_percent(grid, v->kind == VERIFY_EARLIER ? NAN : v->claim.gain.value));
    TRY(grid_percent(grid, v->now.value));
    TRY(grid_percent(grid, v->now.low));
    TRY(grid_percent(grid, v->now.high));
    TRY(grid_cell(grid, "%s%s", words_of(v), v->throttled ? ", disturbed" : ""));
    return *v->why ? grid_note(grid, v->why) : OK;
}

static void print_totals(const struct verify_entries *claims, FILE *to)
{
    struct verify_count n = verify_count(claims);

    fprintf(to,
            "entries   %zu: %u beat the default, %u are not slower, %u are the default, %u refuted",
            claims->count, n.of[VERIFY_BEATS], n.of[VERIFY_TIE], n.of[VERIFY_DEFAULT],
            n.of[VERIFY_REFUTED]);
    if (n.of[VERIFY_ALONE])
        fprintf(to, "; %u run where the default does not", n.of[VERIFY_ALONE]);
    if (n.of[VERIFY_EARLIER])
        fprintf(to, "; %u before the cut, %u of them refuted", n.of[VERIFY_EARLIER],
                n.refuted_earlier);
    if (n.of[VERIFY_PENDING])
        fprintf(to, "; %u not reached", n.of[VERIFY_PENDING]);
    fprintf(to, "\n");
}

static bool is_shown(const struct verify_result *v)
{
    return v->kind != VERIFY_PENDING &&
           (v->kind != VERIFY_EARLIER || entry_is(&v->claim, ENTRY_REFUTED));
}

/* Those of one layer, from the i-th on; *next is the first one of the next layer. */
static int print_layer(struct store *store, const struct verify_entries *claims, size_t i,
                       size_t *next, FILE *to)
{
    const struct verify_result *first = &claims->verdicts[i];
    struct grid grid = GRID_OF(columns);
    int rc = tables_heading(store, first->claim.cluster, first->claim.shape, to);

    for (; i < claims->count && claims->verdicts[i].claim.shape == first->claim.shape; i++)
        if (!rc && is_shown(&claims->verdicts[i]))
            rc = add_row(&claims->verdicts[i], &grid);
    *next = i;
    fprintf(to, "\n");
    if (!rc)
        grid_print(&grid, to);
    fprintf(to, "\n");
    grid_clear(&grid);
    return rc;
}

int verify_table(struct store *store, const struct verify_entries *claims, FILE *to)
{
    for (size_t i = 0; i < claims->count;)
        if (is_shown(&claims->verdicts[i]))
            TRY(print_layer(store, claims, i, &i, to));
        else
            i++;
    print_totals(claims, to);
    return OK;
}

/* ---- files */

static struct verdict verdict_of(const struct verify_result *v, const char *layer)
{
    uint64_t first = (uint64_t)v->claim.bucket * v->claim.window;
    struct verdict out = { .group = layer,
                           .before_us = v->claim.default_us,
                           .now_us = v->claim.time_us,
                           .gain = v->now,
                           .pairs = v->rounds,
                           .word = words_of(v),
                           .failed = v->kind == VERIFY_REFUTED ||
                                     (v->kind == VERIFY_EARLIER && is_shown(v)) };

    snprintf(out.key, sizeof(out.key), "c=%" PRIu64 "-%" PRIu64, first,
             first + v->claim.window - 1);
    moe_plan_format(&v->claim.plan, out.plan, sizeof(out.plan));
    snprintf(out.why, sizeof(out.why), "%s", v->why);
    return out;
}

int verify_files(const struct verify_entries *claims, const struct verdict_files *files)
{
    struct verdict *verdicts = calloc(claims->count + 1, sizeof(*verdicts));
    char(*layers)[SHAPE_TEXT_BYTES] = calloc(claims->count + 1, sizeof(*layers));
    size_t count = 0;
    int rc = verdicts && layers ? OK : fail(ERR_NOMEM, "%zu verdicts", claims->count);

    for (size_t i = 0; i < claims->count && !rc; i++) {
        if (!is_shown(&claims->verdicts[i]))
            continue;
        shape_format(&claims->verdicts[i].shape, layers[count], sizeof(*layers));
        verdicts[count] = verdict_of(&claims->verdicts[i], layers[count]);
        count++;
    }
    if (!rc)
        rc = verdicts_write(files, "the table against the default plan", verdicts, count);
    free(layers);
    free(verdicts);
    return rc;
}

/* ---- JSON */

static void json_number_member(const char *name, double value, FILE *to)
{
    fprintf(to, ", \"%s\": ", name);
    json_print(value, to);
}

static void print_object(const struct verify_result *v, FILE *to)
{
    fprintf(to,
            "{\"shape\": \"%s\", \"window\": %u, \"bucket\": %u, \"capacity\": %" PRIu64
            ", \"plan\": \"%s\", \"was_stale\": %s, \"inferred\": %s",
            SHAPE_TEXT(&v->shape), v->claim.window, v->claim.bucket, v->claim.capacity,
            v->claim.plan.struct_size ? PLAN_TEXT(&v->claim.plan) : "",
            entry_is(&v->claim, ENTRY_STALE) ? "true" : "false",
            v->claim.inferred ? "true" : "false");
    json_number_member("claimed_gain", v->kind == VERIFY_EARLIER ? NAN : v->claim.gain.value, to);
    json_number_member("gain", v->now.value, to);
    json_number_member("gain_low", v->now.low, to);
    json_number_member("gain_high", v->now.high, to);
    fprintf(to,
            ", \"rounds\": %u, \"throttled\": %u, \"verdict\": \"%s\", \"refuted\": %s, \"why\": ",
            v->rounds, v->throttled, verify_words[v->kind],
            v->kind == VERIFY_REFUTED || entry_is(&v->claim, ENTRY_REFUTED) ? "true" : "false");
    json_quote(v->why, to);
    if (*v->load) {
        fprintf(to, ", \"load\": ");
        json_quote(v->load, to);
    }
    fprintf(to, "}");
}

void verify_json(const struct verify_entries *claims, FILE *to)
{
    fprintf(to, "[");
    for (size_t i = 0; i < claims->count; i++) {
        fprintf(to, "%s\n ", i ? "," : "");
        print_object(&claims->verdicts[i], to);
    }
    fprintf(to, "\n]");
}
