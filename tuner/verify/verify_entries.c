/* Selects the entries to verify, sorts them by doubt and weight, and prints the results. */
#include "array.h"
#include "grid.h"
#include "json.h"
#include "pairs.h"
#include "plan.h"
#include "shape.h"
#include "status.h"
#include "tables.h"
#include "verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const verify_only_words[] = {
    "all", "stale", "imported", "measured", "inferred", NULL
};

const struct verify_word verify_words[] = { [VERIFY_PENDING] = { "pending", "not reached" },
                                            [VERIFY_EARLIER] = { "earlier",
                                                                 "refuted before the cut" },
                                            [VERIFY_DEFAULT] = { "default", "the default" },
                                            [VERIFY_BEATS] = { "beats", "beats the default" },
                                            [VERIFY_TIE] = { "tie", "not slower" },
                                            [VERIFY_ALONE] = { "alone", "runs; the default" },
                                            [VERIFY_REFUTED] = { "refuted", "refuted" } };

/* What add_entry() needs.  The search owns the pins. */
struct entry_search {
    struct campaign *campaign;
    const struct verify_wanted *wanted;
    struct verify_entries *entries;
    struct row_list pins;
};

/* ---- which entries */

/* Returns whether the user wants this layer. */
static bool shape_is_wanted(const struct verify_wanted *wanted, const struct moe_shape *shape)
{
    for (int i = 0; i < wanted->shapes.count; i++)
        if (shape_agrees(shape, wanted->shapes.items[i]))
            return true;
    return !wanted->shapes.count;
}

/* Adds an entry if the user wants it and it can be verified. */
static int add_entry(void *self, const struct entry_row *e)
{
    struct entry_search *search = self;
    const struct verify_wanted *wanted = search->wanted;
    struct verify_result result = {
        .entry_before = *e, .kind = VERIFY_PENDING, .now = GAIN_UNKNOWN, .default_over_table = NAN
    };
    struct fixed_row fixed;
    bool kind_is_wanted;
    int rc;

    TRY(store_shape_get(search->campaign->store, e->shape, &result.shape));
    /* A default plan that is stale or imported is verified: this gives its time on this machine. */
    if (e->run >= search->entries->first_run && !entry_is(e, ENTRY_OUTDATED))
        result.kind = VERIFY_EARLIER;
    else if (plan_is_default(&e->plan, &result.shape) &&
             !entry_is(e, ENTRY_STALE | ENTRY_IMPORTED) && !verify_challenger(e, &result.shape))
        result.kind = VERIFY_DEFAULT;
    if (e->bucket < wanted->first || e->bucket > wanted->last ||
        !shape_is_wanted(wanted, &result.shape))
        return OK;
    rc = store_fixed_get(search->campaign->store, e->cluster, e->shape, e->window, &fixed);
    if (rc < 0)
        return rc;
    if (rc == OK && fixed.whole) {
        /* The launch values were judged over all buckets.  One bucket may be slower without its
         * entry being wrong. */
        search->entries->judged_whole++;
        return OK;
    }
    if (override_of(search->pins,
                    &(struct bucket_key){ e->cluster, e->shape, e->window, e->bucket })) {
        search->entries->pinned++;
        return OK;
    }
    kind_is_wanted = wanted->kind == ONLY_ALL ||
                     (wanted->kind == ONLY_STALE && entry_is(e, ENTRY_STALE)) ||
                     (wanted->kind == ONLY_IMPORTED && entry_is(e, ENTRY_IMPORTED)) ||
                     wanted->kind == (entry_is(e, ENTRY_INFERRED) ? ONLY_INFERRED : ONLY_MEASURED);
    /* An earlier run may have verified the entry before it was cut off.  Such an entry is no longer
     * stale, so its kind does not decide here: it is always listed. */
    if (result.kind != VERIFY_EARLIER) {
        search->entries->waiting += entry_is(e, ENTRY_REFUTED);
        if (!kind_is_wanted || entry_is(e, ENTRY_REFUTED))
            return OK;
    }
    ARRAY_APPEND(search->entries->results, search->entries->count, result);
    return OK;
}

/* ---- order */

/* Returns the place of a bucket in an order whose every beginning is spread over all buckets: 64,
 * 32, 16, 48, 8, 24, ... */
static uint32_t spread_place(uint32_t bucket)
{
    uint32_t place = 0;

    for (int bit = 0; bit < 32; bit++)
        place |= (bucket >> bit & 1) << (31 - bit);
    return place;
}

enum verify_doubt verify_doubt(const struct entry_row *e)
{
    if (e->stale)
        return DOUBT_STALE;
    return e->tier == TIER_IMPORTED ? DOUBT_IMPORTED : DOUBT_NONE;
}

