/* The four ways of a pair of layers, capacity by capacity, as a table of HTML. */
#ifndef WHATIF_TABLE_H
#define WHATIF_TABLE_H

#include "whatif.h"

void whatif_table(const struct whatif_pair *pair, FILE *to);

#endif
