/* What the files of the store share; nobody else includes it. */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include "lease.h"
#include "records.h"
#include "row_sql.h"
#include "store.h"

#include <limits.h>

struct store {
    char path[PATH_MAX];
    struct lease lease;
    struct records records;
};

/* A row of what no struct holds: its columns. */
#define PUT(store, table, ...)                                                                     \
    records_put(&(store)->records, table, (struct column[]){ __VA_ARGS__ },                        \
                sizeof((struct column[]){ __VA_ARGS__ }) / sizeof(struct column))

#endif
