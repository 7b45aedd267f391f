/* What the search is told of a machine, from what its cluster says. */
#ifndef KNOWN_MACHINE_H
#define KNOWN_MACHINE_H

#include "cluster.h"
#include "search.h"

/* In place of what is not known there stands the guess. */
struct search_machine known_machine(const struct cluster *cluster,
                                    const struct search_machine *guess);

#endif
