/* What slots by priority (order=priority) keep that slots in token order drop.  Both drop as many
 * choices.  Of probabilities priority saves some; of gates that are divided by their sum
 * over k > 1 choices it may lose some: a sure token's second choice keeps its slot, and its gate is
 * small, while an unsure one's, of almost one half, is dropped. */
#ifndef DROPS_H
#define DROPS_H

#include "remarks.h"

/* What experts get, as the load that the layer's entries were measured under says it, into the
 * layer: `popularity` (E), NULL where they were chosen at random. */
int drops_read(struct store *store, struct layer_facts *layer);

/* One line about it. */
void drops_remarks(const struct layer_facts *layer, struct remarks *out);

#endif
