/* The first few samples of each arm in one visit, and who is ahead by their medians. */
#ifndef TALLY_H
#define TALLY_H

#include "search.h"

struct tally; /* an opaque resource; values are log(ns) */

/* An arm is full with `per_arm` samples (at least 1). */
int tally_open(size_t arm_count, uint32_t per_arm, struct tally **out);
void tally_close(struct tally *tally); /* NULL is fine */

void tally_clear(struct tally *tally);
void tally_add(struct tally *tally, int arm, double log_ns); /* a full arm takes no more */

uint32_t tally_count(const struct tally *tally, int arm);
bool tally_full(const struct tally *tally, int arm);
double tally_median(const struct tally *tally, int arm); /* INFINITY if there is no sample */

/* Fills winner and runner-up: least median among the usable arms; full ones go before others.
 * With no sample at all the winner is the default plan, or else the first usable one. */
void tally_verdict(const struct tally *tally, const struct search *search,
                   struct search_result *out);

/* As struct search_ops has them, for a strategy whose own state is a tally: from medians and a
 * spread pooled over all arms, that of the first few samples being guessed.  The bound holds if the
 * arms with samples are all there are; NAN without a second sample of any. */
void tally_add_extra(struct search *search, int arm, double log_ns); /* full or not */
struct normal tally_level(struct search *search, int arm);
struct normal tally_compare(struct search *search, int arm, int other);
double tally_bound(struct search *search, int arm);

#endif
