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

/* What add_claim() needs.  The pins are the search's own. */
struct entry_search {
    struct campaign *campaign;
    const struct verify_wanted *wanted;
    struct verify_entries *claims;
    struct row_list pins;
};

/* ---- which entries */

/* Returns whether the user wants this layer. */
static bool shape_is_wanted(const struct verify_wanted *w, const struct moe_shape *shape)
{
    for (int i = 0; i < w->shapes.count; i++)
        if (shape_agrees(shape, w->shapes.items[i]))
            return true;
    return !w->shapes.count;
}

/* Adds an entry if the user wants it and it can be verified. */
static int add_claim(void *self, const struct entry_row *e)
{
    struct entry_search *f = self;
    const struct verify_wanted *w = f->wanted;
    struct verify_result verdict = {
        .claim = *e, .kind = VERIFY_PENDING, .now = GAIN_UNKNOWN, .default_over_table = NAN
    };
    struct fixed_row fixed;
    bool wanted;
    int rc;

    TRY(store_shape_get(f->campaign->store, e->shape, &verdict.shape));
    /* A default plan that is stale or imported is verified: this gives its time on this machine. */
    if (e->run >= f->claims->first_run && !entry_is(e, ENTRY_OUTDATED))
        verdict.kind = VERIFY_EARLIER;
    else if (plan_is_default(&e->plan, &verdict.shape) &&
             !entry_is(e, ENTRY_STALE | ENTRY_IMPORTED) && !verify_challenger(e, &verdict.shape))
        verdict.kind = VERIFY_DEFAULT;
    if (e->bucket < w->first || e->bucket > w->last || !shape_is_wanted(w, &verdict.shape))
        return OK;
    rc = store_fixed_get(f->campaign->store, e->cluster, e->shape, e->window, &fixed);
    if (rc < 0)
        return rc;
    if (rc == OK && fixed.whole) { /* a bucket of it may be slower without being wrong */
        f->claims->launched++;
        return OK;
    }
    if (override_of(f->pins, &(struct bucket_key){ e->cluster, e->shape, e->window, e->bucket })) {
        f->claims->pinned++;
        return OK;
    }
    wanted = w->kind == ONLY_ALL || (w->kind == ONLY_STALE && entry_is(e, ENTRY_STALE)) ||
             (w->kind == ONLY_IMPORTED && entry_is(e, ENTRY_IMPORTED)) ||
             w->kind == (entry_is(e, ENTRY_INFERRED) ? ONLY_INFERRED : ONLY_MEASURED);
    /* An entry that was verified before the cut is no longer stale, so it may not look like a
     * wanted one. */
    if (verdict.kind != VERIFY_EARLIER) {
        f->claims->waiting += entry_is(e, ENTRY_REFUTED);
        if (!wanted || entry_is(e, ENTRY_REFUTED))
            return OK;
    }
    ARRAY_APPEND(f->claims->verdicts, f->claims->count, verdict);
    return OK;
}

/* ---- order */

/* Returns the place of a bucket in an order whose every beginning is spread over all buckets: 64,
 * 32, 16, 48, 8, 24, ... */
static uint32_t grid_place(uint32_t bucket)
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
    const struct verify_result *v = a, *w = b;
    const struct entry_row *x = &v->claim, *y = &w->claim;

    if (verify_doubt(x) != verify_doubt(y))
        return (int)verify_doubt(x) - (int)verify_doubt(y);
    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    if (v->weight < w->weight || v->weight > w->weight)
        return v->weight > w->weight ? -1 : 1;
    return grid_place(x->bucket) < grid_place(y->bucket) ? -1 : x->bucket != y->bucket;
}

