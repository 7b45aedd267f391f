/* What stands in plans and layers, explained once for the whole page. */
#ifndef LEGEND_H
#define LEGEND_H

#include "facts.h"

void legend_write(const struct facts *facts, FILE *to);

#endif
