/* A layer that is tuned while it trains, on the rank that decides: between an answer and the time
 * it took nothing is known of ranks, callbacks or orders. */
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
    uint64_t asked;
};

struct table_setup {
    const char *path; /* NULL: the default place */
    bool dry_run;     /* instead: what is learnt is kept in memory and thrown away */
    struct moe_shape shape;
    const char *layer, *cluster, *axes; /* NULL as in struct moetune_options */
    const struct effort *effort; /* NULL: normal, and entries that less effort has decided are not
                                  * measured again */
    uint32_t window, seed;
    unsigned store_flags; /* of store_open() */
    double share, margin, harm;
    /* What the run's row says, with the limits that plans are held to: what failed under other
     * limits may be tried again.  NULL: what failed in any run is not. */
    const char *command;
    double (*now_us)(void *self);
    void *self;
    /* NULL: whatever is asked for is measured, everything alike.  Else these buckets alone, those
     * first that are asked for most; borrowed. */
    const struct bucket_demand *demands;
    size_t demand_count;
};

/* The parts of an opening, also for who launches programs: the plans that are compared, what the
 * search is told of them, and the table in the dictionary's store, with the row of a run. */
int table_arms(const struct table_setup *setup, struct dictionary *out,
               struct moe_plan arms[SEARCH_ARMS_MAX]);
struct search_setup table_search(const struct table_setup *setup, const struct dictionary *d,
                                 const struct cluster *cluster);
int table_begin(const struct table_setup *setup, struct cluster *cluster, const char *search,
                struct dictionary *d, struct run *run);

/* How much a bucket is wanted; 0: it is not to be measured. */
uint64_t bucket_demand(const struct table_setup *setup, uint32_t bucket);

/* What exploring may cost: a share of the time that training has taken so far. */
struct budget {
    double share;
    double run_us;      /* all steps told */
    double earned_us;   /* the share of them, without what disturbances and tries add to steps */
    double spent_us;    /* steps beyond the best known plan's, and our own time */
    double own_us;      /* our own time alone */
    double reserved_us; /* for the step under way */
};

/* A twentieth is kept back: times that are told scatter about what plans take. */
static inline double budget_left_us(const struct budget *p)
{
    return 0.95 * p->earned_us - p->spent_us - p->reserved_us;
}

/* A step took so long; without a disturbance, and under the best plan known, it would have taken
 * `usual_us`. */
static inline void budget_earn(struct budget *p, double us, double usual_us)
{
    p->run_us += us;
    p->earned_us += p->share * (us < usual_us ? us : usual_us);
}

static inline void budget_own(struct budget *p, double us)
{
    p->own_us += us > 0 ? us : 0;
    p->spent_us += us > 0 ? us : 0;
}

/* Replaces what was reserved by what the step did cost. */
static inline void budget_settle(struct budget *p, double cost_us)
{
    p->reserved_us = 0;
    p->spent_us += cost_us > 0 ? cost_us : 0;
}

struct live {
    struct table_setup setup;     /* strings are not kept */
    struct dictionary dictionary; /* its store NULL: this process only looks up */
    /* The same for each class of a declared space, with a search of its own: at one key they take
     * different times.  The first one's is the dictionary's. */
    struct dictionary *classes;
    uint32_t class_count;
    struct moe_plan arms[SEARCH_ARMS_MAX];
    struct reach reach;
    struct ran {
        const struct dictionary *of; /* the class */
        uint64_t capacity;           /* the largest one at which it has run here; 0: none */
        double ns;                   /* what it took there */
    } ran[SEARCH_ARMS_MAX];
    struct run run;
    /* What libmoelookup says: pins, and answers without a store.  NULL in a dry run. */
    struct moelookup_view *view;

    struct live_buckets buckets;
    struct live_bucket *last;   /* that was asked for */
    struct live_bucket *focus;  /* whose decision is open; NULL: none */
    uint64_t progress;          /* `asked` when that last came a step further */
    uint32_t decided, insights; /* buckets; how often one found a better plan */

    struct budget budget;
    double saving_us; /* what the bucket under way waits for */
    struct pending {
        struct live_bucket *lb; /* NULL: nothing is asked */
        uint64_t capacity;
        int arm;      /* that was handed out */
        bool sampled; /* the decision asked for it */
        enum decision_purpose purpose;
    } pending;
    uint64_t asked;
    struct moetune_status status;
};

