/* One bucket from its first sample to what the dictionary will say: the search, then the contest of
 * its winner with the default plan and with the plan in force.  Pure: ask what to sample, tell what
 * it took, whoever runs the steps.
 *
 *     decision_open(&d, &setup);
 *     decision_recall(&d, phase, arm, recorded_ns);      what an earlier run sampled, in its order
 *     while ((arm = decision_next(&d, &phase)) != DECISION_DONE)
 *         decision_tell(&d, phase, arm, measured_ns);    or decision_drop(&d, arm) if it failed
 *     decided = decision_result(&d, &result);
 *
 * A rematch asks no search: the plans are known, and only who is fastest now is in question. */
#ifndef DECISION_H
#define DECISION_H

#include "contest.h"
#include "search.h"

enum { DECISION_DONE = -1, DECISION_KEPT_MAX = 4 * CONTEST_ROUNDS_MAX };

enum decision_phase { DECISION_SEARCH, DECISION_CONTEST };

struct decision_setup {
    struct search *search; /* borrowed; nobody else may visit until the decision is made */
    uint64_t capacity;
    const bool *usable; /* by arm; NULL = all are */
    int standard;       /* the default plan's arm, or -1 */
    int incumbent;      /* the arm in force, or -1 */
    bool rematch;       /* `challenger` against these two, without a search */
    int challenger;     /* of a rematch; the incumbent itself, if there is no other */
    struct contest_settings contest;
};

struct decision {
    struct decision_setup setup; /* usable: not kept */
    bool usable[SEARCH_ARMS_MAX];
    struct search_verdict found;
    bool contested; /* the contest is open */
    struct contest contest;
    int contestants[CONTEST_PLANS_MAX], contestant_count; /* arms */
    struct kept {
        int arm;
        int64_t ns;
    } kept[DECISION_KEPT_MAX]; /* every sample of a contest: a second one begins with them */
    uint32_t kept_count;
};

struct decision_result {
    int arm; /* that the dictionary gets */
    struct search_verdict found;
    struct contest_verdict contest;
};

/* Opens the search's visit, unless it is a rematch. */
void decision_open(struct decision *decision, const struct decision_setup *setup);

/* The arm to sample next and what for, or DECISION_DONE. */
int decision_next(struct decision *decision, enum decision_phase *phase);

void decision_tell(struct decision *decision, enum decision_phase phase, int arm, int64_t ns);
void decision_recall(struct decision *decision, enum decision_phase phase, int arm, int64_t ns);
void decision_drop(struct decision *decision, int arm); /* failed: never again in this bucket */
void decision_shun(struct decision *decision, int arm); /* likewise: too slow to be tried */

/* After DECISION_DONE.  False: nothing is usable. */
bool decision_result(const struct decision *decision, struct decision_result *out);

#endif
