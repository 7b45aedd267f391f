/* moetune export --format thresholds: a table as a few switch points over its key. */
#ifndef EXPORT_THRESHOLDS_H
#define EXPORT_THRESHOLDS_H

#include "format.h"
#include "options.h"
#include "store.h"

struct thresholds_options {
    uint32_t switches;          /* at most so many in each class */
    struct option_list traffic; /* files; none: each range counts alike */
    bool json;
};

/* `answers`: all buckets of a table of a declared space, of one class or of all; `store`: the
 * database that holds its samples.  ERR_ARGUMENT after one sentence: nothing is measured, no plans
 * reach so far, the traffic is of other layers. */
int export_thresholds(struct store *store, const struct answers *answers,
                      const struct thresholds_options *options, FILE *to);

#endif
