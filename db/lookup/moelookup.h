/* libmoelookup: which plan is fastest for this step's expert capacity?
 *
 * moetune measures an MoE layer once and keeps the fastest plan of every capacity bucket in a
 * database.  A trainer links this library (-lmoelookup) and asks it at every step:
 *
 *     struct moelookup *table;
 *     struct moelookup_view *view;
 *     struct moe_shape shape = MOE_SHAPE_INIT;
 *     struct moe_plan plan = MOE_PLAN_INIT;
 *
 *     moelookup_open(NULL, &table);              1. once, on rank 0
 *     moelookup_pack / moelookup_unpack          2. rank 0's table to the other ranks
 *     shape.experts = 16; ...                    3. once per layer
 *     moelookup_bind(table, &shape, NULL, &view);
 *     moelookup_get(view, capacity, &plan);      4. at every step, a few nanoseconds
 *     moelookup_view_free(view);                 5. in any order, or never
 *     moelookup_close(table);
 *
 * Every rank must run the same plan, so every rank must hold the same table: let one rank open it
 * and broadcast the packed bytes, and compare moelookup_digest() before the first step.  Ranks with
 * the same digest answer alike, whatever their own files and environment say.
 *
 * Capacity is c: the rows that one expert gets from one source rank in this step, before any
 * alignment, and the same number on every rank (see moe_capacity).  Bucket i of width R holds
 * i*R <= c < (i+1)*R.  Times are microseconds of one step, the slowest rank counts, 0 = unknown.
 *
 * Functions return MOE_OK or a negative enum moe_status, and write their outputs only on MOE_OK.
 * Handing in NULL where a pointer is wanted is MOE_ERR_ARGUMENT, except where it says otherwise.
 * Nothing here exits, starts threads, reads the locale or writes to standard output.  No answer of
 * a table or view changes once it is made: any number of threads may use them, before and after a
 * fork.
 *
 * Environment, read by moelookup_open:
 *   MOELOOKUP_DB       the first database on the search path
 *   MOELOOKUP_FORCE    "r=1 d=2 a=linear": the answer to everything it is legal for; a text that
 *                      is no plan, or NCCL's all-to-all where all tables are of clusters without
 *                      GPUs, is MOE_ERR_ARGUMENT
 *   MOELOOKUP_DISABLE  1, or anything but 0: reads no file; the default plan or FORCE answers
 *   MOELOOKUP_LOG      never, error, warn (default) or info: what is said on standard error
 *   MOELOOKUP_RECORD   a file: what views are asked is counted and appended; see moelookup_record
 *
 * FORCE and DISABLE travel in the packed bytes to whoever unpacks them, and count in the digest; of
 * a packed file that is opened, only the tables are taken.
 *
 * Clean under C89-style strictness (given stdint.h), C11 and C++.  Structs grow only at the end. */
#ifndef MOELOOKUP_H
#define MOELOOKUP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && __GNUC__ >= 4
#define MOELOOKUP_API __attribute__((visibility("default")))
#else
#define MOELOOKUP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum moe_status {
    MOE_OK = 0,
    MOE_ERR_ARGUMENT = -1,  /* NULL, or a shape that breaks a rule */
    MOE_ERR_IO = -2,        /* a file that is not there or cannot be read */
    MOE_ERR_FORMAT = -3,    /* damaged, of another program, or from a newer moetune */
    MOE_ERR_AMBIGUOUS = -4, /* several tables fit */
    MOE_ERR_NOMEM = -5
};
enum moe_a2a { MOE_A2A_LINEAR = 0, MOE_A2A_2DH = 1, MOE_A2A_NCCL = 2 /* ncclAlltoAll */ };
enum moe_experts {
    MOE_PADDED = 0, /* c rows of every expert are computed, filled or not */
    MOE_SPARSE = 1  /* the rows that there are, read and summed up where tokens lie: r=0 only */
};
enum moe_dtype { MOE_F32 = 0, MOE_F16 = 1, MOE_BF16 = 2 };
enum moe_pass { MOE_FORWARD = 0, MOE_TRAIN = 1 };
enum moe_act { MOE_RELU = 0, MOE_GELU = 1, MOE_SWIGLU = 2 };

