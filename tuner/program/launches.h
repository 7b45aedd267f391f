/* Starts a program again and again, each time with some values of the axes that need another start,
 * and asks a client what each launch is to show: tune_launches.c decides buckets by it,
 * two_tables.c compares two tables. */
#ifndef LAUNCHES_H
#define LAUNCHES_H

#include "measuring_run.h"
#include "session.h"
#include "tune_options.h"

/* So often in a row a launch may show nothing that was wanted of it. */
enum { LAUNCH_PATIENCE = 3 };

/* ---- launch values of a program: its plans, grouped by their values of the restart axes.  Pure.
 */

/* All plans with the same values of the restart axes. */
struct launch_values {
    int arm, safe;      /* the first of them; the one that is otherwise most like the default */
    uint32_t launches;  /* in this run */
    uint32_t last;      /* launch; 0: none */
    double votes;       /* of buckets that want it next, by how much they are wanted themselves */
    uint32_t stillborn; /* launches that came to nothing */
    bool runs, broken;  /* a step's time was told; it never comes up */
};

/* The launch values of these plans, which the caller frees, and of each plan the index of its own.
 * Plans of no space have one. */
int launch_values_list(const struct declaration *space, const struct moe_plan *plans, size_t count,
                       uint32_t *values_of, struct launch_values **values, size_t *values_count);

/* That of the next launch, after so many: most wanted, the more the longer it was not its turn.
 * The same one twice in a row only if nothing else is wanted.  -1: nothing is. */
int launch_values_next(const struct launch_values *values, size_t count, uint32_t launches);

/* ---- what a launch is told before it runs: the values of the restart axes.  Pure. */

/* The command line with its placeholders replaced: {dispatcher} by the axis' value.  {{word}} is
 * {word}; whatever else stands in braces, and ${NAME}, is the shell's.  ERR_ARGUMENT, after a
 * sentence, for a {word} that is no axis, or one that varies while the program runs.  Without a
 * space the line is left as it is.  The caller frees *out. */
int launch_command(const char *command, const struct declaration *space, uint32_t choice,
                   char **out);

/* ---- what launches show of one range that their program asks for.  Pure. */

enum bucket_state {
    BUCKET_NEW,      /* nothing is known of it yet */
    BUCKET_OPEN,     /* it is to be shown */
    BUCKET_DECIDED,  /* and was */
    BUCKET_GIVEN_UP, /* the program asks for it too seldom */
    BUCKET_PINNED,   /* a person chose its plan: nothing is tried */
    BUCKET_LEFT_OUT  /* it is not to be shown */
};

struct watched {
    uint32_t bucket;
    enum bucket_state state;
    uint64_t asked; /* for the last time, by this launch, which counts from 1; 0: never */
    int64_t ns[TUNE_LAUNCH_STEPS_MAX];
    uint32_t steps; /* of one plan, gathered by this launch */

    /* By all launches. */
    bool seen;               /* one of them asked for it */
    uint32_t samples, spare; /* spare: their steps beyond the first one of each */
    double squares;          /* of the logarithms of steps, from the mean of their sample's */

    bool learnt;     /* by this launch: a sample, or that a plan fails */
    uint32_t missed; /* launches in a row that were to show something here and did not */
};

/* A launch begins. */
void watched_reset(struct watched *range);

/* A step; true after so many of them, which are a sample then. */
bool watched_step(struct watched *range, int64_t ns, uint32_t steps, int64_t *sample);

/* Of the steps that there are, one at least, the mean, to which none adds more than twice their
 * median does: a trainer pays for slow steps, too, but not for a moment of the machine's. */
int64_t watched_sample(struct watched *range);

/* A launch ended well that was to show something here: whether one more would be of no use. */
bool watched_in_vain(struct watched *range);

/* What several buckets learnt together. */
void watched_add(struct watched *all, const struct watched *range);

/* ---- how long a launch goes on.  Pure. */

/* Questions are counted from 1. */
struct launch_watch {
    uint32_t least;  /* that a sample must have: how long it is waited for something */
    bool looking;    /* nobody knows yet what it asks for */
    uint64_t newest; /* question at which it asked for a range for the first time; 0: none */
};

/* Whether a range that it is to show may still be asked for, one of so many; on the occasion: what
 * it shows there is no reason to wait long.  One that no launch ever asked for is not waited for so
 * long: a trainer recorded it, or an earlier run, and this program may never come to it. */
bool watch_awaits(const struct launch_watch *watch, const struct watched *range, size_t buckets,
                  bool on_occasion, uint64_t question);
/* Whether it may show buckets that nobody knows. */
bool watch_looks(const struct launch_watch *watch, uint64_t question);

