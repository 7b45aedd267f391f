/* libmoetune: a trainer tunes its own MoE layer while it trains.
 *
 * libmoelookup answers from a table that moetune measured beforehand, with its own implementation
 * of the layer.  This library measures yours, in your process, on your traffic: ask which plan to
 * run at this step, run it, tell how long it took.
 *
 *     struct moetune *tuner;
 *     struct moe_shape shape = MOE_SHAPE_INIT;
 *     struct moetune_options options = MOETUNE_OPTIONS_INIT;
 *     struct moe_plan plan = MOE_PLAN_INIT;
 *
 *     shape.experts = 16; ...                            1. once per layer and rank
 *     options.rank = rank;
 *     options.broadcast = my_broadcast;                     (bytes from rank 0 to all)
 *     options.largest = my_allreduce_max;
 *     moetune_open("moetune.db", &shape, &options, &tuner);
 *     moetune_ask(tuner, capacity, &plan);               2. at every step, on every rank
 *     ... the step, under this plan ...
 *     moetune_tell(tuner, microseconds);                 3. after it
 *     moetune_close(tuner);                              4. what is known is published
 *
 * Most steps run the best plan known so far, at first the default plan; some try another one, as
 * the search asks for it.  It is moetune's own: the same search, the same rule and the same
 * database.  The plan of least expected time is taken whose chance to be slower than the default
 * plan by more than 1 % is below a limit.  When a bucket is decided its entry is published, and
 * answers from then on; libmoelookup reads it like any other.
 *
 * What exploring costs is kept below a share of training time (1 % unless you say otherwise).
 * Counted are what tried plans take beyond the best plan known in that bucket, never less than
 * nothing, and the time this library itself takes, searching and writing.  A plan is tried only if
 * what it may cost at worst has been saved up by then; one that is expected to take 3 times as long
 * as the best one, even allowing for doubt, is never tried.  At 1 % a bucket is decided after some
 * hundred to some thousand of its steps.
 *
 * What a plan costs at worst is read from samples, for a cost model may be wrong.  A plan that ran
 * takes what it took, and at a larger capacity at most as much more as that is larger.  A plan that
 * never ran may take any time; it is taken to need at most 3 times as long as one that ran, for
 * each step from a value of an axis to the next, and at most in proportion where values are numbers
 * (twice the chunks, or half of them: twice as long).  So the tuner comes to far plans by near
 * ones.  A plan that breaks this rule, a knob whose next value takes 10 times as long, costs more
 * than was saved up, once; nothing else is tried until that is paid.
 *
 * Ranks: rank 0 decides, by numbers that all ranks agreed on or that only it needs; the other ranks
 * do what its order of 32 bytes says, and open no file.  With callbacks as above ranks exchange
 * when a plan is tried, and besides every 64 to 1,024 steps.  Which steps those are follows from
 * the last exchange alone, never from a capacity, so all ranks come.  Between them asking and
 * telling call no callback: each bucket runs the best plan known, and of its times rank 0's count.
 * What exchanges take is measured and counts as the library's own time.  Or carry the order
 * yourself:
 *
 *     rank 0:  moetune_ask(tuner, capacity, &plan);  moetune_order(tuner, &order);
 *     all:     broadcast(&order, sizeof(order));
 *     others:  moetune_follow(tuner, &order, capacity, &plan);
 *     all:     ... the step ...;  time = allreduce_max(time);
 *     rank 0:  moetune_tell(tuner, time);
 *
 * Staying true: times of plans that the table already holds are watched.  Steps that have become
 * persistently slower than their entry's interval and 3 % make it stale (false alarms: fewer than
 * one in 10,000 uses), and the plan, the runner-up and the default plan meet again, by the same
 * rule.  Only that changes a plan.  An inferred entry holds until steps are slower than
 * it foresees, its bound and 3 % (the same false alarms, if it is right): then its bucket is
 * measured.
 *
 * One process writes a database.  If another one does, moetune_open says so on standard error and
 * only looks up: answers are those of libmoelookup as the database was then, and nothing is learnt.
 * Plans that `moetune override` pinned, MOELOOKUP_FORCE and MOELOOKUP_DISABLE are obeyed.
 * A process that is killed leaves the database valid, and the next one goes on where it was.
 *
 * A program that has knobs of its own declares them as a space (moetune-spaces(7)) whose axes are
 * all live, and asks with the space's key and class:
 *
 *     options.space = "space mine\naxis chunks 1 2 4 default 1\nkey tokens edges 64 256\n";
 *     moetune_ask_key(tuner, tokens, 0, &plan);
 *     moetune_value(&plan, "chunks", text, sizeof(text));
 *
 * Its table is that of `moetune tune --space FILE --exec`, which takes axes that need a restart,
 * too.  Wherever else a capacity is asked for it is then the number that moetune_bucket() gives.
 *
 * Capacity, buckets, plans and status codes are those of moelookup.h.  Functions return MOE_OK or a
 * negative enum moe_status.  Nothing here exits, starts threads, reads the locale or writes to
 * standard output; a tuner belongs to one thread at a time.  A child of fork() must not use it.
 *
 * Clean under C89-style strictness (given stdint.h), C11 and C++.  Structs grow only at the end. */
