/* Prints lines to paste into a trainer or a shell, with which the trainer looks plans up. */
#ifndef PASTE_H
#define PASTE_H

#include "moelookup.h"
#include "sha256.h"
#include "store.h"

#include <stdbool.h>

/* Writes, and does not print, a digest of the table's content.  For a real cluster it is
 * moelookup_digest() of the published table.  No look-up reads a modelled table: there it is the
 * SHA-256 of what `moetune export` writes, with all dates set to 0. */
int paste_digest(struct store *store, const char *path, bool real, char hex[SHA256_HEX_BYTES]);

/* Prints a shell command that exports the database's path, without a line feed. */
void paste_export(const char *path);

/* A table that was just tuned, and the command that did it.  Everything is borrowed. */
struct tuned_table {
    struct store *store;
    const char *path, *exec, *space; /* exec NULL: moetune's own ranks; space NULL: no space file */
    const struct moe_shape *shape;   /* the layer */
    uint32_t undecided;              /* buckets; more effort may decide some of them */
    const char *decide;              /* the command for that; NULL: there is none */
};

/* Prints what to do with the table: decide more of it, use it, test it, see it. */
int paste_next(const struct tuned_table *table);

/* Prints the line of paste_export() with a heading. */
void paste_open(const char *path);
/* Prints the lines of C and Python for a layer. */
void paste_shape(const struct moe_shape *shape);

/* Prints the lines of paste_open() once, and of paste_shape() for each layer whose table answers
 * trainers and that shape_agrees() with `shape_filter`.  UNSUPPORTED, without a message, if there
 * is none. */
int paste_all(struct store *store, const char *path, const char *shape_filter);

#endif
