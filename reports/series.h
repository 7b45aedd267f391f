/* The data files: what each plot shows, as columns of numbers.
 *
 * A file is one or more blocks, two empty lines apart, each begun by its name in quotes; gnuplot
 * calls them by number.  Nothing from the database but numbers and plans goes into one. */
#ifndef SERIES_H
#define SERIES_H

#include "contrast.h"
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
    bool wide;          /* they do not all lie at one place of the x axis */
    uint64_t samples;   /* timed steps behind them */
    uint64_t throttled; /* of these: that count although something held them back */
};

/* One data file while it is written. */
struct series {
    const struct scope *scope;
    const struct layer_facts *layer; /* the scope's first */
    FILE *to;
    bool begun, placed; /* a block; a row */
    double at;          /* where the first row lies */
    struct extent extent;
};
void series_block(struct series *series, const char *name); /* begins one */
void series_place(struct series *series, double at);        /* a row lies there */

typedef void series_writer(struct series *series);

series_writer series_times, series_ratios, series_gain, series_where, series_hidden, series_regret,
    series_a2a, series_3dh, series_rail, series_spent, series_improvement, series_traffic,
    series_loads, series_phases, series_whatif, series_followed;

struct extent series_write(series_writer *write, const struct scope *scope, FILE *to);

/* ---- what the page and the scripts have to know of them */

/* So many measured buckets that only some of them are drawn with their bars; the data files always
 * hold all. */
enum { SERIES_CELLS = 40 };
bool series_is_thinned(const struct layer_facts *layer);

/* The plans with a band of their own in series_times, the most frequent ones first; the last name
 * is that of the rest. */
enum { SERIES_BANDS = 6 };
struct bands {
    struct moe_plan plans[SERIES_BANDS];
    char names[SERIES_BANDS + 1][PLAN_TEXT_BYTES];
    int count; /* with the rest */
};
struct bands series_bands(const struct layer_facts *layer);

/* The static plan in this place of those that are no default plan, the best one first; NULL: there
 * are fewer.  So many have a block of their own in series_ratios. */
enum { SERIES_RIVALS = 4 };
const struct moe_plan *series_rival(const struct layer_facts *layer, size_t place);

/* A plan's colour in all pictures of a layer: 0 of the default plan, then those of bands, then
 * static plans; SERIES_COLOURS, a grey, of all others. */
enum { SERIES_COLOURS = 6 };
int series_colour(const struct layer_facts *layer, const struct moe_plan *plan);

/* The capacity whose bars series_phases writes first, which is drawn: that of the bucket with the
 * most plans whose phases are known, of several the largest. */
uint32_t series_phases_capacity(const struct layer_facts *layer);

/* The static plans that the table is held against, a line of them each: r=0, the (a, d) at r = 1 of
 * the paper's Table 6, then those of 3dh and rail where they were tried. */
enum { SERIES_LINES = 5, SERIES_LINE_PLANS = 4 };
struct static_line {
    const char *name; /* "r=0", or the all-to-all */
    struct moe_plan plans[SERIES_LINE_PLANS];
    int count; /* 1, or one for each d */
};
int series_lines(const struct scope *scope, struct static_line out[SERIES_LINES]); /* how many */

/* Over all layers of a scope on as many ranks; 0: on any. */
struct improvement series_pooled(const struct scope *scope, uint32_t ranks,
                                 const struct moe_plan *plan);

/* Timed steps by what they were for, and what other searches would have taken. */
struct spent {
    uint64_t search, contest, rounds, paper, exhaustive;
    uint32_t trials;
};
struct spent series_spent_of(const struct scope *scope);

#endif
