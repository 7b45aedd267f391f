/* A search says which plan of a layer to measure next, and which one is probably the fastest.  It
 * has no ranks, no clock and no I/O: its state follows from the setup and the samples in their
 * order.
 *
 * There is one search for a layer on a cluster.  It works on one bucket after the other:
 *
 *     search_begin(s, capacity, usable, alone);
 *     while ((arm = search_next(s)) != SEARCH_DONE)
 *         search_tell(s, arm, measured_ns);            or search_drop(s, arm, true) if it failed
 *     verdict = search_result(s);
 *
 * An arm is the index of a plan in the setup.  A run that was interrupted resumes like this: the
 * caller hands over the recorded samples in the same loop and ignores what search_next() answers.
 * Afterwards the state is the one that the interrupted run had. */
#ifndef SEARCH_H
#define SEARCH_H

#include "distribution.h"
#include "moelookup.h"
#include "points.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEARCH_DONE = -1, SEARCH_ARMS_MAX = 2048, SEARCH_REPEATS_MAX = 256 };

/* Why the search of a bucket ended. */
enum search_reason {
    SEARCH_CERTAIN, /* the strategy's own rule is satisfied */
    SEARCH_LIMIT,   /* it used up its samples */
    SEARCH_CUT,     /* the caller stopped it: search_cut() */
    SEARCH_INFERRED /* nothing was measured in this bucket */
};
extern const char *const search_reason_words[];

/* Guesses of the machine's constants, in SI units.  Each may be wrong by a factor of e or so.
 * 0: unknown; the cost model then uses a typical value. */
struct search_machine {
    double message_s; /* per message of a grouped exchange */
    double bytes_per_s_between, bytes_per_s_inside;
    double copy_bytes_per_s; /* device memory */
    double flops;            /* of one rank */
    double launch_s;         /* per chunk and step */
    char flops_dtype[8];     /* `flops` is for this type alone; "": for all types */
};

/* A model of step times that replaces the search's own cost model.  Its log(ns) may be off by a
 * common constant. */
struct search_model {
    double (*log_ns)(const void *self, double capacity, int arm);
    const void *self;
};

/* What a search is about.  search_open() copies it; the caller owns what the pointers lead to. */
struct search_setup {
    struct moe_shape shape;
    /* Returns the rows that `experts` experts of one rank keep together where each of them has room
     * for `capacity` rows: those of the fullest rank.  With the number of all experts it returns
     * the rows of all.  NULL: tokens choose their experts at random. */
    uint64_t (*kept)(const void *load, uint64_t capacity, uint32_t experts);
    const void *load;            /* the first argument of kept(); borrowed */
    const struct moe_plan *arms; /* copied; canonical and legal, as plan_list() lists them */
    const struct points *points; /* the arms' places on their axes; copied.  NULL: computed from
                                  * the arms.  Only strategies without a cost model use them */
    size_t arm_count;
    struct search_machine machine;
    const struct search_model *model; /* borrowed; NULL: the strategy's own */
    double worth;     /* the least gain, as a share of a step, that one more sample must promise;
                       * 0: the strategy's own (guided: 0.00007) */
    uint32_t limit;   /* most samples in a bucket; 0: the strategy's own (guided: 80 + 25) */
    uint32_t repeats; /* samples per comparison (paper) or rounds (exhaustive); 0 = 1 */
    uint64_t seed;
};

/* What a search says of a bucket, without a proof. */
struct search_result {
    int winner, runner_up;  /* arms; -1: no arm was usable (runner_up: only one was) */
    double bound;           /* with 95 % the winner is slower than the best arm by less than this
                             * share; NAN: the strategy cannot say (paper; exhaustive with one
                             * round) */
    uint32_t samples, arms; /* samples in this bucket, and how many arms they are of */
    enum search_reason reason;
};

struct search;

/* A strategy.  "NULL: ..." says what happens where a strategy lacks the function. */
struct search_ops {
    const char *name, *summary;
    int (*open)(struct search *search); /* sets search->own */
    void (*close)(struct search *search);
    void (*begin)(struct search *search);
    int (*next)(struct search *search);
    /* Serves search_next_among() (`within` is NULL) and search_next_within().  NULL: neither finds
     * an arm. */
    int (*next_among)(struct search *search, const bool *among, const bool *within);
    /* One more sample; `asked`: next() asked for it. */
    void (*tell)(struct search *search, int arm, double log_ns, bool asked);
    /* An arm is no longer usable.  If it did not fail, its samples still count.  NULL: the strategy
     * need not know. */
    void (*drop)(struct search *search, int arm, bool failed);
    void (*verdict)(struct search *search, struct search_result *out);
    /* The verdict for a capacity without samples.  NULL: the strategy cannot. */
    void (*infer)(struct search *search, uint64_t capacity, const bool *usable,
                  struct search_result *out);
    /* An arm's expected log(ns) at a capacity.  NULL: the strategy cannot. */
    double (*estimate)(struct search *search, uint64_t capacity, int arm);
    /* An arm's log(ns) at `to` minus its log(ns) at `from`, by the cost model alone.  NULL: the
     * strategy has no cost model. */
    double (*slope)(struct search *search, int arm, uint64_t from, uint64_t to);

