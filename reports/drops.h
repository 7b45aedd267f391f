/* What slots by priority (order=priority) keep that slots in token order drop.  Both drop as many
 * choices.  Of probabilities priority saves some; of gates that are divided by their sum
 * over k > 1 choices it may lose some: a sure token's second choice keeps its slot, and its gate is
 * small, while an unsure one's, of almost one half, is dropped. */
#ifndef DROPS_H
#define DROPS_H

#include "origin.h"

/* What finds no slot at a capacity factor, as shares of all. */
struct drops {
    double factor;
    uint64_t capacity;
    double choices;
    double gate[2];        /* of the gates as the layer takes them: by token, by priority */
    double probability[2]; /* likewise, before they are divided by their sum over k */
};

/* How many factors a report looks at. */
enum { DROP_FACTORS = 2 };

/* What experts get, as the load that the layer's entries were measured under says it, into the
 * layer: `popularity` (E), NULL where they were chosen at random. */
int drops_read(struct store *store, struct layer_facts *layer);

/* A softmax gate whose logits are what experts get, as a logarithm, plus seeded noise; a rank's
 * tokens, at most 4,096 of them.  False: there is nothing to route, or no memory. */
bool drops_of(const struct layer_facts *layer, struct drops out[DROP_FACTORS]);

/* One line about it. */
void drops_remarks(const struct layer_facts *layer, struct remarks *out);

#endif
