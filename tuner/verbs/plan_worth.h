/* moetune plan --worth: what tuning is expected to save, before it is begun. */
#ifndef PLAN_WORTH_H
#define PLAN_WORTH_H

#include "tune_options.h"

/* For each layer of the options, which are checked.  Measures the machine, unless --sim describes
 * one, and a few steps of each layer.  steps_per_bucket: what tune takes for each that it measures.
 */
int worth_print(const struct tune_options *options, double steps_per_bucket);

#endif
