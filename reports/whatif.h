/* What if tokens were limited to a few nodes: layers that differ in their router alone, one of
 * which limits a token to some groups of experts.  Says what the transport gains without the limit
 * and what both gain together. */
#ifndef WHATIF_H
#define WHATIF_H

#include "remarks.h"

/* A router and an all-to-all. */
enum { WHATIF_WAYS = 5 };
extern const struct whatif_way {
    const char *name;
    bool limited;
    uint32_t a;
} whatif_ways[WHATIF_WAYS];

/* Two layers of one cluster, equal but for groups, group_limit and router. */
struct whatif_pair {
    const struct layer_facts *flat, *limited; /* without groups, and with them */
};

/* The pair at a place in the order of layers; false: there are no more. */
bool whatif_pair(const struct scope *scope, size_t place, struct whatif_pair *out);

const struct moe_shape *whatif_shape(const struct whatif_pair *pair, int way);

/* False: none of its plans was timed, as those of 3dh where there are no racks. */
bool whatif_tried(const struct whatif_pair *pair, int way);

/* One capacity at which flat x linear and limited x rail were timed. */
struct whatif_row {
    uint64_t capacity;
    /* The plan with the least median of all r above 0 and d; NULL: none was timed. */
    const struct trial_facts *best[WHATIF_WAYS];
    /* Less time than flat x linear takes: of limited x rail, and of the best flat way; ends NAN
     * where too few steps were timed. */
    struct gain gain, flat;
};

/* The row of the next capacity above row->capacity; false: there are no more. */
bool whatif_next(const struct whatif_pair *pair, struct whatif_row *row);

/* So many steps have a 95 % interval of their median. */
bool whatif_sure(const struct spread *steps);

/* What a rank sends to other nodes in one step of that plan.  Rows of rail as random routing needs
 * them on average. */
double whatif_bytes(const struct moe_shape *shape, const struct trial_facts *trial);

/* "... of 40 %, 30 % needs no change of the model", a line for each pair. */
void whatif_remarks(const struct scope *scope, struct remarks *out);

#endif