    /* In the present bucket, by all samples so far: an arm's log(ns); the same minus another arm's;
     * the bound of struct search_result if this arm were the winner. */
    struct normal (*level)(struct search *search, int arm);
    struct normal (*compare)(struct search *search, int arm, int other);
    double (*bound)(struct search *search, int arm);
    /* See search_noise().  NULL: computed from the arms that were sampled more than once. */
    double (*noise)(const struct search *search, double *freedom);

    /* How many samples of the winner and of the default the strategy needs before it knows the
     * noise.  0: it knows the noise from other plans or other capacities. */
    uint32_t least;
};

/* The state of a search that every strategy may read.  search.c alone writes it. */
struct search {
    const struct search_ops *ops;
    struct search_setup setup;
    struct moe_plan arms[SEARCH_ARMS_MAX]; /* copies of the setup's */
    uint64_t capacity;                     /* of the present bucket */
    bool alone;                            /* samples of other buckets do not count in this one */
    bool usable[SEARCH_ARMS_MAX];          /* in this bucket; search_drop() clears it */
    uint32_t samples;                      /* in this bucket */
    uint32_t buckets;                      /* begun so far */
    uint32_t ran;                          /* arms that have a sample in this bucket */
    uint32_t count[SEARCH_ARMS_MAX];       /* samples of each arm in this bucket */
    double log_last[SEARCH_ARMS_MAX];      /* log(ns) of each arm's last sample */
    double repeat_gap[SEARCH_REPEATS_MAX]; /* |log ratio| of successive samples of one arm */
    uint32_t repeats;                      /* how many of those */
    bool cut;
    void *own; /* the strategy's */
};

/* The strategies, NULL-terminated.  A new strategy is a file and a row. */
extern const struct search_ops *const search_strategies[];
extern const char *const search_words[];                /* their names, in the same order */
const struct search_ops *search_find(const char *name); /* NULL: no strategy has this name */

/* For strategies: the arm with the least mean among some arms (NULL: among all), without the arm
 * `but`.  -1: no arm is left.  A mean that is not a number loses against every other mean. */
int search_least(const struct search *search, const bool *among, const double *mean, int but);

/* Opens a search; ERR_ARGUMENT for too many plans or ERR_NOMEM, after a message. */
int search_open(const struct search_ops *ops, const struct search_setup *setup,
                struct search **out);
void search_close(struct search *search); /* NULL is fine */

/* Begins a bucket.  usable[i] is false for an arm that cannot run here (memory, an earlier
 * failure); NULL: all can.  `alone`: samples of other buckets do not count, because they may be out
 * of date.  If the search had this capacity before, it forgets those samples. */
void search_begin(struct search *search, uint64_t capacity, const bool *usable, bool alone);

/* The arm to sample next, or SEARCH_DONE. */
int search_next(struct search *search);

/* An arm from `among` whose sample is worth nearly as much as that of search_next(), or
 * SEARCH_DONE. */
int search_next_among(struct search *search, const bool *among);

/* The arm from `among` whose sample helps most to find the best arm of `within`, or SEARCH_DONE.
 * Unlike search_next_among() it does not depend on search_next(). */
int search_next_within(struct search *search, const bool *within, const bool *among);

/* Hands over a sample that search_next() asked for. */
void search_tell(struct search *search, int arm, int64_t ns);
/* Hands over a sample that somebody else asked for. */
void search_tell_unasked(struct search *search, int arm, int64_t ns);
/* Takes an arm out of this bucket.  Not `failed`: it is too slow to be tried. */
void search_drop(struct search *search, int arm, bool failed);
/* Ends the bucket: search_next() answers SEARCH_DONE from now on. */
void search_cut(struct search *search);

/* The verdict on the present bucket, at any time. */
struct search_result search_result(struct search *search);

/* The verdict on a bucket without samples.  False: this strategy cannot, or has no samples yet. */
bool search_infer(struct search *search, uint64_t capacity, const bool *usable,
                  struct search_result *out);

/* An arm's expected time in ns at a capacity, by all samples; NAN: the strategy has no model. */
double search_estimate(struct search *search, uint64_t capacity, int arm);

/* In the present bucket: what the strategy believes of an arm's log(ns); of that minus another
 * arm's; and the bound of struct search_result if this arm were the winner. */
struct normal search_level(struct search *search, int arm);
struct normal search_compare(struct search *search, int arm, int other);
double search_bound(struct search *search, int arm);

/* The variance of one sample's log(ns), from arms that have several samples in this bucket.  It
 * does not depend on what the strategy believes, and outliers hardly move it.  *freedom: its
 * degrees of freedom.  Both are 0 if no arm has two samples. */
double search_noise(const struct search *search, double *freedom);

/* The factor that turns an arm's time at one capacity into its time at another capacity nearby; 1
 * without a cost model. */
double search_rescale(struct search *search, int arm, uint64_t from, uint64_t to);

/* What a value of `--effort` means: how many buckets `tune` measures and how many steps each of
 * them gets.  One row for each word of effort_words (store.h), in their order. */
struct effort {
    const char *name, *summary;
    double anchors_per_octave; /* buckets measured per doubling of c; 0 = every bucket */
    double worth;              /* as in struct search_setup */
    double refine_above;       /* measure an inferred bucket whose bound is above this; 0 = never */
    uint32_t patience;         /* as in struct decision_setup */
    uint32_t launches;         /* of the ranks, in the rounds */
    uint32_t launch_cycles;    /* rounds over all buckets in each launch but the first */
};
extern const struct effort efforts[];

#endif
