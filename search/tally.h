/* The first few samples of each arm in one visit, and who is ahead by their medians. */
#ifndef TALLY_H
#define TALLY_H

#include "search.h"

struct tally; /* an opaque resource; values are log(ns) */

/* Keeps `per_arm` samples of each arm (at least 1); more are ignored. */
int tally_open(size_t arm_count, uint32_t per_arm, struct tally **out);
void tally_close(struct tally *tally); /* NULL is fine */

void tally_clear(struct tally *tally);
void tally_add(struct tally *tally, int arm, double log_ns);

uint32_t tally_count(const struct tally *tally, int arm);
bool tally_full(const struct tally *tally, int arm);
double tally_median(const struct tally *tally, int arm); /* INFINITY if there is no sample */

/* Fills winner and runner-up: least median among the usable arms; full ones go before others.
 * With no sample at all the winner is the default plan, or else the first usable one. */
void tally_verdict(const struct tally *tally, const struct search *search,
                   struct search_verdict *out);

/* A share that the true loss of `winner` stays below with 95 %, if the arms with samples are all
 * there are: from the spread about the medians, as if normal.  NAN with fewer than two samples. */
double tally_bound(const struct tally *tally, const struct search *search, int winner);

#endif
