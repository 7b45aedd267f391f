/* The table of plots: a new one is a row here, a writer in the file of its subject and a word or
 * two of gnuplot. */
#ifndef PLOTS_H
#define PLOTS_H

#include "series.h"

enum plot_kind {
    PLOT_OVER_C = 1,   /* its x axis is the capacity */
    PLOT_TOGETHER = 2, /* also drawn once for all layers */
    PLOT_BARS = 4,     /* points with bars, of which some are left out where they are many */
    PLOT_LARGE = 16,   /* the one that the page begins with; also drawn for narrow screens */
    PLOT_TRAFFIC = 8,  /* only where it is known what trainers asked */
    PLOT_LOADS = 32,   /* only where steps were measured under loads that were asked for */
    PLOT_PHASES = 64,  /* only where phases were asked for */
    PLOT_PAIRS = 128,  /* only of layers that differ in their router alone */
    PLOT_COUNTS = 256, /* only where counts of experts were given */
    PLOT_OWN = 512,    /* only of moetune's own axes, not of a declared space's */
};

struct plot {
    const char *name, *title, *x, *y;
    unsigned kind;
    const char *columns; /* of its data file, with units */
    series_writer *write;
    const char *script; /* gnuplot, after the common head; NULL: data alone, no picture */
    void (*extra)(const struct layer_facts *layer, FILE *to); /* before it; or NULL */
    const char *caption; /* what is seen: two short sentences at most */
    const char *formula; /* how each number is computed */
    const char *without; /* what it takes to have it */
};

enum { PLOTS = 17 };
extern const struct plot plots[PLOTS];

#endif
