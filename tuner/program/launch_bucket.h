/* One bucket of a declared space that launches decide: what the store knows of it, its decision,
 * and what the launch under way shows.  A sample is what one launch shows of one plan.
 *
 * A table has one set of launch values.  So the buckets of a space with restart axes first take a
 * joint decision about them (search/launch_decision.h), and show what that decision wants.
 * Functions return an error of the store after its message; those that write are not committed
 * unless their comment says so. */
#ifndef LAUNCH_BUCKET_H
#define LAUNCH_BUCKET_H

#include "bucket.h"
#include "launch_decision.h"
#include "launches.h"

#include <stddef.h>

/* The store groups samples by a round, which is the number of their launch.  Rounds from here on
 * are of launches after the joint decision, which does not use them. */
enum { LAUNCHES_AFTER_CHOICE = 1 << 30 };

/* The caller owns it; launch_bucket_open() makes it whole. */
struct launch_bucket {
    struct watched_bucket watched; /* first: see launch_bucket_of() */
    struct dictionary dictionary;  /* with a search of its own, because several buckets are open */
    struct bucket bucket;
    uint64_t demand;               /* of bucket_demand(); 0: the bucket is left out */
    struct launch_decision *joint; /* borrowed; NULL: the bucket decides by itself */
    int joint_index;               /* its index in the joint decision; -1: it takes no part */
    int pinned;                    /* the arm that a person pinned; -1: none that can run */
    int wanted;                    /* the arm to sample next, or DECISION_DONE */
    enum decision_purpose purpose; /* of that sample */
    bool on_occasion;              /* that sample is welcome, but no launch starts for it */
    bool provisional; /* its entry was written by an older moetune when its time was up */
    uint32_t *shown;  /* by arm: the last launch that gave a sample; 0: none */

    /* Of the launch under way. */
    int arm;      /* whose steps are gathered; -1: none */
    bool failing; /* the last plan that ran here failed */
};

/* Returns the bucket that contains this member. */
static inline struct launch_bucket *launch_bucket_of(struct watched_bucket *watched)
{
    return (struct launch_bucket *)watched;
}
_Static_assert(offsetof(struct launch_bucket, watched) == 0, "launch_bucket_of() casts");

/* Opens a bucket, and reads what earlier runs wrote of it.  It copies `shared`, but opens a search
 * of its own. */
int launch_bucket_open(struct launch_bucket *lb, const struct dictionary *shared, uint32_t bucket,
                       const struct search_setup *search);
void launch_bucket_close(struct launch_bucket *lb);

/* Returns whether a person pinned the plan here.  Then it prints so, and nothing will be tried. */
bool launch_bucket_apply_pin(struct launch_bucket *lb);

/* Begins the bucket's own decision with all that is known, and sets watched.state.  Writes the
 * entry if nothing more is wanted. */
int launch_bucket_begin(struct launch_bucket *lb);

/* Adds the bucket to the joint decision, with this weight; 0 if no command wants it.  The caller
 * tells the decision the samples of earlier runs. */
int launch_bucket_join(struct launch_bucket *lb, struct launch_decision *joint, double weight);
/* Leaves the joint decision, which has chosen the launch values with the index `values`.  From now
 * on the bucket decides by itself among the plans with these values.  values_of: by arm, index of
 * its launch values. */
int launch_bucket_decide_within(struct launch_bucket *lb, const uint32_t *values_of,
                                uint32_t values);
/* Leaves the joint decision, which has chosen the launch values with the index `values`, and writes
 * the best plan with these values here as the entry.  If no such plan was sampled, it ends an entry
 * with other launch values: a job cannot run both. */
int launch_bucket_adopt(struct launch_bucket *lb, const struct launch_decision *joint,
                        const uint32_t *values_of, int values);

/* Returns whether any plan can run in the bucket. */
bool launch_bucket_runs(const struct launch_bucket *lb);

/* Prepares for a launch.  `purpose` is that of the joint decision. */
void launch_bucket_begin_launch(struct launch_bucket *lb, const struct launch_under_way *launch,
                                enum decision_purpose purpose);

/* Returns whether the launch can give the sample that is wanted. */
bool launch_bucket_wants(const struct launch_bucket *lb, const struct launch_under_way *launch);
/* Returns the same as the launcher needs it: for a sample, on occasion, or not at all. */
enum launch_wish launch_bucket_wish(const struct launch_bucket *lb,
                                    const struct launch_under_way *launch);

/* If the launch cannot give the wanted sample, it may give another one that the decision wants,
 * too.  Then this one is wanted on occasion. */
void launch_bucket_use_launch(struct launch_bucket *lb, const struct launch_under_way *launch);

/* Returns the arm to run when no sample is wanted: the pinned plan if the launch can run it, else
 * its fastest plan, or `nearest_arm` if none is sampled.  -1: none can run. */
int launch_bucket_best_arm(const struct launch_bucket *lb, const struct launch_under_way *launch,
                           int nearest_arm);

/* Adds a step of the wanted plan.  After `steps` of them it writes the sample, commits, and asks
 * the decision what it wants next. */
int launch_bucket_add_step(struct launch_bucket *lb, const struct launch_under_way *launch,
                           int64_t ns, uint32_t steps);

/* Makes a sample of the steps that are gathered if there are at least `least_steps`.  Used when the
 * program has ended. */
int launch_bucket_finish_sample(struct launch_bucket *lb, const struct launch_under_way *launch,
                                uint32_t least_steps);

/* After a launch: asks the decision what it wants next.  Writes the entry if the bucket is decided.
 */
int launch_bucket_advance(struct launch_bucket *lb);

/* Writes that an arm cannot run, and asks the decision what it wants next.  A bucket with an entry
 * of this plan is decided again.  The caller commits. */
int launch_bucket_fail(struct launch_bucket *lb, int arm, enum trial_state state, const char *why);

#endif
