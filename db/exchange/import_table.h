/* A table from elsewhere in memory; for the files of the import alone. */
#ifndef IMPORT_TABLE_H
#define IMPORT_TABLE_H

#include "declaration.h"
#include "import.h"
#include "import_line.h"
#include "sha256.h"
#include "shape.h"

struct known_cluster {
    char hash[SHA256_HEX_BYTES];
    struct cluster cluster;
    int64_t id;
};

struct incoming {
    size_t cluster; /* index */
    struct moe_shape shape;
    struct entry_row row;
    enum merge_outcome outcome; /* once it is placed */
};

/* A space that a line declares, and whether an entry has it. */
struct incoming_space {
    const struct declaration *space;
    bool used;
};

struct incoming_standing {
    size_t table; /* index of its first entry */
    struct standing_row row;
};

/* What the first line says. */
struct import_header {
    char format[32], sha256[SHA256_HEX_BYTES];
    int64_t version, semantics, clusters, spaces, entries, standings;
};

/* Begun as what reads the lines, and what they said in the end. */
struct import_table {
    struct line_origin at;
    struct import_header header;
    struct known_cluster *clusters;
    struct incoming *entries;
    struct incoming_space *spaces;
    struct incoming_standing *standings;
    size_t cluster_count, space_count, entry_count, standing_count;
    char layer[SHAPE_TEXT_BYTES]; /* of the entry before, which is mostly this one's */
};

/* Reads a line that declares a space, which this process knows from here on. */
int import_read_space(struct import_table *table, const char *text, size_t length);

/* Marks the space of a layer as used; ERR_FORMAT: no line before declares it. */
int import_use_space(struct import_table *table, const struct moe_shape *shape);

/* ERR_FORMAT: an entry's bucket is none of its space, or a declared space has no entries. */
int import_check_bucket(const struct import_table *table, const struct incoming *in);
int import_check_spaces(const struct import_table *table);

/* Whether an entry is one of the layer's on that cluster, with buckets of that width. */
bool import_is_of_table(const struct incoming *in, size_t cluster, const struct moe_shape *shape,
                        uint32_t window);

#endif
