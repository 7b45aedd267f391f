/* gnuplot at work in a folder, as a few processes in all that draw while scripts are still being
 * written. */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include <stddef.h>

/* The format is also what the pictures' names end with.  `expected`: about how many pictures; the
 * folder is borrowed. */
struct gnuplot;
int gnuplot_open(const char *folder, const char *format, size_t expected, struct gnuplot **out);
int gnuplot_draw(struct gnuplot *g, const char *name); /* NAME.gp, which is there, some time soon */

/* Waits for all of it.  ERR_IO if gnuplot is not there or says no. */
int gnuplot_close(struct gnuplot *g);

#endif
