/* The report as text for terminals. */
#ifndef SHEET_H
#define SHEET_H

#include "report.h"

/* Pictures are taken from the report's folder, NAME.txt. */
void sheet_write(const struct report *report, FILE *to);

#endif
