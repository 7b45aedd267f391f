/* How fast ranks are beside each other, in percent of the fastest one, as one line of a cluster's
 * text: "2x100 1x63" for two ranks at full speed, then one at 0.63 of it.  These are the t_i by
 * which work can be divided among unequal ranks. */
#ifndef RANK_SPEEDS_H
#define RANK_SPEEDS_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_SPEEDS_BYTES = 1024 }; /* of a text, with its end */

/* Ranks that differ by less than this share are called equal. */
extern const double rank_speeds_unequal;

/* Shares of the fastest rank's speed, one per rank; in steps of more than one percent, up to 25,
 * where many ranks leave no room for that.  "unknown" where one is not known or nothing fits. */
void rank_speeds_format(const double *speeds, size_t ranks, char *text, size_t size);

/* How many ranks the text is about, and the slowest one's share; false if it is no such text. */
bool rank_speeds_parse(const char *text, size_t *ranks, double *slowest);

/* True where those of all of the cluster's ranks are. */
struct cluster;
bool rank_speeds_known(const struct cluster *cluster);

/* All of them, of a text that was parsed before: there is room for so many ranks. */
void rank_speeds_list(const char *text, double *speeds);

#endif
