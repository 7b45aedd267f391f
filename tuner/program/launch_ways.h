/* The ways to start a program: its plans, by their values of the restart axes.  Pure. */
#ifndef LAUNCH_WAYS_H
#define LAUNCH_WAYS_H

#include "declaration.h"
#include "moelookup.h"

/* All plans with the same values of the restart axes. */
struct way {
    int arm, safe;      /* the first of them; the one that is otherwise most like the default */
    uint32_t launches;  /* in this run */
    uint32_t last;      /* launch; 0: none */
    double votes;       /* of ranges that want it next, by how much they are wanted themselves */
    uint32_t stillborn; /* launches that came to nothing */
    bool runs, broken;  /* a step's time was told; it never comes up */
};

/* The ways of these plans, which the caller frees, and of each plan its way. */
int ways_list(const struct declaration *space, const struct moe_plan *plans, size_t count,
              uint32_t *way_of, struct way **ways, size_t *way_count);

/* That of the next launch, after so many: most wanted, the more the longer it was not its turn.
 * The same one twice in a row only if nothing else is wanted.  -1: nothing is. */
int ways_next(const struct way *ways, size_t count, uint32_t launches);

#endif
