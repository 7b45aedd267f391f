/* libmoetune: a trainer tunes its own MoE layer while it trains.
 *
 * libmoelookup answers from a table that moetune measured beforehand, with its own implementation
 * of the layer.  This library measures your layer, in your process, on your traffic.  At every step
 * you ask which plan to run, run it, and tell how long it took.
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
 *     moetune_close(tuner);                              4. publishes what is known
 *
 * Most steps run the best plan known so far, at first the default plan.  Some steps try another
 * plan.  Search, proof and database are those of `moetune tune`.  The library publishes the plan of
 * least expected time.  It considers only plans whose chance to be more than 1 % slower than the
 * default plan is below a limit.  When a bucket is decided, its entry is published and answers from
 * then on; libmoelookup reads it like any other.
 *
 * The price.  Exploring costs less than a share of training time, 1 % unless you set another.  Two
 * things count.  One is the time that a tried plan takes beyond the best plan known in that bucket,
 * never below 0.  The other is the time of the library itself, searching and writing.  The library
 * tries a plan only after it has saved up the plan's worst cost.  It never tries a plan that, even
 * allowing for doubt, takes 3 times as long as the best one.  At 1 % a bucket is decided after some
 * hundred to some thousand of its steps.
 *
 * The worst cost of a plan follows from samples, for a cost model may be wrong.  A plan that ran
 * takes as long as it took; at a larger capacity, at most in proportion.  A plan that never ran is
 * compared with plans that ran.  Each step from one value of an axis to the next counts as at most
 * 3 times slower.  Between numbers time grows at most in proportion: twice or half the chunks,
 * twice as long.  So the tuner reaches distant plans through near ones.  A plan may break this
 * rule: the next value of a knob may take 10 times as long.  It then costs more than was saved up,
 * once; the library tries nothing else until that is paid.
 *
 * Ranks.  Rank 0 decides.  The other ranks run what its orders of 32 bytes say, and open no file.
 * With the callbacks above, ranks exchange whenever a plan is tried, and also every 64 to 1,024
 * steps.  The last exchange fixes when the next one comes, whatever the capacities are, so all
 * ranks come.  Between exchanges, asking and telling call no callback.  Each bucket then runs the
 * best plan known, and rank 0's own times count.  The library measures what exchanges take and
 * counts it as its own time.  Without callbacks, carry the order yourself:
 *
 *     rank 0:  moetune_ask(tuner, capacity, &plan);  moetune_order(tuner, &order);
 *     all:     broadcast(&order, sizeof(order));
 *     others:  moetune_follow(tuner, &order, capacity, &plan);
 *     all:     ... the step ...;  time = allreduce_max(time);
 *     rank 0:  moetune_tell(tuner, time);
 *
 * Drift.  The library watches the steps of published plans.  An entry turns stale when its steps
 * are persistently slower than its interval plus 3 %.  Fewer than one in 10,000 uses is a false
 * alarm.  Then the plan, the runner-up and the default plan are compared again, by the same rule.
 * Only this comparison changes a published plan.  An inferred entry holds until steps are slower
 * than its predicted bound plus 3 %; then its bucket is measured.
 *
 * One process writes a database.  If another process does, moetune_open says so on standard error.
 * Then this tuner only looks up: it answers as libmoelookup would at that moment, and learns
 * nothing.  Plans that `moetune override` pinned, MOELOOKUP_FORCE and MOELOOKUP_DISABLE hold here,
 * too.  A killed process leaves the database valid, and the next one continues.
 *
 * A program with knobs of its own declares them as a space (moetune-spaces(7)).  All axes of the
 * space must be live.  The program asks with the space's key and class:
 *
 *     options.space = "space mine\naxis chunks 1 2 4 default 1\nkey tokens edges 64 256\n";
 *     moetune_ask_key(tuner, tokens, 0, &plan);
 *     moetune_value(&plan, "chunks", text, sizeof(text));
 *
 * Its table is that of `moetune tune --space FILE --exec`, which also takes axes that need a
 * restart.  All other functions take the number of moetune_bucket() as their capacity.
 *
 * Capacity, buckets, plans and status codes are those of moelookup.h.  Functions return MOE_OK or a
 * negative enum moe_status.  The library never exits, starts no threads, and does not read the
 * locale or write to standard output.  A tuner belongs to one thread at a time.  A child of fork()
 * must not use it.
 *
 * The header compiles as C89 (given stdint.h), C11 and C++.  Structs grow only at the end. */
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

