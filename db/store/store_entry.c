/* Rows of the dictionary: entries, how far each can be trusted, their history, rows of launches,
 * and pins. */
#include "store_inside.h"

#include "schema.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const entry_tier_words[] = { "local", "verified", "imported", NULL };
const char *const effort_words[] = { "quick", "normal", "thorough", NULL };

/* All decisions that an entry may have, in tables of any version. */
static const char *const decisions[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                         "static",  "tie",    "inferred", "refuted",   NULL };
static const char *const how_words[] = { "measured", "inferred", NULL };
static const char *const age_words[] = { "fresh", "stale", NULL };

/* A new column here also needs a step in schema.c. */
#define LOCAL(member) ROW_AT(struct entry_row, member)
#define AT(member) LOCAL(member), .since = 1
#define TIME .decimals = 3, .most = 1e12
#define SHARE .decimals = 6, .least = -1e12, .most = 1e12
static const struct row_field entry_fields[] = {
    { "id", ROW_INTEGER, LOCAL(id) },
    { "fingerprint", ROW_INTEGER, LOCAL(cluster) },
    { "shape", ROW_INTEGER, LOCAL(shape) },
    { "run", ROW_INTEGER, LOCAL(run) },
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "bucket", ROW_INTEGER, AT(bucket), .most = UINT32_MAX - 1 },
    { "capacity", ROW_INTEGER, AT(capacity), .most = 1e15 },
    { "plan", ROW_PLAN, AT(plan), .read = SCHEMA_ENTRY_PLAN("entry") },
    { "runner_up", ROW_PLAN, AT(runner_up), .optional = true },
    { "search_winner", ROW_PLAN, AT(search_winner), .optional = true },
    { "time_us", ROW_REAL, AT(time_us), TIME },
    { "low_us", ROW_REAL, AT(low_us), TIME },
    { "high_us", ROW_REAL, AT(high_us), TIME },
    { "default_us", ROW_REAL, AT(default_us), TIME },
    { "gain", ROW_REAL, AT(gain.value), SHARE },
    { "gain_low", ROW_REAL, AT(gain.low), SHARE },
    { "gain_high", ROW_REAL, AT(gain.high), SHARE },
    { "bound", ROW_REAL, AT(bound), SHARE },
    { "samples", ROW_INTEGER, AT(samples), .most = UINT32_MAX },
    { "inferred", ROW_BOOL, AT(inferred), .words = how_words },
    { "stale", ROW_BOOL, AT(stale), .words = age_words },
    { "effort", ROW_NAME, AT(effort) },
    { "search", ROW_NAME, AT(search) },
    { "reason", ROW_NAME, AT(reason) },
    { "decision", ROW_TEXT, AT(decision), .words = decisions },
    { "decided_s", ROW_INTEGER, AT(decided_s), .most = 1e12 },
    { "tier", ROW_ENUM, LOCAL(tier), .words = entry_tier_words },
    { "throttled", ROW_INTEGER, LOCAL(throttled), .since = 2, .most = UINT32_MAX },
    { "load", ROW_TEXT, LOCAL(load), .since = 4, .optional = true },
    { "other", ROW_PLAN, LOCAL(other), .since = 9, .optional = true, .quiet = true },
    { "other_us", ROW_REAL, LOCAL(other_us), .since = 9, TIME, .quiet = true },
    { "no_other", ROW_BOOL, LOCAL(no_other), .since = 9, .quiet = true },
    { "likely", ROW_PLAN, LOCAL(likely), .optional = true },
    { "likely_gain", ROW_REAL, LOCAL(likely_gain) },
    { "likely_chance", ROW_REAL, LOCAL(likely_chance) },
};
#undef LOCAL
#undef AT
#undef TIME
#undef SHARE
const struct row_table entry_table = ROW_TABLE("entry", struct entry_row, entry_fields);

/* `show --json` prints these after the bucket. */
const char entry_in_show[] =
    "capacity plan time_us low_us high_us default_us gain gain_low gain_high bound search_winner"
    " runner_up samples throttled inferred stale decision reason search effort decided_s=decided"
    " tier load other other_us no_other likely likely_gain likely_chance";