/* Why a plan is the answer; see moelookup_get. */
enum moe_source {
    MOE_EXACT = 0,     /* measured in this bucket */
    MOE_NEIGHBOUR = 1, /* this bucket has no entry; another one inside the tuned range answers */
    MOE_CLAMPED = 2,   /* before the first or beyond the last bucket: that one answers */
    MOE_STALE = 3,     /* out of date: the software changed since, or steps became slower */
    MOE_OVERRIDE = 4,  /* pinned by a person, or MOELOOKUP_FORCE */
    MOE_DEFAULT = 5,   /* nothing is known, or MOELOOKUP_DISABLE */
    MOE_INFERRED = 6,  /* this bucket lies between measured ones that agree */
    MOE_IMPORTED = 7,  /* measured at another site, on a cluster that is equal */
    MOE_TENTATIVE = 8  /* being measured: libmoetune's answer (moetune.h), never this library's */
};

/* One MoE layer on its group of ranks. */
struct moe_shape {
    uint32_t struct_size;    /* sizeof(struct moe_shape) */
    uint32_t experts;        /* E, in all */
    uint32_t top_k;          /* k, experts per token */
    uint32_t model_dim;      /* D */
    uint32_t hidden_dim;     /* H of a whole expert */
    uint32_t ranks;          /* W */
    uint32_t ranks_per_node; /* m; 0 = nodes differ */
    uint32_t dtype;          /* enum moe_dtype, of tokens and weights */
    uint32_t pass;           /* enum moe_pass: MOE_TRAIN = forward + backward */
    uint32_t activation;     /* enum moe_act */
    uint32_t tokens;         /* T, per rank and step; 0 = any */
};

/* One way to run the layer. */
struct moe_plan {
    uint32_t struct_size;      /* sizeof(struct moe_plan) */
    uint32_t r;                /* parallelism degree; 0 = pure data parallel */
    uint32_t d;                /* pipelining degree: chunks in flight */
    uint32_t a;                /* enum moe_a2a */
    uint32_t source;           /* where it comes from: enum moe_source */
    uint32_t bucket;           /* floor(capacity / R) it was measured for */
    float time_us, default_us; /* its step time and the default plan's; 0 = unknown */
    /* Since 0.2: */
    uint32_t ctas; /* blocks of GPU threads for the all-to-alls (ncclConfig_t.minCTAs and maxCTAs);
                    * 0 = as many as the communication library likes */
    /* Since 0.3: */
    uint32_t e; /* enum moe_experts; who has no room for MOE_SPARSE is told the default plan */
};

/* A program compiled against an older or newer header hands in structs of another size: only the
 * fields inside struct_size are read and written.  0 counts as the size of the first version. */
/* clang-format off */
#define MOE_SHAPE_INIT { (uint32_t)sizeof(struct moe_shape), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define MOE_PLAN_INIT { (uint32_t)sizeof(struct moe_plan), 1, 1, 0, 5, 0, 0, 0, 0, 0 }
/* clang-format on */

struct moelookup;      /* a set of tables, immutable once open */
struct moelookup_view; /* one layer's dictionary, resolved for quick answers */

/* Reads tables into memory; no file stays open.
 *
 * A path names a database X.db (its snapshot X.db.published is read if there is one and it is
 * sound), a snapshot, or a file of packed bytes.  MOE_ERR_IO if it is not there or cannot be read,
 * MOE_ERR_FORMAT if it is damaged, of another program or version, or if this library was built
 * without SQLite.
 *
 * NULL: the search path $MOELOOKUP_DB, $MOETUNE_DB, $XDG_DATA_HOME/moetune/moetune.db (or below
 * $HOME/.local/share), /etc/moetune/moetune.db, PREFIX/share/moetune/moetune.db.  Every one that is
 * there and sound is read; per layer and bucket the first with an entry that is not stale answers.
 * Finding none gives an empty set, whose views answer the default plan, and MOE_OK.
 *
 * Modelled clusters (moetune --sim) never answer, nor imported tables of clusters that no moetune
 * has found to be this one. */