/* Sorts by doubt, then by layer: to set up a layer and check its plans takes longer than to verify
 * an entry. */
static int worse_first(const void *a, const void *b)
{
    const struct verify_result *a_result = a, *b_result = b;
    const struct entry_row *a_entry = &a_result->entry_before, *b_entry = &b_result->entry_before;

    if (verify_doubt(a_entry) != verify_doubt(b_entry))
        return (int)verify_doubt(a_entry) - (int)verify_doubt(b_entry);
    if (a_entry->shape != b_entry->shape)
        return a_entry->shape < b_entry->shape ? -1 : 1;
    if (a_result->weight < b_result->weight || a_result->weight > b_result->weight)
        return a_result->weight > b_result->weight ? -1 : 1;
    return spread_place(a_entry->bucket) < spread_place(b_entry->bucket)
               ? -1
               : a_entry->bucket != b_entry->bucket;
}

static int by_bucket(const void *a, const void *b)
{
    const struct entry_row *a_entry = &((const struct verify_result *)a)->entry_before;
    const struct entry_row *b_entry = &((const struct verify_result *)b)->entry_before;

    if (a_entry->shape != b_entry->shape)
        return a_entry->shape < b_entry->shape ? -1 : 1;
    if (a_entry->window != b_entry->window)
        return a_entry->window < b_entry->window ? -1 : 1;
    return (a_entry->bucket > b_entry->bucket) - (a_entry->bucket < b_entry->bucket);
}

/* Sorts measured entries before inferred ones, which follow from them. */
static int measured_first(const void *a, const void *b)
{
    const struct verify_result *a_result = *(struct verify_result *const *)a;
    const struct verify_result *b_result = *(struct verify_result *const *)b;

    if (a_result->entry_before.inferred != b_result->entry_before.inferred)
        return a_result->entry_before.inferred ? 1 : -1;
    return spread_place(a_result->entry_before.bucket) < spread_place(b_result->entry_before.bucket)
               ? -1
               : 1;
}

/* Returns whether the next entry is of the next bucket, and has the same plan. */
static bool continues_plan(const struct entry_row *e, const struct entry_row *next)
{
    return SAME_TABLE(e, next) && next->bucket == e->bucket + 1 &&
           plan_equal(&e->plan, &next->plan);
}

/* Sets all weights.  Neighbouring buckets with one plan together weigh as much as the doublings of
 * c that they cover.  The k-th entry of them has a k-th of that weight, because it says less that
 * is new. */
static int set_weights(struct verify_entries *entries)
{
    struct verify_result *results = entries->results,
                         **pending = calloc(entries->count, sizeof(*pending));

    if (!pending)
        return fail(ERR_NOMEM, "%zu entries", entries->count);
    qsort(results, entries->count, sizeof(*results), by_bucket);
    for (size_t run_begin = 0, run_end; run_begin < entries->count; run_begin = run_end) {
        size_t pending_count = 0;
        double octaves;

        for (run_end = run_begin;
             run_end < entries->count &&
             (run_end == run_begin ||
              continues_plan(&results[run_end - 1].entry_before, &results[run_end].entry_before));
             run_end++)
            if (results[run_end].kind == VERIFY_PENDING)
                pending[pending_count++] = &results[run_end];
        octaves = log2((results[run_end - 1].entry_before.bucket + 1) /
                       fmax(results[run_begin].entry_before.bucket, 0.5));
        qsort(pending, pending_count, sizeof(*pending), measured_first);
        for (size_t k = 0; k < pending_count; k++)
            pending[k]->weight = octaves / (double)(k + 1);
    }
    free(pending);
    return OK;
}

int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out)
{
    struct entry_search search = { .campaign = campaign, .wanted = wanted, .entries = out };
    int rc;

    *out = (struct verify_entries){ .first_run = INT64_MAX };
    if (!wanted->restart)
        TRY(campaign_first_run(campaign, &out->first_run));
    TRY(store_overrides(campaign->store, &search.pins));
    rc = store_entries(campaign->store, campaign->cluster_id, 0, add_entry, &search);
    free(search.pins.rows);
    TRY(rc);
    if (out->pinned)
        note("%u pinned buckets are skipped: trainers get the pinned plans", out->pinned);
    if (out->judged_whole)
        note("%u entries are skipped: their launch values were judged over the whole table; "
             "`moetune tune --retune` measures them again",
             out->judged_whole);
    if (out->count) {
        TRY(set_weights(out));
        qsort(out->results, out->count, sizeof(*out->results), worse_first);
    } else
        note("%s: nothing to verify: this machine has no such entry", campaign->path);
    if (!out->count && out->waiting)
        note("%u refuted before: `moetune tune` measures these buckets again", out->waiting);
    return out->count ? OK : UNSUPPORTED;
}

