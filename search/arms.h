/* Lists the plans that a search of a layer chooses from: its arms. */
#ifndef ARMS_H
#define ARMS_H

#include "cluster.h"
#include "search.h"

/* Which plans to list, and what the cluster can run.  A plain value; `axes` is borrowed. */
struct arms_setup {
    const char *axes; /* "r,d,a=linear:2dh": the axes that vary; "=" restricts one to these values
                       * and its default.  Every other axis keeps its default */
    bool library_a2a; /* the communication library has its own all-to-all: a=nccl */
    bool knows_ctas;  /* the wire can limit CTAs, so the axis ctas has a meaning */
    struct protocols protocols; /* protocols that the wire can be set to: the axis proto */
    bool foreign;               /* another program runs the layer; it can run what `axes` names */
    bool padded; /* plans with r >= 1 need padded rows (e=padded), because steps are CUDA graphs or
                  * because the program knows no others */
};

/* Lists every legal plan of the layer in which only those axes differ from the default plan, at
 * most SEARCH_ARMS_MAX.  A layer with a declared space gets all plans of the space, whatever the
 * setup says.  Values that are legal only for other layers are left out.  ERR_ARGUMENT after a
 * message. */
int arms_list(const struct moe_shape *shape, const struct arms_setup *setup, struct moe_plan *arms,
              size_t *count);

/* The index of a plan in a list, or -1. */
int arms_find(const struct moe_plan *arms, size_t count, const struct moe_plan *plan);

#endif
