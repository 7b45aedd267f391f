/* From what was decided to what the dictionary says. */
#ifndef ENTRY_H
#define ENTRY_H

#include "decision.h"
#include "store.h"

/* Times and gain of what a contest adopted. */
void entry_times(const struct contest_verdict *verdict, struct entry_row *out);

/* Plans, times, bound and reasons of a decision among `arms`; cluster, shape, run, window, bucket,
 * capacity, effort and search are the caller's. */
void entry_fill(const struct decision_result *result, const struct moe_plan *arms,
                struct entry_row *out);

#endif
