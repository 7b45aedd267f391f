/* One range of a program's space: its decision, of which a sample is what one
 * launch shows of one plan.  Where a job has to choose its launch, the buckets have one decision
 * together first (search/launch_decision.h), and a range shows what that wants of it. */
#ifndef LAUNCH_BUCKET_H
#define LAUNCH_BUCKET_H

#include "bucket.h"
#include "launch_decision.h"
#include "launches.h"

#include <stddef.h>

/* Rounds of samples are the numbers of their launches; from here on, of those after the buckets
 * have chosen their launch, which say nothing of that choice. */
enum { LAUNCHES_AFTER_CHOICE = 1 << 30 };

struct launch_bucket {
    struct watched watched;       /* first: see launch_bucket_of() */
    struct dictionary dictionary; /* with a search of its own: several buckets are open at once */
    struct bucket bucket;
    uint64_t demand;                /* as bucket_demand() has it */
    struct launch_decision *choice; /* borrowed; NULL: the range decides by itself */
    int place;                      /* its number there; -1: it is none of its buckets */
    int pinned;                     /* the arm that a person chose; -1: none that can run */
    int wanted; /* the arm that the decision asks for, while it is open; in a launch that
                 * cannot show that, one that it would like to have on the occasion */
    enum decision_purpose purpose;
    bool on_occasion; /* the latter */
    bool cut;         /* its entry is what an earlier run could say when its time was up */
    uint32_t *shown;  /* by arm: the last launch in which it gave a sample */

    /* Of the launch under way. */
    int arm;      /* whose steps are gathered; -1: none */
    bool failing; /* its last plan failed */
};

/* The range that the launcher knows by this. */
static inline struct launch_bucket *launch_bucket_of(struct watched *watched)
{
    return (struct launch_bucket *)watched;
}
_Static_assert(offsetof(struct launch_bucket, watched) == 0, "launch_bucket_of() casts");

/* Reads what earlier runs left; everything of `shared` but its search is taken. */
int launch_bucket_open(struct launch_bucket *range, const struct dictionary *shared,
                       uint32_t bucket, const struct search_setup *search);
void launch_bucket_close(struct launch_bucket *range);

/* Whether a person chose the plan: then nothing is tried, which is said. */
bool launch_bucket_pin(struct launch_bucket *range);

/* Has it decided, from what is known; writes the entry where nothing more is wanted. */
int launch_bucket_begin(struct launch_bucket *range);

/* The same where the buckets choose their launch together, in which it counts by its weight; for
 * nothing where nobody demands it.  What it has sampled the caller tells the choice. */
int launch_bucket_join(struct launch_bucket *range, struct launch_decision *choice, double weight);
/* The choice is made: from here on the range decides among the plans of that launch by itself. */
int launch_bucket_part(struct launch_bucket *range, const uint32_t *launch_of, uint32_t launch);
/* Writes the entry: its plan is the best one of the launch that is best for all buckets together.
 * Where that is not known an entry of another launch ends: nobody could run both. */
int launch_bucket_follow(struct launch_bucket *range, const struct launch_decision *choice,
                         const uint32_t *launch_of, int launch);

/* Whether any plan can run in it. */
bool launch_bucket_runs(const struct launch_bucket *range);

/* A launch begins, of a choice's buckets for that purpose. */
void launch_bucket_reset(struct launch_bucket *range, const struct launch_under_way *launch,
                         enum decision_purpose purpose);

/* Whether the launch can show what is wanted. */
bool launch_bucket_wants(const struct launch_bucket *range, const struct launch_under_way *launch);
/* The same as the launcher asks it. */
enum launch_wish launch_bucket_wish(const struct launch_bucket *range,
                                    const struct launch_under_way *launch);

/* Where it cannot, the decision may want another arm that it can show: the start is paid for. */
void launch_bucket_look(struct launch_bucket *range, const struct launch_under_way *launch);

/* The best plan of the launch where nothing is sampled, the pinned one if it can be run in it, or
 * `safe` where none is known; -1: none can run. */
int launch_bucket_best(const struct launch_bucket *range, const struct launch_under_way *launch,
                       int safe);

/* A step of the plan that is wanted; so many are a sample. */
int launch_bucket_step(struct launch_bucket *range, const struct launch_under_way *launch,
                       int64_t ns, uint32_t steps);

/* The program ended before there were so many steps: if they are `least`, they have to do. */
int launch_bucket_end(struct launch_bucket *range, const struct launch_under_way *launch,
                      uint32_t least);

/* After a launch: what the decision asks for, wherever it can be shown; the entry, if the launch's
 * last sample has decided the range. */
int launch_bucket_next(struct launch_bucket *range);

/* An arm cannot run; whoever calls commits. */
int launch_bucket_fail(struct launch_bucket *range, int arm, enum trial_state state,
                       const char *why);

#endif
