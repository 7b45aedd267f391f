/* What came of buckets whose true times are known, and means and quantiles of that. */
#ifndef OUTCOMES_H
#define OUTCOMES_H

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came of one bucket. */
struct outcome {
    int arm; /* that would be published */
    double regret, bound, lost;
    double harm;                /* slower than the default by this share */
    uint32_t samples, searched; /* steps; those that the search asked for */
    bool first, bounded;
    bool undecided;   /* as entry_is_undecided() has it */
    struct gain gain; /* claimed, over the default */
};

struct column {
    double *values;
    size_t count, room;
};

void column_add(struct column *c, double value);
double column_mean(const struct column *c); /* NAN if nothing was added */
double column_at(const struct column *c, double quantile);

/* All zero: nothing yet. */
struct summary {
    struct column regret, harm, samples, searched, first_samples, lost, bound; /* shares in % */
    size_t harmed, hurt, covered; /* slower than the default by 1 %, by 5 %; within the bound */
    size_t best;                  /* no plan is faster */
    size_t undecided;
    double hidden; /* the largest regret of those, a share */
};

void summary_add(struct summary *s, const struct outcome *o);
void summary_free(struct summary *s);

int ascending(const void *a, const void *b); /* doubles, for qsort */

#endif