/* Takes the lease, or looks up if another process has it. */
int live_open(const struct table_setup *setup, struct live **out);
void live_close(struct live *live); /* publishes; NULL is fine */

/* In a declared space, whose buckets are of width 1, `capacity` is a bucket, here and below; this
 * is the key that stands for it. */
static inline uint64_t live_key(struct buckets buckets, uint32_t capacity)
{
    return buckets.declared ? buckets_key_of(buckets, capacity) : capacity;
}
void live_ask(struct live *live, uint32_t capacity, struct moe_plan *plan);
/* The same in a bucket that follows from more than the capacity: of a declared space with the key.
 */
void live_ask_in(struct live *live, uint32_t bucket, uint64_t capacity, struct moe_plan *plan);

/* ERR_ARGUMENT if nothing is asked. */
int live_tell(struct live *live, int64_t ns);
/* Before either of the two: what the step needed of memory, where that is known. */
void live_memory(struct live *live, int64_t bytes);
/* Instead: the plan could not be run, `why`.  UNSUPPORTED: nothing is made of it, see
 * ledger_may_repeat(). */
int live_failed(struct live *live, enum trial_state state, const char *why);
/* Instead: forgets the question, if it has no time. */
void live_void(struct live *live);

/* A step that ran without being asked for, under the plan that live_rest() named. */
int live_passed(struct live *live, uint32_t bucket, uint64_t capacity, const struct moe_plan *plan,
                int64_t ns);
/* Such a step whose plan could not be run: as live_failed(). */
int live_broke(struct live *live, uint32_t capacity, const struct moe_plan *plan,
               enum trial_state state, const char *why);
/* What it took to carry orders and times between ranks. */
void live_spent(struct live *live, double us);

/* The best plan known in the capacity's bucket, and for how many steps of all buckets nothing else
 * will be answered there, if to ask costs so much. */
uint32_t live_rest(struct live *live, uint32_t capacity, double asking_us, struct moe_plan *plan);
#define LIVE_NEVER UINT32_MAX

struct moetune_status live_status(const struct live *live);

/* The cluster that the options describe: whoever shares the tables has the same one. */
int live_cluster(const struct table_setup *setup, struct cluster *out);

/* ---- live.c calls learn.c and recall.c, learn.c calls recall.c, and none the other way */

/* Writing failed, which was said: from here on nothing is learnt (recall.c). */
void live_give_up(struct live *live);

/* What is known of a bucket; *fresh: nothing was, and it is made now.  NULL: out of memory. */
struct live_bucket *live_bucket_at(struct live *live, uint32_t bucket, bool *fresh);

/* What libmoelookup answers, as if nothing was learnt here; without a view the default plan
 * (recall.c). */
void live_look_up(const struct live *live, uint32_t bucket, uint64_t capacity,
                  struct moe_plan *plan);

/* Sets the plan in force there, and why it is (recall.c). */
void live_prepare(struct live *live, struct live_bucket *lb);
/* Makes the bucket what its entry says; false if it has none that this layer can run. */
bool live_settle(struct live *live, struct live_bucket *lb);
void live_answer(struct live *live, struct live_bucket *lb, int arm, uint32_t source);
/* Sets the capacity that its times are of. */
void live_at(const struct live *live, struct live_bucket *lb, uint64_t capacity);

/* The arm that the bucket's decision wants next; -1: none, now (learn.c). */
int live_next(struct live *live, struct live_bucket *lb, uint64_t capacity,
              enum decision_purpose *purpose);
/* What must have been saved up before the next one is tried: as much as the last, if that is not
 * known. */
double live_saves(const struct live *live);
/* Steps until the bucket's decision may go on, if that many are needed to save up. */
uint32_t live_waits(const struct live *live, const struct live_bucket *lb, uint32_t saving);
int live_learn(struct live *live, struct live_bucket *lb, enum decision_purpose purpose, int arm,
               int64_t ns);
int live_fail(struct live *live, struct live_bucket *lb, int arm, enum trial_state state,
              const char *why);
/* The entry is out of date. */
int live_expire(struct live *live, struct live_bucket *lb, const char *why, bool rematch);

#endif
