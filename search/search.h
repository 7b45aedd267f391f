/* What to try next.  Pure and deterministic: no ranks, no clock, no I/O; everything follows from
 * the setup, the samples told so far, and their order.
 *
 * One search per layer and cluster; one visit per bucket.  Within a visit:
 *
 *     search_begin(s, capacity, usable, alone);
 *     while ((arm = search_next(s)) != SEARCH_DONE)
 *         search_tell(s, arm, measured_ns);            or search_drop(s, arm, true) if it failed
 *     verdict = search_result(s);
 *
 * To resume, do the same with recorded samples: what search_next answers is then ignored, and the
 * state afterwards is that of the run that was cut off. */
#ifndef SEARCH_H
#define SEARCH_H

#include "distribution.h"
#include "moelookup.h"
#include "points.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEARCH_DONE = -1, SEARCH_ARMS_MAX = 2048, SEARCH_REPEATS_MAX = 256 };

/* Why a visit ended. */
enum search_reason {
    SEARCH_CERTAIN, /* the strategy's own rule is satisfied */
    SEARCH_LIMIT,   /* it used up its samples */
    SEARCH_CUT,     /* the caller stopped it (budget) */
    SEARCH_INFERRED /* nothing was measured in this bucket */
};
extern const char *const search_reason_words[];

/* Prior guesses of the machine's constants, in SI units; each may be wrong by a factor of e or so.
 * 0 = unknown: a bland value is used. */
struct search_machine {
    double message_s; /* per message of a grouped exchange */
    double bytes_per_s_between, bytes_per_s_inside;
    double copy_bytes_per_s; /* device memory */
    double flops;            /* of one rank */
    double launch_s;         /* per chunk and step */
    char flops_dtype[8];     /* the only type whose flops are known; "": of all alike */
};

/* What a step takes, in place of the search's own cost model: log(ns), but for a common factor. */
struct search_model {
    double (*log_ns)(const void *self, double capacity, int arm);
    const void *self;
};

struct search_setup {
    struct moe_shape shape;
    /* Rows of a rank that experts keep of their tokens where each takes c: the most that so many
     * experts, of those that a rank holds, keep together; of all with their number.  NULL: tokens
     * choose at random. */
    uint64_t (*kept)(const void *load, uint64_t capacity, uint32_t experts);
    const void *load;            /* borrowed */
    const struct moe_plan *arms; /* copied; canonical and legal, as plan_list() gives them */
    const struct points *points; /* where they lie, instead of arms; copied.  Only strategies
                                  * without a cost model take them; NULL: by the arms' axes */
    size_t arm_count;
    struct search_machine machine;
    const struct search_model *model; /* borrowed; NULL: the strategy's own */
    double worth;     /* a sample must promise to make steps faster by this share; 0 = the
                       * strategy's own (guided: 0.00007) */
    uint32_t limit;   /* most samples in one visit; 0 = the strategy's own (guided: 80 + 25) */
    uint32_t repeats; /* samples per comparison (paper) or rounds (exhaustive); 0 = 1 */
    uint64_t seed;
};

struct search_result {
    int winner, runner_up;  /* arms; -1 = none was ever usable (runner_up: only one) */
    double bound;           /* the true loss of the winner is below this share with 95 %; NAN:
                             * the strategy cannot say (paper; exhaustive with one round) */
    uint32_t samples, arms; /* told in this visit; different arms among them */
    enum search_reason reason;
};

struct search;

struct search_ops {
    const char *name, *summary;
    int (*open)(struct search *search); /* sets search->own */
    void (*close)(struct search *search);
    void (*begin)(struct search *search);
    int (*next)(struct search *search);
    /* See search_next_among(), search_next_within(); `within` NULL: all.  NULL: never. */
    int (*also)(struct search *search, const bool *among, const bool *within);
    void (*tell)(struct search *search, int arm, double log_ns, bool asked); /* it asked for it */
    /* An arm that is no longer usable; not failed: what it took stays known.  NULL: no matter. */
    void (*drop)(struct search *search, int arm, bool failed);
    void (*verdict)(struct search *search, struct search_result *out);
    /* Without measuring: the verdict for an unvisited capacity, and one arm's expected log(ns).
     * NULL: the strategy cannot. */
    void (*infer)(struct search *search, uint64_t capacity, const bool *usable,
                  struct search_result *out);
    double (*estimate)(struct search *search, uint64_t capacity, int arm);
    /* An arm's log(ns) at one capacity minus that at another, as plain costs go.  NULL: none are
     * known. */
    double (*slope)(struct search *search, int arm, uint64_t from, uint64_t to);

