/* Tunes a layer while it trains, on the rank that decides.  It answers asks and learns times; it
 * knows nothing of other ranks, callbacks or orders, which are in moetune.c. */
#ifndef LIVE_H
#define LIVE_H

#include "buckets.h"
#include "cluster.h"
#include "live_bucket.h"
#include "measuring_run.h"
#include "moetune.h"
#include "reach.h"

/* A bucket that is to be measured, and how often trainers asked for it. */
struct bucket_demand {
    uint32_t bucket;
    uint64_t asks;
};

/* What a table is opened with, as a plain value.  Its pointers are borrowed. */
struct table_setup {
    const char *path; /* NULL: the default place */
    bool dry_run;     /* keep everything in memory, and write no file */
    struct moe_shape shape;
    const char *layer, *cluster, *axes; /* NULL as in struct moetune_options */
    const struct effort *effort; /* NULL: normal; then entries of less effort are not measured again
                                  */
    uint32_t window, seed;
    unsigned store_flags; /* of store_open() */
    double share, margin, harm;
    /* The command in the run's row, with the limits of plans.  A plan that failed under other
     * limits may be tried again.  NULL: a plan that failed in any run is not tried again. */
    const char *command;
    double (*now_us)(void *self);
    void *self;
    /* The buckets to measure, the most wanted first.  NULL: every bucket that is asked for, all
     * with the same demand. */
    const struct bucket_demand *demands;
    size_t demand_count;
};

/* ---- the parts of live_open(); tune_launches.c calls them one by one */

/* Lists the plans to compare in `arms`, and starts *out with them. */
int table_arms(const struct table_setup *setup, struct dictionary *out,
               struct moe_plan arms[SEARCH_ARMS_MAX]);
/* Returns what a search of these plans needs. */
struct search_setup table_search(const struct table_setup *setup, const struct dictionary *d,
                                 const struct cluster *cluster);
/* Finds or makes the table in d->store, and begins the row of a run. */
int table_begin(const struct table_setup *setup, struct cluster *cluster, const char *search,
                struct dictionary *d, struct run *run);

/* Returns how much a bucket is wanted; 0: it is not to be measured. */
uint64_t bucket_demand(const struct table_setup *setup, uint32_t bucket);

/* ---- the budget: trying plans may cost a share of the training time so far */

struct budget {
    double share;
    double run_us;      /* all steps so far */
    double earned_us;   /* the share of them, without disturbances and without what tries add */
    double spent_us;    /* what tries took beyond the best known plan, and own_us */
    double own_us;      /* computing and exchanges of the tuner */
    double reserved_us; /* for the step under way */
};

/* Returns what may still be spent.  A twentieth is kept back, because times have noise. */
static inline double budget_left_us(const struct budget *p)
{
    return 0.95 * p->earned_us - p->spent_us - p->reserved_us;
}

/* Adds a step of `us`.  Without a disturbance, and under the best known plan, it would have taken
 * usual_us. */
static inline void budget_earn(struct budget *p, double us, double usual_us)
{
    p->run_us += us;
    p->earned_us += p->share * (us < usual_us ? us : usual_us);
}

/* Adds time of the tuner itself. */
static inline void budget_add_own(struct budget *p, double us)
{
    p->own_us += us > 0 ? us : 0;
    p->spent_us += us > 0 ? us : 0;
}

/* Replaces what was reserved by what the step has cost. */
static inline void budget_pay_step(struct budget *p, double cost_us)
{
    p->reserved_us = 0;
    p->spent_us += cost_us > 0 ? cost_us : 0;
}

/* ---- the tuner */

/* live_open() makes it whole; live_close() frees it. */
struct live {
    struct table_setup setup;     /* its strings are gone */
    struct dictionary dictionary; /* its store is NULL if this process only looks up */
    /* A copy for each class of a declared space, with a search of its own, because classes take
     * different times.  The first one has the dictionary's search. */
    struct dictionary *classes;
    uint32_t class_count;
    struct moe_plan arms[SEARCH_ARMS_MAX];
    struct reach reach;
    /* By arm: the largest step of this process. */
    struct ran {
        const struct dictionary *class;
        uint64_t capacity; /* 0: none */
        double ns;
    } ran[SEARCH_ARMS_MAX];
    struct run run;
    /* The view of libmoelookup: pins, and the answers without a store.  NULL in a dry run. */
    struct moelookup_view *view;

    struct live_buckets buckets;
    struct live_bucket *last;  /* the last one that was asked for */
    struct live_bucket *focus; /* the one that is being decided; NULL: none */
    uint64_t progress_at;      /* value of `asks` when its decision last made progress */
    uint32_t decided;          /* buckets */
    uint32_t insights;         /* how often a bucket got a better plan */

    struct budget budget;
    double saving_us; /* what must be saved up before the focus goes on */
    /* The ask whose time is not known yet. */
    struct pending {
        struct live_bucket *lb; /* NULL: there is none */
        uint64_t capacity;
        int arm;      /* of the answer */
        bool sampled; /* the decision wants this step */
        enum decision_purpose purpose;
    } pending;
    uint64_t asks;
    struct moetune_status status;
};

