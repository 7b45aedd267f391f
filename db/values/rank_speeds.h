/* Speeds of ranks in percent of the fastest one, as one line of a cluster's text: "2x100 1x63" is
 * two ranks at full speed, then one at 0.63 of it. By these t_i work can be divided among unequal
 * ranks. */
#ifndef RANK_SPEEDS_H
#define RANK_SPEEDS_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_SPEEDS_BYTES = 1024 }; /* of a text, with its end */

/* Ranks that differ by less than this share count as equal. */
extern const double rank_speeds_unequal;

/* Writes the speeds, one share of the fastest rank's speed per rank. Where many ranks leave no
 * room, it rounds in steps of up to 25 percent. Writes "unknown" where a speed is not known or
 * nothing fits. */
void rank_speeds_format(const double *speeds, size_t ranks, char *text, size_t size);

/* Reads how many ranks the text describes, and the slowest one's share. Returns false where it is
 * no such text. */
bool rank_speeds_parse(const char *text, size_t *ranks, double *slowest);

/* Returns whether the cluster has the speeds of all its ranks. */
struct cluster;
bool rank_speeds_known(const struct cluster *cluster);

/* Reads all speeds of a text that rank_speeds_parse() accepted. `speeds` has room for that number
 * of ranks. */
void rank_speeds_list(const char *text, double *speeds);

#endif