    /* In the visit, what all samples told so far say of an arm: its log(ns); that minus the log(ns)
     * of another; and a share that its loss against the best usable arm stays below with 95 %
     * (NAN: cannot be told). */
    struct normal (*level)(struct search *search, int arm);
    struct normal (*compare)(struct search *search, int arm, int other);
    double (*bound)(struct search *search, int arm);
    /* As search_noise() has it.  NULL: by what was sampled more than once. */
    double (*noise)(const struct search *search, double *freedom);

    /* So many samples of its winner and of the default it takes to tell how far they scatter; 0:
     * the strategy knows that of other plans, or of other capacities. */
    uint32_t least;
};

/* What every strategy sees. */
struct search {
    const struct search_ops *ops;
    struct search_setup setup;
    struct moe_plan arms[SEARCH_ARMS_MAX]; /* the setup's */
    uint64_t capacity;                     /* of the visit */
    bool alone;                   /* what other visits were told does not count in this one */
    bool usable[SEARCH_ARMS_MAX]; /* in this visit; search_drop clears it */
    uint32_t samples, buckets;
    uint32_t ran;                     /* arms that were sampled in this visit */
    uint32_t count[SEARCH_ARMS_MAX];  /* samples of each arm in this visit */
    double log_last[SEARCH_ARMS_MAX]; /* the last of them */
    double apart[SEARCH_REPEATS_MAX]; /* distances of successive samples of one arm */
    uint32_t repeats;
    bool cut;
    void *own;
};

/* The table of strategies; a new one is a file and a row.  NULL-terminated. */
extern const struct search_ops *const search_strategies[];
extern const char *const search_words[];                /* their names, in the same order */
const struct search_ops *search_find(const char *name); /* NULL if there is none */

/* For strategies: the arm of least mean among some, or among all (NULL), but one; -1: there is
 * none. A mean that is no number is no knowledge: it loses against all others. */
int search_least(const struct search *search, const bool *among, const double *mean, int but);

int search_open(const struct search_ops *ops, const struct search_setup *setup,
                struct search **out);
void search_close(struct search *search); /* NULL is fine */

/* usable[i]: false for an arm ruled out here (memory, an earlier failure); NULL = all are. `alone`:
 * what other capacities say does not count: it may be out of date.  A capacity that is visited
 * again begins anew: what an earlier visit was told has to be told again, or is forgotten. */
void search_begin(struct search *search, uint64_t capacity, const bool *usable, bool alone);

/* The arm to sample next, or SEARCH_DONE. */
int search_next(struct search *search);

/* An arm among some that is worth a sample nearly as much as what search_next() answers, or
 * SEARCH_DONE. */
int search_next_among(struct search *search, const bool *among);

/* Of some arms, `within`, the best one is wanted: that of them, `among`, which is worth a sample
 * for it, or SEARCH_DONE.  Any number may follow another, for search_next() is not asked. */
int search_next_within(struct search *search, const bool *within, const bool *among);

void search_tell(struct search *search, int arm, int64_t ns);
void search_tell_unasked(struct search *search, int arm,
                         int64_t ns); /* one that somebody else asked for */
/* Never again in this visit; not failed: it is too slow to be tried. */
void search_drop(struct search *search, int arm, bool failed);
void search_cut(struct search *search); /* no more in this visit */

struct search_result search_result(struct search *search);

/* For a capacity between visited ones.  False: this strategy cannot, or has measured nothing. */
bool search_infer(struct search *search, uint64_t capacity, const bool *usable,
                  struct search_result *out);

/* Expected time of an arm in ns from all that was measured; NAN when the strategy has no model. */
double search_estimate(struct search *search, uint64_t capacity, int arm);

/* In the visit, by all that was told: see struct search_ops. */
struct normal search_level(struct search *search, int arm);
struct normal search_compare(struct search *search, int arm, int other);
double search_bound(struct search *search, int arm);

/* The variance of one sample's log(ns) by what was sampled more than once in this visit, whatever a
 * strategy believes and however far off single samples are, and how many of a normal distribution
 * would tell as much; 0 and 0: nothing was sampled twice. */
double search_noise(const struct search *search, double *freedom);

/* What turns an arm's time at one capacity into that at another, not far away; 1 without a model.
 */
double search_rescale(struct search *search, int arm, uint64_t from, uint64_t to);

/* What `--effort` means: how many buckets are measured, and how many steps each of them is worth.
 * One row per word of effort_words (store.h), in their order. */
struct effort {
    const char *name, *summary;
    double anchors_per_octave; /* buckets measured per doubling of c; 0 = every bucket */
    double worth;              /* of a sample of the search, as struct search_setup has it */
    double refine_above;       /* measure an inferred bucket whose bound is above this; 0 = never */
    uint32_t patience;         /* samples to prove a plan in one launch, as decision_setup's */
    uint32_t launches;         /* of the ranks, in which a table meets the default */
    uint32_t launch_cycles;    /* rounds over all buckets in each of them but the first */
};
extern const struct effort efforts[];

#endif
