/* What came of one setting of bench_truth: a line of its file. */
#ifndef TRUTH_OUTCOME_H
#define TRUTH_OUTCOME_H

#include "paired_rounds.h"

#include <stdbool.h>

struct outcome {
    char name[64];
    double plans, buckets, rounds, seconds, tuning_steps;
    struct interval over_default, over_static, over_best, regret, worst;
    double worst_bucket, bad_buckets; /* bad: certainly above worst_most */
    double claims, claims_inside;     /* gains that are claimed of other plans than the default */
};

/* Appends a line, under a header if it is the first.  ERR_IO after a message. */
int outcome_write(const char *path, struct outcome *o);

bool outcome_read(char *line, struct outcome *o);

#endif
