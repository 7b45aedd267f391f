/* The checksum of a snapshot, behind the last page at the end of its file. A database's header says
 * how long it is, so SQLite and older readers ignore the checksum. */
#ifndef SEAL_H
#define SEAL_H

#include <stdbool.h>
#include <stddef.h>

/* Adds the SHA-256 of the whole file, whose descriptor is open for reading and writing. ERR_IO,
 * without a message. */
int seal_append(int fd);

/* Compares a file with its checksum. ERR_FORMAT: they differ. *sealed is false for a whole number
 * of pages, a file of an older moetune that has no checksum. No message. */
int seal_check(int fd, size_t size, bool *sealed);

#endif