/* Every member may be 0, which means its default: set only what you want. */
struct moetune_options {
    uint32_t struct_size; /* sizeof(struct moetune_options) */
    uint32_t rank;        /* of this process; rank 0 decides and writes */
    uint32_t window;      /* R, the width of a bucket; 0: moe_window() of the layer */
    uint32_t seed;        /* seed of the search */
    double share;         /* of training time that exploring may cost; 0 = 0.01; < 0: none */
    double margin;        /* a better plan replaces the plan in force if it is faster by this share;
                           * 0 = 0.01; < 0: by any amount */
    /* The code that runs the layer, with its version: "tutel 0.3, torch 2.3, nccl 2.20".  Each text
     * has a table of its own, for times of one implementation say nothing about another. */
    const char *layer;
    /* The machine, as `moetune fingerprint` prints it, or only the lines that you know: "device =
     * NVIDIA H200".  NULL: unknown.  Ranks and nodes come from the shape.  Lines about links and
     * products, such as "bandwidth_between_gbs = 24", give the search a better start. */
    const char *cluster;
    /* Axes that may vary, as "r,d"; NULL: r, d and a.  Other axes keep their default.
     * "a=linear:2dh" allows these values and the default only.  a is linear or 2dh; name other
     * values to allow them: "r,d,a=linear:2dh:rail". */
    const char *axes;
    /* Sends rank 0's bytes to all ranks; returns 0.  NULL: you carry the order yourself.
     * moetune_ask calls it at an exchange, for 32 bytes, and again for each further bucket that has
     * changed. */
    int (*broadcast)(void *self, void *bytes, size_t size);
    /* Sets *value to the largest over the ranks, on every rank; returns 0.  moetune_tell calls it
     * after an exchange.  NULL: you tell the largest time yourself. */
    int (*largest)(void *self, double *value);
    double (*now_us)(void *self); /* a clock that never goes back; NULL: the system's */
    void *self;                   /* the first argument of the callbacks */
    double harm; /* the largest chance of a plan to be slower than the default; 0 = 0.01 */
    /* Since 0.4: the text of a space, on every rank; NULL: moetune's own plans.  axes and window
     * must be 0 then.  moetune_open sets the shape's space by it. */
    const char *space;
};

/* What rank 0 decided for the next step of all ranks; little-endian, with a checksum. */
struct moetune_order {
    uint8_t bytes[32];
};

/* How far the tuner has come. */
struct moetune_status {
    uint32_t struct_size;
    uint32_t looking_up; /* 1: another process writes the database, or writing it failed */
    uint64_t steps;      /* steps whose time was told */
    uint64_t tried;      /* steps whose plan was not the best known one */
    double time_us;      /* of all steps told */
    double cost_us;      /* what exploring cost, as `share` counts it */
    double own_us;       /* the library's own part of cost_us */
    uint32_t decided;    /* buckets that have an entry */
    uint32_t open;       /* buckets that were asked for and have no entry yet */
    uint32_t alarms;     /* entries that turned stale because their plan became slower */
    uint32_t replaced;   /* entries whose plan changed after such an alarm */
};

/* clang-format off */
#define MOETUNE_OPTIONS_INIT { (uint32_t)sizeof(struct moetune_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define MOETUNE_STATUS_INIT { (uint32_t)sizeof(struct moetune_status), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Tell this instead of a time if the plan could not run on this rank: out of memory, or not
 * possible for this layer.  The plan is not tried again in this bucket. */
#define MOETUNE_FAILED 1e300

/* Opens the database `db`, and makes it if it does not exist.  NULL: $MOETUNE_DB, else
 * $MOELOOKUP_DB, else moetune.db below $XDG_DATA_HOME or $HOME.  options may be NULL.  Ranks other
 * than 0 open no file.
 * MOE_ERR_ARGUMENT: the shape or an option breaks a rule.  MOE_ERR_IO, MOE_ERR_FORMAT: the file;
 * standard error says why.  Only rank 0 can fail because of the file: ranks must agree on its
 * status before the first step. */
MOETUNE_API int moetune_open(const char *db, const struct moe_shape *shape,
                             const struct moetune_options *options, struct moetune **out);

/* The plan for this step; it is always legal for the layer.  Set plan->struct_size (MOE_PLAN_INIT)
 * first.  plan->source is as in moelookup_get, or MOE_TENTATIVE while the bucket is being measured.
 * With options.broadcast, every rank calls it with the same capacity.  Without, only rank 0 calls
 * it (MOE_ERR_ARGUMENT elsewhere).  MOE_ERR_IO: the broadcast failed, or it brought no order for a
 * step since the last exchange; then the plan is the default.  If the last step was never told, it
 * teaches nothing, and costs all that was saved up for it. */
MOETUNE_API int moetune_ask(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan);

/* moetune_ask in a declared space, with its key and class.  `class` is ignored if the space has no
 * classes.  MOE_ERR_ARGUMENT also: no options.space, a key above INT64_MAX, a class that is NaN. */
MOETUNE_API int moetune_ask_key(struct moetune *tuner, uint64_t key, double class_number,
                                struct moe_plan *plan);

/* The number of the bucket of key and class.  Functions that take a capacity take this number in a
 * declared space; they treat all steps of a bucket alike.  moetune_ask_key also learns how time
 * follows the key inside a bucket. */