#ifndef MOETUNE_H
#define MOETUNE_H

#include "moelookup.h"

#if defined(__GNUC__) && __GNUC__ >= 4
#define MOETUNE_API __attribute__((visibility("default")))
#else
#define MOETUNE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct moetune;

/* Zero is a default everywhere: set only what you want. */
struct moetune_options {
    uint32_t struct_size; /* sizeof(struct moetune_options) */
    uint32_t rank;        /* of this process; 0 decides and writes */
    uint32_t window;      /* R, the width of a bucket; 0: moe_window() of the layer */
    uint32_t seed;        /* of the search */
    double share;         /* of training time that exploring may cost; 0 = 0.01; < 0: none */
    double margin;        /* a plan in force is replaced by one that is better by this share; 0 =
                           * 0.01; < 0: any */
    /* What runs the layer, with its version: "tutel 0.3, torch 2.3, nccl 2.20".  Times of one
     * implementation say nothing of another: another text is another table. */
    const char *layer;
    /* What the machine is, as `moetune fingerprint` prints it, or the lines of it that you know:
     * "device = NVIDIA H200".  NULL: unknown.  Ranks and nodes are the shape's.  What it says of
     * links and products, "bandwidth_between_gbs = 24", is where the search starts from. */
    const char *cluster;
    /* Those that may vary, as "r,d"; NULL: r, d and a; others keep their default.  "a=linear:2dh":
     * to these values and the default alone.  a is linear or 2dh, and others where they are named:
     * "r,d,a=linear:2dh:rail". */
    const char *axes;
    /* From rank 0's bytes to everyone's; returns 0.  NULL: you carry the order yourself.  Called by
     * moetune_ask at an exchange, for 32 bytes; again for each further bucket of which there is
     * news. */
    int (*broadcast)(void *self, void *bytes, size_t size);
    /* *value becomes the largest over the ranks, on each; returns 0.  Called by moetune_tell after
     * an exchange.  NULL: what you tell is that. */
    int (*largest)(void *self, double *value);
    double (*now_us)(void *self); /* a clock that does not go back; NULL: the system's */
    void *self;                   /* for the callbacks */
    double harm; /* the greatest chance for a plan to be slower than the default; 0 = 0.01 */
    /* Since 0.4: the text of a space, on every rank; NULL: moetune's own plans.  axes and window do
     * not go with it; the shape's space is set by it. */
    const char *space;
};

/* What rank 0 decided, for everybody's next step; little-endian, checked. */
struct moetune_order {
    uint8_t bytes[32];
};

/* What has become of it. */
struct moetune_status {
    uint32_t struct_size;
    uint32_t looking_up; /* 1: another process writes the database, or writing it failed */
    uint64_t steps;      /* told */
    uint64_t tried;      /* of them under a plan that was not the best known one */
    double time_us;      /* of all steps told */
    double cost_us;      /* of exploring, as the share counts it */
    double own_us;       /* of that, what this library took */
    uint32_t decided;    /* buckets that have an entry */
    uint32_t open;       /* buckets that were asked for and have none yet */
    uint32_t alarms;     /* entries that turned stale because their plan became slower */
    uint32_t replaced;   /* entries whose plan changed after that */
};

/* clang-format off */
#define MOETUNE_OPTIONS_INIT { (uint32_t)sizeof(struct moetune_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define MOETUNE_STATUS_INIT { (uint32_t)sizeof(struct moetune_status), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* To tell instead of a time: the plan could not be run on this rank (out of memory, not possible
 * for this layer).  It is not tried again in this bucket. */
#define MOETUNE_FAILED 1e300

/* db: the database, made if it is not there; NULL: $MOETUNE_DB, else $MOELOOKUP_DB, else
 * below $XDG_DATA_HOME or $HOME.  options may be NULL.  Ranks other than 0 open no file.
 * MOE_ERR_ARGUMENT: the shape or an option breaks a rule; MOE_ERR_IO, MOE_ERR_FORMAT: the file
 * (said on standard error).  Only rank 0 can fail for the file's sake: agree on what it got before
 * the first step. */
MOETUNE_API int moetune_open(const char *db, const struct moe_shape *shape,
                             const struct moetune_options *options, struct moetune **out);

/* The plan for this step; always one that is legal for the layer.  Set plan->struct_size
 * (MOE_PLAN_INIT) first.  plan->source is as of moelookup_get, and MOE_TENTATIVE where the bucket
 * is being measured.  With options.broadcast every rank calls it, with the same capacity; without,
 * rank 0 alone (MOE_ERR_ARGUMENT elsewhere).  MOE_ERR_IO: the broadcast failed, or brought no order
 * for what this rank has asked for since the last one; the plan is the default then.  Who asks
 * again without having told: that step taught nothing, and counts as if it had cost what was saved
 * up for it. */
MOETUNE_API int moetune_ask(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan);

