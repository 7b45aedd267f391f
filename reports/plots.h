/* The table of plots: a new one is a row in plots.c, a writer of its data file and a script in
 * gnuplot/. */
#ifndef PLOTS_H
#define PLOTS_H

#include "series.h"

#include <stdbool.h>

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
    const char *script; /* its name in gnuplot/; NULL: data alone, no picture */
    void (*extra)(const struct layer_facts *layer, FILE *to); /* lines before it; or NULL */
    const char *caption; /* what is seen: two short sentences at most */
    const char *formula; /* how each number is computed */
    const char *without; /* what it takes to have it */
};

enum { PLOTS = 16 };
extern const struct plot plots[PLOTS];

/* What every program begins and ends with: the picture's file and its common settings (head.gp);
 * then, of `gnuplot/SCRIPT.gp`, what draws NAME.dat.  What that must be told stands between. */
void script_begin(const char *name, const char *format, bool page, FILE *to);
void script_end(const char *script, FILE *to);

/* A program that draws NAME.FORMAT from NAME.dat in the folder it lies in, `format` ("svg", "png",
 * "pdf" or "txt") unless told otherwise by gnuplot -e "format='pdf'".  For a page the large plot is
 * also NAME.narrow.svg, and what the page says itself is left out. */
void plot_script(const struct plot *plot, const struct scope *scope, const char *name,
                 const char *format, bool page, FILE *to);

#endif
