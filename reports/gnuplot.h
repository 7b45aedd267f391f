/* Scripts for gnuplot, and running it. */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include "plots.h"

enum gnuplot_format { FORMAT_SVG, FORMAT_PNG, FORMAT_PDF, FORMAT_TXT, FORMAT_COUNT };
extern const char *const gnuplot_words[]; /* also the endings of the files */

/* A script that draws NAME.FORMAT from NAME.dat in the folder it lies in, `format` unless told
 * otherwise by gnuplot -e "format='pdf'". */
void gnuplot_script(const struct plot *plot, const struct scope *scope, const char *name,
                    enum gnuplot_format format, FILE *to);

/* Draws NAME.gp of a folder for each name, with a few processes in all.  ERR_IO if gnuplot is not
 * there or says no. */
int gnuplot_draw(const char *folder, enum gnuplot_format format, const char *const *names,
                 size_t count);

#endif
