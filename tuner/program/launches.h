/* Starts a program again and again, each time with one set of launch values, and asks a client what
 * each launch is to show.  tune_launches.c decides buckets by it, two_tables.c compares two tables.
 */
#ifndef LAUNCHES_H
#define LAUNCHES_H

#include "measuring_run.h"
#include "session.h"
#include "tune_options.h"

/* After so many launches in a row that were of no use, launches_run() gives up: a bucket, or the
 * program. */
enum { LAUNCH_PATIENCE = 3 };

/* ---- launch values: the plans of a program, grouped by their values of the restart axes.  Pure.
 */

/* One set of launch values, as a plain value. */
struct launch_values {
    int arm;           /* the first plan with these values */
    int nearest_arm;   /* the plan with these values that is most like the default plan */
    uint32_t launches; /* that had these values, in this run */
    uint32_t last;     /* the number of the last one; 0: none */
    double votes;      /* how much the next launch is wanted to have these values */
    uint32_t failures; /* launches with these values that failed, as the client counts them */
    bool runs;         /* the program has told or failed a step under them */
    bool broken;       /* the client has given them up */
};

/* Lists the launch values of these plans.  values_of[i] becomes the index of plan i's.  The plans
 * of no space all have the same.  The caller frees *values, which begins as NULL, also after
 * ERR_NOMEM. */
int launch_values_list(const struct declaration *space, const struct moe_plan *plans, size_t count,
                       uint32_t *values_of, struct launch_values **values, size_t *values_count);

/* Returns the index of the next launch's values, after `launches` of them; -1: none has a vote.
 * Votes weigh more the longer ago the last launch was.  No values come twice in a row unless no
 * others have votes. */
int launch_values_next(const struct launch_values *values, size_t count, uint32_t launches);

/* ---- command lines.  Pure. */

/* Writes the command line with the launch values of the plan `choice`.  {dispatcher} becomes the
 * value of the axis, and {{word}} becomes {word}.  Other braces and ${NAME} stay, for the shell.
 * ERR_ARGUMENT, after a message, for a {word} that is no axis, or a live one.  Without a space the
 * line is copied.  The caller frees *out. */
int launch_command(const char *command, const struct declaration *space, uint32_t choice,
                   char **out);

/* ---- one bucket that the program asks for, as launches show it.  Pure. */

enum bucket_state {
    BUCKET_NEW,      /* not looked up yet */
    BUCKET_OPEN,     /* launches are to show it */
    BUCKET_DECIDED,  /* launches have shown it */
    BUCKET_GIVEN_UP, /* the program asks for it too seldom */
    BUCKET_PINNED,   /* a person pinned its plan: nothing is tried */
    BUCKET_LEFT_OUT  /* the command does not want it */
};

/* A bucket is a range of the key, and a class.  The client owns it, and embeds it in a struct of
 * its own as the first member. */
struct watched_bucket {
    uint32_t bucket;
    enum bucket_state state;

    /* Of the launch under way. */
    uint64_t last_ask; /* the number of the ask that named it last, from 1; 0: none */
    int64_t ns[TUNE_LAUNCH_STEPS_MAX]; /* steps of one plan, until they are a sample */
    uint32_t steps;
    bool learnt; /* it has given a sample, or a plan has failed in it */

    /* Of all launches. */
    bool seen; /* some launch has asked for it */
    uint32_t samples;
    uint32_t spare;  /* steps of those samples beyond the first one of each */
    double squares;  /* sum over steps of (log ns - its mean in the sample) squared */
    uint32_t missed; /* launches in a row that were to show the bucket and did not */
};

/* Forgets what the last launch gathered. */
void watched_begin(struct watched_bucket *watched);

/* Adds a step.  Returns true after `steps` of them; then *sample is their sample. */
bool watched_add_step(struct watched_bucket *watched, int64_t ns, uint32_t steps, int64_t *sample);

/* Makes one sample of the steps that are gathered, at least one: their mean, in which each counts
 * as twice their median at most.  A trainer pays for slow steps, too, but not for one disturbance.
 */
int64_t watched_finish_sample(struct watched_bucket *watched);

/* Called after a launch that ended well and was to show the bucket.  Counts the launch if it showed
 * nothing.  Returns whether LAUNCH_PATIENCE of them came in a row. */
bool watched_count_miss(struct watched_bucket *watched);

/* Adds the samples of a bucket, for launch_pace(). */
void watched_pool(struct watched_bucket *all, const struct watched_bucket *watched);

/* ---- how long a launch goes on.  Pure. */

/* Asks are counted from 1, in each launch. */
struct launch_watch {
    uint32_t least;  /* steps of a sample; waiting times are multiples of it */
    bool exploring;  /* nobody knows yet which buckets the program asks for */
    uint64_t newest; /* the last ask that named a new bucket; 0: none */
};

/* Returns whether the launch should wait for an ask of this bucket, one of `buckets`.  With
 * `on_occasion` it does not wait long.  Nor does it wait long for a bucket that no launch has asked
 * for: it comes from a record or an earlier run, and this program may never ask for it. */
bool watch_awaits(const struct launch_watch *watch, const struct watched_bucket *watched,
                  size_t buckets, bool on_occasion, uint64_t ask);
/* Returns whether the launch may soon ask for buckets that nobody knows. */
bool watch_explores(const struct launch_watch *watch, uint64_t ask);

/* ---- how many steps make a sample, by what launches cost.  Pure. */

/* What the launches of a run have cost.  `inside` is from the first ask to the last tell, `outside`
 * is the rest: starts and ends. */
