/* One writer per database.  On one host the lock is the kernel's, and goes with its owner; the
 * owner's name is in the file, for those who are refused and for other hosts. */
#ifndef LEASE_H
#define LEASE_H

#include <stdbool.h>

struct lease {
    int fd; /* -1: none */
};

/* ERR_BUSY names the owner.  `steal` takes it from another host that looks alive.  The file at
 * `path` gets the mode of `database`. */
int lease_take(const char *path, const char *database, bool steal, struct lease *out);
/* As far as the owner's name tells: its process is there, or it was alive on another host a minute
 * ago. */
bool lease_is_held(const char *path);
void lease_touch(struct lease *lease); /* the owner is alive */
void lease_drop(struct lease *lease);

#endif
