/* One bucket of a sweep: its steps are run on the ranks until it is decided. */
#ifndef VISIT_H
#define VISIT_H

#include "sweep.h"

/* ERR_CUT when time is up: no entry then, but every sample is kept.  UNSUPPORTED: no plan can run
 * there. */
int visit_measure(struct sweep *sweep, uint32_t bucket, struct entry_row *out);

/* What all samples that were taken there say by now; none is added.  Of `arm`, which another rule
 * has chosen, or of the plan that is best here: -1. */
int visit_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out);

/* For the search alone: tells it what an earlier run measured here. */
int visit_recall(struct sweep *sweep, uint32_t bucket);

#endif
