/* What a trainer needs to use the table that was just written. */
#ifndef PASTE_H
#define PASTE_H

#include "sha256.h"
#include "space.h"

#include <stdio.h>

/* The digest of the table as libmoelookup sees it.  Returns a status of the library. */
int paste_digest(const char *path, char hex[SHA256_HEX_BYTES]);

/* The digest, and lines of shell, C and Python. */
int paste_print(const char *path, const struct space *spaces, size_t count, FILE *to);

#endif
