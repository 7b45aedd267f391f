/* The inside of libmoelookup: tables while they are read, and the one form they are kept in.
 *
 * Files are read into a lookup_set (lookup_sqlite.c, lookup_pack.c), which is tidied (lookup_set.c)
 * and written as packed bytes (lookup_pack.c); a struct moelookup is those bytes (lookup_open.c). A
 * view is one layer of them, resolved for quick answers (lookup_bind.c, lookup_get.c), which may
 * count what it is asked (lookup_record.c); which spaces there are says lookup_space.c. */
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
    LOOKUP_UNSOUND =
        32, /* its numbers forbid its plan (claim.h); packed where its times do not say so */
    LOOKUP_LOADED = 64 /* measured under a load; else tokens chose at random.  Packed where a plan
                        * lets rows travel without padding, for which it counts */
};
/* Flags of a packed entry alone: its row holds a plan of the other kind; none of that kind can
 * run. */
enum { LOOKUP_FLAGS = 39, LOOKUP_OTHER = 8, LOOKUP_NO_OTHER = 16 };

/* Buckets first..last, for which a person chose the plan. */
struct lookup_pin {
    uint32_t first, last;
    struct moe_plan plan;
};

struct lookup_entry {
    struct moe_plan plan; /* with its bucket and its times; `source` is not used */
    uint32_t file;        /* while reading */
    uint8_t flags;        /* LOOKUP_STALE, ... */
    /* As in struct entry_row; with time_us, 0: not known. */
    struct moe_plan other;
    bool no_other;
};

/* The best plan of one launch of a declared space in a bucket. */
struct lookup_launch {
    struct moe_plan plan; /* with its bucket and its time; of that launch */
    uint32_t file;        /* while reading */
};

#define LOOKUP_LIVE "; live: "

/* The dictionary of one layer on one cluster. */
struct lookup_layer {
    struct moe_shape shape;
    uint32_t window;   /* R */
    int64_t decided_s; /* as of struct width; where packed, only the order of layers says it */
    uint32_t file;     /* 0: the first one on the search path that holds anything; in one file, a
                        * space that was declared again comes before its older versions */
    int64_t declared;  /* while reading: the number of its shape in its file */
    uint8_t cluster[SHA256_BYTES];
    /* Padded with 0; of a table that a trainer's own code was measured for, LOOKUP_LIVE and the
     * name of that code follow, as far as there is room. */
    char device[LOOKUP_DEVICE_BYTES];
    struct lookup_entry *entries;   /* tidy: by bucket */
    struct lookup_pin *pins;        /* tidy: by bucket, disjoint */
    struct lookup_launch *launches; /* tidy: by the number of the launch, and bucket */
    uint32_t entry_count, entry_room, pin_count, pin_room, launch_count, launch_room;
};
size_t lookup_device_length(const struct lookup_layer *layer); /* of its own name, without code */
const char *lookup_code(const struct lookup_layer *layer);     /* its name; "": moetune's own */

/* What the environment says. */
struct lookup_switches {
    bool disabled, forced;
    struct moe_plan force;
};

/* What was found in files that answers nobody here. */
enum { PASSED_SPACES_MAX = 16 };
struct lookup_passed {
    bool modelled, elsewhere; /* tables of clusters that are not there, or of other sites */
    int64_t version;          /* of a database that is newer or older than what is read, or 0 */
    /* Declared spaces of tables of other sites, as many as there is room for. */
    uint32_t spaces[PASSED_SPACES_MAX], space_count;
};

struct lookup_set {
    struct lookup_layer *layers;
    uint32_t count, room;
    struct lookup_switches switches;
    struct lookup_passed passed;
    bool on_cores;  /* some layer is of a cluster that computes on cores */
    bool on_others; /* some layer is of another one, or of one that is not known */
};

/* ---- sets (lookup_set.c) */

/* Appends a layer without entries, alike in everything else; the same layer may come again.  NULL:
 * out of memory. */
struct lookup_layer *lookup_set_layer(struct lookup_set *set, const struct lookup_layer *like);
int lookup_layer_add(struct lookup_layer *layer, const struct lookup_entry *entry);
int lookup_layer_pin(struct lookup_layer *layer, const struct lookup_pin *pin);
int lookup_layer_launch(struct lookup_layer *layer, const struct lookup_launch *launch);
void lookup_layer_free(struct lookup_layer *layer); /* its rows */
void lookup_set_free(struct lookup_set *set);

/* A table of a declared space (0: of none) is of another site. */
void lookup_pass_space(struct lookup_passed *passed, uint32_t space);

/* Adds those parts of a pin that no pin of a tidy layer covers; it stays tidy. */
int lookup_layer_pin_gaps(struct lookup_layer *tidy, struct lookup_pin pin);

/* Of one file: gives older versions of a space later numbers of files. */
void lookup_set_age(struct lookup_set *set);

