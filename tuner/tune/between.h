/* Infers the entries of buckets between two measured ones, low and high. */
#ifndef BETWEEN_H
#define BETWEEN_H

#include "sweep.h"

/* Finds the first bucket that gets the high side's plan.  The plan changes once only, where the
 * model expects the least total time.  If one side has the default plan, all buckets between get
 * the default, unless the other plan was measured faster on both sides and lacks a proof on one. */
int between_find_switch(struct sweep *sweep, const struct entry_row *low,
                        const struct entry_row *high, uint32_t *first_high);

/* Makes the entry of a bucket with the plan of one side, or with the default if neither fits into
 * memory.  False: the default does not fit either. */
bool between_infer(struct sweep *sweep, const struct entry_row *low, const struct entry_row *high,
                   uint32_t first_high, uint32_t bucket, struct entry_row *out);

/* Finds the bucket where measuring helps most, among those whose inferred plan may lose more than
 * the effort allows.  False: there is none, or both sides have the same plan. */
bool between_doubtful(struct sweep *sweep, const struct entry_row *low,
                      const struct entry_row *high, uint32_t first_high, uint32_t *bucket);

#endif
