/* The table as a whole against the default plan and against one plan for every bucket, over several
 * launches of the ranks.  Pure: ask what to sample, tell what it took.
 *
 *     rounds_open(r, &setup);
 *     rounds_tell(r, bucket, arm, recorded_ns);          what was sampled before, in its order
 *     while (rounds_next(r, &bucket, &arm))
 *         rounds_tell(r, bucket, arm, measured_ns);      rounds_drop(r, bucket, arm) if it failed
 *     verdict = rounds_result(r);
 *
 * A round visits buckets in shuffled order, and in each of them every contestant once, in shuffled
 * order and without anything between: what slows the machine for extended than a few steps slows
 * all of them.  A cycle is as many rounds as it takes to see every bucket once: one where there
 * are few buckets.  First all contestants meet, in a few cycles.  Then, up to six times as long,
 * the most promising plan and the default go on in buckets that are not decided, while that is
 * expected to save more than it costs.  State follows from the samples alone, so that what is told
 * again in the same order leads to where it led before.
 *
 * Somebody who asks again has the buckets go on that are still not decided:
 *
 *     rounds_open(r, &setup);                               with reruns > 0
 *     rounds_recall(r, bucket, arm, round, recorded_ns);    whatever was sampled before
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
    /* Pairs of a bucket's candidate and the default before them, which prove nothing yet. */
    PAIRS_BEFORE_ROUNDS = 2
};

struct rounds_bucket {
    double weight; /* its share of a trainer's steps; they need not add up to 1 */
    uint64_t capacity;
    int table;          /* the arm that was chosen there */
    const bool *usable; /* by arm; NULL = all are; not kept */
    /* Of the table's arm and the default, taken after that arm was chosen, in the launch in which
     * it was chosen (number 0); NULL: none.  Not kept.  And what was believed of their log ratio.
     */
    const struct pairs *first;
    struct normal belief;
    bool confirmed; /* by an earlier series: it stays unless this one shows that it is slower */
};

struct rounds_setup {
    const struct rounds_bucket *buckets; /* in the order of capacities; not kept */
    int bucket_count;
    int default_arm;    /* the default plan's arm, or -1 */
    const int *statics; /* arms that might do for every bucket: rounds_statics(); not kept */
    int static_count;   /* at most ROUNDS_STATICS_MAX */
    uint32_t cycles_min, cycles_max; /* 0 = 4 and 30; none is begun that must stay incomplete */
    uint32_t steps_max;              /* 0: no matter; cycles_min are taken all the same */
    /* So many cycles in each further launch of the ranks, and the most launches; then cycles_min
     * and cycles_max follow.  0: all cycles are taken in one launch. */
    uint32_t launch_cycles, launches;
    /* Of a sample, as a share of a step, as struct search_setup has it: what a verdict is worth
     * where the cycles above assign a bucket undecided.  0: nothing. */
    double worth;
    /* The chance that rounds_decide_whole() takes, where it follows: rounds go on while the table
     * as a whole may yet be proven, and not for single buckets.  0: rounds_decide() follows. */
    double whole_harm;
    uint32_t reruns; /* how often somebody has asked again, this time included */
    uint64_t seed;
    double kappa; /* deviations of what is stated are multiplied by it; 0 = 1, never below */
};

struct rounds {
    struct rounds_setup setup; /* without the arrays */
    struct rounds_contest {
        double weight, log_capacity;
        int chosen; /* the table's arm when the rounds began */
        bool confirmed;
        int arm_count, arms[ROUNDS_ARMS_MAX]; /* different ones */
        int role[ROUNDS_ARMS_MAX];            /* whose arm is which; -1: it cannot run here */
        bool dropped[ROUNDS_ARMS_MAX];
        bool finished[ROUNDS_ARMS_MAX]; /* enough is known of it */
        bool extended;                  /* it went on where others were decided */
        double log_ns[ROUNDS_ARMS_MAX][ROUNDS_CYCLES_MAX]; /* NAN: not sampled in that cycle */
        int first_place; /* whose the first pairs are; -1: there are none */
        struct pairs first;
        struct normal belief;
    } contests[ROUNDS_BUCKETS_MAX];
    int statics[ROUNDS_STATICS_MAX];
    uint32_t round, steps; /* complete rounds; samples told */
    uint32_t cycles_limit; /* none is begun that comes after so many */
    bool done, extended;   /* extended: what follows is for undecided buckets alone */
};

