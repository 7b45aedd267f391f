/* The last comparison of a whole table before it is published.  It compares the table with the
 * default plan and with static plans (one plan for every bucket), over several launches of the
 * ranks.  It runs no steps itself: the caller asks what to sample and hands the time over.
 *
 *     rounds_open(r, &setup);
 *     rounds_tell(r, bucket, arm, recorded_ns);          recorded samples, in their order
 *     while (rounds_next(r, &bucket, &arm))
 *         rounds_tell(r, bucket, arm, measured_ns);      rounds_drop(r, bucket, arm) if it failed
 *     verdict = rounds_result(r);
 *
 * * A round takes buckets in shuffled order.  In each of them it runs all plans that are compared
 * there once, back to back, in shuffled order.  So what slows the machine for more than a few steps
 * slows all of them.  A cycle is the number of rounds that take every bucket once; with few buckets
 * it is one round.
 *
 * First come a few cycles with all plans.  Then undecided buckets continue, up to six times as
 * long, with their most promising plan and the default, while a proof is expected to save more than
 * it costs.  The state follows from the samples and their order alone.
 *
 * If the user runs `tune` again, buckets that are still undecided continue:
 *
 *     rounds_open(r, &setup);                               with reruns > 0
 *     rounds_recall(r, bucket, arm, round, recorded_ns);    all recorded samples
 *     rounds_continue(r);
 *     while (rounds_next(r, &bucket, &arm)) ... */
#ifndef ROUNDS_H
#define ROUNDS_H

#include "pairs.h"
#include "search.h"
#include "stats.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ROUNDS_BUCKETS_MAX = 64,
    ROUNDS_STATICS_MAX = 3,
    ROUNDS_ARMS_MAX = 3 + ROUNDS_STATICS_MAX, /* the table's, the default's, the neighbours' */
    ROUNDS_CYCLES_MAX = 128,
    /* Pairs of a bucket's candidate and the default before the rounds; they prove nothing alone. */
    PAIRS_BEFORE_ROUNDS = 2
};

/* A measured bucket of the table, as the rounds need it.  rounds_open() copies what it needs. */
struct rounds_bucket {
    double weight; /* share of a trainer's steps; weights need not add up to 1 */
    uint64_t capacity;
    int table;          /* the arm that was chosen for the bucket */
    const bool *usable; /* by arm; NULL: all are */
    /* Pairs of the chosen arm and the default, taken after the choice in the same launch (number
     * 0); NULL: none. */
    const struct pairs *first;
    struct normal belief; /* of their log ratio, when the arm was chosen */
    bool confirmed; /* by earlier rounds: it stays unless these rounds show that it is slower */
};

/* What the rounds compare, and how long.  rounds_open() copies what it needs. */
struct rounds_setup {
    const struct rounds_bucket *buckets; /* in the order of capacities */
    int bucket_count;
    int default_arm;                 /* the default plan's arm, or -1 */
    const int *statics;              /* arms of static plans: rounds_statics() */
    int static_count;                /* at most ROUNDS_STATICS_MAX */
    uint32_t cycles_min, cycles_max; /* 0 = 4 and 30 */
    uint32_t steps_max;              /* no cycle that would exceed it begins after cycles_min; 0: no
                                      * limit */
    /* Cycles per launch of the ranks, and the most launches; cycles_min and cycles_max then follow
     * from them.  0: all cycles run in one launch. */
    uint32_t launch_cycles, launches;
    /* As in struct search_setup: undecided buckets continue while a proof is worth its samples.  0:
     * they do not continue. */
    double worth;
    /* Above 0: rounds_decide_whole() follows with this chance of error, and the rounds continue
     * while the table as a whole may be proven.  0: rounds_decide() follows. */
    double whole_harm;
    uint32_t reruns; /* how often the user has had undecided buckets continue, now included */
    uint64_t seed;
    double kappa; /* the factor for deviations of stated gains (pairs.h); below 1 counts as 1 */
};

/* The state of the rounds; a plain value that rounds_open() fills. */
struct rounds {
    struct rounds_setup setup; /* without the arrays */
    struct bucket_rounds {     /* one bucket; a place is an index into arms[] */
        double weight, log_capacity;
        int chosen; /* the table's arm when the rounds began */
        bool confirmed;
        int arm_count, arms[ROUNDS_ARMS_MAX]; /* the arms that are compared here, each once */
        int role[ROUNDS_ARMS_MAX];            /* by role: the place; -1: it cannot run here */
        bool dropped[ROUNDS_ARMS_MAX];        /* by place: it failed */
        bool finished[ROUNDS_ARMS_MAX];       /* by place: it needs no further samples */
        bool extended;                        /* undecided: it continued after others */
        double log_ns[ROUNDS_ARMS_MAX][ROUNDS_CYCLES_MAX]; /* NAN: not sampled in that cycle */
        int search_place; /* the place that the pairs `first` are of; -1: there are none */
        struct pairs first;
        struct normal belief;
    } buckets[ROUNDS_BUCKETS_MAX];
    int statics[ROUNDS_STATICS_MAX];
    uint32_t round, steps; /* complete rounds; samples */
    uint32_t cycles_limit; /* the most cycles */
    bool done, extended;   /* extended: only undecided buckets continue */
};