/* A spreadsheet has these after the device, the cluster, the layer and the bucket. */
const char entry_in_csv[] = "plan time_us low_us high_us default_us gain bound samples inferred=how"
                            " stale=state decision throttled reason";

#define AT(member) ROW_AT(struct history_row, member)
static const struct row_field history_fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "fingerprint", ROW_INTEGER, AT(entry.cluster) },
    { "shape", ROW_INTEGER, AT(entry.shape) },
    { "run", ROW_INTEGER, AT(entry.run) },
    { "window", ROW_INTEGER, AT(entry.window) },
    { "bucket", ROW_INTEGER, AT(entry.bucket) },
    { "plan", ROW_PLAN, AT(entry.plan), .none = "?" },
    { "time_us", ROW_REAL, AT(entry.time_us) },
    { "default_us", ROW_REAL, AT(entry.default_us) },
    { "gain", ROW_REAL, AT(entry.gain.value) },
    { "bound", ROW_REAL, AT(entry.bound) },
    { "inferred", ROW_BOOL, AT(entry.inferred) },
    { "decision", ROW_TEXT, AT(entry.decision) },
    { "decided_s", ROW_INTEGER, AT(entry.decided_s) },
    { "replaced_s", ROW_INTEGER, AT(replaced_s) },
    { "why", ROW_TEXT, AT(why) },
};
#undef AT
static const struct row_table history_table =
    ROW_TABLE("history", struct history_row, history_fields);

/* ---- How far an entry can be trusted. */

const char *const entry_state_words[ENTRY_STATE_COUNT] = { "inferred", "stale",   "imported", "tie",
                                                           "refuted",  "cut off", "unsound" };

bool entry_is(const struct entry_row *entry, unsigned states)
{
    bool refuted = !strcmp(entry->decision, "refuted");
    unsigned state =
        (entry->inferred ? ENTRY_INFERRED : 0) | (entry->stale ? ENTRY_STALE : 0) |
        (entry->tier == TIER_IMPORTED ? ENTRY_IMPORTED : 0) |
        (!strcmp(entry->decision, "tie") ? ENTRY_TIE : 0) | (refuted ? ENTRY_REFUTED : 0) |
        (!strcmp(entry->reason, "cut") ? ENTRY_CUT : 0) | (entry->fault ? ENTRY_UNSOUND : 0) |
        (entry->stale && !refuted ? ENTRY_OUTDATED : 0);

    return state & states;
}

const struct claim_fault *entry_fault(const struct entry_row *e, const struct moe_shape *shape,
                                      const struct standing_row *standing)
{
    struct moe_plan plan = plan_canonical(e->plan, shape);
    bool pooled = standing && !strcmp(e->decision, "static") &&
                  plan_equal(&standing->static_plan, &e->plan) && standing->rounds;
    const struct claim claim = {
        .time_us = e->time_us,
        .low_us = e->low_us,
        .high_us = e->high_us,
        .default_us = e->default_us,
        .gain = e->gain,
        .bound = e->bound,
        .faster = !strcmp(e->decision, "adopted") || !strcmp(e->decision, "likely"),
        .pooled = pooled ? standing->gain.value : (double)NAN,
    };

    return plan_is_default(&plan, shape) ? NULL : claim_fault(&claim);
}

/* A smaller possible loss is not worth another measurement. */
static const double undecided_loss = 0.02;

bool entry_is_undecided(const struct entry_row *entry)
{
    static const char *const undecided_words[] = { "default", "likely", "incumbent" };
    bool may_be_undecided = false;

    if (entry_is(entry, ENTRY_TIE) || entry->likely.struct_size)
        return true;
    for (size_t i = 0; i < sizeof(undecided_words) / sizeof(undecided_words[0]); i++)
        may_be_undecided |= !strcmp(entry->decision, undecided_words[i]);
    /* A plan that is proven faster than the default may not be the best, but it is a decision. */
    return may_be_undecided && !entry->inferred && !(entry->gain.low > 0) &&
           entry->bound > undecided_loss;
}

bool entry_leaves_more(const struct entry_row *a, const struct entry_row *b)
{
    double gain_a = a->likely.struct_size ? a->likely_gain : 0;
    double gain_b = b->likely.struct_size ? b->likely_gain : 0;

    if (gain_a != gain_b)
        return gain_a > gain_b;
    return a->bound > b->bound || isnan(b->bound);
}