/* Opens the table and takes its lease.  If another process has the lease, this one only looks up.
 */
int live_open(const struct table_setup *setup, struct live **out);
/* Publishes and frees.  NULL is fine. */
void live_close(struct live *live);

/* Returns the key of a `capacity`.  In a declared space, whose buckets have width 1, a `capacity`
 * is a bucket, here and below, and the key is one that stands for it. */
static inline uint64_t live_key(struct buckets buckets, uint32_t capacity)
{
    return buckets.declared ? buckets_key_of(buckets, capacity) : capacity;
}
/* Answers an ask.  An ask before it that has no time yet is dropped. */
void live_ask(struct live *live, uint32_t capacity, struct moe_plan *plan);
/* Answers an ask whose bucket and key are both known; `capacity` is the key in a declared space. */
void live_ask_in(struct live *live, uint32_t bucket, uint64_t capacity, struct moe_plan *plan);

/* Learns the time of the step.  ERR_ARGUMENT: there was no ask. */
int live_tell(struct live *live, int64_t ns);
/* Learns what memory the step needed.  It comes before live_tell() or live_failed(). */
void live_memory(struct live *live, int64_t bytes);
/* Learns that the step could not run, instead of live_tell().  UNSUPPORTED: this failure does not
 * count, see ledger_may_repeat().  ERR_ARGUMENT: there was no ask. */
int live_failed(struct live *live, enum trial_state state, const char *why);
/* Drops an ask that will have no time. */
void live_drop_ask(struct live *live);

/* Learns the time of a step that ran without an ask, under the plan of live_rest(). */
int live_tell_unasked(struct live *live, uint32_t bucket, uint64_t capacity,
                      const struct moe_plan *plan, int64_t ns);
/* Learns that such a step could not run.  Returns what live_failed() returns. */
int live_failed_unasked(struct live *live, uint32_t capacity, const struct moe_plan *plan,
                        enum trial_state state, const char *why);
/* Adds the time that carrying orders and times between ranks took. */
void live_add_cost(struct live *live, double us);

/* Writes the best known plan in the bucket of the capacity.  Returns for how many steps, of all
 * buckets, no other plan will be answered there, if an ask costs asking_us. */
uint32_t live_rest(struct live *live, uint32_t capacity, double asking_us, struct moe_plan *plan);
#define LIVE_NEVER UINT32_MAX

/* Returns the numbers of moetune_status(). */
struct moetune_status live_status(const struct live *live);

/* Finds the cluster that the options describe.  All users of the table have the same one. */
int live_cluster(const struct table_setup *setup, struct cluster *out);

/* ---- between the files: live.c calls learn.c and recall.c, and learn.c calls recall.c */

/* Stops learning for good, after an error of the store that was printed.  (recall.c) */
void live_stop_learning(struct live *live);

/* Finds a bucket, or adds it; *fresh: it was added.  NULL: out of memory. */
struct live_bucket *live_bucket_at(struct live *live, uint32_t bucket, bool *fresh);

/* Writes the answer of libmoelookup, which knows nothing of this process.  Without a view it is the
 * default plan.  (recall.c) */
void live_look_up(const struct live *live, uint32_t bucket, uint64_t capacity,
                  struct moe_plan *plan);

/* Sets the bucket's answer if it has none yet, or if a guess may now be better.  (recall.c) */
void live_ensure_answer(struct live *live, struct live_bucket *lb);
/* Makes the bucket's entry its answer.  False: there is no entry that this layer can run. */
bool live_apply_entry(struct live *live, struct live_bucket *lb);
/* Sets the bucket's best arm and its answer. */
void live_set_answer(struct live *live, struct live_bucket *lb, int arm, uint32_t source);
/* Sets the capacity to which the bucket's times are converted. */
void live_set_capacity(const struct live *live, struct live_bucket *lb, uint64_t capacity);

/* Returns the arm that the bucket's decision wants next, and can afford; -1: none now.  (learn.c)
 */
int live_next_arm(struct live *live, struct live_bucket *lb, uint64_t capacity,
                  enum decision_purpose *purpose);
/* Returns what must be saved up before the next try: as much as for the last one if that is not
 * known. */
double live_needed_us(const struct live *live);
/* Returns the steps until the bucket's decision may go on; `saving` of them save up what it needs.
 */
uint32_t live_wait_steps(const struct live *live, const struct live_bucket *lb, uint32_t saving);
/* Adds a sample. */
int live_learn(struct live *live, struct live_bucket *lb, enum decision_purpose purpose, int arm,
               int64_t ns);
/* Adds a failure.  UNSUPPORTED: it does not count. */
int live_fail(struct live *live, struct live_bucket *lb, int arm, enum trial_state state,
              const char *why);
/* Makes the entry stale.  With `rematch` only its best plans are measured again. */
int live_expire(struct live *live, struct live_bucket *lb, const char *why, bool rematch);

#endif
