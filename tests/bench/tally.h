/* Tallies of a strategy over many buckets, and the line of a table that they are printed as. */
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came of one bucket. */
struct outcome {
    double regret, bound, lost;
    double harm; /* slower than the default by this share */
    uint32_t samples;
    bool first, bounded;
};

struct column {
    double *values;
    size_t count, room;
};

void column_add(struct column *c, double value);
double column_mean(const struct column *c);          /* NAN if nothing was added */
double column_at(struct column *c, double quantile); /* sorts */

struct summary {
    struct column regret, samples, first_samples, lost, bound;
    size_t harmed, hurt, covered; /* slower than the default by 1 %, by 5 % */
};

extern const char *const summary_heading; /* a format */

void summary_add(struct summary *s, const struct outcome *o);
void summary_free(struct summary *s);
void summary_print(const char *name, struct summary *s);

int ascending(const void *a, const void *b); /* doubles, for qsort */

#endif