struct rounds_result {
    /* Over the default plan, and over the best static one: the arm is chosen on half of the
     * cycles and judged on the other half, and the other way round, for the best of several is
     * also the luckiest of them.  Where the halves disagree the arm named is all cycles' choice. */
    struct gain over_default, over_static; /* in a further launch, where there were several */
    bool loses, may_lose; /* against the default: as it looks; by the interval's far end */
    int static_arm;       /* -1: there is none */
    int launches;         /* of the ranks that it finished on, that of the search included */
    uint32_t rounds, steps;
};

/* What a bucket's pairs, all taken after the plan was chosen, prove of it against the default. */
struct rounds_proof {
    enum proof proof;
    struct gain gain; /* to expect in a further launch; of one launch, in that */
};

/* Static plans that may be better than the table, the best first: those that the search expects to
 * take at most 5 % extended than the best of them; without a cost model those of most buckets. */
int rounds_statics(struct search *search, const struct rounds_bucket *buckets, int bucket_count,
                   int default_arm, int statics[ROUNDS_STATICS_MAX]);

void rounds_open(struct rounds *rounds, const struct rounds_setup *setup);

/* False: enough is known, or no more is to be taken. */
bool rounds_next(const struct rounds *rounds, int *bucket, int *arm);

/* A step's time; it is ignored if the arm is none of the bucket's contestants. */
void rounds_tell(struct rounds *rounds, int bucket, int arm, int64_t ns);
/* The same of a step that was taken in that round of an earlier go. */
void rounds_recall(struct rounds *rounds, int bucket, int arm, uint32_t round, int64_t ns);
/* After all of those: begins the go, in a launch of its own. */
void rounds_continue(struct rounds *rounds);
/* Failed: never again in this bucket.  The default stands in for it. */
void rounds_drop(struct rounds *rounds, int bucket, int arm);

struct rounds_result rounds_result(const struct rounds *rounds);

/* The launch, from 1 on, in which the next sample is to be taken; 0: launches do not matter. */
int rounds_launch(const struct rounds *rounds);

/* What the table gets where the rounds are obeyed. */
struct rounds_verdict {
    int arm;
    enum verdict_as {
        VERDICT_BY_ITSELF, /* the plan chosen there, the default, or what is proven in its place */
        VERDICT_STATIC,    /* it is the best for the table as a whole */
        VERDICT_SHARED,    /* it is the plan of both sides, and as good: the table gets shorter */
        VERDICT_CONFIRMED  /* as an earlier series verdicts it */
    } as;
    struct rounds_proof word;
    struct doubt doubt; /* where the default stands */
};

/* Cycles of one launch of a further go; 0: launches do not matter.  How many the go has at most. */
uint32_t rounds_launch_cycles(const struct rounds *rounds);
uint32_t rounds_cycles_left(const struct rounds *rounds);

/* Bucket by bucket, then for the table as a whole:
 *
 * 1. What is not proven where it was chosen gives way to the best plan that is proven there (the
 *    static ones and that of both sides met the default as often), else to the default.  What a
 *    plan shows in the buckets beside this one may prove that it is harmless in this one; so all
 *    are judged before one gives way.
 * 2. The best static plan takes the buckets where it clearly wins; where the whole table loses to
 *    it, also those where it does not clearly lose.  It, too, must not be slower than the default.
 * 3. The plan of both sides takes up to three buckets between where it was slower than theirs by at
 *    most `margin` (a share), is not shown to be slower at all, and is proven.
 * 4. If the table may be slower than the default, what is not proven to be faster reruns; if it
 * looks slower, everything.
 *
 * What an earlier series confirmed has proven itself on samples of its own.  A few samples more, in
 * perhaps a bad hour, do not take that away, nor does another plan take its place.  Where these
 * rounds show that it is slower than the default it is judged like the others, and where they show
 * that the whole table is it reruns with that.
 *
 * `harm`: the greatest chance that a proof is wrong.  True: the table that was chosen lost. */
bool rounds_decide(struct rounds *rounds, double margin, double harm,
                   struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]);

/* Instead, for trainers that cannot follow plans bucket by bucket: the table that was chosen, as
 * VERDICT_STATIC in all buckets, or the default in all.  It is verdicts if by all buckets together
 * it is faster, and is slower by more than 1 % with a chance of at most whole_harm; and where the
 * default cannot run everywhere, for then there is nothing else.  True: it is. */
bool rounds_decide_whole(struct rounds *rounds, struct rounds_verdict verdicts[ROUNDS_BUCKETS_MAX]);

#endif
