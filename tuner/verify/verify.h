/* What the dictionary claims about this machine, put to the test again: which entries, in which
 * order, one after the other, and what came of them for people and for programs. */
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
    VERIFY_EARLIER, /* reached by a run that was cut off and is gone on with */
    VERIFY_DEFAULT, /* the default plan, against which there is nothing to compare it */
    VERIFY_BEATS,   /* faster than the default by more than the margin */
    VERIFY_TIE,     /* no difference could be shown */
    VERIFY_ALONE,   /* it runs, and the default failed */
    VERIFY_REFUTED  /* slower than the default, or a challenger, by more than the margin; or failed
                     */
};
extern const char *const verify_words[]; /* by enum verify_kind */

struct verify_result {
    struct entry_row claim; /* the entry as it was found */
    struct moe_shape shape;
    char load[LOAD_NAME_BYTES]; /* it is put to the test under */
    enum verify_kind kind;
    struct gain now;   /* of the plan over the default, with an interval as claims have it; NAN: not
                        * compared */
    double hour;       /* how many times as long as in the entry the default took; NAN: not known */
    double weight;     /* of the steps that depend on it; the greatest is verified first */
    bool load_unknown; /* it cannot be measured under the load it was tuned under */
    uint32_t rounds, throttled; /* the latter: samples of both plans that count although
                                 * something held them back */
    char why[240];              /* how it was refuted, or the default failed */
};

/* ---- one entry */

struct verify_terms {
    double margin; /* a share of the time; smaller differences do not count */
    int64_t memory_limit_bytes;
    struct account_machine machine;
    int64_t first_run; /* what this run and those it goes on with have measured counts */
};

/* Of an entry that could not be told from another plan, or holds the default: the plan that was or
 * came nearest to its search's winner.  NULL: there is none to be asked about. */
const struct moe_plan *verify_challenger(const struct entry_row *entry,
                                         const struct moe_shape *shape);

/* Measures a pending entry: its plan and the default run in the rounds of a contest, and what comes
 * out is written down.  ERR_CUT when time is up before that: what was sampled is kept, and used by
 * the run that goes on.
 *
 * A plan that is not slower than the default keeps its entry, and the entry is no longer stale.
 * What it gains is measured afresh; where that is nothing it counts together with the claim, and
 * where both come to nothing the entry holds the default plan.  Times are those gains on the scale
 * of the table: the default takes as long as the entry says, whatever the machine did in this hour,
 * for neighbours that were not verified keep their times, too.  Times of this hour are written
 * where the entry has none of the default, is stale or was tuned under another load.  A plan that
 * is slower, or fails, is refuted: the entry holds the default plan from then on, says "refuted",
 * and is stale, so that the next `moetune tune` measures the bucket again; what was sampled there
 * before is forgotten, for it would lead to the same winner.  The verification's own samples stay.
 *
 * A plan that the search could not tell from another one, or that is the default, also runs against
 * that challenger.  If it is outrun the entry is refuted, too, but keeps its plan, which is not
 * slower than the default, until the bucket is measured. */
int verify_entry(struct campaign *campaign, const struct verify_terms *terms,
                 struct verify_result *verdict);

/* ---- all of them */

/* How doubtful an entry is; the least number is verified first. */
enum verify_doubt { DOUBT_STALE, DOUBT_IMPORTED, DOUBT_NONE };
enum verify_doubt verify_doubt(const struct entry_row *entry);

enum verify_only { ONLY_ALL, ONLY_STALE, ONLY_IMPORTED, ONLY_MEASURED, ONLY_INFERRED };
extern const char *const verify_only_words[];

struct verify_wanted {
    uint32_t kind;             /* enum verify_only */
    uint32_t first, last;      /* buckets */
    struct option_list shapes; /* as text: a layer that agrees with one of them; empty: any */
    bool restart;              /* go on with no run that was cut off */
};

struct verify_entries {
    struct verify_result *verdicts; /* the most doubtful first, of as doubtful ones layer by layer,
                                     * and in each what most steps depend on */
    size_t count;
    int64_t first_run; /* the oldest run that is gone on with; INT64_MAX: none */
    uint32_t waiting;  /* refuted by an earlier verification, and not tuned again since */
    uint32_t pinned;   /* left out, for a person says what is told there */
    uint32_t launched; /* left out, for they stand for the sake of their whole table */
};

/* After campaign_recognise() for a machine that is known; what there is nothing to say about is
 * not in there.  UNSUPPORTED after a word if nothing is left. */
int verify_entries_find(struct campaign *campaign, const struct verify_wanted *wanted,
                        struct verify_entries *out);

/* Says how entries of spaces that programs declare can be verified, if there are any: only the
 * programs can run their plans.  `others`: false, these are all that the database has. */
int verify_entries_declared(struct store *store, const struct verify_wanted *wanted, bool *others);

void verify_entries_sort(struct verify_entries *claims); /* by layer and bucket */
void verify_entries_free(struct verify_entries *claims);

/* ---- what came of them */

/* Where what a layer's table claimed is found to be too sure, what it saves as a whole is said no
 * more.  Sorted by layer; `since`: when this verification began. */
int verify_claims(struct store *store, const struct verify_entries *claims, int64_t since);

/* Entries of each kind; refuted ones of an earlier run count as such. */
struct verify_count {
    uint32_t of[VERIFY_REFUTED + 1];
    uint32_t refuted_earlier;
};
struct verify_count verify_count(const struct verify_entries *claims);

/* The geometric mean of the entries' `hour`, and of how many; NAN: of none. */
double verify_hour(const struct verify_entries *claims, uint32_t *count);

/* A table per layer of what this run has found, the default plan's rows aside, and of what an
 * earlier one has refuted; then the totals of all, what was left out, and how fast the machine is
 * now.  Sorted by layer. */
int verify_table(struct store *store, const struct verify_entries *claims, FILE *to);

/* An array of objects. */
void verify_json(const struct verify_entries *claims, FILE *to);

#endif
