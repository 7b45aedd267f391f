/* The story of an entry: what was tried, what it took, why this plan; and all that was tried. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "store.h"

#include <stdio.h>

/* Of every layer that has this bucket.  UNSUPPORTED, silently, if none has. */
int explain_bucket(struct store *store, uint32_t bucket, FILE *to);

/* Every trial there is: state, times, memory, volume. */
int explain_trials(struct store *store, FILE *to);

/* The load that an entry was measured under, and of recorded steps what they are like; a table from
 * elsewhere brings the name alone.  Nothing where there is none. */
int explain_load(struct store *store, const struct moe_shape *shape, const struct entry_row *e,
                 FILE *to);

/* Which of these states (enum entry_state) take from its worth; inferred is a decision's word. */
void explain_doubts(const struct entry_row *e, unsigned states, FILE *to);

#endif
