/* moetune's own plans, written as a program would declare them. */
#ifndef OWN_SPACE_H
#define OWN_SPACE_H

#include "declaration.h"
#include "layer_plans.h"

/* What --space says instead of a file, and what such a space is called. */
extern const char own_space_name[];

/* All axes that mean something, as far as communicators can be told ctas and proto. */
const char *own_space_axes(bool knows_ctas, bool knows_proto);

/* The canonical text, of plans that were listed as `padded` (arms.h): the values that they have on
 * each axis, what they need, and as key the capacities that are measured.  ERR_ARGUMENT after a
 * message for more plans, or more capacities, than a declared space has. */
int own_space_text(const struct layer_plans *space, char text[DECLARATION_TEXT_BYTES + 1]);

#endif
