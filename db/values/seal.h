/* A snapshot's checksum, behind the last page at the end of its file.  A database says itself how
 * long it is, so SQLite, and readers from before there were seals, pass over it. */
#ifndef SEAL_H
#define SEAL_H

#include <stdbool.h>
#include <stddef.h>

/* Of the whole file; the descriptor is open for both.  ERR_IO, silently. */
int seal_append(int fd);

/* ERR_FORMAT: the file is not as it was sealed.  OK with *sealed, or without it for a whole number
 * of pages, which an older moetune wrote. */
int seal_check(int fd, size_t size, bool *sealed);

#endif
