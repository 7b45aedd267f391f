/* One bucket from its first sample to what the dictionary will say.  Pure: ask what to sample, tell
 * what it took, whoever runs the steps.
 *
 *     decision_open(&d, &setup);
 *     decision_recall(&d, purpose, arm, recorded_ns);    what was sampled before, in its order
 *     while ((arm = decision_next(&d, &purpose)) != DECISION_DONE)
 *         decision_tell(&d, purpose, arm, measured_ns);  or decision_drop(&d, arm) if it failed
 *     decided = decision_result(&d, &result);
 *
 * The rule: the plan of least expected time is published whose chance to be slower than the default
 * plan by more than 1 % is below a limit.  Everything that was sampled informs one belief, the
 * search's; while the best plan is not yet safe, it and the default are sampled in turn.  The
 * default stands where it is as good within .1 %.  A new plan takes the place of the one in force
 * only if it is better by more than a margin. */
#ifndef DECISION_H
#define DECISION_H

#include "search.h"
#include "stats.h"

enum { DECISION_DONE = -1 };

/* What a sample is taken for. */
enum decision_purpose {
    DECISION_SEARCH, /* the search asks for it */
    DECISION_SAFETY, /* is the best plan slower than the default? */
    DECISION_OTHER   /* somebody else's: a verification's, a trainer's, that of another day */
};

struct decision_setup {
    struct search *search; /* borrowed; nobody else may visit until the decision is made */
    uint64_t capacity;
    const bool *usable; /* by arm; NULL = all are; not kept */
    int default_arm;    /* the default plan's arm, or -1 */
    int incumbent;      /* the arm in force, or -1 */
    bool alone;         /* what other capacities say does not count: they may be out of date */
    double harm;        /* the greatest chance to be slower than the default; 0 = 0.01 */
    double margin;      /* by how much the incumbent must be beaten, a share of its time */
    uint32_t patience;  /* samples for safety's sake before the best plan is given up; 0 = 40 */
};

struct decision {
    struct decision_setup setup;
    uint32_t safety_samples;
};

enum decision_word {
    DECISION_ADOPTED,   /* it is faster than the default, with a chance of error below the limit */
    DECISION_LIKELY,    /* it is expected to be, and is not slower by 1 % with that chance */
    DECISION_DEFAULT,   /* no plan that may be published is expected to be faster */
    DECISION_INCUMBENT, /* the plan in force stays: none is better by the margin */
    DECISION_ALONE,     /* the default cannot run here */
    DECISION_STATIC     /* what is best for the table as a whole, by another rule than this one */
};
extern const char *const decision_words[];

struct decision_result {
    int arm; /* that the dictionary gets */
    enum decision_word word;
    struct search_result found;
    double ns, low_ns, high_ns; /* of a step under it: expected, and a 95 % interval */
    double default_ns;          /* NAN without a default */
    struct gain gain;           /* 1 - ns / default_ns with its interval; NAN without one */
    double bound; /* it is slower than the best plan by less than this share, with 95 % */
    double harm;  /* the chance that it is slower than the default by more than 1 %; 0 without */
    uint32_t samples; /* of it and the default */
};

/* Opens the search's visit. */
void decision_open(struct decision *decision, const struct decision_setup *setup);

/* The arm to sample next and what for, or DECISION_DONE. */
int decision_next(struct decision *decision, enum decision_purpose *purpose);

/* An arm among some that can be sampled cheaply just now, where decision_next() asks for one that
 * cannot: it is worth a sample nearly as much.  DECISION_DONE: none is. */
int decision_also(struct decision *decision, const bool *among, enum decision_purpose *purpose);

void decision_tell(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
void decision_recall(struct decision *decision, enum decision_purpose purpose, int arm, int64_t ns);
void decision_drop(struct decision *decision, int arm); /* failed: never again in this bucket */
void decision_shun(struct decision *decision, int arm); /* likewise: too slow to be tried */

/* Whether the chance that an arm is slower than the default by more than 1 % is below the limit. */
bool decision_is_safe(const struct decision *decision, int arm);

/* At any time: what would be published now.  False: nothing is usable. */
bool decision_result(const struct decision *decision, struct decision_result *out);
/* Whether that may be published before the decision is made: it is faster than the default, by more
 * than one sample of each. */
bool decision_stands(const struct decision *decision, const struct decision_result *result);
/* The same of the static plan's arm. */
bool decision_result_of(const struct decision *decision, int arm, struct decision_result *out);

#endif
