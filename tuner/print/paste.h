/* The lines that carry a table into a trainer, ready to paste, on standard output. */
#ifndef PASTE_H
#define PASTE_H

#include "moelookup.h"
#include "sha256.h"
#include "store.h"

#include <stdbool.h>

/* Names what a table says: of a real cluster, what moelookup_digest() will say of the one that is
 * published for this database; of a modelled one, which no look-up reads, the SHA-256 of what
 * `moetune export` writes, with 0 for every date. */
int paste_digest(struct store *store, const char *path, bool real, char hex[SHA256_HEX_BYTES]);

/* Prints where the table is, for a shell, without a line's end. */
void paste_export(const char *path);

/* Prints the options that name a layer of a declared space in this database: " --space NAME", or
 * the file where one is given, and --shape where the space has other layers there. */
int paste_space(struct store *store, const struct moe_shape *shape, const char *file);

/* Print the same line with its heading; then, for each layer, lines of C and Python. */
void paste_open(const char *path);
void paste_shape(const struct moe_shape *shape);

/* Prints all of these lines, for every layer that trainers are told of and that shape_agrees() with
 * `wanted`.  UNSUPPORTED, silently: none. */
int paste_all(struct store *store, const char *path, const char *wanted);

#endif