/* Counts the entries of declared spaces, and all entries. */
struct declared_count {
    struct store *store;
    const struct verify_wanted *wanted;
    uint32_t declared, all;
};

static int count_declared(void *self, const struct entry_row *e)
{
    struct declared_count *d = self;
    struct moe_shape shape;

    TRY(store_shape_get(d->store, e->shape, &shape));
    d->all++;
    d->declared += shape.space && shape_is_wanted(d->wanted, &shape);
    return OK;
}

int verify_entries_declared(struct store *store, const struct verify_wanted *wanted, bool *others)
{
    struct declared_count d = { .store = store, .wanted = wanted };

    TRY(store_entries(store, 0, 0, count_declared, &d));
    if (d.declared)
        note("entries of declared spaces: %u; `moetune verify --space FILE --exec COMMAND` "
             "verifies them",
             d.declared);
    *others = !d.declared || d.all > d.declared;
    return OK;
}

void verify_entries_sort(struct verify_entries *entries)
{
    qsort(entries->results, entries->count, sizeof(*entries->results), by_bucket);
}

void verify_entries_free(struct verify_entries *entries)
{
    free(entries->results);
    *entries = (struct verify_entries){ 0 };
}

/* ---- the result */

int verify_withdraw_gains(struct store *store, const struct verify_entries *entries, int64_t since)
{
    const struct verify_result *results = entries->results;

    for (size_t table_begin = 0, table_end; table_begin < entries->count; table_begin = table_end) {
        const struct entry_row *entry = &results[table_begin].entry_before;
        struct calibration calibration = { 0 };
        struct standing_row standing;
        int rc;

        for (table_end = table_begin;
             table_end < entries->count && SAME_TABLE(&results[table_end].entry_before, entry);
             table_end++)
            if (!entry_is(&results[table_end].entry_before,
                          ENTRY_INFERRED | ENTRY_STALE | ENTRY_UNSOUND) &&
                !plan_is_default(&results[table_end].entry_before.plan, &results[table_end].shape))
                calibration_add(&calibration, &results[table_end].entry_before.gain, 1,
                                &results[table_end].now);
        rc = store_standing_get(store, entry->cluster, entry->shape, entry->window, &standing);
        if (rc < 0)
            return rc;
        if (rc || !standing.run || standing.decided_s < since ||
            !calibration_is_too_sure(&calibration, 1))
            continue;
        /* standing_is_current() now finds entries that were decided later.  So the gain counts as
         * no longer confirmed. */
        standing.decided_s = since - 1;
        TRY(store_standing(store, &standing));
    }
    return OK;
}

struct verify_count verify_count(const struct verify_entries *entries)
{
    struct verify_count counts = { 0 };

    for (size_t i = 0; i < entries->count; i++) {
        counts.of[entries->results[i].kind]++;
        counts.refuted_earlier += entries->results[i].kind == VERIFY_EARLIER &&
                                  entry_is(&entries->results[i].entry_before, ENTRY_REFUTED);
    }
    return counts;
}

double verify_default_over_table(const struct verify_entries *entries, uint32_t *count)
{
    double log_sum = 0;

    *count = 0;
    for (size_t i = 0; i < entries->count; i++)
        if (isfinite(entries->results[i].default_over_table)) {
            log_sum += log(entries->results[i].default_over_table);
            ++*count;
        }
    return *count ? exp(log_sum / *count) : (double)NAN;
}

static const struct grid_column columns[] = {
    { "bucket", GRID_LEFT },      { "capacity", GRID_LEFT }, { "plan", GRID_LEFT },
    { "claimed\n%", GRID_POINT }, { "now\n%", GRID_POINT },  { "95 %\nlow", GRID_POINT },
    { "95 %\nhigh", GRID_POINT }, { "verdict", GRID_LEFT },
};

/* Adds one row; `columns` lists its cells. */
static int add_row(const struct verify_result *v, struct grid *grid)
{
    uint64_t first_capacity = (uint64_t)v->entry_before.bucket * v->entry_before.window;
    bool refuted = v->kind == VERIFY_REFUTED || v->kind == VERIFY_EARLIER;

    TRY(grid_row(grid, refuted ? INK_BAD : v->kind == VERIFY_BEATS ? INK_GOOD : INK_PLAIN));
    TRY(grid_cell(grid, "%u", v->entry_before.bucket));
    TRY(grid_cell(grid, "%" PRIu64 "-%" PRIu64, first_capacity,
                  first_capacity + v->entry_before.window - 1));
    TRY(grid_cell(grid, "%s", PLAN_TEXT(&v->entry_before.plan)));
    /* An earlier run has replaced the claim by its result. */
    TRY(grid_percent(grid, v->kind == VERIFY_EARLIER ? NAN : v->entry_before.gain.value));
    TRY(grid_gain(grid, &v->now));
    TRY(grid_cell(grid, "%s%s", verify_words[v->kind].text, v->throttled ? ", disturbed" : ""));
    return *v->why ? grid_note(grid, v->why) : OK;
}

