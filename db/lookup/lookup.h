/* The inside of libmoelookup: the five forms in which it holds a table.  Each file takes one form
 * and gives the next:
 *
 *   1  rows of files: SQL rows (lookup_sqlite.c reads them) or a packed file (lookup_open.c)
 *   2  a lookup_set: the rows of all files, collected by layer and tidied (lookup_set.c)
 *   3  packed bytes: the tidy set as lookup_pack.c writes and checks it.  A struct moelookup is
 *      such bytes; they travel between ranks, and their hash is the table's digest
 *   4  a lookup_layer with its rows: the one layer that answers a job, copied out of the bytes
 *      (lookup_bind.c)
 *   5  answers: the plan that answers in each bucket of that layer, decided in advance
 *      (lookup_get.c).  A struct moelookup_view is such answers
 *
 * Beside this chain, lookup_record.c counts what views are asked, and lookup_space.c lists the
 * spaces of a table. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "lookup_record.h"
#include "moelookup.h"
#include "sha256.h"

#include <stdbool.h>

enum {
    LOOKUP_DEVICE_BYTES = 96,
    LOOKUP_STALE = 1,
    LOOKUP_INFERRED = 2,
    LOOKUP_IMPORTED = 4,
    LOOKUP_UNSOUND = 32, /* its numbers forbid its plan (claim.h); packed only where its times do
                            not show that */
    LOOKUP_LOADED = 64   /* measured under a load, else tokens chose at random; packed only where a
                          * plan lets rows travel without padding, for which it matters */
};
/* Flags that only a packed entry has. LOOKUP_OTHER: its row holds a plan of the other kind.
 * LOOKUP_NO_OTHER: no plan of that kind can run. */
enum { LOOKUP_FLAGS = 39, LOOKUP_OTHER = 8, LOOKUP_NO_OTHER = 16 };

/* A plan that a person pinned to the buckets first..last, both included. */
struct lookup_pin {
    uint32_t first, last;
    struct moe_plan plan;
};

/* An entry of a layer: form 2 and 4. */
struct lookup_entry {
    struct moe_plan plan; /* with its bucket and its times; `source` is not used */
    uint32_t file;        /* its file's number, while reading */
    uint8_t flags;        /* LOOKUP_STALE, ... */
    /* The best plan of the other kind with its time_us, as in struct entry_row; 0: not known. */
    struct moe_plan other;
    bool no_other;
};

/* The best plan of one launch of a declared space in one bucket. */
struct lookup_launch {
    struct moe_plan plan; /* of that launch, with its bucket and its time */
    uint32_t file;        /* its file's number, while reading */
};

#define LOOKUP_LIVE "; live: "

/* One layer on one cluster, with its rows (form 2 and 4). Whoever holds it frees the rows with
 * lookup_layer_free(). */
struct lookup_layer {
    struct moe_shape shape;
    uint32_t window;   /* R */
    int64_t decided_s; /* as in struct width; packed layers say it only by their order */
    uint32_t file;     /* Number of the file: 0 is the first on the search path that holds anything.
                        * In one file, a newer version of a space has a lower number. */
    int64_t declared;  /* while reading: the number of its shape in its file */
    uint8_t cluster[SHA256_BYTES];
    /* The device, padded with 0. If a trainer's own code was measured, LOOKUP_LIVE and the name of
     * that code follow, as far as there is room. */
    char device[LOOKUP_DEVICE_BYTES];
    struct lookup_entry *entries;   /* tidy: sorted by bucket */
    struct lookup_pin *pins;        /* tidy: sorted by bucket, disjoint */
    struct lookup_launch *launches; /* tidy: sorted by the number of the launch, then bucket */
    uint32_t entry_count, entry_room, pin_count, pin_room, launch_count, launch_room;
};
size_t lookup_device_length(const struct lookup_layer *layer); /* of the device's name, without the
                                                                * code */
const char *lookup_code(const struct lookup_layer *layer);     /* name of the code; "": moetune's
                                                                * own */

/* What the environment variables say: look-ups are disabled, or a plan is forced. */
struct lookup_switches {
    bool disabled, forced;
    struct moe_plan force;
};

/* What the files contain that cannot answer here, for messages. */
enum { SKIPPED_SPACES_MAX = 16 };
struct lookup_skipped {
    bool modelled, elsewhere; /* tables of modelled clusters, or of other sites */
    int64_t version;          /* of a database with a version that is not read; 0: none */
    /* Spaces of other sites' tables, as many as there is room for. */
    uint32_t spaces[SKIPPED_SPACES_MAX], space_count;
};

/* Form 2: the rows of all files, by layer. lookup_set_free() frees them. */
struct lookup_set {
    struct lookup_layer *layers;
    uint32_t count, room;
    struct lookup_switches switches;
    struct lookup_skipped skipped;
    bool on_cores;  /* some layer is of a cluster that computes on cores */
    bool on_others; /* some layer is of any other cluster, or of an unknown one */
};

/* ---- Sets (lookup_set.c). */

/* Appends a layer that equals `like`, without its rows. The same layer may be appended again. NULL:
 * out of memory. */
struct lookup_layer *lookup_set_layer(struct lookup_set *set, const struct lookup_layer *like);
/* Append one row to a layer. */
int lookup_layer_add(struct lookup_layer *layer, const struct lookup_entry *entry);
int lookup_layer_pin(struct lookup_layer *layer, const struct lookup_pin *pin);
int lookup_layer_launch(struct lookup_layer *layer, const struct lookup_launch *launch);
void lookup_layer_free(struct lookup_layer *layer); /* frees its rows */
void lookup_set_free(struct lookup_set *set);

