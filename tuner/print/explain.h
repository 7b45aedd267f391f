/* Explains entries: which plans were tried in a bucket, their times, and why the entry has its
 * plan. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "store.h"

#include <stdio.h>

/* Explains the entry of this bucket in every layer that has one.  `shape_filter`: only layers that
 * shape_agrees() with it; NULL: all.  UNSUPPORTED, without a message, if no layer has one. */
int explain_bucket(struct store *store, const char *shape_filter, uint32_t bucket, FILE *out);

/* Prints every trial of the layers that agree with `shape_filter`: state, times, memory, volume. */
int explain_trials(struct store *store, const char *shape_filter, FILE *out);

/* Prints the load that an entry was measured under, and what its recorded steps are like.  An
 * imported table has only the load's name.  Prints nothing if there is no load. */
int explain_load(struct store *store, const struct moe_shape *shape, const struct entry_row *e,
                 FILE *out);

/* Prints which of these states (enum entry_state) make the entry doubtful, except the state that
 * its decision names already. */
void explain_doubts(const struct entry_row *e, unsigned states, FILE *out);

#endif
