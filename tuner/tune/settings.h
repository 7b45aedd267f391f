/* Compares the settings of a layer (its layouts and shares) after `tune` has tuned it in several of
 * them: which one is the fastest? */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "tune_options.h"

/* The best setting of a layer, and its gain over the first setting that was named: the mean over
 * the buckets that both have measured, with equal weights.  A plain value. */
struct setting_gain {
    size_t first, best;     /* indices into the request's spaces; they may be equal */
    double gain, low, high; /* the interval holds even if all times err in the worst way at once */
    uint32_t buckets;       /* measured in both settings; 0: the gain is unknown */
};

/* Compares the settings of every layer that has several, at most `room` layers.  Returns how many,
 * or an error below 0. */
int settings_compare(const struct tune_request *request, size_t swept, struct store *store,
                     int64_t cluster, struct setting_gain *out, size_t room);

/* "layout=hidden shares=equal"; the text lives as long as the enclosing block. */
#define SETTING_TEXT(shape) setting_text(shape, (char[48]){ 0 })
const char *setting_text(const struct moe_shape *shape, char room[48]);

#endif
