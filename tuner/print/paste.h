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

/* A table that was tuned, and by what. */
struct tuned_table {
    struct store *store;
    const char *path, *exec,
        *space;                    /* exec NULL: moetune's own ranks; space NULL: no file of one */
    const struct moe_shape *shape; /* of the program */
    uint32_t undecided;            /* buckets, of which more effort may decide some, */
    const char *decide;            /* by this command; NULL: there is no more */
};

/* Prints what to do with it: decide, use, test, see. */
int paste_next(const struct tuned_table *table);

/* Print the same line with its heading; then, for each layer, lines of C and Python. */
void paste_open(const char *path);
void paste_shape(const struct moe_shape *shape);

/* Prints all of these lines, for every layer that trainers are told of and that shape_agrees() with
 * `wanted`.  UNSUPPORTED, silently: none. */
int paste_all(struct store *store, const char *path, const char *wanted);

#endif