/* ---- how many steps make a sample, by what launches cost.  Pure. */

/* What a run's launches cost: `inside` from the first question to the last answer, `outside` their
 * starts and ends; and when these were in the launch under way. */
struct launch_cost {
    double outside_ns, inside_ns;

    int64_t started_ns, asked_ns, told_ns; /* asked: first; told: last; 0: not yet */
};

void launch_cost_started(struct launch_cost *cost, int64_t now_ns);
void launch_cost_asked(struct launch_cost *cost, int64_t now_ns);
void launch_cost_told(struct launch_cost *cost, int64_t now_ns);
/* -1: how long it took to end says nothing of others. */
void launch_cost_ended(struct launch_cost *cost, int64_t now_ns);

/* More steps make a sample surer as far as steps scatter; as far as launches differ by luck, only
 * launches do, and these cost their starts. */
enum { LAUNCH_STEPS_LEAST = 5 };
uint32_t launch_pace(const struct launch_cost *cost, const struct watched *buckets);

/* ---- the launcher */

/* What a client wants of the launch under way in a range. */
enum launch_wish {
    WISH_NOTHING,
    WISH_SAMPLE,   /* the launch was started for it, and misses if it does not show it */
    WISH_OCCASION, /* a sample that is taken if the program asks for the range soon */
    WISH_TRIAL     /* whether a plan runs there at all, of which no sample is wanted now */
};

struct launches;

/* Who says which launch comes next, and takes its samples.  `range`: one of the client's own. */
struct launch_client {
    /* The program asks for a range for the first time: launches_add() is to be called. */
    int (*add)(void *self, uint32_t bucket);
    /* Adds to the votes of values, which are 0, what is wanted of each of them next. */
    int (*vote)(void *self);
    /* A launch, said as `words`, is about to start; watch.looking is to be said. */
    int (*begin)(void *self, const char *words);
    enum launch_wish (*wish)(void *self, struct watched *range);
    /* The plan of the next step.  UNSUPPORTED, of this one alone: none can run, so that the launch
     * ends. */
    int (*choose)(void *self, struct watched *range, struct moe_plan *plan);
    /* What the step took; that it failed, as the session's failed_as says. */
    int (*step)(void *self, struct watched *range, const struct said *told);
    int (*failed)(void *self, struct watched *range, const struct said *told);
    /* The program has ended, or time is up (`cut`): last call for samples that are not full; NULL:
     * they are dropped. */
    int (*gather)(void *self, bool cut);
    /* The launch is over.  `failure`: how it failed; NULL: it ended well. */
    int (*ended)(void *self, const struct launch_end *failure);
};

/* A launch under way, of a way to start the program, as each plan has one. */
struct launch_under_way {
    uint32_t number, values; /* the first launch is number 1 */
    const uint32_t *values_of;
};

struct launches {
    /* Set by the client. */
    const struct launch_client *client;
    void *self;
    struct session *session; /* with the space */
    struct run *run;         /* that is kept alive; NULL: none */
    const struct moe_plan *plans;
    size_t plan_count;
    const char *command;
    size_t sides; /* what is learnt of one says nothing of the others: each has all the values,
                   * those of the second one behind the first one's */

    struct watched **buckets; /* in the order in which they came */
    size_t bucket_count;
    uint32_t values_of[DECLARATION_PLANS_MAX]; /* of each plan, for the first side */
    struct launch_values *values;
    size_t values_count; /* of all sides */
    struct launch_under_way now;
    struct launch_cost cost;
    uint32_t silent; /* launches in a row that asked nothing */
    bool heard;      /* some launch has asked something */
    uint64_t told, tried;

    /* Of the launch under way. */
    struct launch_watch watch;
    bool in_doubt;         /* as session_start() has it; the client's to set */
    struct watched *range; /* that it asked for last */
    bool sampled;          /* the client wants a sample of that step, as `choose` says */
};

/* Lists the values.  ERR_ARGUMENT after a sentence for a command line that cannot be. */
int launches_open(struct launches *launches);
void launches_close(struct launches *launches);

/* A range, which stays the client's. */
int launches_add(struct launches *launches, struct watched *range);
/* How many are in this state. */
uint32_t launches_count(const struct launches *launches, enum bucket_state state);
/* Those that are to be shown, in whichever state. */
uint32_t launches_wanted(const struct launches *launches);

/* Launches, until the client wants no more.  ERR_CUT: time is up. */
int launches_run(struct launches *launches);

/* The side of the launch under way. */
size_t launches_side(const struct launches *launches);

/* Whether the launch under way has shown anything new. */
bool launches_learnt(const struct launches *launches);

#endif
