/* One range of a space whose plans need launches: its decision, of which a sample is what one
 * launch shows of one plan. */
#ifndef LAUNCH_RANGE_H
#define LAUNCH_RANGE_H

#include "bucket.h"
#include "launch_watch.h"

enum range_state {
    RANGE_NEW, /* nothing is asked of a decision yet */
    RANGE_OPEN,
    RANGE_PINNED,   /* a person chose its plan: nothing is tried */
    RANGE_DECIDED,  /* its entry answers, or no plan runs there */
    RANGE_LEFT_OUT, /* it is not to be measured */
    RANGE_GIVEN_UP  /* the program asks for it too seldom */
};

struct launch_range {
    struct dictionary dictionary; /* with a search of its own: several ranges are open at once */
    struct bucket bucket;
    enum range_state state;
    uint64_t demand; /* as live_demand() has it */
    int pinned;      /* the arm that a person chose; -1: none that can run */
    int wanted;      /* the arm that the decision asks for, while it is open */
    enum decision_purpose purpose;
    uint32_t *shown; /* by arm: the last launch in which it gave a sample */

    struct watched watched;

    /* Of the launch under way. */
    int arm;      /* whose steps are gathered; -1: none */
    bool failing; /* its last plan failed */
};

/* Reads what earlier runs left; everything of `shared` but its search is taken. */
int launch_range_open(struct launch_range *range, const struct dictionary *shared, uint32_t bucket,
                      const struct search_setup *search);
void launch_range_close(struct launch_range *range);

/* Whether a person chose the plan: then nothing is tried, which is said. */
bool launch_range_pin(struct launch_range *range, struct row_list pins);

/* Has it decided, from what is known; writes the entry where nothing more is wanted. */
int launch_range_begin(struct launch_range *range);

/* A launch begins. */
void launch_range_reset(struct launch_range *range);

/* A step of the plan that the decision wants; after so many steps their median is a sample. */
int launch_range_step(struct launch_range *range, uint32_t launch, int64_t ns, uint32_t steps);

/* An arm cannot run; whoever calls commits. */
int launch_range_fail(struct launch_range *range, int arm, enum trial_state state, const char *why);

#endif
