/* Puts each rank into a ring with its group, where it exchanges with the neighbours on both sides,
 * or with everybody where they are few. */
#include "partners.h"

#include <stdbool.h>
#include <stddef.h>

const char *const link_level_words[] = { "inside", "between", NULL };

/* How many ranks of the same node come before this one. */
static int place_of(const int *node, int rank)
{
    int place = 0;

    for (int q = 0; q < rank; q++)
        place += node[q] == node[rank];
    return place;
}

static bool in_group(const int *node, int rank, int place, enum link_level level, int q)
{
    return level == LINK_INSIDE ? node[q] == node[rank] : place_of(node, q) == place;
}

/* The member of rank's group that lies `steps` ranks on, members counted in a ring. */
static int member(const int *node, int ranks, int rank, int place, enum link_level level, int steps)
{
    int q = rank;

    while (steps > 0) {
        q = (q + 1) % ranks;
        steps -= in_group(node, rank, place, level, q);
    }
    return q;
}

int partners_find(const int *node, int ranks, int rank, enum link_level level,
                  int partners[PARTNERS_MAX])
{
    int place = place_of(node, rank), group = 0, count = 0;

    for (int q = 0; q < ranks; q++)
        group += in_group(node, rank, place, level, q);
    for (int step = 1; step < group && group - 1 <= PARTNERS_MAX; step++)
        partners[count++] = member(node, ranks, rank, place, level, step);
    for (int step = 1; step <= PARTNERS_MAX / 2 && group - 1 > PARTNERS_MAX; step++) {
        partners[count++] = member(node, ranks, rank, place, level, step);
        partners[count++] = member(node, ranks, rank, place, level, group - step);
    }
    return count;
}
