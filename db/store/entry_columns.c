/* What a row of the dictionary is made of, and what of it is seen by whom. */
#include "store.h"

const char *const entry_tier_words[] = { "local", "verified", "imported", NULL };
const char *const effort_words[] = { "quick", "normal", "thorough", NULL };

/* All that an entry ever was, whichever version its table is of. */
static const char *const decisions[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                         "static",  "tie",    "inferred", "refuted",   NULL };
static const char *const how_words[] = { "measured", "inferred", NULL };
static const char *const age_words[] = { "fresh", "stale", NULL };

/* A column that is new here is also a step in schema.c. */
#define LOCAL(member) ROW_AT(struct entry_row, member)
#define AT(member) LOCAL(member), .since = 1
#define TIME .decimals = 3, .most = 1e12
#define SHARE .decimals = 6, .least = -1e12, .most = 1e12
static const struct row_field fields[] = {
    { "id", ROW_INTEGER, LOCAL(id) },
    { "fingerprint", ROW_INTEGER, LOCAL(cluster) },
    { "shape", ROW_INTEGER, LOCAL(shape) },
    { "run", ROW_INTEGER, LOCAL(run) },
    { "window", ROW_INTEGER, AT(window), .most = UINT32_MAX },
    { "bucket", ROW_INTEGER, AT(bucket), .most = UINT32_MAX - 1 },
    { "capacity", ROW_INTEGER, AT(capacity), .most = 1e15 },
    { "plan", ROW_PLAN, AT(plan) },
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
};
const struct row_table entry_table = ROW_TABLE("entry", struct entry_row, fields);

/* `show --json` prints these after the bucket. */
const char entry_in_show[] =
    "capacity plan time_us low_us high_us default_us gain gain_low gain_high bound search_winner"
    " runner_up samples throttled inferred stale decision reason search effort decided_s=decided"
    " tier load other other_us no_other";

/* These follow the device, the cluster, the layer and the bucket. */
const char entry_in_csv[] = "plan time_us low_us high_us default_us gain bound samples inferred=how"
                            " stale=state decision throttled reason";