/* How the whole table compares; a plain value. */
struct rounds_result {
    /* The gain over the default plan, and over the best static one; in a further launch if there
     * were several.  The best of several static plans profits most from noise.  So each half of the
     * cycles judges the static plan that the other half chose.  If the halves disagree, static_arm
     * is the choice of all cycles. */
    struct gain over_default, over_static;
    bool loses, may_lose; /* against the default: by the mean; by the end of the interval */
    int static_arm;       /* -1: none */
    int launches;         /* of the ranks, with the search's launch */
    uint32_t rounds, steps;
};

/* What a bucket's pairs prove of a plan against the default.  All were taken after the plan was
 * chosen. */
struct rounds_finding {
    enum proof proof;
    struct gain gain; /* expected in a further launch; in this launch if there was only one */
};

/* Lists static plans that may be better than the table, the best first, and returns how many.  They
 * are the plans that the search expects to take at most 5 % longer than the best static plan.
 * Without a cost model they are the plans of most buckets. */
int rounds_statics(struct search *search, const struct rounds_bucket *buckets, int bucket_count,
                   int default_arm, int statics[ROUNDS_STATICS_MAX]);

/* Begins the rounds without samples.  With reruns > 0, rounds_recall() and rounds_continue()
 * follow. */
void rounds_open(struct rounds *rounds, const struct rounds_setup *setup);

/* The bucket and arm to sample next.  False: the rounds have ended. */
bool rounds_next(const struct rounds *rounds, int *bucket, int *arm);

/* Hands over a sample.  It is ignored if the arm is not compared in this bucket. */
void rounds_tell(struct rounds *rounds, int bucket, int arm, int64_t ns);
/* Hands over a sample that was taken in that round of an earlier run. */
void rounds_recall(struct rounds *rounds, int bucket, int arm, uint32_t round, int64_t ns);
/* Has undecided buckets continue after all recorded samples, in a launch of their own. */
void rounds_continue(struct rounds *rounds);
/* Takes an arm that failed out of a bucket.  The default takes its place there. */
void rounds_drop(struct rounds *rounds, int bucket, int arm);

/* The comparison so far, at any time. */
struct rounds_result rounds_result(const struct rounds *rounds);

/* The launch, from 1 on, in which the next sample has to run; 0: any. */
int rounds_launch(const struct rounds *rounds);

/* The plan that a bucket gets after the rounds, and why.  A plain value. */
struct rounds_verdict {
    int arm;
    enum verdict_as {
        VERDICT_BY_ITSELF, /* the chosen plan, another plan that is proven, or the default */
        VERDICT_STATIC,    /* the best plan for the table as a whole */
        VERDICT_SHARED,    /* the plan of both neighbours, which is as good: a shorter table */
        VERDICT_CONFIRMED  /* the plan that earlier rounds have proven */
    } as;
    struct rounds_finding finding;
    struct doubt doubt; /* if the bucket gets the default */
};

/* With reruns: cycles per launch (0: launches do not matter), and the most cycles that can follow.
 */
uint32_t rounds_launch_cycles(const struct rounds *rounds);
uint32_t rounds_cycles_left(const struct rounds *rounds);

/* Decides bucket by bucket, then for the table as a whole:
 *
 * 1. A plan without a proof gives way to the best plan that is proven in its bucket: a static plan,
 *    or the plan of both neighbours.  Without such a plan the bucket gets the default.  Results in
 *    neighbouring buckets may prove a plan harmless, so all buckets are judged before one changes.
 * 2. The best static plan gets the buckets where it is clearly faster.  If the whole table loses to
 *    it, it also gets the buckets where it is not clearly slower.  It needs a proof against the
 *    default, too.
 * 3. The plan of both neighbours gets up to three buckets between them.  There it must be proven,
 *    slower than the present plan by at most `margin` (a share), and not shown to be slower.
 * 4. If the table may be slower than the default, all plans that are not proven faster become the
 *    default.  If its mean is slower, all plans do.
 *
 * A confirmed plan was proven by samples of its own.  A few further samples do not change that, and
 * no other plan replaces it.  If these rounds show that it is slower than the default, it is judged
 * like the others.  If they show that the whole table is slower, it becomes the default, too.
 *
 * `harm`: the greatest chance that a proof is wrong.  Returns true if the chosen table lost. */
bool rounds_decide(struct rounds *rounds, double margin, double harm,
                   struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]);

/* Decides for trainers that cannot change plans between buckets: all buckets get the chosen table,
 * as VERDICT_STATIC, or all get the default.  The table must be faster by all buckets together, and
 * slower by more than 1 % with a chance of at most whole_harm.  It also stays where the default
 * cannot run in every bucket.  Returns true if the table stays. */
bool rounds_decide_whole(struct rounds *rounds, struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]);

#endif
