/* What a table as a whole is worth, in words, and whether it can be so. */
#ifndef STANDINGS_H
#define STANDINGS_H

#include "store.h"

enum { STANDING_TEXT_BYTES = 256 };

/* "over the default plan 11.3 % (9.0 to 13.4), over the best static plan 1.2 % (0.3 to 2.1; r=0 d=1
 * a=linear), 8 rounds"; a dash for what is not known. */
#define STANDING_TEXT(row) standing_text(row, (char[STANDING_TEXT_BYTES]){ 0 })
const char *standing_text(const struct standing_row *row, char room[STANDING_TEXT_BYTES]);

/* Rounds ended, and no measured entry of the layer is of a later date. */
int standing_is_current(struct store *store, const struct standing_row *row, bool *current);

/* What of it no rounds can have said.  Whether its plan is legal depends on the layer: nothing is
 * said of that. */
struct standing_fault {
    const char *field, *why; /* NULL: nothing */
};
struct standing_fault standing_fault(const struct standing_row *row);

#endif
