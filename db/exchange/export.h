/* Writes tables for other sites. The same content gives the same bytes everywhere. */
#ifndef EXPORT_H
#define EXPORT_H

#include "store.h"

#include <stdio.h>

/* What to export; borrows its texts. */
struct export_options {
    const char *cluster; /* beginning of a hash; NULL: all clusters */
    const char *shape;   /* only layers that agree with this text; NULL: all */
    bool identify;       /* also host names and the cluster's name */
    bool full;           /* also every trial with its samples */
    bool undated;        /* leaves dates out, so that equal tables of two days have equal bytes */
};

/* Writes canonical JSON lines, as table.schema.json defines them. UNSUPPORTED, without a message,
 * if nothing matches the options. */
int export_lines(struct store *store, const struct export_options *options, FILE *to);

/* Writes one line per entry for a spreadsheet, as RFC 4180 defines it. */
int export_csv(struct store *store, const struct export_options *options, FILE *to);

/* Writes a C table to compile in. */
int export_header(struct store *store, const struct export_options *options, FILE *to);

#endif
