/* Makes a table whose look-ups are recorded, and reads the record. */
#ifndef LOOKUP_RECORDING_H
#define LOOKUP_RECORDING_H

#include "lookup_tables.h"

#include "traffic.h"

/* A new small table (buckets 2 to 5, of which 4 is stale) whose record goes to `record`. */
static inline struct moelookup *recording(const char *record)
{
    struct moelookup *table;

    write_small(place("recorded.db"), "abacus", 96);
    table = open_table(place("recorded.db"));
    unlink(record);
    CHECK(moelookup_record(table, record) == MOE_OK);
    return table;
}

static inline const char *file_of(const char *name)
{
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, PATH_MAX, "%s", place(name));
    return path;
}

static inline uint64_t count_at(const struct traffic *t, uint32_t bucket, enum moe_source source)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < t->layers[i].bucket_count; j++)
            if (t->layers[i].buckets[j].bucket == bucket)
                sum += t->layers[i].buckets[j].asked[source];
    return sum;
}

#endif
