/* What a table as a whole is worth: as words, and whether the row can be right. */
#ifndef STANDINGS_H
#define STANDINGS_H

#include "store.h"

/* Returns whether the table has the same plan in all buckets, so that it gains nothing over that
 * static plan. */
bool standing_is_one_plan(const struct standing_row *row);

/* Writes "Saves 11.3 % (9.0 to 13.4) against the default, 1.2 % (0.3 to 2.1) against always r=0 d=1
 * a=linear". Leaves out what is not known. Says so where the table was given up or has the default
 * everywhere. */
enum { STANDING_TEXT_BYTES = 160 + 64 + PLAN_TEXT_BYTES };
const char *standing_text(const struct standing_row *row, const struct moe_plan *default_plan,
                          char room[STANDING_TEXT_BYTES]);
char *standing_lines(char *text); /* breaks that text into two lines, for a screen of 80 columns */

/* Finds whether the rounds are the newest fact: they have ended, and no measured entry of the layer
 * has a later date. */
int standing_is_current(struct store *store, const struct standing_row *row, bool *current);

/* Returns whether the row is about all measured buckets of the table. Otherwise nothing is known of
 * the whole. */
bool standing_is_whole(const struct standing_row *row);

/* Finds the standing of a layer's table. UNSUPPORTED, without a message, where none is current and
 * whole. */
int standing_current(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                     struct standing_row *out);

/* A value in a standing that no rounds can have produced. Does not judge whether the plan is legal,
 * which depends on the layer. */
struct standing_fault {
    const char *field, *why; /* NULL: nothing is wrong */
};
struct standing_fault standing_fault(const struct standing_row *row);

#endif
