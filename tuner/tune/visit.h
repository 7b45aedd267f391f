/* One bucket of a sweep: its steps are run on the ranks until it is decided. */
#ifndef VISIT_H
#define VISIT_H

#include "attempt.h"
#include "pairs.h"
#include "sweep.h"

/* ERR_CUT when time is up: no entry then, but every sample is kept.  UNSUPPORTED: no plan can run
 * there. */
int visit_measure(struct sweep *sweep, uint32_t bucket, struct entry_row *out);

/* What all samples that were taken there say by now; none is added.  Of `arm`, which another rule
 * has chosen, or of the plan that is best here: -1. */
int visit_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out);

/* The plan that was chosen there, -1 if it is the default or another run chose it, the pairs of it
 * and the default that have been taken since, and what was believed of them. */
int visit_candidate(struct sweep *sweep, uint32_t bucket, int *arm, struct pairs *pairs,
                    struct normal *belief);

/* For the search alone: tells it what an earlier run measured here. */
int visit_recall(struct sweep *sweep, uint32_t bucket);

/* One step of any bucket, as attempt_step() has it.  ERR_CUT when time is up.  The ranks hear of
 * the layer when it is first needed: many a bucket is decided by what is known. */
int visit_step(struct sweep *sweep, struct attempt *attempt, enum sample_kind kind, uint32_t round,
               struct step *out);

#endif
