/* Compares the two orders in which choices get slots: token order, and priority (order=priority).
 * Both drop equally many choices, but of different weight.  With gates that are probabilities,
 * priority drops less weight.  With gates that are divided by their sum over k > 1 choices it may
 * drop more: the small second gate of a sure token gets a slot, while an unsure token's second
 * gate, almost one half, is dropped. */
#ifndef DROPS_H
#define DROPS_H

#include "remarks.h"

/* Sets the layer's `popularity` (E) from the load that its entries were measured under; NULL if
 * tokens chose experts at random.  ERR_NOMEM, and errors of the store. */
int drops_read(struct store *store, struct layer_facts *layer);

/* Writes one line about the layer: what both orders drop at two capacity factors.  Writes none for
 * a layer with one expert. */
void drops_remarks(const struct layer_facts *layer, struct remarks *out);

#endif
