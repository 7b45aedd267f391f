/* The data files of the plots, as columns of numbers.
 *
 * A file has one or more blocks, two empty lines apart, which gnuplot addresses by number.  A block
 * begins with its name in quotes.  The only text from the database in a file is plans. */
#ifndef SERIES_H
#define SERIES_H

#include "contrast.h"
#include "facts.h"
#include "plan.h"

#include <stdio.h>

/* The layers that a plot is about, one or all: a plain value that borrows them. */
struct scope {
    const struct layer_facts *layers;
    size_t count;
};

/* Returns whether a layer of the scope has moetune's own axes, or the scope is empty. */
bool scope_has_own_axes(const struct scope *scope);

/* What a data file holds: a plain value. */
struct extent {
    uint32_t rows;
    bool several_places; /* the rows lie at different places of the x axis */
    uint64_t samples;    /* timed steps behind the rows */
    uint64_t throttled;  /* those of them that count although they were disturbed */
};

/* One data file while series_write() writes it. */
struct series {
    const struct scope *scope;
    const struct layer_facts *layer; /* the scope's first */
    FILE *to;
    bool begun, placed; /* the file has a block; it has a row */
    double first_place; /* of the first row on the x axis */
    struct extent extent;
};
void series_block(struct series *series, const char *name); /* begins a block */
void series_place(struct series *series, double place);     /* notes the place of a row */

typedef void series_writer(struct series *series);

series_writer series_times, series_ratios, series_gain, series_where, series_hidden, series_regret,
    series_a2a, series_3dh, series_rail, series_spent, series_improvement, series_traffic,
    series_loads, series_phases, series_whatif, series_followed;

/* Writes a data file by one of these functions. */
struct extent series_write(series_writer *write, const struct scope *scope, FILE *to);

/* ---- what the page and the scripts need to know about the data files */

/* Returns whether there are so many measured buckets that plots with bars draw only some of them;
 * data files always have all. */
enum { SERIES_CELLS = 40 };
bool series_is_thinned(const struct layer_facts *layer);

/* The plans of the table that have a band of their own in series_times, the most frequent first. If
 * there are more plans, one more name stands for all of them.  A plain value. */
enum { SERIES_BANDS = 6 };
struct bands {
    struct moe_plan plans[SERIES_BANDS];
    char names[SERIES_BANDS + 1][PLAN_TEXT_BYTES];
    int count; /* of names */
};
struct bands series_bands(const struct layer_facts *layer);

/* Returns the static plan at a place, the best first and the default left out; NULL: there are
 * fewer. The first SERIES_RIVALS have a block of their own in series_ratios. */
enum { SERIES_RIVALS = 4 };
const struct moe_plan *series_rival(const struct layer_facts *layer, size_t place);

/* Returns a plan's colour in all pictures of a layer.  The default plan has 0.  Plans of bands have
 * the next colours, then static plans; all others have SERIES_COLOURS, a grey. */
enum { SERIES_COLOURS = 6 };
int series_colour(const struct layer_facts *layer, const struct moe_plan *plan);

/* Returns the capacity whose bars are drawn: of the bucket with the most plans with phases, the
 * largest if there are several.  series_phases writes it first. */
uint32_t series_phases_capacity(const struct layer_facts *layer);

/* A row of static plans that the table is compared with: r=0, or one all-to-all with r=1 and each
 * d. A plain value. */
enum { SERIES_LINES = 5, SERIES_LINE_PLANS = 4 };
struct static_line {
    const char *name; /* "r=0", or the all-to-all */
    struct moe_plan plans[SERIES_LINE_PLANS];
    int count; /* of plans: 1, or one for each d */
};
/* Writes the rows r=0, linear and 2dh of Tutel's Table 6, and 3dh and rail if they were tried.
 * Returns how many. */
int series_lines(const struct scope *scope, struct static_line out[SERIES_LINES]);

/* Returns contrast_static() of a plan over the scope's layers on this many ranks; 0: on any. */
struct improvement series_pooled_improvement(const struct scope *scope, uint32_t ranks,
                                             const struct moe_plan *plan);

/* What the table cost: a plain value. */
struct spent {
    uint64_t search, contest, rounds; /* timed steps, by their purpose */
    uint64_t paper;      /* trials that Tutel's search would take for the same buckets */
    uint64_t exhaustive; /* trials of every plan in every bucket */
    uint32_t trials;
};
struct spent series_spent_of(const struct scope *scope);

#endif
