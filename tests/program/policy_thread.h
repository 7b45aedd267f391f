/* Decides capacities and plans on a thread beside the steps of a trainer.  The thread reads the
 * counts of step t, and makes the answer for step t + delta.  The trainer waits only if that takes
 * longer than delta steps.
 *
 *     policy_open(&setup, &policy);
 *     for (step = first;; step++) {
 *         policy_answer(policy, step, &answer);          answer.capacities, .state.key, .plan
 *         ... route ...
 *         policy_counts(policy, step, counts, now_ns);   as soon as they are known; returns at once
 *         ... the rest of the step ...
 *     }
 *
 * Which answer a step gets does not depend on how the threads run. */
#ifndef POLICY_THREAD_H
#define POLICY_THREAD_H

#include "moelookup.h"

struct policy_setup {
    struct moe_capacities *capacities; /* the thread's until policy_close */
    const struct moelookup_view *view; /* NULL: plans are not asked for */
    uint32_t experts, delta;           /* those of the capacities */
    uint64_t first;                    /* step */
    /* Nanoseconds that the work of a step takes on a virtual clock; NULL: none. */
    int64_t (*work_ns)(void *self, uint64_t step);
    void *self;
};

struct policy_answer {
    const uint32_t *rows; /* of each expert; until the next call of policy_answer */
    struct moe_capacities_state state;
    struct moe_plan plan;
    int status;       /* of the library; all else is valid only for MOE_OK */
    int64_t ready_ns; /* on the virtual clock that policy_counts is told */
};

struct policy;

int policy_open(const struct policy_setup *setup, struct policy **out);
void policy_close(struct policy *policy); /* NULL is fine */

/* Of each step in turn, after its policy_answer. */
void policy_counts(struct policy *policy, uint64_t step, const uint32_t *counts, int64_t now_ns);

/* Waits until counts up to step - delta have been worked on. */
void policy_answer(struct policy *policy, uint64_t step, struct policy_answer *out);

#endif
