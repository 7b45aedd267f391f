/* The plans that a search chooses from. */
#ifndef ARMS_H
#define ARMS_H

#include "cluster.h"
#include "search.h"

struct arms_setup {
    const char *axes; /* "r,d,a=linear:2dh": those that vary, with "=" to these values and the
                       * default alone; the others keep their default */
    bool library_a2a; /* the wire's library has an all-to-all of its own: a=nccl */
    bool knows_ctas;  /* the wire does: the axis ctas means something */
    struct protocols protocols; /* that the wire can be told: the axis proto */
    bool foreign;               /* the layer is another program's: it has what axes name */
    bool padded; /* with r >= 1 rows are padded (e=padded): steps are graphs, or who runs them knows
                  * no others.  Of foreign programs nobody knows that they do */
};

/* Every legal plan of the layer in which only those axes differ from the default plan, at most
 * SEARCH_ARMS_MAX; all of them, whatever the setup, where the layer has a declared space.  A value
 * that is legal for other layers only is left out.  ERR_ARGUMENT after a message. */
int arms_list(const struct moe_shape *shape, const struct arms_setup *setup, struct moe_plan *arms,
              size_t *count);

/* The index of a plan, or -1. */
int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan);

#endif
