/* The lines that carry a table into a trainer, ready to paste. */
#ifndef PASTE_H
#define PASTE_H

#include "moelookup.h"
#include "sha256.h"
#include "store.h"

#include <stdio.h>

/* What moelookup_digest() will say of the table that is published for this database. */
int paste_digest(const char *path, char hex[SHA256_HEX_BYTES]);

/* For a shell: where the table is.  Without a line's end. */
void paste_export(const char *path, FILE *to);

/* The same, and what follows it; then, for each layer, lines of C and Python. */
void paste_open(const char *path, FILE *to);
void paste_shape(const struct moe_shape *shape, FILE *to);

/* All of these lines, for every layer that trainers are told of.  UNSUPPORTED, silently: none. */
int paste_all(struct store *store, const char *path, FILE *to);

#endif
