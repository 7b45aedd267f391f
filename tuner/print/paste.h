/* The lines that carry a table into a trainer, ready to paste. */
#ifndef PASTE_H
#define PASTE_H

#include "moelookup.h"
#include "sha256.h"
#include "store.h"

#include <stdbool.h>
#include <stdio.h>

/* Names what a table says: of a real cluster, what moelookup_digest() will say of the one that is
 * published for this database; of a modelled one, which no look-up reads, the SHA-256 of what
 * `moetune export` writes, with 0 for every date. */
int paste_digest(struct store *store, const char *path, bool real, char hex[SHA256_HEX_BYTES]);

/* For a shell: where the table is.  Without a line's end. */
void paste_export(const char *path, FILE *to);

/* The same line with its heading; then, for each layer, lines of C and Python. */
void paste_open(const char *path, FILE *to);
void paste_shape(const struct moe_shape *shape, FILE *to);

/* All of these lines, for every layer that trainers are told of.  UNSUPPORTED, silently: none. */
int paste_all(struct store *store, const char *path, FILE *to);

#endif
