/* The report as one HTML page that needs nothing but itself. */
#ifndef PAGE_H
#define PAGE_H

#include "report.h"

/* Pictures are taken from the report's folder, NAME.svg. */
void page_write(const struct report *report, FILE *to);

#endif
