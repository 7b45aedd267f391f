/* What a table as a whole is worth, in words, and whether it can be so. */
#ifndef STANDINGS_H
#define STANDINGS_H

#include "store.h"

/* The table is one plan everywhere, and so nothing against always running it. */
bool standing_is_one_plan(const struct standing_row *row);

/* "Saves 11.3 % (9.0 to 13.4) against the default, 1.2 % (0.3 to 2.1) against always r=0 d=1
 * a=linear".  `usual`: the layer's default plan.  What is not known is left out.  A table that was
 * given up, or has the default everywhere, says so instead. */
enum { STANDING_TEXT_BYTES = 160 + 64 + PLAN_TEXT_BYTES };
const char *standing_text(const struct standing_row *row, const struct moe_plan *usual,
                          char room[STANDING_TEXT_BYTES]);
char *standing_lines(char *text); /* the same in two lines, as a screen of 80 columns has room for */

/* Rounds ended, and no measured entry of the layer is of a later date. */
int standing_is_current(struct store *store, const struct standing_row *row, bool *current);

/* It is of all measured buckets of the table.  Else nothing is known of the whole. */
bool standing_is_whole(const struct standing_row *row);

/* That of a layer's table; UNSUPPORTED, silently, if it has none that is current, and whole. */
int standing_current(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                     struct standing_row *out);

/* What of it no rounds can have said.  Whether its plan is legal depends on the layer: nothing is
 * said of that. */
struct standing_fault {
    const char *field, *why; /* NULL: nothing */
};
struct standing_fault standing_fault(const struct standing_row *row);

#endif