/* Returns whether the table has a row for the entry. */
static bool is_shown(const struct verify_result *v)
{
    return v->kind != VERIFY_PENDING &&
           (v->kind != VERIFY_EARLIER || entry_is(&v->entry_before, ENTRY_REFUTED));
}

/* Prints how many entries of each layer were not reached. */
static void print_left_out(const struct verify_entries *entries, FILE *to)
{
    const struct verify_result *results = entries->results;

    for (size_t i = 0, end; i < entries->count; i = end) {
        uint32_t left_out = 0;

        for (end = i; end < entries->count &&
                      results[end].entry_before.shape == results[i].entry_before.shape;
             end++)
            left_out += results[end].kind == VERIFY_PENDING;
        if (left_out)
            fprintf(to, "left out  %u of %zu of %s\n", left_out, end - i,
                    SHAPE_TEXT(&results[i].shape));
    }
}

/* Prints how the default plan's steps compare with those of the table, which keeps its scale. */
static void print_speed(const struct verify_entries *entries, FILE *to)
{
    uint32_t count;
    double ratio = verify_default_over_table(entries, &count);

    if (count)
        fprintf(to,
                "speed     the default plan takes %.2f times as long as in the table:\n"
                "          gains compare steps of now; times in the table stay\n",
                ratio);
}

int verify_table(struct store *store, const struct verify_entries *entries, FILE *to)
{
    const struct verify_result *results = entries->results;
    struct verify_count counts = verify_count(entries);

    for (size_t i = 0, end; i < entries->count; i = end) { /* layer by layer */
        struct grid grid = GRID_OF(columns);
        int rc = OK;

        /* An entry of the default plan compares nothing; the totals count it. */
        for (end = i; end < entries->count &&
                      results[end].entry_before.shape == results[i].entry_before.shape;
             end++)
            if (!rc && is_shown(&results[end]) && results[end].kind != VERIFY_DEFAULT)
                rc = add_row(&results[end], &grid);
        if (!rc && grid.row_count)
            rc = tables_heading(store, results[i].entry_before.cluster,
                                results[i].entry_before.shape, to);
        if (!rc && grid.row_count) {
            fprintf(to, "\n");
            grid_print(&grid, to);
            fprintf(to, "\n");
        }
        grid_clear(&grid);
        TRY(rc);
    }
    fprintf(to,
            "entries   %zu: %u beat the default, %u are not slower, %u are the default, %u refuted",
            entries->count, counts.of[VERIFY_BEATS], counts.of[VERIFY_TIE],
            counts.of[VERIFY_DEFAULT], counts.of[VERIFY_REFUTED]);
    if (counts.of[VERIFY_ALONE])
        fprintf(to, "; %u run where the default does not", counts.of[VERIFY_ALONE]);
    if (counts.of[VERIFY_EARLIER])
        fprintf(to, "; %u before the cut, %u of them refuted", counts.of[VERIFY_EARLIER],
                counts.refuted_earlier);
    if (counts.of[VERIFY_PENDING])
        fprintf(to, "; %u not reached", counts.of[VERIFY_PENDING]);
    fprintf(to, "\n");
    print_left_out(entries, to);
    print_speed(entries, to);
    return OK;
}

/* ---- for other programs */

static void print_object(const struct verify_result *v, FILE *to)
{
    json_write(to, "{'shape': '%s'", SHAPE_TEXT(&v->shape));
    row_json_view(&entry_table, "window bucket capacity plan stale=was_stale inferred",
                  &v->entry_before, to);
    json_write(to, ", 'claimed_gain': %g",
               v->kind == VERIFY_EARLIER ? NAN : v->entry_before.gain.value);
    verdict_json_gain(&v->now, to);
    json_write(to, ", 'rounds': %u, 'throttled': %u, 'verdict': '%s', 'refuted': %s, 'why': '%s'",
               v->rounds, v->throttled, verify_words[v->kind].json,
               v->kind == VERIFY_REFUTED || entry_is(&v->entry_before, ENTRY_REFUTED) ? "true"
                                                                                      : "false",
               v->why);
    if (*v->load)
        json_write(to, ", 'load': '%s'", v->load);
    fprintf(to, "}");
}

void verify_json(const struct verify_entries *entries, FILE *to)
{
    fprintf(to, "[");
    for (size_t i = 0; i < entries->count; i++) {
        fprintf(to, "%s\n ", i ? "," : "");
        print_object(&entries->results[i], to);
    }
    fprintf(to, "\n]");
}
