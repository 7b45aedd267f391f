/* How many choices each expert gets, where it is not left to random numbers: what real routing
 * does to experts that compute only the rows there are.
 *
 * A load and a capacity c are two things.  The load says what the gate chooses: every rank's T
 * tokens choose k T experts, shared out in the same way on each rank.  c says how many rows an
 * expert takes from one rank, as without a load; what is chosen beyond it is dropped.  With the
 * mean m = k T/E and the skew X the hottest expert is chosen X m times, so c >= X m drops nothing
 * (factor 0 gives this c), and a padded plan then computes X times the rows that are filled.
 *
 * The real gate makes the choices: tokens point at the experts that they are to choose, each along
 * a column of its own (see data.c), so D has to be at least E. */
#ifndef LOAD_H
#define LOAD_H

#include "moelookup.h"

#include <stdbool.h>
#include <stddef.h>

struct load {
    uint32_t experts, tokens; /* of a rank */
    uint64_t seed, step;      /* in which order a rank's tokens take their choices */
    uint64_t *first; /* (E + 1): an expert's choices are first[e] to first[e + 1] of the k T */
};

/* `skew` is the largest over the mean of the counts, which fall as powers do; which expert is the
 * hottest depends on the seed.  ERR_ARGUMENT, which names the range, for one that cannot be: no
 * expert is chosen twice by one token, so skew <= E/k. */
int load_open_skew(const struct moe_shape *shape, uint64_t seed, double skew, struct load **out);

/* From counts that a trainer recorded, a line {"counts": [..E numbers..]} for each step: the step
 * with the median skew, scaled to k T.  Other keys are ignored.  ERR_FORMAT or ERR_IO after a
 * message, with the line where one is wrong. */
int load_open_routing(const struct moe_shape *shape, uint64_t seed, const char *path,
                      struct load **out);

/* What the options of a verb ask for: `skew` 0 and `routing` NULL are no load, *out is NULL. */
int load_open(const struct moe_shape *shape, uint64_t seed, double skew, const char *routing,
              struct load **out);
void load_close(struct load *load);

uint64_t load_count(const struct load *load, uint32_t expert); /* on one rank */
double load_skew(const struct load *load);                     /* 0 without tokens */

/* Token t of a rank chooses this expert; the same on every rank but for the order of the tokens. */
bool load_chooses(const struct load *load, uint32_t rank, uint64_t token, uint32_t expert);

#endif