MOETUNE_API int moetune_bucket(const struct moetune *tuner, uint64_t key, double class_number,
                               uint32_t *out);

/* moelookup_value and moe_plan_format for plans of options.space; those two know only the spaces of
 * tables.  They write the plan's value on an axis, and the whole plan, and return the length.
 * MOE_ERR_ARGUMENT: the plan has no such axis. */
MOETUNE_API int moetune_value(const struct moe_plan *plan, const char *axis, char *text,
                              size_t size);
MOETUNE_API int moetune_format(const struct moe_plan *plan, char *text, size_t size);

/* The time of the step, between the same two points on every rank.  With options.largest every rank
 * calls it.  MOE_ERR_ARGUMENT, and nothing is learnt: some rank's number is not above 0 and below
 * 1e12, or nothing was asked since the last call.  Between exchanges each rank learns of a wrong
 * number of its own only; MOETUNE_FAILED reaches rank 0 at the next exchange. */
MOETUNE_API int moetune_tell(struct moetune *tuner, double time_us);

/* The last answer of moetune_ask as an order.  MOE_ERR_ARGUMENT: nothing was asked yet. */
MOETUNE_API int moetune_order(const struct moetune *tuner, struct moetune_order *out);

/* The plan of an order, on any rank.  MOE_ERR_FORMAT leaves *plan untouched: the order is damaged,
 * is for another capacity, or is not legal for the layer. */
MOETUNE_API int moetune_follow(struct moetune *tuner, const struct moetune_order *order,
                               uint32_t capacity, struct moe_plan *plan);

/* Exchanges as seldom as with callbacks, for programs that carry orders themselves:
 *
 *     if (moetune_due(tuner)) {
 *         rank 0:  moetune_tell and moetune_passed, for the steps since the last exchange;
 *                  moetune_ask(tuner, capacity, &plan);
 *                  moetune_spent, with the time of the last exchange.  Call it after moetune_ask:
 *                  before, it would spend what was saved up for the plan to try now;
 *                  moetune_orders(tuner, orders, 9, &count);
 *         all:     broadcast(orders, sizeof(orders));
 *                  moetune_obey(tuner, orders, 9, capacity, &plan);
 *     } else
 *         all:     moetune_known(tuner, capacity, &plan);
 *
 * moetune.torch of db/lookup/python does this. */

/* 1: the next step is an exchange.  All ranks that took part in the last exchange get the same
 * answer. */
MOETUNE_API int moetune_due(const struct moetune *tuner);

/* How many steps there are before the next exchange, 0 to 2,047; the same on all ranks.  Until then
 * the answer of moetune_known for a capacity does not change.  So a program may keep it, and call
 * moetune_known for the skipped steps, in their order, just before the exchange. */
MOETUNE_API int moetune_until_due(const struct moetune *tuner);

/* The plan of a step that is no exchange: the best one that all ranks know in the capacity's
 * bucket, or the default plan.  MOE_ERR_ARGUMENT: an exchange is due. */
MOETUNE_API int moetune_known(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan);

/* On rank 0, after moetune_ask: writes its answer, and what has changed in other buckets, as *count
 * orders.  `room` is the room in out: 9 are enough, and what does not fit comes next time. */
MOETUNE_API int moetune_orders(struct moetune *tuner, struct moetune_order *out, uint32_t room,
                               uint32_t *count);

/* On every rank, rank 0 included: the plan of this exchange.  `room`: how many orders `orders` has
 * room for; the first order says how many there are.  MOE_ERR_FORMAT: as moetune_follow.
 * MOE_ERR_IO: the orders are for another capacity. */
MOETUNE_API int moetune_obey(struct moetune *tuner, const struct moetune_order *orders,
                             uint32_t room, uint32_t capacity, struct moe_plan *plan);

/* The next three functions are for rank 0 (MOE_ERR_ARGUMENT elsewhere). */

/* The best plan known in the capacity's bucket.  *steps: for how many steps this stays the answer
 * there.  0: ask at the next step.  UINT32_MAX: until told steps are slower than the entry says. */
MOETUNE_API int moetune_rest(struct moetune *tuner, uint32_t capacity, struct moe_plan *plan,
                             uint32_t *steps);

/* Tells a step that was not asked for: its plan, and the largest time of all ranks or
 * MOETUNE_FAILED. Call it in the order in which the steps ran. */
MOETUNE_API int moetune_passed(struct moetune *tuner, uint32_t capacity,
                               const struct moe_plan *plan, double time_us);

/* Tells the measured time of exchanges, which counts as the library's own time. */
MOETUNE_API int moetune_spent(struct moetune *tuner, double us);

MOETUNE_API int moetune_status(const struct moetune *tuner, struct moetune_status *out);

/* Publishes what is known and closes the tuner.  NULL is fine. */
MOETUNE_API void moetune_close(struct moetune *tuner);

MOETUNE_API const char *moetune_version(void); /* "0.9.0" */

#ifdef __cplusplus
}
#endif

#endif
