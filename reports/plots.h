/* The table of plots.  A new plot is a row in plots.c, a function that writes its data file, and a
 * script in gnuplot/. */
#ifndef PLOTS_H
#define PLOTS_H

#include "series.h"

#include <stdbool.h>

/* Bits that say how a plot is drawn, and for which layers it exists. */
enum plot_kind {
    PLOT_OVER_C = 1,   /* its x axis is the capacity */
    PLOT_TOGETHER = 2, /* there is also one for all layers together */
    PLOT_BARS = 4,     /* points with bars; some are left out if buckets are many */
    PLOT_LARGE = 16,   /* the page begins with it; drawn a second time for narrow screens */
    PLOT_TRAFFIC = 8,  /* only if traffic of the layer is recorded */
    PLOT_LOADS = 32,   /* only if steps were measured under a load */
    PLOT_PHASES = 64,  /* only if phases were measured */
    PLOT_PAIRS = 128,  /* only if two layers differ in nothing but their router */
    PLOT_COUNTS = 256, /* only if counts of experts were given */
    PLOT_OWN = 512,    /* only for moetune's own axes, not for a declared space */
};

/* One plot: a constant row of `plots`. */
struct plot {
    const char *name, *title;
    const char *x, *y;   /* labels of the axes; x NULL: the layer's key */
    unsigned kind;       /* bits of enum plot_kind */
    const char *columns; /* of its data file, with units */
    series_writer *write;
    const char *script; /* its name in gnuplot/; NULL: a data file without a picture */
    void (*write_settings)(const struct layer_facts *layer, FILE *to); /* or NULL */
    const char *caption; /* what the picture shows: two short sentences */
    const char *formula; /* how each number is computed */
    const char *without; /* what is needed for a picture, if there is none: "needs ..." */
};

enum { PLOTS = 16 };
extern const struct plot plots[PLOTS];

/* Write the beginning and the end of a gnuplot program: the picture's file with the common settings
 * (head.gp), and gnuplot/SCRIPT.gp, which draws NAME.dat.  The caller writes settings in between.
 */
void script_begin(const char *name, const char *format, bool page, FILE *to);
void script_end(const char *script, FILE *to);

/* Writes a gnuplot program that draws NAME.FORMAT from NAME.dat in its own folder.  format: "svg",
 * "png", "pdf" or "txt", which gnuplot -e "format='pdf'" overrides.  page: the picture is for the
 * HTML page, so it has no title, and the large plot is also drawn as NAME.narrow.svg. */
void plot_script(const struct plot *plot, const struct scope *scope, const char *name,
                 const char *format, bool page, FILE *to);

#endif
