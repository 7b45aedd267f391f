/* The data files: what each plot shows, as columns of numbers.
 *
 * A file is one or more blocks, two empty lines apart, each begun by its name in quotes; gnuplot
 * calls them by number.  Nothing from the database but numbers and plans goes into one. */
#ifndef SERIES_H
#define SERIES_H

#include "facts.h"
#include "plan.h"

#include <stdio.h>

/* One layer, or all of them together. */
struct scope {
    const struct layer_facts *layers;
    size_t count;
};

/* Whether some layer of it has moetune's own plans. */
bool scope_has_own(const struct scope *scope);

/* How much of it there was. */
struct extent {
    uint32_t rows;
    uint64_t samples;   /* timed steps behind them */
    uint64_t throttled; /* of these: that count although something held them back */
};

/* One data file while it is written. */
struct series {
    const struct scope *scope;
    const struct layer_facts *layer; /* the scope's first */
    FILE *to;
    bool begun; /* a block */
    struct extent extent;
};
void series_block(struct series *series, const char *name); /* begins one */
/* A row: where it lies and its numbers, then what they rest on. */
void series_row(struct series *series, uint64_t at, const double *values, size_t count);
void series_row_end(struct series *series, uint64_t samples, uint64_t throttled);

typedef void series_writer(struct series *series);

series_writer series_times, series_ratios, series_gain, series_where, series_hidden, series_regret,
    series_a2a, series_3dh, series_rail, series_spent, series_distribution, series_improvement,
    series_traffic, series_loads, series_phases, series_whatif, series_followed;

/* Of so many capacities series_loads writes a block. */
int series_load_blocks(const struct layer_facts *layer);

struct extent series_write(series_writer *write, const struct scope *scope, FILE *to);

/* So many measured buckets that only some of them are drawn with their bars; the data files always
 * hold all. */
enum { SERIES_CELLS = 40 };
bool series_is_thinned(const struct layer_facts *layer);

#endif
