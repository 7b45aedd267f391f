/* The manual page, from the tables that --help is printed from. */
#ifndef MANUAL_H
#define MANUAL_H

#include "verb.h"

/* moetune(1), as roff. */
void manual_print(const struct verb *const *verbs, FILE *out);

#endif
