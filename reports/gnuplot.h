/* Draws pictures with a few gnuplot processes, which work while the caller writes further scripts.
 */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include <stddef.h>

/* Several gnuplot processes.  gnuplot_close() frees it. */
struct gnuplot;

/* format: "svg", "png", "pdf" or "txt", which also ends the pictures' names.  expected: about how
 * many pictures there will be.  The folder is borrowed.  ERR_NOMEM. */
int gnuplot_open(const char *folder, const char *format, size_t expected, struct gnuplot **out);

/* Has a process draw the script FOLDER/NAME.gp, and does not wait.  ERR_IO if gnuplot cannot be
 * started. */
int gnuplot_draw(struct gnuplot *g, const char *name);

/* Waits for all pictures, and frees g.  ERR_IO after a message if gnuplot is not installed or
 * fails. */
int gnuplot_close(struct gnuplot *g);

#endif
