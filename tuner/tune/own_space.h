/* Writes moetune's own plans as the text of a declared space, as a program would declare them. */
#ifndef OWN_SPACE_H
#define OWN_SPACE_H

#include "declaration.h"
#include "layer_plans.h"

/* The name of this space; --space takes it instead of a file. */
extern const char own_space_name[];

/* The list of all axes; ctas and proto only if communicators can be set to them. */
const char *own_space_axes(bool knows_ctas, bool knows_proto);

/* Writes the canonical text of plans that were listed as `padded` (arms.h): the values on each
 * axis, the needs, and the measured capacities as the key.  ERR_ARGUMENT after a message if there
 * are more plans or capacities than a declared space can have. */
int own_space_text(const struct layer_plans *plans, char text[DECLARATION_TEXT_BYTES + 1]);

#endif