MOELOOKUP_API int moelookup_open(const char *path_or_null, struct moelookup **out);

/* Finds the layer's dictionary.  Everything in the shape must be equal, save tokens: 0 fits any
 * table; otherwise a table with the same T is preferred, but the only one there is fits as well.
 *
 * device: the name of one device as `moetune fingerprint` prints it, or the first 8 or more digits
 * of a fingerprint's hash, or "implementation NAME": only a table of that code ("tutel" fits every
 * version of it; "moetune" is moetune's own layer, whose fastest plans are not those of others);
 * NULL: whichever device and implementation the table is for.  Among clusters of one device,
 * the first file on the search path decides; among its tables of several widths R the one with the
 * most recent measured entry (in doubt the one with most buckets, then the finer one) of those that
 * reach at least half as far as the widest-reaching one, which is said once per process on standard
 * error.  Pins of the others hold for their capacities as well.
 *
 * MOE_ERR_ARGUMENT: the shape breaks a rule (said on standard error).  MOE_ERR_AMBIGUOUS: several
 * tables fit; the candidates are listed on standard error.  No table fits: MOE_OK, the view answers
 * the default plan, and a line on standard error says, once per process, which command would
 * fill the gap.  Tables from moelookup_unpack are silent unless MOELOOKUP_LOG is set: the rank that
 * opened the table has said it.
 *
 * The view keeps what it needs: the table may be closed before it. */
MOELOOKUP_API int moelookup_bind(const struct moelookup *table, const struct moe_shape *shape,
                                 const char *device_or_null, struct moelookup_view **out);

/* The hot call: no lock, allocation, I/O or errno.  Set out->struct_size (MOE_PLAN_INIT) first.
 * Always MOE_OK and a plan that is legal for the bound shape; MOE_ERR_ARGUMENT only for NULL.
 *
 * The first of these that exists answers:
 *   MOELOOKUP_FORCE, then `moetune override`              MOE_OVERRIDE
 *   the bucket's own entry, unless stale                  MOE_EXACT, MOE_INFERRED, MOE_IMPORTED
 *   the bucket just below, else just above, unless stale  MOE_NEIGHBOUR
 *   the bucket's own stale entry                          MOE_STALE
 *   the nearest entry below, else above                   MOE_NEIGHBOUR, or MOE_STALE
 *   r=1 d=1 a=linear                                      MOE_DEFAULT
 * where a bucket outside of the tuned range says MOE_CLAMPED instead of MOE_NEIGHBOUR.  out->bucket
 * is the bucket the answer was measured for; with MOE_OVERRIDE and MOE_DEFAULT, capacity's own.
 * An entry that `moetune verify` refuted holds the default plan and counts as not stale. */
MOELOOKUP_API int moelookup_get(const struct moelookup_view *view, uint32_t capacity,
                                struct moe_plan *out);

/* SHA-256 of everything that decides an answer, FORCE and DISABLE included.  Compare it across
 * ranks before the first step. */
MOELOOKUP_API int moelookup_digest(const struct moelookup *table, uint8_t out[32]);

/* The table as bytes that any machine can unpack; equal tables give equal bytes.  buf NULL: only
 * sets *size.  Otherwise *size is the room in buf, and becomes the bytes written; too little room
 * is MOE_ERR_ARGUMENT. */
MOELOOKUP_API int moelookup_pack(const struct moelookup *table, void *buf, size_t *size);

/* The reverse; buf is copied.  Bytes that are not exactly what pack writes are MOE_ERR_FORMAT. They
 * may come from anywhere: they are checked before they are used. */
MOELOOKUP_API int moelookup_unpack(const void *buf, size_t size, struct moelookup **out);

MOELOOKUP_API void moelookup_view_free(struct moelookup_view *view); /* NULL is fine */
MOELOOKUP_API void moelookup_close(struct moelookup *table);         /* NULL is fine */

