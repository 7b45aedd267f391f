/* gnuplot's SVG inside an HTML page. */
#ifndef INLINE_H
#define INLINE_H

#include <stdio.h>

/* The marks that all pictures of gnuplot's share: once per page, before the first picture.  Taken
 * from any one of them. */
void inline_marks(const char *path, FILE *to);

/* The picture alone, in the colours of the page around it; `label` is what is read aloud. */
void inline_svg(const char *path, const char *label, const char *class, FILE *to);

#endif
