/* What the files of the store share; no file outside includes it. */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include "records.h"
#include "store.h"

#include <limits.h>

/* ---- The lease: one writer per database. On one host it is a lock of the kernel, which ends with
 * its owner. The file also names the owner, for messages and for other hosts. */

/* A lease that this process holds; lease_release() ends it. */
struct lease {
    int fd; /* -1: none */
};

/* Takes the lease. ERR_BUSY names the owner. `steal` takes it even if an owner on another host
 * seems alive. The file at `path` gets the mode of `database`. */
int lease_acquire(const char *path, const char *database, bool steal, struct lease *out);
/* Returns whether the owner in the file seems alive: its process exists, or it was alive on another
 * host a minute ago. */
bool lease_is_held(const char *path);
void lease_refresh(struct lease *lease); /* shows that the owner is alive */
void lease_release(struct lease *lease);

/* An open database; store_close() frees it. */
struct store {
    char path[PATH_MAX];
    struct lease lease;
    struct records records;
};

/* Writes the name of a file beside the database: "X.db.journal". ERR_ARGUMENT: the name is too
 * long. */
int store_beside(const char *path, const char *ending, char out[PATH_MAX]);

/* Writes a row that has no struct, by its columns. */
#define PUT(store, table, ...)                                                                     \
    records_put(&(store)->records, table, (struct record_column[]){ __VA_ARGS__ },                 \
                sizeof((struct record_column[]){ __VA_ARGS__ }) / sizeof(struct record_column))

/* ---- Repair: checks a damaged database, and makes another one of what is left. */

/* Checks every page, every row and what the rows mean. A negative status, after one message, if
 * anything is wrong. */
int repair_check(struct records *records);

/* Renames the file, so that it can still be examined. `to` gets its new name. */
int repair_set_aside(const char *path, char *to, size_t size);

/* Renames it back, over the new file at its place. "": only removes the new file. */
void repair_put_back(const char *path, const char *aside);

/* Fills an empty database from the journal, and its gaps from the snapshot and from `aside`, the
 * damaged file. Leaves out rows that make no sense. *skipped: journal lines that could not be
 * used. */
int repair_fill(struct records *records, const char *aside, size_t *skipped);

/* Writes the journal of a database anew. */
int repair_journal(struct records *records);

#endif