const char *entry_likely_text(const struct entry_row *e, char room[LIKELY_TEXT_BYTES])
{
    double percent = 100 * e->likely_gain, chance = 100 * e->likely_chance;

    *room = 0;
    if (e->likely.struct_size)
        snprintf(room, LIKELY_TEXT_BYTES, "probably %s, %.*f %% faster (chance %s%.0f %%)",
                 PLAN_WORDS(&e->likely), percent < 9.95 ? 1 : 0, percent,
                 chance > 99 ? "above " : "", fmin(chance, 99));
    return room;
}

/* The bound is a share of the best plan's time, which is not known. People want a share of the step
 * that they have. */
const char *entry_left_text(const struct entry_row *entry, char room[LEFT_TEXT_BYTES])
{
    double percent = 100 * (1 - 1 / (1 + entry->bound));
    int digits = percent < 9.95 ? 1 : 0;
    double step = digits ? 0.1 : 1;

    *room = 0;
    if (percent > 90)
        text_put(room, LEFT_TEXT_BYTES, "what is left is not known");
    else if (!isnan(percent)) /* rounded up, except for rounding errors */
        text_put(room, LEFT_TEXT_BYTES, "at most %.*f %% is left", digits,
                 fmax(step, step * ceil(percent / step - 1e-6)));
    return room;
}

/* ---- Reading. */

/* Sets entry->fault. *shape caches the layer *cached (0: none), because consecutive
 * entries mostly share it. */
static int set_fault(struct store *store, struct entry_row *e, int64_t *cached,
                     struct moe_shape *shape)
{
    struct standing_row standing;
    int rc = UNSUPPORTED;

    if (*cached != e->shape)
        TRY(store_shape_get(store, e->shape, shape));
    *cached = e->shape;
    if (!strcmp(e->decision, "static"))
        rc = store_standing_get(store, e->cluster, e->shape, e->window, &standing);
    if (rc < 0)
        return rc;
    e->fault = entry_fault(e, shape, rc ? NULL : &standing);
    return OK;
}

static int set_fault_alone(struct store *store, struct entry_row *e)
{
    struct moe_shape shape;
    int64_t cached = 0;

    return set_fault(store, e, &cached, &shape);
}

int store_entry_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    uint32_t bucket, struct entry_row *out)
{
    const int64_t keys[] = { cluster, shape, window, bucket };
    const struct row_query query = {
        .table = &entry_table, .rest = "WHERE " RECORDS_BUCKET, .keys = keys, .key_count = 4
    };

    TRY(row_find(&store->records, &query, out));
    return set_fault_alone(store, out);
}

/* Reads the known entry of the same bucket. */
static int find_entry_of_bucket(struct store *store, const struct entry_row *entry,
                                struct entry_row *out)
{
    return store_entry_get(store, entry->cluster, entry->shape, entry->window, entry->bucket, out);
}

int store_entries(struct store *store, int64_t cluster, int64_t shape,
                  int (*each)(void *self, const struct entry_row *entry), void *self)
{
    const int64_t keys[] = { cluster, shape };
    const struct row_query query = { .table = &entry_table,
                                     .rest = "WHERE (fingerprint=?1 OR ?1=0) AND (shape=?2 OR ?2=0)"
                                             " ORDER BY fingerprint, shape, window, bucket",
                                     .keys = keys,
                                     .key_count = 2 };
    struct row_list list;
    struct moe_shape cached_shape;
    int64_t cached = 0;
    int rc = OK;

    TRY(row_list(&store->records, &query, &list));
    for (size_t i = 0; i < list.count && !rc; i++) {
        struct entry_row *entry = (struct entry_row *)list.rows + i;

        rc = set_fault(store, entry, &cached, &cached_shape);
        rc = rc ? rc : each(self, entry);
    }
    free(list.rows);
    return rc;
}

int store_history(struct store *store, struct row_list *out)
{
    const struct row_query query = { .table = &history_table, .rest = "ORDER BY id DESC" };

    return row_list(&store->records, &query, out);
}

/* ---- Plans for which older libraries see the default: schema.h explains why. */

