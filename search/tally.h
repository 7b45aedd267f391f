/* The first few samples of each arm in one visit, and who is ahead by their medians. */
#ifndef TALLY_H
#define TALLY_H

#include "search.h"

struct tally; /* a strategy's own state, in search->own; values are log(ns) */

uint32_t tally_count(const struct tally *tally, int arm);
bool tally_full(const struct tally *tally, int arm);     /* has as many samples as it is to have */
double tally_median(const struct tally *tally, int arm); /* INFINITY if there is no sample */

bool tally_out_of_samples(const struct search *search); /* the setup's limit is reached */

/* As struct search_ops has them.  An arm is full with the setup's `repeats`, and then only takes
 * samples that were not asked for. */
int tally_open(struct search *search);
void tally_close(struct search *search);
void tally_visit(struct search *search);
void tally_tell(struct search *search, int arm, double log_ns, bool asked);

/* Least median among the usable arms; full ones go before others.  With no sample at all the winner
 * is the default plan, or else the first usable one. */
void tally_verdict(struct search *search, struct search_result *out);

/* From medians and a spread pooled over all arms, that of the first few samples being guessed.  The
 * bound holds if the arms with samples are all there are; NAN without a second sample of any. */
struct normal tally_level(struct search *search, int arm);
struct normal tally_compare(struct search *search, int arm, int other);
double tally_bound(struct search *search, int arm);

#endif
