/* One layer tuned in several settings (layouts, shares): which of them is the fastest. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "tune_options.h"

/* The best setting of a layer, and by how much less time its steps take than those of the first one
 * that was named: over the buckets that both have measured, each counted alike. */
struct setting_gain {
    size_t first, best;     /* spaces of the request; best may be first */
    double gain, low, high; /* the interval if all plans were off in the worst way at once */
    uint32_t buckets;       /* that both have; 0: nothing is known */
};

/* Of every layer that was tuned in more than one setting, at most `room` of them.  Returns how
 * many, or an error, which is below 0. */
int settings_compare(const struct tune_request *request, size_t swept, struct store *store,
                     int64_t cluster, struct setting_gain *out, size_t room);

/* "layout=hidden shares=equal", which lasts as long as the block around it. */
#define SETTING_TEXT(shape) setting_text(shape, (char[48]){ 0 })
const char *setting_text(const struct moe_shape *shape, char room[48]);

#endif