/* Where `meta` holds the own plan of an entry or pin. All texts are literals. */
struct own_plan {
    const char *find, *where; /* SQL that finds its row, and the condition in it */
    int64_t numbers[6];       /* numbers in the key; the last one is the date */
    int count;
};

static struct own_plan own_plan_of_entry(const struct entry_row *e)
{
    return (struct own_plan){ "SELECT 1 FROM meta WHERE " RECORDS_ENTRY_PLAN,
                              RECORDS_ENTRY_PLAN,
                              { e->cluster, e->shape, e->window, e->bucket, e->decided_s },
                              5 };
}

static struct own_plan own_plan_of_pin(const struct override_row *p)
{
    return (struct own_plan){ "SELECT 1 FROM meta WHERE " RECORDS_PIN_PLAN,
                              RECORDS_PIN_PLAN,
                              { p->cluster, p->shape, p->window, p->first, p->last, p->since_s },
                              6 };
}

/* Deletes the row of meta. Looks for it first, because a deletion is a line of the journal even
 * where it deletes nothing. */
static int delete_own_plan(struct store *store, const struct own_plan *in_meta)
{
    sqlite3_stmt *s;
    int rc;

    TRY(records_query(&store->records, in_meta->find, in_meta->numbers, in_meta->count - 1, &s));
    rc = records_step(&store->records, s);
    if (rc)
        return rc < 0 ? rc : OK;
    sqlite3_reset(s);
    return records_delete(&store->records, "meta", in_meta->where, in_meta->numbers,
                          in_meta->count - 1);
}

static int put_own_plan(struct store *store, const struct own_plan *in_meta, const char *table,
                        const struct moe_plan *plan)
{
    char key[160];
    int rc;

    text_put(key, sizeof(key), "%s", table);
    for (int i = 0; i < in_meta->count; i++)
        text_add(key, sizeof(key), " %" PRId64, in_meta->numbers[i]);
    TRY(PUT(store, "meta", TEXT("k", key), TEXT("v", PLAN_TEXT(plan))));
    rc = schema_show_plans(store->records.db, store->path);
    if (rc)
        records_rollback(&store->records);
    return rc;
}

/* Writes a row of `table` with row_put() or row_put_new(). `plan` is the plan inside the row. If
 * older libraries do not know it, the row gets the default plan, and meta its own. */
static int put_row_with_plan(struct store *store, const struct row_table *table, void *row,
                             struct moe_plan *plan, int64_t shape, const struct own_plan *in_meta,
                             int (*put)(struct records *, const struct row_table *, const void *))
{
    const struct moe_plan original = *plan;
    bool is_unknown = false; /* to older libraries */
    struct moe_shape layer;

    if (original.r && original.e == MOE_SPARSE) {
        TRY(store_shape_get(store, shape, &layer));
        is_unknown = plan_is_counted(&original, &layer);
    }
    if (is_unknown)
        *plan = plan_default(&layer);
    TRY(put(&store->records, table, row));
    TRY(delete_own_plan(store, in_meta));
    return is_unknown ? put_own_plan(store, in_meta, table->name, &original) : OK;
}

/* ---- Writing. */

static int put_history(struct store *store, const struct entry_row *old, const char *why)
{
    struct history_row row = { .entry = *old, .replaced_s = time(NULL) };

    text_put(row.why, sizeof(row.why), "%s", why);
    TRY(records_next_id(&store->records, history_table.name, &row.id));
    return row_put(&store->records, &history_table, &row);
}

/* Writes the entry in place of the row with that id. id 0: adds a row, and returns UNSUPPORTED,
 * with nothing written, if the bucket has one. */
static int put_entry(struct store *store, const struct entry_row *entry, int64_t id)
{
    const struct own_plan in_meta = own_plan_of_entry(entry);
    struct entry_row row = *entry;

    row.id = id;
    return put_row_with_plan(store, &entry_table, &row, &row.plan, row.shape, &in_meta,
                             id ? row_put : row_put_new);
}

