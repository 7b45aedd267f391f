/* With whom a rank exchanges when one kind of link is measured.  Pure; the same answer for all who
 * ask with the same nodes. */
#ifndef PARTNERS_H
#define PARTNERS_H

enum link_level { LINK_INSIDE, LINK_BETWEEN, LINK_LEVELS };
extern const char *const link_level_words[];

/* Enough to see how messages add up; with all of 2,047 others, memory would decide the sizes. */
enum { PARTNERS_MAX = 8 };

/* node[q] tells rank q's node from others.  Inside: ranks of the same node; between: the ranks that
 * have the same place in other nodes, so that all ranks of a node send at once.  Whoever is a
 * rank's partner has that rank as his.  Returns how many there are, 0 to PARTNERS_MAX. */
int partners_find(const int *node, int ranks, int rank, enum link_level level,
                  int partners[PARTNERS_MAX]);

#endif