/* Every view that is bound to the table from here on counts which buckets it is asked for, and by
 * which rung of the ladder they are answered.  What it has counted is appended to the file, as one
 * line of JSON, by moelookup_flush, by moelookup_view_free, and by moelookup_close of the table;
 * what was not, is lost when the process ends.  `moetune tune --from-misses FILE` measures what was
 * missing, the most wanted first; `moetune report --traffic FILE` weights gains by it.
 *
 * NULL: the file that MOELOOKUP_RECORD names, if there is one, as moelookup_open does by itself.
 * Tables from moelookup_unpack do not, because all ranks ask the same: of several ranks, the one
 * that opened the table speaks.  Call it before other threads use the table.
 *
 * MOE_ERR_IO: the file cannot be appended to; then nothing has changed.  Several processes may
 * append to one file if it is on a disk of theirs; on a network's, give each job its own (several
 * files add up).  A look-up stays without lock, allocation and I/O, and takes half a
 * nanosecond more.  The child of a fork() records nothing. */
MOELOOKUP_API int moelookup_record(struct moelookup *table, const char *path_or_null);

/* Now, for instance beside a checkpoint; any thread may call it, but no signal handler.  MOE_OK
 * also if the view records nothing; MOE_ERR_IO: nothing is forgotten, a later call tries again. */
MOELOOKUP_API int moelookup_flush(const struct moelookup_view *view);

/* Never NULL; static. */
MOELOOKUP_API const char *moelookup_strerror(int status);
MOELOOKUP_API const char *moelookup_version(void); /* "0.1.0" */

/* Writes "r=2 d=4 a=2dh".  Returns the length as snprintf does, or MOE_ERR_ARGUMENT. */
MOELOOKUP_API int moe_plan_format(const struct moe_plan *plan, char *buf, size_t size);

/* Reads the same text, in any order; an axis left out takes its default.  Set out->struct_size
 * first; on an error *out is untouched. */
MOELOOKUP_API int moe_plan_parse(const char *text, struct moe_plan *out);

/* One line, without a line feed, that says which rung answers and why.  Returns its length as
 * snprintf does, or MOE_ERR_ARGUMENT; text may be NULL if size is 0. */
MOELOOKUP_API int moelookup_explain(const struct moelookup_view *view, uint32_t capacity,
                                    char *text, size_t size);

/* The capacity rule.  factor > 0: top_k * trunc(factor * ceil(tokens / experts)), with the largest
 * number of tokens over the ranks.  factor 0: `needed`, the largest count any rank sends to any
 * expert, agreed over the ranks.  factor < 0: the smaller of `needed` and the rule for -factor.
 * experts 0, or a factor that is not a number, gives 0; more than 64 bits hold, UINT64_MAX. */
MOELOOKUP_API uint64_t moe_capacity(double factor, uint32_t top_k, uint32_t experts,
                                    uint64_t tokens, uint64_t needed);

/* R where nobody says another one: the largest power of two up to 128 with which the capacity of
 * factor 1 lies in the eighth bucket or a later one, so that a bucket in use is at most an eighth
 * as wide as its capacities are large; 1 where none does.  tokens 0, unknown: 128. */
MOELOOKUP_API uint32_t moe_window(uint32_t top_k, uint32_t experts, uint64_t tokens);

/* Divides `total` (tokens of a batch, hidden columns) among ranks that are not equally fast: out[q]
 * is rank q's share, which may be 0.  Shares add up to total, each less than a grain away from what
 * its rank's part of all speeds would be, and are multiples of `grain`; where total is none, what
 * is left of it goes to one rank, the next in line for a grain.  Of equally fast ranks the lower
 * one comes first.  Integers decide, so all ranks find the same shares.
 *
 * MOE_ERR_ARGUMENT: no ranks, grain 0, a total above 2^48, or a speed that is not above 0 and
 * finite. */
MOELOOKUP_API int moe_shares(const double *speeds, uint32_t ranks, uint64_t total, uint64_t grain,
                             uint64_t *out);

#ifdef __cplusplus
}
#endif

#endif
