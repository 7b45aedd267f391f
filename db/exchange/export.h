/* Tables on their way to other sites: the same content gives the same bytes everywhere. */
#ifndef EXPORT_H
#define EXPORT_H

#include "store.h"

#include <stdio.h>

struct export_options {
    const char *cluster; /* beginning of a hash; NULL: all */
    const char *shape;   /* layers that agree with this text; NULL: all */
    bool identify;       /* host names and the cluster's name as well */
    bool full;           /* every trial with its samples as well */
    bool undated;        /* what was decided, not when: equal tables of two days are equal */
};

/* Canonical JSON lines, as table.schema.json defines them.  UNSUPPORTED, silently, if nothing is
 * chosen. */
int export_lines(struct store *store, const struct export_options *options, FILE *to);

/* Writes a line per entry for a spreadsheet, as RFC 4180 wants it. */
int export_csv(struct store *store, const struct export_options *options, FILE *to);

/* Writes a C table to compile in. */
int export_header(struct store *store, const struct export_options *options, FILE *to);

#endif