/* Sorted, with one layer per cluster, shape and window, and nothing that is illegal for its shape.
 * Several widths of one layer in one file come in their order (width.h).
 * Of two entries for a bucket the one that is not unsound stays, else the one that is not stale,
 * else the one that was not imported, else that of the lower file; of two pins the one that came
 * first; of two rows of a launch that of the lower file.  MOE_ERR_NOMEM; MOE_ERR_FORMAT: more pins
 * than anybody makes. */
int lookup_set_tidy(struct lookup_set *set);

/* Whether by its times the plan of an entry of this layer is not told. */
bool lookup_times_forbid(const struct moe_shape *shape, const struct moe_plan *plan);

/* ---- packed bytes (lookup_pack.c) */

/* Tidies the set and writes it; the caller frees *bytes.  MOE_ERR_NOMEM; MOE_ERR_FORMAT if it is
 * too large for the form (4 GiB). */
int pack_set(struct lookup_set *set, uint8_t **bytes, size_t *size);

/* MOE_OK if the bytes are what pack_set writes for some set; everything below relies on it. */
int pack_check(const uint8_t *bytes, size_t size);

/* True if a file that begins with these 8 bytes claims to be packed. */
bool pack_claims(const uint8_t begin[8]);

uint32_t pack_layer_count(const uint8_t *bytes);
struct lookup_switches pack_switches(const uint8_t *bytes);
/* Without its rows, only their counts. */
struct lookup_layer pack_layer(const uint8_t *bytes, uint32_t at);
struct lookup_entry pack_entry(const uint8_t *bytes, uint32_t layer, uint32_t at);
struct lookup_pin pack_pin(const uint8_t *bytes, uint32_t layer, uint32_t at);
struct lookup_launch pack_launch(const uint8_t *bytes, uint32_t layer, uint32_t at);
const uint8_t *pack_digest(const uint8_t *bytes); /* SHA256_BYTES */

/* Adds everything in the bytes to a set, as file number `file`. */
int pack_merge(const uint8_t *bytes, uint32_t file, struct lookup_set *set);

/* Makes the checksum right again; for tests that damage what lies behind it. */
void pack_seal(uint8_t *bytes, size_t size);

/* ---- SQLite (lookup_sqlite.c) */

/* A database may be written to while it is read; a snapshot is not, and a sealed one is known to be
 * whole. */
enum lookup_kind { LOOKUP_DATABASE, LOOKUP_SNAPSHOT, LOOKUP_SEALED };

/* Adds what a database or snapshot holds for real clusters.  MOE_ERR_IO, MOE_ERR_FORMAT (also
 * without SQLite), MOE_ERR_NOMEM; then the set may hold a part of it.  Silent. */
/* The first bytes of a regular file that may be a database.  SQLite reads them: who opens and
 * closes such a file by himself takes from his process all locks that it has there, those of a
 * tuner's transaction, too.  ERR_FORMAT: it is shorter. */
enum { LOOKUP_HEAD = 8 };
int lookup_head(const char *path, uint8_t head[LOOKUP_HEAD]);

int lookup_read_sqlite(const char *path, enum lookup_kind kind, uint32_t file,
                       struct lookup_set *set);

/* ---- tables (lookup_open.c) */

enum lookup_level { LOOKUP_NEVER, LOOKUP_ERROR, LOOKUP_WARN, LOOKUP_INFO };

struct moelookup {
    uint8_t *bytes;
    size_t size;
    enum lookup_level level;     /* what is said on standard error */
    struct recorder *recorder;   /* counts what views are asked; NULL: nobody does */
    struct lookup_passed passed; /* zeros in tables that were unpacked */
};

/* Says it on standard error if the table's level allows. */
void lookup_say(const struct moelookup *table, enum lookup_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- views (lookup_get.c) */

/* The launch that a job runs, which it cannot leave. */
struct lookup_inside {
    bool on;        /* false: nobody said one, and the entries are not all of one */
    bool implied;   /* nobody said it: entries are all of it.  What a person pinned answers */
    uint32_t usual; /* its plan that is most like the default */
};

/* A view that answers from this layer, of which it becomes the owner, also on an error. */
int lookup_view_open(struct lookup_layer *layer, const struct moe_shape *shape,
                     const struct lookup_switches *switches, const struct lookup_inside *inside,
                     struct moelookup_view **out);

/* Counts what the view is asked from here on; `shape` is the caller's. */
int lookup_view_record(struct moelookup_view *view, const struct moe_shape *shape,
                       struct recorder *recorder);

/* enum moe_source of the answer for a bucket. */
uint32_t lookup_view_source(const struct moelookup_view *view, uint32_t bucket);

/* The hash of the cluster whose table answers. */
const uint8_t *lookup_view_cluster(const struct moelookup_view *view);

#endif
