/* What the files of the store share; nobody else includes it. */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include "records.h"
#include "store.h"

#include <limits.h>

/* ---- The lease: one writer per database.  On one host the lock is the kernel's, and goes with its
 * owner; the owner's name is in the file, for those who are refused and for other hosts. */

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

struct store {
    char path[PATH_MAX];
    struct lease lease;
    struct records records;
};

/* The name of a file beside the database: "X.db.journal"; ERR_ARGUMENT: too long. */
int store_beside(const char *path, const char *ending, char out[PATH_MAX]);

/* A row of what no struct holds: its columns. */
#define PUT(store, table, ...)                                                                     \
    records_put(&(store)->records, table, (struct record_column[]){ __VA_ARGS__ },                 \
                sizeof((struct record_column[]){ __VA_ARGS__ }) / sizeof(struct record_column))

/* ---- What of a damaged database makes sense, and another one made of it. */

/* Every page, every row and what the rows say; negative, said once, if anything is wrong. */
int repair_check(struct records *records);

/* Renames the file, so that it can still be looked at; `to` is its new name. */
int repair_set_aside(const char *path, char *to, size_t size);

/* Renames it back, over what was made at its place; "": only removes that. */
void repair_put_back(const char *path, const char *aside);

/* Fills an empty database from the journal; where that has gaps from the snapshot and from
 * `aside`, the damaged file.  Rows that make no sense are left out; so many lines could not be
 * used. */
int repair_fill(struct records *records, const char *aside, size_t *skipped);

/* Writes the journal of a database anew. */
int repair_journal(struct records *records);

#endif