struct launch_cost {
    double outside_ns, inside_ns;

    int64_t started_ns, first_ask_ns, last_step_ns; /* of the launch under way; 0: not yet */
};

/* The launch under way starts, asks, tells a step, and ends.  An end of -1 does not count: the
 * launch hung. */
void launch_cost_started(struct launch_cost *cost, int64_t now_ns);
void launch_cost_question(struct launch_cost *cost, int64_t now_ns);
void launch_cost_step(struct launch_cost *cost, int64_t now_ns);
void launch_cost_ended(struct launch_cost *cost, int64_t now_ns);

/* Returns how many steps make a sample.  More steps help against the noise of steps.  Only more
 * launches, which cost their starts, help against differences between launches.  `buckets`: all of
 * them, by watched_pool(). */
enum { LAUNCH_STEPS_LEAST = 5 };
uint32_t launch_pace(const struct launch_cost *cost, const struct watched_bucket *buckets);

/* ---- the launcher */

/* What a client wants in a bucket from the launch under way. */
enum launch_wish {
    WISH_NOTHING,
    WISH_SAMPLE,   /* the launch was started for this sample: it is missed if it does not come */
    WISH_OCCASION, /* a sample, if the program asks for the bucket soon */
    WISH_TRIAL     /* a step that shows whether a plan runs there; no sample */
};

struct launches;

/* The functions by which a client chooses launches and plans, and learns from steps.  `self` is
 * launches.self.  `watched` is one of the buckets that the client added.  Every int but OK ends
 * launches_run(), which returns it. */
struct launch_client {
    /* Calls launches_add() for a bucket that the program asks for, for the first time. */
    int (*add_bucket)(void *self, uint32_t bucket);
    /* Adds to launches.values[i].votes, which begin as 0, how much the client wants launch values i
     * next.  launches_run() ends if there are no votes. */
    int (*vote)(void *self);
    /* Prepares for the launch that is about to start; `words` are its launch values.  It sets
     * launches.watch.exploring, and hold_errors if it uses that. */
    int (*begin_launch)(void *self, const char *words);
    /* Returns what the client wants in this bucket now. */
    enum launch_wish (*wish)(void *self, struct watched_bucket *watched);
    /* Chooses the plan of the next step, and sets launches.sampled.  UNSUPPORTED: no plan of this
     * launch can run in the bucket.  Then launches_run() ends the launch. */
    int (*choose_plan)(void *self, struct watched_bucket *watched, struct moe_plan *plan);
    /* Learns the time of that step, from its "tell" line. */
    int (*learn_time)(void *self, struct watched_bucket *watched, const struct program_line *tell);
    /* Learns that the step failed: line->reason, and the session's failed_as. */
    int (*learn_failure)(void *self, struct watched_bucket *watched,
                         const struct program_line *line);
    /* Makes samples of the steps that are gathered, if they are enough.  It is called when the
     * program has ended, or when time is up (`cut`).  NULL: these steps are dropped. */
    int (*finish_samples)(void *self, bool cut);
    /* Ends the launch.  `failure` says how it failed; NULL: it ended well. */
    int (*end_launch)(void *self, const struct launch_end *failure);
};

/* The number and the values of the launch under way. */
struct launch_under_way {
    uint32_t number;           /* counts from 1 */
    uint32_t values;           /* index of its launch values */
    const uint32_t *values_of; /* by plan: index of its launch values; borrowed */
};

/* All launches of one run.  The caller owns it, and sets the first members before
 * launches_open(). */
struct launches {
    /* Set by the client, and borrowed. */
    const struct launch_client *client;
    void *self;
    struct session *session; /* with the space */
    struct run *run;         /* whose row says that it is alive; NULL: none */
    const struct moe_plan *plans;
    size_t plan_count;
    const char *command;
    /* How many tables are compared; 1: none.  Each side has launch values of its own, which lie
     * behind those of the side before. */
    size_t sides;

    struct watched_bucket **buckets; /* the client's, in the order of launches_add() */
    size_t bucket_count;
    uint32_t values_of[DECLARATION_PLANS_MAX]; /* by plan: its index in the first side's values */
    struct launch_values *values;
    size_t values_count; /* of all sides */
    struct launch_under_way now;
    struct launch_cost cost;
    uint32_t silent_launches; /* launches in a row that asked nothing */
    bool any_ask;             /* some launch has asked */
    uint64_t steps, sampled_steps;

    /* Of the launch under way. */
    struct launch_watch watch;
    bool hold_errors;             /* for session_start(); the client sets it */
    struct watched_bucket *asked; /* the bucket of the last ask */
    bool sampled;                 /* the client wants a sample of the step under way */
};

/* Lists the launch values.  ERR_ARGUMENT, after a message, for a wrong command line. */
int launches_open(struct launches *launches);
/* Frees what launches_open() and launches_add() allocated, but no bucket. */
void launches_close(struct launches *launches);

/* Adds a bucket, which stays the client's. */
int launches_add(struct launches *launches, struct watched_bucket *watched);
/* Returns how many buckets are in this state. */
uint32_t launches_count(const struct launches *launches, enum bucket_state state);
/* Returns how many buckets are wanted: all but those left out and pinned. */
uint32_t launches_wanted(const struct launches *launches);

/* Starts one launch after the other, until no launch values have votes.  ERR_CUT: time is up. */
int launches_run(struct launches *launches);

/* Returns the side of the launch under way. */
size_t launches_side(const struct launches *launches);

/* Returns whether the launch under way has given a sample or a failure. */
bool launches_learnt(const struct launches *launches);

#endif
