/* Replays recorded counts of a gate, step by step, under a rule that sets each expert's capacity:
 * libmoelookup's controller, a static factor, or the rule in a comment of DynaMoE's program. */
#ifndef COUNTS_REPLAY_H
#define COUNTS_REPLAY_H

#include "counts_file.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The rules; the value of a rule is its index in both lists of names. */
enum counts_way { COUNTS_FOLLOWED, COUNTS_STATIC, COUNTS_EMA, COUNTS_WAYS };
extern const char *const counts_words[];  /* for JSON */
extern const char *const counts_names[];  /* for people */
extern const double counts_static_factor; /* 2.5 */

/* One step under one rule: a plain value that lives for one call of on_step(). */
struct counts_step {
    size_t step;
    const uint32_t *rows;    /* capacity of each expert */
    uint64_t sum;            /* rows of all experts */
    uint64_t fullest;        /* rows of the fullest rank */
    uint64_t balanced;       /* rows of the fullest rank if experts were spread by load */
    uint32_t key, key_r0;    /* equal capacities that take as long, with r >= 1 and with r = 0 */
    uint64_t total, dropped; /* choices */
    bool replanned;          /* the rows differ from those of the step before */
};

/* All steps of a replay together: a plain value. */
struct counts_sum {
    size_t steps, replans;
    double factor;          /* rows over choices */
    double dropped_share;   /* of choices */
    double fullest_factor;  /* rows of the fullest rank over the choices of an even gate there */
    double balanced_factor; /* the same if experts were spread by load */
    double step_ms;         /* mean; NAN if the time of any step is not known */
    uint64_t digest;        /* of the controller's state at the end; only of COUNTS_FOLLOWED */
};

/* A function that knows step times: ms() returns the time at these equal capacities, or NAN. */
struct counts_price {
    double (*ms)(void *self, uint32_t key, uint32_t key_r0);
    void *self;
};

/* Replays the trace under one rule, calls on_step for each step, and writes the sums.  The trace
 * sets experts and ranks of the options.  options->most 0: the larger of the largest count and the
 * static factor's rows; start 0: the static factor's rows.  on_step and price may be NULL.
 * ERR_ARGUMENT after a message for options that moe_capacities_open() refuses; ERR_NOMEM. */
int counts_replay(const struct counts_trace *trace, const struct moe_capacities_options *options,
                  enum counts_way way, const struct counts_price *price,
                  void (*on_step)(void *self, const struct counts_step *step), void *self,
                  struct counts_sum *out);

/* Returns a sentence that says why plans with r >= 1 gain no time if no rank has more than one
 * expert; NULL otherwise. */
const char *counts_remark(const struct counts_trace *trace);

#endif
