/* The last word on a layer: its table meets the default plan and the best static ones in rounds
 * over the measured buckets, entries that lose to a static plan take it, and what the table is
 * worth is kept. */
#ifndef STANDING_H
#define STANDING_H

#include "sweep.h"

/* An earlier run has settled it, or begun to, and nothing was measured since: what its rounds have
 * taught is no reason to measure another bucket. */
int standing_begun(struct sweep *sweep, bool *begun);

/* Whether all entries are of one launch by now, which is not the default's: only where this request
 * fixes the same axes. */
int standing_is_one_launch(struct sweep *sweep, bool *whole);

/* Where the time is up nothing is known: standing->why says so, and the return is ERR_CUT.  What
 * was sampled until then counts when the same command goes on.  Entries that the rounds change are
 * in the store; what lies between them is the caller's to infer again.  Buckets count as trainers
 * asked for them; where nobody knows, every factor of c counts alike. */
int standing_settle(struct sweep *sweep, struct standing *standing);

/* To be called instead where the sweep was cut off, because its ranks may be gone. */
int standing_skip(struct sweep *sweep, struct standing *standing);

#endif