int store_entry_put(struct store *store, const struct entry_row *entry, const char *why)
{
    struct entry_row old = *entry;
    int rc;

    TRY(set_fault_alone(store, &old));
    if (old.fault && !entry->stale)
        return fail(ERR_WRONG, "bucket %u, %s (%s): \"%s\" %s: the entry is not written",
                    entry->bucket, PLAN_TEXT(&entry->plan), entry->decision, old.fault->field,
                    old.fault->why);
    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    rc = put_entry(store, entry, 0);
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_entry_of_bucket(store, entry, &old));
    if (why)
        TRY(put_history(store, &old, why));
    return put_entry(store, entry, old.id);
}

int store_entry_end(struct store *store, const struct entry_row *entry, const char *why)
{
    const int64_t bucket[] = { entry->cluster, entry->shape, entry->window, entry->bucket };
    const struct own_plan in_meta = own_plan_of_entry(entry);

    TRY(store_standing_end(store, entry->cluster, entry->shape, entry->window));
    TRY(put_history(store, entry, why));
    TRY(delete_own_plan(store, &in_meta));
    return records_delete(&store->records, "entry", RECORDS_BUCKET, bucket, 4);
}

/* ---- Merging. */

int effort_rank(const char *effort)
{
    return word_find(effort_words, effort) + 1;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Returns above 0 where `a` is the better entry. When everything that counts is equal, any fixed
 * order works if it compares all exported fields. It begins with the plan, as older versions at
 * other sites do. */
static int compare_entries(const struct entry_row *a, const struct entry_row *b)
{
    int order = compare_numbers(b->fault != NULL, a->fault != NULL);

    order = order ? order : compare_numbers(b->tier, a->tier);
    order = order ? order : compare_numbers(b->stale, a->stale);
    order = order ? order : compare_numbers(entry_is(b, ENTRY_CUT), entry_is(a, ENTRY_CUT));
    order = order ? order : compare_numbers(effort_rank(a->effort), effort_rank(b->effort));
    order = order ? order : compare_numbers(a->decided_s, b->decided_s);
    order = order ? order : compare_numbers(a->samples, b->samples);
    return order ? order : row_order(&entry_table, "plan", a, b);
}

int store_entry_merge(struct store *store, const struct entry_row *entry, const char *why,
                      struct entry_row *known, enum merge_outcome *outcome)
{
    struct entry_row incoming = *entry;
    struct moe_shape shape;
    int rc = put_entry(store, entry, 0), order;

    *outcome = MERGE_ADDED;
    if (rc != UNSUPPORTED)
        return rc;
    TRY(find_entry_of_bucket(store, entry, known));
    TRY(store_shape_get(store, entry->shape, &shape));
    /* Judges both by their own numbers alone, because the standing that is there depends on the
     * order of imports. */
    incoming.fault = entry_fault(&incoming, &shape, NULL);
    known->fault = entry_fault(known, &shape, NULL);
    order = compare_entries(&incoming, known);
    *outcome = order > 0 ? MERGE_REPLACED : (order < 0 ? MERGE_LOST : MERGE_SAME);
    if (order == 0)
        return OK;
    TRY(put_history(store, order > 0 ? known : entry, why));
    return order > 0 ? put_entry(store, entry, known->id) : OK;
}

/* ---- The best plans of launches. */

#define AT(member) ROW_AT(struct launch_row, member)
static const struct row_field launch_fields[] = {
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "shape", ROW_INTEGER, AT(shape) },
    { "window", ROW_INTEGER, AT(window), .since = 10, .most = UINT32_MAX },
    { "launch", ROW_TEXT, AT(launch), .since = 10 },
    { "bucket", ROW_INTEGER, AT(bucket), .since = 10, .most = UINT32_MAX - 1 },
    { "plan", ROW_PLAN, AT(plan), .since = 10 },
    { "time_us", ROW_REAL, AT(time_us), .since = 10, .decimals = 3, .most = 1e12 },
    { "sd", ROW_REAL, AT(sd), .since = 10, .decimals = 6, .most = 1e6 },
    { "samples", ROW_INTEGER, AT(samples), .since = 10, .most = UINT32_MAX },
};
#undef AT
const struct row_table launch_table = ROW_TABLE("launch", struct launch_row, launch_fields);

int store_launch_put(struct store *store, const struct launch_row *row)
{
    int rc = schema_make(store->records.db, store->path, launch_table.name);

    if (rc) /* SQLite may have ended the transaction */
        records_rollback(&store->records);
    return rc ? rc : row_put(&store->records, &launch_table, row);
}

