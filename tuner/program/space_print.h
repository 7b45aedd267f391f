/* Prints what a declared space holds: as text for a person, as JSON for programs. */
#ifndef SPACE_PRINT_H
#define SPACE_PRINT_H

#include "declaration.h"

#include <stdio.h>

/* Prints axes, numbers of plans and buckets. */
void space_print(const struct declaration *d, FILE *to);
/* Prints one JSON object with the text of the space and all legal plans. */
void space_print_json(const struct declaration *d, FILE *to);

#endif
