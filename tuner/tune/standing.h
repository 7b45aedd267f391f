/* The end of a layer's sweep.  It runs the rounds (search/rounds.h): they compare the table with
 * the default plan and with the best static plans over all measured buckets.  It changes the
 * entries accordingly, and stores the table's gain as the layer's standing.  The standing (struct
 * standing_row) says what the whole table is worth. */
#ifndef STANDING_H
#define STANDING_H

#include "sweep.h"

/* Whether rounds of an earlier run have begun or ended, and no bucket was measured since.  Then the
 * sweep measures no further buckets. */
int standing_begun(struct sweep *sweep, bool *begun);

/* Whether all entries have the launch values that were chosen for the whole table, and not the
 * default's.  False if this request fixes other axes. */
int standing_has_chosen_values(struct sweep *sweep, bool *chosen);

/* Runs the rounds.  The caller infers the buckets between measured ones again, because the rounds
 * may have changed entries.  Buckets are weighted by trainers' traffic; without traffic every
 * factor of c has the same weight.  ERR_CUT if time is up: standing->why says so, and the samples
 * count when the same command continues. */
int standing_run_rounds(struct sweep *sweep, struct standing *standing);

/* For a sweep that was cut off, whose ranks may be gone: finds what is known without rounds. */
int standing_skip(struct sweep *sweep, struct standing *standing);

#endif