/* The same in a declared space, whose key and class it is; `class` is not looked at where the space
 * has none.  MOE_ERR_ARGUMENT also without options.space, for a key above INT64_MAX, and for a
 * class that is no number. */
MOETUNE_API int moetune_ask_key(struct moetune *tuner, uint64_t key, double class_number,
                                struct moe_plan *plan);

/* What stands for key and class wherever these functions take a capacity: steps of one range and
 * class count as alike there.  moetune_ask_key also learns how time follows the key in a range. */
MOETUNE_API int moetune_bucket(const struct moetune *tuner, uint64_t key, double class_number,
                               uint32_t *out);

/* As moelookup_value and moe_plan_format, which know the spaces of tables alone: the value that a
 * plan of this space has on an axis, and the whole plan.  They return the length;
 * MOE_ERR_ARGUMENT: the plan has no such axis. */
MOETUNE_API int moetune_value(const struct moe_plan *plan, const char *axis, char *text,
                              size_t size);
MOETUNE_API int moetune_format(const struct moe_plan *plan, char *text, size_t size);

/* How long the step took, from the same point on every rank to the same point.  With
 * options.largest every rank calls it.  MOE_ERR_ARGUMENT, and nothing is learnt: not a number above
 * 0 and below 1e12 on some rank, or nothing was asked since the last time.  Between exchanges each
 * rank hears of its own number only; MOETUNE_FAILED reaches rank 0 at the next one. */
MOETUNE_API int moetune_tell(struct moetune *tuner, double time_us);

/* The last answer of moetune_ask as an order.  MOE_ERR_ARGUMENT: nothing was asked yet. */
MOETUNE_API int moetune_order(const struct moetune *tuner, struct moetune_order *out);

/* An order as a plan, on any rank.  MOE_ERR_FORMAT: damaged, no order for this capacity, or not
 * legal for the layer; then *plan is untouched. */
MOETUNE_API int moetune_follow(struct moetune *tuner, const struct moetune_order *order,
                               uint32_t capacity, struct moe_plan *plan);

/* As seldom as with callbacks, for who carries orders:
 *
 *     if (moetune_due(tuner)) {
 *         rank 0:  moetune_tell and moetune_passed, for the steps since the last exchange;
 *                  moetune_ask(tuner, capacity, &plan);
 *                  moetune_spent, what the last exchange took; not before moetune_ask, which would
 *                  find spent what was saved up for the plan that it may try now;
 *                  moetune_orders(tuner, orders, 9, &count);
 *         all:     broadcast(orders, sizeof(orders));
 *                  moetune_obey(tuner, orders, 9, capacity, &plan);
 *     } else
 *         all:     moetune_known(tuner, capacity, &plan);
 *
 * moetune.torch of db/lookup/python does this. */

/* 1: at the next step ranks exchange; the same on all that came to the last exchange. */
MOETUNE_API int moetune_due(const struct moetune *tuner);

/* So many steps from here on are no exchange, 0 to 2,047; likewise alike.  Until then what
 * moetune_known says of a capacity stands: it may be kept, and asked again, for each step in its
 * order, just before the exchange. */
MOETUNE_API int moetune_until_due(const struct moetune *tuner);

/* A step that is no exchange, and its plan: the best one that ranks have heard of in the capacity's
 * bucket, or the default plan.  MOE_ERR_ARGUMENT: an exchange is due. */
MOETUNE_API int moetune_known(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan);

/* On rank 0, after moetune_ask: its answer and what has changed in other buckets, in *count orders
 * of at most `room` (9 are enough, and what has no room comes next time). */
MOETUNE_API int moetune_orders(struct moetune *tuner, struct moetune_order *out, uint32_t room,
                               uint32_t *count);

/* On every rank, rank 0 as well; `room`: so many may be there, the first one says how many are.
 * MOE_ERR_FORMAT: as moetune_follow; MOE_ERR_IO: for another capacity. */
MOETUNE_API int moetune_obey(struct moetune *tuner, const struct moetune_order *orders,
                             uint32_t room, uint32_t capacity, struct moe_plan *plan);

/* These three are rank 0's (MOE_ERR_ARGUMENT elsewhere). */

/* The best plan known in the capacity's bucket.  *steps: nothing else will be answered there so
 * long; UINT32_MAX: until told steps are slower than the entry says.  0: ask at the next step. */
MOETUNE_API int moetune_rest(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan,
                             uint32_t *steps);

/* A step that was not asked for, with the largest time of all ranks or MOETUNE_FAILED, and the plan
 * that ran; in the order in which steps were taken. */
MOETUNE_API int moetune_passed(struct moetune *tuner, uint32_t capacity,
                               const struct moe_plan *plan, double time_us);

/* What exchanges took, measured: counted like the library's own time. */
MOETUNE_API int moetune_spent(struct moetune *tuner, double us);

MOETUNE_API int moetune_status(const struct moetune *tuner, struct moetune_status *out);

/* Publishes what is known.  NULL is fine. */
MOETUNE_API void moetune_close(struct moetune *tuner);

MOETUNE_API const char *moetune_version(void); /* "0.9.0" */

#ifdef __cplusplus
}
#endif

#endif
