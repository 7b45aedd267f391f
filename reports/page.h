/* The report as one HTML page that needs nothing but itself. */
#ifndef PAGE_H
#define PAGE_H

#include "report.h"

/* Everything up to the first paragraph of a page in this style; the caller ends the body. */
void page_begin(const char *title, FILE *to);

/* Pictures are taken from the report's folder, NAME.svg. */
void page_write(const struct report *report, FILE *to);

#endif
