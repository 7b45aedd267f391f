/* The story of an entry: what was tried, what it took, why this plan; and all that was tried. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "store.h"

#include <stdio.h>

/* Tells the story of this bucket's entry in every layer that has one.  UNSUPPORTED, silently, if
 * none has. */
int explain_bucket(struct store *store, const char *wanted, uint32_t bucket, FILE *to);

/* Prints every trial there is: state, times, memory, volume. */
int explain_trials(struct store *store, const char *wanted, FILE *to);

/* Prints the load that an entry was measured under and, of recorded steps, what they are like; a
 * table from elsewhere brings the load's name alone.  Prints nothing where there is no load. */
int explain_load(struct store *store, const struct moe_shape *shape, const struct entry_row *e,
                 FILE *to);

/* Prints which of these states (enum entry_state) make the entry doubtful, but for the one that its
 * decision has as its word. */
void explain_doubts(const struct entry_row *e, unsigned states, FILE *to);

#endif
