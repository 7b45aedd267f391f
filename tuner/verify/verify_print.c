/* Prints what came of each entry: a line, or a JSON object. */
#include "verify_print.h"

#include "json.h"
#include "plan.h"
#include "status.h"
#include "tables.h"

#include <inttypes.h>
#include <math.h>

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

static void print_line(const struct verify_result *v, FILE *to)
{
    uint64_t first = (uint64_t)v->claim.bucket * v->claim.window;
    char rows[48], interval[48] = "-";

    snprintf(rows, sizeof(rows), "%" PRIu64 "-%" PRIu64, first, first + v->claim.window - 1);
    if (!isnan(v->now.value))
        snprintf(interval, sizeof(interval), "%.1f to %.1f", v->now.low * 100, v->now.high * 100);
    fprintf(to, "%-7u %-15s %-18s", v->claim.bucket, rows, PLAN_TEXT(&v->claim.plan));
    /* What an earlier run found has replaced the claim. */
    tables_percent(v->kind == VERIFY_EARLIER ? NAN : v->claim.gain.value, 8, to);
    tables_percent(v->now.value, 7, to);
    fprintf(to, " %15s  %s%s%s%s\n", interval, words_of(v), v->throttled ? ", disturbed" : "",
            *v->why ? ": " : "", v->why);
}

static int print_layer(struct store *store, const struct verify_result *v, bool more, FILE *to)
{
    fprintf(to, more ? "\n" : "");
    TRY(tables_heading(store, v->claim.cluster, v->claim.shape, to));
    fprintf(to, "\n%-7s %-15s %-18s %8s %7s %15s  %s\n", "bucket", "capacity", "plan", "claimed%",
            "now%", "interval", "verdict");
    return OK;
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

int verify_table(struct store *store, const struct verify_entries *claims, FILE *to)
{
    int64_t shape = 0;

    for (size_t i = 0; i < claims->count; i++) {
        const struct verify_result *v = &claims->verdicts[i];

        if (v->kind == VERIFY_PENDING ||
            (v->kind == VERIFY_EARLIER && !entry_is(&v->claim, ENTRY_REFUTED)))
            continue;
        if (v->claim.shape != shape)
            TRY(print_layer(store, v, shape != 0, to));
        shape = v->claim.shape;
        print_line(v, to);
    }
    fprintf(to, shape ? "\n" : "");
    print_totals(claims, to);
    return OK;
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
