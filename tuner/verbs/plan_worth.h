/* Estimates what tuning would save, for moetune plan --worth. */
#ifndef PLAN_WORTH_H
#define PLAN_WORTH_H

#include "tune_options.h"

/* Checks the options and prints an estimate for each of their layers.  Measures the machine, unless
 * --sim describes one, and a few steps of each layer.  steps_per_bucket: how many steps `tune`
 * takes in each bucket that it measures. */
int worth_print(const struct tune_options *options, double steps_per_bucket);

#endif
