/* What a declared space holds, for a person and for programs. */
#ifndef SPACE_PRINT_H
#define SPACE_PRINT_H

#include "declaration.h"

#include <stdio.h>

void space_print(const struct declaration *d, FILE *to);
void space_print_json(const struct declaration *d, FILE *to);

#endif
