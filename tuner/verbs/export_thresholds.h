/* Writes a table as a few switch points over its key, for moetune export --format thresholds. */
#ifndef EXPORT_THRESHOLDS_H
#define EXPORT_THRESHOLDS_H

#include "format.h"
#include "options.h"
#include "store.h"

/* The options of this format. */
struct thresholds_options {
    uint32_t switches;          /* the most switch points in each class */
    struct option_list traffic; /* files; none: each doubling of the key counts alike */
    bool json;
};

/* Finds the best switch points and writes them to `out`.  `answers`: all buckets of a table of a
 * declared space, in one class or in all.  `store`: the database with its samples.  ERR_ARGUMENT
 * after a message: nothing was measured, the measured plans leave ranges out, or the traffic is of
 * other layers. */
int export_thresholds(struct store *store, const struct answers *answers,
                      const struct thresholds_options *options, FILE *out);

#endif
