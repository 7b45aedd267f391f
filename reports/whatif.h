/* What if the router limited each token to a few nodes?  Compares two layers that differ only in
 * their router, one of which limits a token to some groups of experts: what the transport gains
 * without the limit, and what both gain together. */
#ifndef WHATIF_H
#define WHATIF_H

#include "remarks.h"

/* A router (with or without the limit) and an all-to-all. */
enum { WHATIF_WAYS = 5 };
extern const struct whatif_way {
    const char *name;
    bool limited;
    uint32_t a;
} whatif_ways[WHATIF_WAYS];

/* Two layers of one cluster that differ only in groups, group_limit and router; borrowed. */
struct whatif_pair {
    const struct layer_facts *flat, *limited; /* without groups, and with them */
};

/* Finds the pair at a place in the order of layers.  Returns false if there are no more. */
bool whatif_pair(const struct scope *scope, size_t place, struct whatif_pair *out);

/* Returns the shape of the pair's layer that has the router of this way. */
const struct moe_shape *whatif_shape(const struct whatif_pair *pair, int way);

/* Returns whether any plan of this way was timed; those of 3dh are not if there are no racks. */
bool whatif_tried(const struct whatif_pair *pair, int way);

/* One capacity at which flat x linear and limited x rail were timed: a plain value that borrows its
 * trials. */
struct whatif_row {
    uint64_t capacity;
    /* For each way the plan with r above 0 and the smallest median; NULL: none was timed. */
    const struct trial_facts *best[WHATIF_WAYS];
    struct gain gain; /* of limited x rail over flat x linear */
    struct gain flat; /* of the best flat way over flat x linear */
    /* Ends of both are NAN if too few steps were timed. */
};

/* Writes the row of the next capacity above row->capacity.  Returns false if there are no more. */
bool whatif_next(const struct whatif_pair *pair, struct whatif_row *row);

/* Returns whether the steps are enough for a 95 % interval of their median. */
bool whatif_sure(const struct spread *steps);

/* Returns the bytes that a rank sends to other nodes in one step of the trial's plan.  With rail
 * they are the mean under random routing. */
double whatif_bytes(const struct moe_shape *shape, const struct trial_facts *trial);

/* Writes a line for each pair: what both gain, and which part needs no change of the model. */
void whatif_remarks(const struct scope *scope, struct remarks *out);

#endif
