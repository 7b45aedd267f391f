/* Which plans a table holds, the most frequent ones first, and their colours. */
#ifndef PLAN_SHARES_H
#define PLAN_SHARES_H

#include "series.h"

/* The last name is that of the rest. */
enum { SERIES_BANDS = 6 };
struct bands {
    struct moe_plan plans[SERIES_BANDS];
    char names[SERIES_BANDS + 1][PLAN_TEXT_BYTES];
    int count; /* with the rest */
};
struct bands series_bands(const struct layer_facts *layer);
int series_band(const struct bands *bands, const struct moe_plan *plan);

#endif
