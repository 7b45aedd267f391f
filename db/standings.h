/* What a table as a whole is worth, in words. */
#ifndef STANDINGS_H
#define STANDINGS_H

#include "store.h"

enum { STANDING_TEXT_BYTES = 256 };

/* "over the default plan 11.3 % (9.0 to 13.4), over the best static plan 1.2 % (0.3 to 2.1; r=0 d=1
 * a=linear), 8 rounds"; a dash for what is not known. */
void standing_text(const struct standing_row *row, char text[STANDING_TEXT_BYTES]);

/* Rounds ended, and no measured entry of the layer is of a later date. */
int standing_is_current(struct store *store, const struct standing_row *row, bool *current);

#endif