static int by_bucket(const void *a, const void *b)
{
    const struct entry_row *x = &((const struct verify_result *)a)->claim;
    const struct entry_row *y = &((const struct verify_result *)b)->claim;

    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* Sorts measured entries before inferred ones, which follow from them. */
static int measured_first(const void *a, const void *b)
{
    const struct verify_result *x = *(struct verify_result *const *)a;
    const struct verify_result *y = *(struct verify_result *const *)b;

    if (x->claim.inferred != y->claim.inferred)
        return x->claim.inferred ? 1 : -1;
    return grid_place(x->claim.bucket) < grid_place(y->claim.bucket) ? -1 : 1;
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
static int weigh(struct verify_entries *claims)
{
    struct verify_result *v = claims->verdicts, **run = calloc(claims->count, sizeof(*run));

    if (!run)
        return fail(ERR_NOMEM, "%zu entries", claims->count);
    qsort(v, claims->count, sizeof(*v), by_bucket);
    for (size_t i = 0, end; i < claims->count; i = end) {
        size_t count = 0;
        double octaves;

        for (end = i;
             end < claims->count && (end == i || continues_plan(&v[end - 1].claim, &v[end].claim));
             end++)
            if (v[end].kind == VERIFY_PENDING)
                run[count++] = &v[end];
        octaves = log2((v[end - 1].claim.bucket + 1) / fmax(v[i].claim.bucket, 0.5));
        qsort(run, count, sizeof(*run), measured_first);
        for (size_t k = 0; k < count; k++)
            run[k]->weight = octaves / (double)(k + 1);
    }
    free(run);
    return OK;
}

int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out)
{
    struct entry_search f = { .campaign = campaign, .wanted = wanted, .claims = out };
    int rc;

    *out = (struct verify_entries){ .first_run = INT64_MAX };
    if (!wanted->restart)
        TRY(campaign_first_run(campaign, &out->first_run));
    TRY(store_overrides(campaign->store, &f.pins));
    rc = store_entries(campaign->store, campaign->cluster_id, 0, add_claim, &f);
    free(f.pins.rows);
    TRY(rc);
    if (out->pinned)
        note("%u pinned buckets are skipped: trainers get the pinned plans", out->pinned);
    if (out->launched)
        note("%u entries are skipped: their launch values were judged over the whole table; "
             "`moetune tune --retune` measures them again",
             out->launched);
    if (out->count) {
        TRY(weigh(out));
        qsort(out->verdicts, out->count, sizeof(*out->verdicts), worse_first);
    } else
        note("%s: nothing to verify: this machine has no such entry", campaign->path);
    if (!out->count && out->waiting)
        note("%u refuted before: `moetune tune` measures these buckets again", out->waiting);
    return out->count ? OK : UNSUPPORTED;
}

/* Counts the entries of declared spaces, and all entries. */
struct declared {
    struct store *store;
    const struct verify_wanted *wanted;
    uint32_t count, all;
};

static int count_declared(void *self, const struct entry_row *e)
{
    struct declared *d = self;
    struct moe_shape shape;

    TRY(store_shape_get(d->store, e->shape, &shape));
    d->all++;
    d->count += shape.space && shape_is_wanted(d->wanted, &shape);
    return OK;
}

int verify_entries_declared(struct store *store, const struct verify_wanted *wanted, bool *others)
{
    struct declared d = { store, wanted, 0, 0 };

    TRY(store_entries(store, 0, 0, count_declared, &d));
    if (d.count)
        note("entries of declared spaces: %u; `moetune verify --space FILE --exec COMMAND` "
             "verifies them",
             d.count);
    *others = !d.count || d.all > d.count;
    return OK;
}

void verify_entries_sort(struct verify_entries *claims)
{
    qsort(claims->verdicts, claims->count, sizeof(*claims->verdicts), by_bucket);
}

void verify_entries_free(struct verify_entries *claims)
{
    free(claims->verdicts);
    *claims = (struct verify_entries){ 0 };
}

/* ---- the result */

int verify_claims(struct store *store, const struct verify_entries *claims, int64_t since)
{
    const struct verify_result *v = claims->verdicts;

    for (size_t i = 0, end; i < claims->count; i = end) {
        const struct entry_row *first = &v[i].claim;
        struct calibration found = { 0 };
        struct standing_row standing;
        int rc;

        for (end = i; end < claims->count && SAME_TABLE(&v[end].claim, first); end++)
            if (!entry_is(&v[end].claim, ENTRY_INFERRED | ENTRY_STALE | ENTRY_UNSOUND) &&
                !plan_is_default(&v[end].claim.plan, &v[end].shape))
                calibration_add(&found, &v[end].claim.gain, 1, &v[end].now);
        rc = store_standing_get(store, first->cluster, first->shape, first->window, &standing);
        if (rc < 0)
            return rc;
        if (rc || !standing.run || standing.decided_s < since ||
            !calibration_is_too_sure(&found, 1))
            continue;
        standing.decided_s = since - 1; /* earlier than the verified entries: no longer confirmed */
        TRY(store_standing(store, &standing));
    }
    return OK;
}

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

double verify_default_over_table(const struct verify_entries *claims, uint32_t *count)
{
    double log_sum = 0;

    *count = 0;
    for (size_t i = 0; i < claims->count; i++)
        if (isfinite(claims->verdicts[i].default_over_table)) {
            log_sum += log(claims->verdicts[i].default_over_table);
            ++*count;
        }
    return *count ? exp(log_sum / *count) : (double)NAN;
}

/* Returns the verdict as the table prints it. */
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
    { "claimed\n%", GRID_POINT }, { "now\n%", GRID_POINT },  { "95 %\nlow", GRID_POINT },
    { "95 %\nhigh", GRID_POINT }, { "verdict", GRID_LEFT },
};