const struct claim_fault *launch_fault(const struct launch_row *row, const struct moe_shape *shape)
{
    static const struct claim_fault no_space = { "layer",
                                                 "has no declared space, and so no launches" },
                                    window = { "window", "is not 1, as those of spaces are" },
                                    bucket = { "bucket", "is none of its space" },
                                    plan = { "plan", "is not legal for its layer" },
                                    launch = { "launch", "is not the one of its plan" },
                                    time = { "time_us", "is 0: no step takes no time" },
                                    samples = { "samples", "is 0" };
    const struct declaration *d = declaration_find(shape->space);
    char words[DECLARATION_PLAN_BYTES];

    if (!d || row->window != 1)
        return d ? &window : &no_space;
    if (row->bucket >= declaration_buckets(d))
        return &bucket;
    if (!plan_legal(&row->plan, shape))
        return &plan;
    if (strcmp(row->launch, declaration_launch_words(d, row->plan.choice, words)) != 0)
        return &launch;
    return !(row->time_us > 0) ? &time : !row->samples ? &samples : NULL;
}

static bool has_launches(const struct store *store)
{
    return schema_has(store->records.db, "main", launch_table.name);
}

/* Deletes launch rows. `range`: cluster, shape, window (0: any), first and last bucket. */
static int end_launches(struct store *store, const int64_t range[5])
{
    return has_launches(store) ? records_delete(&store->records, "launch", RECORDS_RANGE, range, 5)
                               : OK;
}

int store_launches_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window)
{
    return end_launches(store, (int64_t[]){ cluster, shape, window, 0, UINT32_MAX });
}

int store_launches(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                   struct row_list *out)
{
    const int64_t keys[] = { cluster, shape, window };
    const struct row_query query = { .table = &launch_table,
                                     .rest = "WHERE fingerprint=?1 AND shape=?2 AND window=?3"
                                             " ORDER BY launch, bucket",
                                     .keys = keys,
                                     .key_count = 3 };

    *out = (struct row_list){ NULL, 0 };
    return has_launches(store) ? row_list(&store->records, &query, out) : OK;
}

static int find_launch(struct store *store, const struct launch_row *wanted, struct launch_row *out)
{
    const int64_t keys[] = { wanted->cluster, wanted->shape, wanted->window, wanted->bucket };
    const struct row_query query = {
        .table = &launch_table, .rest = "WHERE " RECORDS_BUCKET, .keys = keys, .key_count = 4
    };
    struct row_list rows = { NULL, 0 };
    int rc = UNSUPPORTED;

    if (has_launches(store))
        TRY(row_list(&store->records, &query, &rows));
    EACH_ROW (launch_row, row, rows)
        if (!strcmp(row->launch, wanted->launch)) {
            *out = *row;
            rc = OK;
        }
    free(rows.rows);
    return rc;
}

int store_launch_merge(struct store *store, const struct launch_row *row, bool *placed)
{
    const int64_t keys[] = { row->cluster, row->shape, row->window };
    struct launch_row known;
    sqlite3_stmt *measured_here;
    int rc;

    *placed = false;
    TRY(records_query(&store->records,
                      "SELECT 1 FROM entry WHERE fingerprint=?1 AND shape=?2 AND window=?3"
                      " AND tier<>'imported' LIMIT 1",
                      keys, 3, &measured_here));
    rc = records_step(&store->records, measured_here);
    sqlite3_reset(measured_here);
    if (rc != UNSUPPORTED)
        return rc;
    rc = find_launch(store, row, &known);
    if (rc < 0)
        return rc;
    *placed = rc == UNSUPPORTED ||
              (row->samples != known.samples ? row->samples > known.samples
                                             : row_order(&launch_table, "plan", row, &known) > 0);
    return *placed ? store_launch_put(store, row) : OK;
}

/* ---- Stale entries. */

struct entry_expiry {
    struct store *store;
    uint32_t window, first, last;
    const char *why, *load; /* load NULL: entries of any load */
};