/* Notes that a table of this space (0: no space) is of another site. */
void lookup_skip_space(struct lookup_skipped *skipped, uint32_t space);

/* Adds those parts of a pin that no pin of a tidy layer covers. The layer stays tidy. */
int lookup_layer_pin_gaps(struct lookup_layer *tidy, struct lookup_pin pin);

/* For the layers of one file: gives older versions of a space higher file numbers. */
void lookup_set_number_versions(struct lookup_set *set);

/* Makes a set tidy: sorted, with one layer per cluster, shape and window, and without rows that are
 * illegal for their shape.
 *
 * Several widths of one layer in one file come in their order (width.h). Of two entries for a
 * bucket it keeps the sound one, else the one that is not stale, else the one that was not
 * imported, else that of the lower file. Of two pins it keeps the first, of two rows of a launch
 * that of the lower file.
 *
 * MOE_ERR_NOMEM; MOE_ERR_FORMAT: more pins than a person makes. */
int lookup_set_tidy(struct lookup_set *set);

/* Returns whether the entry's times say that its plan is slower than the default, so that the plan
 * must not answer. */
bool lookup_times_forbid(const struct moe_shape *shape, const struct moe_plan *plan);

/* ---- Packed bytes (lookup_pack.c). */

/* Tidies the set and packs it; the caller frees *bytes. MOE_ERR_NOMEM; MOE_ERR_FORMAT: it is too
 * large for the form (4 GiB). */
int pack_set(struct lookup_set *set, uint8_t **bytes, size_t *size);

/* MOE_OK if pack_set() could have written the bytes. All functions below rely on that. */
int pack_check(const uint8_t *bytes, size_t size);

/* Returns whether a file that begins with these 8 bytes claims to be packed. */
bool pack_claims(const uint8_t begin[8]);

/* Return the number of layers, and what the environment said when the bytes were packed. */
uint32_t pack_layer_count(const uint8_t *bytes);
struct lookup_switches pack_switches(const uint8_t *bytes);
/* Returns a layer without its rows, but with their counts. */
struct lookup_layer pack_layer(const uint8_t *bytes, uint32_t at);
struct lookup_entry pack_entry(const uint8_t *bytes, uint32_t layer, uint32_t at);
struct lookup_pin pack_pin(const uint8_t *bytes, uint32_t layer, uint32_t at);
struct lookup_launch pack_launch(const uint8_t *bytes, uint32_t layer, uint32_t at);
const uint8_t *pack_digest(const uint8_t *bytes); /* SHA256_BYTES */

/* Adds all rows in the bytes to a set, as file number `file`. */
int pack_merge(const uint8_t *bytes, uint32_t file, struct lookup_set *set);

/* Writes the right checksum. For tests that damage other bytes. */
void pack_seal(uint8_t *bytes, size_t size);

/* ---- SQLite (lookup_sqlite.c). */

/* A database may change while it is read; a snapshot does not, and a sealed snapshot is known to be
 * whole. */
enum lookup_kind { LOOKUP_DATABASE, LOOKUP_SNAPSHOT, LOOKUP_SEALED };

/* Reads the first bytes of a regular file that may be a database. It reads through SQLite: opening
 * and closing such a file directly would drop all locks that this process has on it, even those of
 * a tuner's transaction. ERR_FORMAT: the file is shorter. */
enum { LOOKUP_HEAD = 8 };
int lookup_read_head(const char *path, uint8_t head[LOOKUP_HEAD]);

/* Adds to a set what a database or snapshot holds for real clusters. MOE_ERR_IO, MOE_ERR_FORMAT
 * (also in a library without SQLite), MOE_ERR_NOMEM; the set may then hold a part of it. Prints
 * nothing. */
int lookup_read_sqlite(const char *path, enum lookup_kind kind, uint32_t file,
                       struct lookup_set *set);

/* ---- Tables (lookup_open.c). */

enum lookup_level { LOOKUP_NEVER, LOOKUP_ERROR, LOOKUP_WARN, LOOKUP_INFO };

/* Form 3: a table as packed bytes. moelookup_close() frees it. */
struct moelookup {
    uint8_t *bytes;
    size_t size;
    enum lookup_level level;       /* which messages go to standard error */
    struct recorder *recorder;     /* counts what views are asked; NULL: nothing is recorded */
    struct lookup_skipped skipped; /* zeros in tables that were unpacked */
};

/* Prints a message on standard error if the table's level allows it. */
void lookup_log(const struct moelookup *table, enum lookup_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Views (lookup_get.c). */

/* The launch that a job runs: it can only run plans with these launch values. */
struct lookup_job {
    bool has_launch; /* false: nobody named a launch, and the entries are not all of one */
    bool
        implied; /* the entries, all of one launch, named it; pins of other launches still answer */
    uint32_t default_choice; /* the launch's default plan: the one most like the space's default */
};

/* Makes a view of a layer (form 4 to form 5). The view owns the layer from here on; on an error
 * the layer is freed. */
int lookup_view_open(struct lookup_layer *layer, const struct moe_shape *shape,
                     const struct lookup_switches *switches, const struct lookup_job *job,
                     struct moelookup_view **out);

/* Counts from here on what the view is asked. `shape` is the caller's. */
int lookup_view_record(struct moelookup_view *view, const struct moe_shape *shape,
                       struct recorder *recorder);

/* Returns enum moe_source of the answer for a bucket. */
uint32_t lookup_view_source(const struct moelookup_view *view, uint32_t bucket);

/* Returns the hash of the cluster whose table answers. */
const uint8_t *lookup_view_cluster(const struct moelookup_view *view);

#endif
