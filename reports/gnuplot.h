/* Scripts for gnuplot, and running it. */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include "plots.h"

#include <stdbool.h>

/* A format is "svg", "png", "pdf" or "txt": also what the pictures' names end with. */

/* A script that draws NAME.FORMAT from NAME.dat in the folder it lies in, `format` unless told
 * otherwise by gnuplot -e "format='pdf'".  For a page the large plot is also NAME.narrow.svg, and
 * what the page says itself is left out. */
void gnuplot_script(const struct plot *plot, const struct scope *scope, const char *name,
                    const char *format, bool page, FILE *to);

/* gnuplot at work in a folder, as a few processes in all that draw while scripts are still being
 * written.  `expected`: about how many; the folder is borrowed. */
struct gnuplot;
int gnuplot_open(const char *folder, const char *format, size_t expected, struct gnuplot **out);
int gnuplot_draw(struct gnuplot *g, const char *name); /* NAME.gp, which is there, some time soon */

/* Waits for all of it.  ERR_IO if gnuplot is not there or says no. */
int gnuplot_close(struct gnuplot *g);

#endif
