/* Decides which plan one bucket gets: it lets a search choose a candidate, then proves the
 * candidate against the default plan.  It runs no steps itself: the caller asks what to sample and
 * hands the time over.
 *
 *     decision_open(&d, &setup);
 *     decision_recall(&d, purpose, arm, recorded_ns);    recorded samples, in their order
 *     while ((arm = decision_next(&d, &purpose)) != DECISION_DONE)
 *         decision_tell(&d, purpose, arm, measured_ns);  or decision_drop(&d, arm) if it failed
 *     decided = decision_result(&d, &result);
 *
 * First the search chooses the plan that it expects to be fastest: the candidate.  It chooses the
 * default instead if that is as good within 0.1 %, and the plan in force if that is as good within
 * a margin.  A search may be wrong, and the best of many plans also profits most from noise.  So
 * only fresh samples prove the candidate: it and the default run in pairs.
 *
 * The pairs alone have to prove that the candidate is faster.  That it is not slower by more than
 * 1 % the pairs may prove together with the search's belief.  The belief is never taken to be surer
 * than its samples, and does not count if the pairs contradict it. */
#ifndef DECISION_H
#define DECISION_H

#include "pairs.h"
#include "search.h"
#include "stats.h"

enum { DECISION_DONE = -1 };

/* What a sample is taken for. */
enum decision_purpose {
    DECISION_SEARCH, /* the search asks for it */
    DECISION_SAFETY, /* a pair of the candidate and the default */
    DECISION_OTHER   /* another purpose: a verification, a trainer, another day */
};

/* What is to be decided.  decision_open() copies it; the pointers are borrowed. */
struct decision_setup {
    struct search *search; /* nobody else may begin a bucket of it until the decision is made */
    uint64_t capacity;
    const bool *usable; /* by arm; NULL: all are.  decision_open() alone reads it */
    int default_arm;    /* the default plan's arm, or -1 */
    int incumbent;      /* the arm of the plan in force, or -1 */
    bool alone;         /* samples of other buckets do not count: they may be out of date */
    bool again;         /* decided before with less effort: the search may continue after a proof */
    double harm;        /* the greatest chance that a proof is wrong; 0 = 0.01 */
    double margin;      /* another plan replaces the incumbent if it saves this share of its time */
    /* Samples of both plans until a candidate without a proof is given up; 0 = 40.  With `launched`
     * up to six times as many, while a proof is expected to be worth them. */
    uint32_t patience;
    /* By arm: the plan's distance from the default, whose own is 0.  Among plans that are as good
     * within half a percent, the nearest one is chosen.  NULL: distances do not matter. */
    const uint32_t *distance;
    bool launched; /* each sample of a plan comes from a launch of its own; no rounds follow */
};

/* The pairs of a candidate and the default, taken after the candidate was chosen.  The n-th samples
 * of both are a pair. */
enum { PROOF_PAIRS_MAX = 96 };
struct paired_proof {
    int arm;              /* the candidate's */
    struct normal belief; /* of log(candidate / default), when the candidate was chosen */
    uint32_t taken[2];    /* samples of the candidate, of the default */
    double log_ns[2][PROOF_PAIRS_MAX];
};

/* A decision in progress; a plain value that decision_open() fills. */
struct decision {
    struct decision_setup setup;
    bool chosen; /* the search has ended, and `winner` is the plan that it expects to be fastest */
    int winner;
    struct paired_proof proofs[2]; /* of the candidate, then of the plan in force */
    int proof_count;               /* 0: the default was chosen */
};

enum decision_word {
    DECISION_ADOPTED,   /* proven faster than the default */
    DECISION_LIKELY,    /* measured faster, and proven not to be slower by more than 1 % */
    DECISION_DEFAULT,   /* no plan is proven to do no harm */
    DECISION_INCUMBENT, /* the plan in force stays: no other is better by the margin */
    DECISION_ALONE,     /* the default cannot run here */
    DECISION_STATIC     /* the best plan for the table as a whole: see rounds.h */
};
extern const char *const decision_words[];

/* What the table is to say of a bucket; a plain value.  "The plan" is `arm`. */
struct decision_result {
    int arm;
    enum decision_word word;
    struct search_result found;
    double ns, low_ns, high_ns; /* the plan's expected time and its 95 % interval */
    double default_ns;          /* NAN without a default */
    struct gain gain;           /* 1 - ns / default_ns with its interval, for this launch; for a
                                 * further launch with `launched`; NAN without a default */
    double bound;               /* with 95 % the plan is slower than the best by less than this */
    struct doubt doubt; /* if the default is published: a plan that is likely to be better */
    double harm;        /* the chance that the plan is slower than the default by more than 1 % */
    uint32_t samples;   /* of the plan and the default */
};

/* Begins the decision, and the bucket in its search. */
void decision_open(struct decision *decision, const struct decision_setup *setup);

/* The arm to sample next and its purpose, or DECISION_DONE. */
int decision_next(struct decision *decision, enum decision_purpose *purpose);

/* `among` has the arms that can be sampled cheaply now.  The function returns one of them whose
 * sample is worth nearly as much as that of decision_next(), or DECISION_DONE. */
int decision_next_among(struct decision *decision, const bool *among,
                        enum decision_purpose *purpose);

/* Hands over a new sample. */
void decision_tell(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
/* Hands over a recorded sample. */
void decision_recall(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
/* Takes an arm that failed out of this bucket. */
void decision_drop(struct decision *decision, int arm);
/* Takes an arm that is too slow to be tried out of this bucket. */
void decision_drop_slow(struct decision *decision, int arm);

/* Whether the chance that an arm is slower than the default by more than 1 % is at most `harm`. */
bool decision_is_safe(const struct decision *decision, int arm);

/* At any time: what would be published now.  False: no arm is usable. */
bool decision_result(const struct decision *decision, struct decision_result *out);
/* What would be published for this arm, whether it is proven or not. */
bool decision_result_of(const struct decision *decision, int arm, struct decision_result *out);

/* The candidate with its pairs; NULL: there is no candidate. */
const struct paired_proof *decision_proof(const struct decision *decision);
/* The log ratios of a proof's pairs. */
struct pairs proof_pairs(const struct paired_proof *proof);

#endif
