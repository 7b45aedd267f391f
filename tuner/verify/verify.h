/* Measures entries of a table again and compares them with what they claim: which entries, in which
 * order, one entry, and the result for people and for programs. */
#ifndef VERIFY_H
#define VERIFY_H

#include "account.h"
#include "campaign.h"
#include "contest.h"
#include "options.h"
#include "verdicts.h"

#include <stdio.h>

enum verify_kind {
    VERIFY_PENDING, /* not reached yet */
    VERIFY_EARLIER, /* reached by an earlier run that was cut off, which this run continues */
    VERIFY_DEFAULT, /* the entry is the default plan: there is nothing to compare */
    VERIFY_BEATS,   /* faster than the default plan by more than the margin */
    VERIFY_TIE,     /* no difference could be shown */
    VERIFY_ALONE,   /* the plan runs, and the default plan fails */
    VERIFY_REFUTED  /* the plan fails, or is slower than the default plan or a challenger by more
                     * than the margin */
};
/* The words for a result, by enum verify_kind: in JSON, and in the table for people. */
extern const struct verify_word {
    const char *json, *text;
} verify_words[];

/* One entry and what its verification has found, as a plain value. */
struct verify_result {
    struct entry_row entry_before;
    struct moe_shape shape;
    char load[LOAD_NAME_BYTES]; /* under which it is verified */
    enum verify_kind kind;
    struct gain now; /* of the plan over the default plan, as in an entry; NAN: not compared */
    double
        default_over_table; /* the default plan's time now over that in the entry; NAN: unknown */
    double weight;          /* how many steps depend on the entry: the greatest comes first */
    bool load_unknown;      /* it cannot be measured under the load that it was tuned under */
    uint32_t rounds;
    uint32_t throttled; /* disturbed samples of both plans that count nevertheless */
    char why[240];      /* why it was refuted, or why the default plan failed */
};

/* ---- one entry */

/* What all entries are verified with. */
struct verify_terms {
    double margin; /* a share of the time; smaller differences do not count */
    int64_t memory_limit_bytes;
    struct account_machine machine;
    int64_t first_run; /* samples count from this run on: this one and those that it continues */
};

/* Returns the plan that also runs against the entry: the search's winner, or the plan that came
 * nearest to it.  NULL: there is none, for instance because the entry is proven. */
const struct moe_plan *verify_challenger(const struct entry_row *entry,
                                         const struct moe_shape *shape);

/* Verifies a pending entry: runs its plan and the default plan in the rounds of a contest, and
 * writes the result.  ERR_CUT: time is up; the samples are kept for the run that continues this
 * one.
 *
 * A plan that is not slower than the default plan keeps its entry, which is no longer stale.  It
 * gets a new gain.  If the new gain is nothing, it counts together with the old one; if both come
 * to nothing, the default plan becomes the entry.
 *
 * Times stay on the scale of the table: the default plan takes as long as the entry says, even if
 * the machine is slower now, because neighbours that were not verified keep their times, too.  New
 * times are written if the entry has none of the default plan, is stale, or has another load.
 *
 * A plan that is slower, or fails, is refuted.  Its entry then has the default plan and is stale,
 * so that the next `moetune tune` measures the bucket again.  Old samples of the bucket are
 * dropped, because they would lead to the same winner; the samples of the verification stay.
 *
 * A challenger, if there is one, also runs.  If it is faster, the entry is refuted, too, but keeps
 * its plan until the bucket is measured: that plan is not slower than the default plan. */
int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *result);

/* ---- all entries */

/* How doubtful an entry is.  The least number is verified first. */
enum verify_doubt { DOUBT_STALE, DOUBT_IMPORTED, DOUBT_NONE };
enum verify_doubt verify_doubt(const struct entry_row *entry);

enum verify_only { ONLY_ALL, ONLY_STALE, ONLY_IMPORTED, ONLY_MEASURED, ONLY_INFERRED };
extern const char *const verify_only_words[]; /* by enum verify_only */

/* Which entries the user wants. */
struct verify_wanted {
    uint32_t kind;             /* enum verify_only */
    uint32_t first, last;      /* buckets */
    struct option_list shapes; /* texts: a layer must agree with one of them; empty: any layer */
    bool restart;              /* do not continue a run that was cut off */
};

/* The wanted entries.  The owner frees them by verify_entries_free(). */
struct verify_entries {
    struct verify_result *results; /* by doubt, then layer by layer, then by weight */
    size_t count;
    int64_t first_run;     /* the oldest run that is continued; INT64_MAX: none */
    uint32_t waiting;      /* refuted by an earlier verification, and not tuned since */
    uint32_t pinned;       /* skipped: trainers get the pinned plan */
    uint32_t judged_whole; /* skipped: their launch values were judged over the whole table */
};

/* Finds the wanted entries of the campaign's machine, after campaign_recognise().  UNSUPPORTED,
 * after a message: there are none. */
int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out);

/* Prints how entries of declared spaces are verified, if there are any: only their programs can run
 * their plans.  *others becomes false if the database has no other entries. */
int verify_entries_declared(struct store *store, const struct verify_wanted *wanted, bool *others);

/* Sorts by layer and bucket. */
void verify_entries_sort(struct verify_entries *entries);
void verify_entries_free(struct verify_entries *entries);

/* ---- the result */

/* Withdraws the proven gain of a layer's whole table, if its entries claimed too much.  The entries
 * are sorted by layer; `since` is when this verification began. */
int verify_withdraw_gains(struct store *store, const struct verify_entries *entries, int64_t since);

/* How many entries there are of each kind.  Entries that an earlier run refuted count as
 * VERIFY_EARLIER, and in refuted_earlier. */
struct verify_count {
    uint32_t of[VERIFY_REFUTED + 1];
    uint32_t refuted_earlier;
};
struct verify_count verify_count(const struct verify_entries *entries);

/* Returns the geometric mean of the entries' default_over_table, and of how many; NAN: of none. */
double verify_default_over_table(const struct verify_entries *entries, uint32_t *count);

/* Prints a table for each layer, without the rows of the default plan.  Then it prints the totals,
 * which entries were left out, and how fast the machine is now.  The entries are sorted by layer.
 */
int verify_table(struct store *store, const struct verify_entries *entries, FILE *to);

/* Prints a JSON array with an object for each entry. */
void verify_json(const struct verify_entries *entries, FILE *to);

#endif
