/* Replays what a gate chose, step by step, under capacities that are set in several ways: static,
 * followed by libmoelookup's controller, and by the rule that DynaMoE's authors left in a comment
 * of their program. */
#ifndef COUNTS_REPLAY_H
#define COUNTS_REPLAY_H

#include "counts_file.h"
#include "moelookup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum counts_way { COUNTS_FOLLOWED, COUNTS_STATIC, COUNTS_EMA, COUNTS_WAYS };
extern const char *const counts_words[]; /* for JSON */
extern const char *const counts_names[];
extern const double counts_static_factor; /* 2.5 */

/* One step under one way. */
struct counts_step {
    size_t step;
    const uint32_t *rows;
    uint64_t sum;         /* of rows */
    uint64_t fullest;     /* rows of the fullest rank */
    uint64_t balanced;    /* of the fullest rank if experts were dealt out by size */
    uint32_t key, key_r0; /* the equal capacities that take as long with r >= 1 and with r = 0 */
    uint64_t total, dropped;
    bool replanned; /* other rows than the step before */
};

/* All steps together. */
struct counts_sum {
    size_t steps, replans;
    double factor;         /* rows over choices */
    double dropped_share;  /* of choices */
    double fullest_factor; /* rows of the fullest rank, over choices that an even gate gives it */
    double balanced_factor;
    double step_ms; /* mean; NAN where the price of some step is not known */
    uint64_t digest;
};

/* What a step at such capacities takes, or NAN. */
struct counts_price {
    double (*ms)(void *self, uint32_t key, uint32_t key_r0);
    void *self;
};

/* options->most 0: the largest count there is, and at least that of the static factor; start 0: the
 * static factor's rows.  experts and ranks are the trace's.  on_step and price may be NULL.
 * ERR_ARGUMENT after a message for options that moe_capacities_open refuses. */
int counts_replay(const struct counts_trace *trace, const struct moe_capacities_options *options,
                  enum counts_way way, const struct counts_price *price,
                  void (*on_step)(void *self, const struct counts_step *step), void *self,
                  struct counts_sum *out);

/* Why plans with r >= 1 gain no time, where a rank has one expert or less; else NULL. */
const char *counts_remark(const struct counts_trace *trace);

#endif
