/* Results of strategies over many buckets: means and quantiles, printed as lines of a table. */
#ifndef TALLY_H
#define TALLY_H

#include "store.h"
#include "true_bucket.h"

/* What the truth says of a table's entry; `arm`: its plan. */
struct bucket_outcome entry_outcome(const struct true_bucket *bucket, int arm,
                                    const struct entry_row *entry);

struct value_column {
    double *values;
    size_t count, room;
};

void column_add(struct value_column *c, double value);
double column_mean(const struct value_column *c); /* NAN if nothing was added */
double column_at(const struct value_column *c, double quantile);

/* All zero: nothing yet. */
struct summary {
    struct value_column regret, harm, samples, searched, first_samples, lost,
        bound;                    /* shares in % */
    size_t harmed, hurt, covered; /* slower than the default by 1 %, by 5 %; within the bound */
    size_t best;                  /* no plan is faster */
    size_t undecided;
    double hidden; /* the largest regret of those, a share */
};

void summary_add(struct summary *s, const struct bucket_outcome *o);
void summary_free(struct summary *s);

typedef double statistic(const struct value_column *column); /* such as column_mean() */
double column_p99(const struct value_column *column);
double column_harmed(const struct value_column *column); /* how many % of the values are above 1 */

/* A statistic's standard error where neighbouring values have the same system: ten parts of the
 * column are left out in turn (jackknife). */
double column_error(const struct value_column *column, statistic *of);

/* How many gains were claimed; sums over them. */
struct claims {
    double count, held, held_further; /* over many launches; in a further one */
    double half;                      /* of the interval, a share */
};
bool gain_holds(const struct gain *claimed, double gain);
/* `further`: the share of further launches in which it holds. */
void claims_add(struct claims *claims, const struct gain *claimed, double gain, double further);

extern const char *const summary_heading; /* a format */
void summary_print(const char *name, struct summary *s);

#endif