static int add_row(const struct verify_result *v, struct grid *grid)
{
    uint64_t first = (uint64_t)v->claim.bucket * v->claim.window;
    bool refuted = v->kind == VERIFY_REFUTED || v->kind == VERIFY_EARLIER;

    TRY(grid_row(grid, refuted ? INK_BAD : v->kind == VERIFY_BEATS ? INK_GOOD : INK_PLAIN));
    TRY(grid_cell(grid, "%u", v->claim.bucket));
    TRY(grid_cell(grid, "%" PRIu64 "-%" PRIu64, first, first + v->claim.window - 1));
    TRY(grid_cell(grid, "%s", PLAN_TEXT(&v->claim.plan)));
    /* An earlier run has replaced the claim by its result. */
    TRY(grid_percent(grid, v->kind == VERIFY_EARLIER ? NAN : v->claim.gain.value));
    TRY(grid_gain(grid, &v->now));
    TRY(grid_cell(grid, "%s%s", words_of(v), v->throttled ? ", disturbed" : ""));
    return *v->why ? grid_note(grid, v->why) : OK;
}

/* Returns whether the table has a row for the entry. */
static bool is_shown(const struct verify_result *v)
{
    return v->kind != VERIFY_PENDING &&
           (v->kind != VERIFY_EARLIER || entry_is(&v->claim, ENTRY_REFUTED));
}

/* Prints how many entries of each layer were not reached. */
static void print_left_out(const struct verify_entries *claims, FILE *to)
{
    const struct verify_result *v = claims->verdicts;

    for (size_t i = 0, end; i < claims->count; i = end) {
        uint32_t left = 0;

        for (end = i; end < claims->count && v[end].claim.shape == v[i].claim.shape; end++)
            left += v[end].kind == VERIFY_PENDING;
        if (left)
            fprintf(to, "left out  %u of %zu of %s\n", left, end - i, SHAPE_TEXT(&v[i].shape));
    }
}

/* Prints how the default plan's steps compare with those of the table, which keeps its scale. */
static void print_speed(const struct verify_entries *claims, FILE *to)
{
    uint32_t count;
    double ratio = verify_default_over_table(claims, &count);

    if (count)
        fprintf(to,
                "speed     the default plan takes %.2f times as long as in the table:\n"
                "          gains compare steps of now; times in the table stay\n",
                ratio);
}

int verify_table(struct store *store, const struct verify_entries *claims, FILE *to)
{
    const struct verify_result *v = claims->verdicts;
    struct verify_count n = verify_count(claims);

    for (size_t i = 0, end; i < claims->count; i = end) { /* layer by layer */
        struct grid grid = GRID_OF(columns);
        int rc = OK;

        /* An entry of the default plan compares nothing; the totals count it. */
        for (end = i; end < claims->count && v[end].claim.shape == v[i].claim.shape; end++)
            if (!rc && is_shown(&v[end]) && v[end].kind != VERIFY_DEFAULT)
                rc = add_row(&v[end], &grid);
        if (!rc && grid.row_count)
            rc = tables_heading(store, v[i].claim.cluster, v[i].claim.shape, to);
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
    print_left_out(claims, to);
    print_speed(claims, to);
    return OK;
}

/* ---- for other programs */

static void print_object(const struct verify_result *v, FILE *to)
{
    json_write(to, "{'shape': '%s'", SHAPE_TEXT(&v->shape));
    row_json_view(&entry_table, "window bucket capacity plan stale=was_stale inferred", &v->claim,
                  to);
    json_write(to, ", 'claimed_gain': %g", v->kind == VERIFY_EARLIER ? NAN : v->claim.gain.value);
    verdict_json_gain(&v->now, to);
    json_write(to, ", 'rounds': %u, 'throttled': %u, 'verdict': '%s', 'refuted': %s, 'why': '%s'",
               v->rounds, v->throttled, verify_words[v->kind],
               v->kind == VERIFY_REFUTED || entry_is(&v->claim, ENTRY_REFUTED) ? "true" : "false",
               v->why);
    if (*v->load)
        json_write(to, ", 'load': '%s'", v->load);
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
