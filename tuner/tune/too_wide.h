/* Buckets so wide that one plan cannot serve both of their ends. */
#ifndef TOO_WIDE_H
#define TOO_WIDE_H

#include "sweep.h"

/* Counts the buckets whose plan is expected to lose more than this at their lower end, against the
 * plan that is best there, and finds the width that would help.  Measures nothing; what has no
 * model (search.h) finds none. */
#define TOO_WIDE_LOSS 0.05
int too_wide_find(struct sweep *sweep, struct too_wide *out);

#endif
