/* One bucket from its first sample to what the dictionary will say.  Pure: ask what to sample, tell
 * what it took, whoever runs the steps.
 *
 *     decision_open(&d, &setup);
 *     decision_recall(&d, purpose, arm, recorded_ns);    what was sampled before, in its order
 *     while ((arm = decision_next(&d, &purpose)) != DECISION_DONE)
 *         decision_tell(&d, purpose, arm, measured_ns);  or decision_drop(&d, arm) if it failed
 *     decided = decision_result(&d, &result);
 *
 * First the search chooses: the plan that it expects to be fastest, unless the default is as good
 * within .1 %, or the plan in force within a margin.  What a search believes may be wrong, and what
 * looks best of many was also lucky.  So the choice is a candidate, and it is published only for
 * what it shows afterwards: it and the default run in pairs.  These alone prove that it is faster;
 * that it is not slower by more than 1 % they may prove together with the belief, which is never
 * taken to be surer than the samples that it rests on, unless the two contradict each other. */
#ifndef DECISION_H
#define DECISION_H

#include "pairs.h"
#include "search.h"
#include "stats.h"

enum { DECISION_DONE = -1 };

/* What a sample is taken for. */
enum decision_purpose {
    DECISION_SEARCH, /* the search asks for it */
    DECISION_SAFETY, /* is the candidate slower than the default? */
    DECISION_OTHER   /* somebody else's: a verification's, a trainer's, that of another day */
};

struct decision_setup {
    struct search *search; /* borrowed; nobody else may visit until the decision is made */
    uint64_t capacity;
    const bool *usable; /* by arm; NULL = all are; not kept */
    int default_arm;    /* the default plan's arm, or -1 */
    int incumbent;      /* the arm in force, or -1 */
    bool alone;         /* what other capacities say does not count: they may be out of date */
    bool again;         /* it was decided by less effort: the search may go on after its proof */
    double harm;        /* the greatest chance that a proof is wrong; 0 = 0.01 */
    double margin;      /* by how much the incumbent must be beaten, a share of its time */
    /* Samples of both until a candidate is given up; 0 = 40.  `launched`: up to six times as many
     * while they are expected to be worth it, for no rounds follow. */
    uint32_t patience;
    /* By arm: how far a plan lies from the default, which is 0; borrowed.  Of plans that are as
     * good within half a percent the nearest one is chosen.  NULL: they are all as far. */
    const uint32_t *distance;
    bool launched; /* each sample of a plan is from a launch of its own */
};

/* Pairs of a candidate and the default, taken after it was chosen: the n-th samples of both. */
enum { PROOF_PAIRS_MAX = 96 };
struct paired_proof {
    int arm;
    struct normal belief; /* of the candidate's log time less the default's, when it was chosen */
    uint32_t taken[2];
    double log_ns[2][PROOF_PAIRS_MAX]; /* the candidate's, the default's */
};

struct decision {
    struct decision_setup setup;
    bool chosen; /* the search has ended; `winner` is what it expected to be fastest */
    int winner;
    struct paired_proof proofs[2]; /* in the order in which they may be published */
    int proof_count;               /* 0: the default is the choice */
};

enum decision_word {
    DECISION_ADOPTED,   /* it is faster than the default, with a chance of error below the limit */
    DECISION_LIKELY,    /* it is expected to be, and is not slower by 1 % with that chance */
    DECISION_DEFAULT,   /* no plan is proven to do no harm */
    DECISION_INCUMBENT, /* the plan in force stays: none is better by the margin */
    DECISION_ALONE,     /* the default cannot run here */
    DECISION_STATIC     /* what is best for the table as a whole: see rounds.h */
};
extern const char *const decision_words[];

struct decision_result {
    int arm; /* that the dictionary gets */
    enum decision_word word;
    struct search_result found;
    double ns, low_ns, high_ns; /* of a step under it: expected, and a 95 % interval */
    double default_ns;          /* NAN without a default */
    struct gain gain;           /* 1 - ns / default_ns with its interval, in this launch, or in a
                                 * further one if they are `launched`; NAN without one */
    double bound;       /* it is slower than the best plan by less than this share, with 95 % */
    struct doubt doubt; /* where the default is published: the candidate, if it is likely better */
    double harm; /* the chance that it is slower than the default by more than 1 %; 0 without */
    uint32_t samples; /* of it and the default */
};

/* Opens the search's visit. */
void decision_open(struct decision *decision, const struct decision_setup *setup);

/* The arm to sample next and what for, or DECISION_DONE. */
int decision_next(struct decision *decision, enum decision_purpose *purpose);

/* An arm among some that can be sampled cheaply just now, where decision_next() asks for one that
 * cannot: it is worth a sample nearly as much.  DECISION_DONE: none is. */
int decision_next_among(struct decision *decision, const bool *among,
                        enum decision_purpose *purpose);

void decision_tell(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
void decision_recall(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
void decision_drop(struct decision *decision, int arm); /* failed: never again in this bucket */
void decision_drop_slow(struct decision *decision, int arm); /* likewise: too slow to be tried */

/* Whether the chance that an arm is slower than the default by more than 1 % is below the limit. */
bool decision_is_safe(const struct decision *decision, int arm);

/* At any time: what would be published now.  False: nothing is usable. */
bool decision_result(const struct decision *decision, struct decision_result *out);
/* The same if it were this arm's turn, whatever is proven of it. */
bool decision_result_of(const struct decision *decision, int arm, struct decision_result *out);

/* The candidate, with its pairs and what was believed of it; NULL before there is one. */
const struct paired_proof *decision_proof(const struct decision *decision);
struct pairs proof_pairs(const struct paired_proof *proof);

#endif