static int make_entry_stale(void *self, const struct entry_row *entry)
{
    const struct entry_expiry *expiry = self;
    struct entry_row stale = *entry;

    if (entry->stale || (expiry->window && entry->window != expiry->window) ||
        entry->bucket < expiry->first || entry->bucket > expiry->last ||
        (expiry->load && !strcmp(entry->load, expiry->load)))
        return OK;
    stale.stale = true;
    return store_entry_put(expiry->store, &stale, expiry->why);
}

int store_expire(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t first, uint32_t last, const char *why)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    struct entry_expiry expiry = {
        .store = store, .window = window, .first = first, .last = last, .why = why
    };

    TRY(store_entries(store, cluster, shape, make_entry_stale, &expiry));
    TRY(records_delete(&store->records, "sample", RECORDS_SAMPLES, range, 5));
    TRY(records_delete(&store->records, "phase", RECORDS_SAMPLES, range, 5));
    TRY(end_launches(store, range));
    return records_delete(&store->records, "trial", RECORDS_RANGE, range, 5);
}

int store_expire_loads(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, const char *load)
{
    struct entry_expiry expiry = { .store = store,
                                   .window = window,
                                   .first = first,
                                   .last = last,
                                   .why = "another load",
                                   .load = load };

    return store_entries(store, cluster, shape, make_entry_stale, &expiry);
}

/* ---- Pins. */

#define AT(member) ROW_AT(struct override_row, member)
static const struct row_field override_fields[] = {
    { "id", ROW_INTEGER, AT(id) },
    { "fingerprint", ROW_INTEGER, AT(cluster) },
    { "shape", ROW_INTEGER, AT(shape) },
    { "window", ROW_INTEGER, AT(window) },
    { "first_bucket", ROW_INTEGER, AT(first) },
    { "last_bucket", ROW_INTEGER, AT(last) },
    { "plan", ROW_PLAN, AT(plan), .read = SCHEMA_PIN_PLAN("override") },
    { "why", ROW_TEXT, AT(why) },
    { "since_s", ROW_INTEGER, AT(since_s) },
};
#undef AT
const struct row_table override_table = ROW_TABLE("override", struct override_row, override_fields);

static int put_override(struct store *store, struct override_row *pin)
{
    const struct own_plan in_meta = own_plan_of_pin(pin);
    struct override_row row;

    TRY(records_next_id(&store->records, override_table.name, &pin->id));
    row = *pin;
    return put_row_with_plan(store, &override_table, &row, &row.plan, row.shape, &in_meta, row_put);
}

int store_override_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, uint32_t *count)
{
    const int64_t range[] = { cluster, shape, window, first, last };
    const struct row_query overlaps = { .table = &override_table,
                                        .rest =
                                            "WHERE " RECORDS_OVERLAP
                                            " ORDER BY fingerprint, shape, window, first_bucket",
                                        .keys = range,
                                        .key_count = 5 };
    struct row_list list;
    int rc = OK;

    TRY(row_list(&store->records, &overlaps, &list));
    if (list.count)
        rc = records_delete(&store->records, "override", RECORDS_OVERLAP, range, 5);
    EACH_ROW (override_row, pin, list) { /* buckets outside the range stay pinned */
        const struct own_plan in_meta = own_plan_of_pin(pin);
        struct override_row below = *pin, above = *pin;

        below.last = first - 1;
        above.first = last + 1;
        if (!rc)
            rc = delete_own_plan(store, &in_meta);
        if (!rc && pin->first < first)
            rc = put_override(store, &below);
        if (!rc && pin->last > last)
            rc = put_override(store, &above);
    }
    free(list.rows);
    if (!rc)
        *count = (uint32_t)list.count;
    return rc;
}

int store_override_add(struct store *store, struct override_row *row)
{
    uint32_t replaced;

    TRY(store_override_end(store, row->cluster, row->shape, row->window, row->first, row->last,
                           &replaced));
    return put_override(store, row);
}

int store_overrides(struct store *store, struct row_list *out)
{
    const struct row_query query = { .table = &override_table,
                                     .rest = "ORDER BY fingerprint, shape, window, first_bucket" };

    return row_list(&store->records, &query, out);
}

const struct override_row *override_of(struct row_list pins, const struct bucket_key *key)
{
    EACH_ROW (override_row, pin, pins)
        if (SAME_TABLE(pin, key) && key->bucket >= pin->first && key->bucket <= pin->last)
            return pin;
    return NULL;
}
