/* libmoelookup: which plan is fastest for this step's expert capacity?
 *
 * moetune measures an MoE layer once and stores the fastest plan of every capacity bucket in a
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
 * Every rank must run the same plan, so every rank must hold the same table.  Let one rank open it
 * and broadcast the packed bytes.  Compare moelookup_digest() before the first step.  Ranks with
 * equal digests answer alike, whatever their own files and environment are.  One exception: the
 * launch of moelookup_bind_launch is not in the digest, and must be the same on all ranks.
 *
 * Capacity is c: the rows that one expert gets from one source rank in this step, before any
 * alignment.  It is the same number on every rank (see moe_capacity).  A step that drops no token
 * has counts instead: see moelookup_get_counts.  Bucket i of width R holds the capacities
 * i*R <= c < (i+1)*R.  Times are microseconds of one step on the slowest rank; 0 means unknown.
 *
 * Functions return MOE_OK or a negative enum moe_status, and write their outputs only on MOE_OK.
 * NULL for a pointer is MOE_ERR_ARGUMENT, unless the function's comment allows NULL.
 * The library never exits, starts no threads, and does not read the locale or write to standard
 * output.  A table or view never changes its answers: any number of threads may use it, before and
 * after a fork.
 *
 * moelookup_open reads these environment variables:
 *   MOELOOKUP_DB       the first database on the search path
 *   MOELOOKUP_FORCE    "r=1 d=2 a=linear": this plan answers wherever it is legal.  A text that is
 *                      no plan is MOE_ERR_ARGUMENT; so is NCCL's all-to-all if all tables are of
 *                      clusters without GPUs
 *   MOELOOKUP_DISABLE  1, or anything but 0: reads no file; the default plan or FORCE answers
 *   MOELOOKUP_LOG      never, error, warn (default) or info: what it prints on standard error
 *   MOELOOKUP_RECORD   a file to which look-ups are appended, as counts; see moelookup_record
 * moelookup_bind and moelookup_bind_launch read:
 *   MOELOOKUP_LAUNCH   "backend=deepep ep=8": this job's launch values; see moelookup_bind_launch
 * moe_counts_open reads:
 *   MOELOOKUP_COUNTS   a file for the number of tokens that chose each expert, step by step
 *
 * FORCE and DISABLE travel in the packed bytes and count in the digest.  moelookup_open takes only
 * the tables of a packed file, not its FORCE and DISABLE.
 *
 * The header compiles as C89 (given stdint.h), C11 and C++.  Structs grow only at the end. */
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
    MOE_ERR_IO = -2,        /* a file that does not exist or cannot be read */
    MOE_ERR_FORMAT = -3,    /* damaged, of another program, or from a newer moetune */
    MOE_ERR_AMBIGUOUS = -4, /* several tables fit */
    MOE_ERR_NOMEM = -5
};
enum moe_a2a {
    MOE_A2A_LINEAR = 0,
    MOE_A2A_2DH = 1,
    MOE_A2A_NCCL = 2, /* ncclAlltoAll */
    MOE_A2A_RAIL = 3, /* a token goes to a node once, and is forwarded inside */
    MOE_A2A_3DH = 4   /* inside nodes, then inside racks, then between racks */
};
enum moe_experts {
    MOE_PADDED = 0, /* all c rows of every expert are computed, filled or not */
    MOE_SPARSE = 1  /* only rows that hold a token: with r=0 each rank reads and sums them where
                     * the tokens lie; with r >= 1 it sends as many as each step counts */
};
enum moe_weights {
    MOE_KEEP = 0, /* gathered weights stay until the backward pass */
    MOE_CACHE = 1 /* weights share one buffer, piece by piece; backward gathers them again */
};
enum moe_proto {                     /* the value of NCCL_PROTO when a communicator is made */
                 MOE_PROTO_AUTO = 0, /* NCCL chooses */
                 MOE_PROTO_LL = 1,
                 MOE_PROTO_LL128 = 2,
                 MOE_PROTO_SIMPLE = 3
};
enum moe_dtype { MOE_F32 = 0, MOE_F16 = 1, MOE_BF16 = 2 };
enum moe_pass { MOE_FORWARD = 0, MOE_TRAIN = 1 };
enum moe_act { MOE_RELU = 0, MOE_GELU = 1, MOE_SWIGLU = 2 };
enum moe_layout {
    MOE_LAYOUT_EXPERTS = 0, /* a rank holds whole experts, or a slice of one */
    MOE_LAYOUT_HIDDEN = 1   /* a rank holds some hidden units of every expert: (h,E,D), e=sparse */
};
enum moe_shares_by {
    MOE_SHARES_EQUAL = 0,
    MOE_SHARES_SPEED = 1,  /* tokens follow the ranks' speeds; in MOE_LAYOUT_HIDDEN units, too */
    MOE_SHARES_TOKENS = 2, /* MOE_LAYOUT_HIDDEN: tokens follow the speeds, hidden units are equal */
    MOE_SHARES_HIDDEN = 3  /* MOE_LAYOUT_HIDDEN: hidden units follow the speeds, tokens are equal */
};
enum moe_router {
    MOE_ROUTER_SOFTMAX = 0, /* a group scores by its best expert */
    MOE_ROUTER_SIGMOID = 1, /* a group scores by its best two experts' sum; a bias takes part in the
                             * choice, but not in the gate */
    MOE_ROUTER_BILEVEL = 2, /* two softmaxes: one chooses a group, one an expert inside it */
    MOE_ROUTER_COSINE = 3   /* softmax over the cosines of the projected token and each expert's
                             * column, times a temperature */
};
enum moe_order {
    MOE_ORDER_TOKEN = 0,   /* tokens get slots in the order in which they lie */
    MOE_ORDER_PRIORITY = 1 /* tokens with a larger top gate probability get slots first */
};
enum moe_combine {
    MOE_COMBINE_SUM = 0, /* y (T,D): each token's rows, weighted by their gates, summed */
    MOE_COMBINE_CHOICES =
        1 /* y (T k,D): one row per choice, as its expert gives it; 0 for a dropped one */
};

/* Why this plan is the answer; see moelookup_get. */
enum moe_source {
    MOE_EXACT = 0,      /* measured in this bucket */
    MOE_NEIGHBOUR = 1,  /* this bucket has no entry; another one in the tuned range answers */
    MOE_CLAMPED = 2,    /* before the first bucket or after the last: that bucket answers */
    MOE_STALE = 3,      /* out of date: the software changed, or steps became slower */
    MOE_OVERRIDE = 4,   /* pinned by `moetune override` or MOELOOKUP_FORCE */
    MOE_DEFAULT = 5,    /* nothing is known, or MOELOOKUP_DISABLE is set */
    MOE_INFERRED = 6,   /* not measured: this bucket lies between measured ones that agree */
    MOE_IMPORTED = 7,   /* measured at another site, on an equal cluster */
    MOE_TENTATIVE = 8,  /* being measured: only libmoetune (moetune.h) answers this */
    MOE_UNCOMPARED = 9, /* the default plan: experts have different capacities, and the table cannot
                         * compare the best plan with r=0 to the best with r >= 1; see
                         * moelookup_get_uneven */
    MOE_UNSOUND = 10,   /* the default plan: by its own numbers the entry's plan is not faster than
                         * the default, or the numbers cannot be true */
    MOE_UNKNOWN_LAUNCH = 11 /* the table knows nothing of this launch; see moelookup_bind_launch */
};

/* One MoE layer on its group of ranks. */
struct moe_shape {
    uint32_t struct_size;    /* sizeof(struct moe_shape) */
    uint32_t experts;        /* E, all experts of the layer */
    uint32_t top_k;          /* k, experts per token */
    uint32_t model_dim;      /* D */
    uint32_t hidden_dim;     /* H of a whole expert */
    uint32_t ranks;          /* W */
    uint32_t ranks_per_node; /* m; 0 = nodes have different numbers of ranks */
    uint32_t dtype;          /* enum moe_dtype, of tokens and weights */
    uint32_t pass;           /* enum moe_pass: MOE_TRAIN = forward + backward */
    uint32_t activation;     /* enum moe_act */
    uint32_t tokens;         /* T, per rank and step; 0 = any */
    /* Since 0.3: */
    uint32_t layout;      /* enum moe_layout */
    uint32_t shares;      /* enum moe_shares_by: how the W T tokens, and the hidden units of
                           * MOE_LAYOUT_HIDDEN, are divided among ranks */
    uint32_t layers;      /* equal MoE layers in a step; 0 = any in moelookup_bind, 1 elsewhere */
    uint32_t groups;      /* groups of E/groups consecutive experts; 0 = no groups */
    uint32_t group_limit; /* a token's experts come from so many groups; 0 only if groups is 0 */
    uint32_t router;      /* enum moe_router */
    uint32_t order;       /* enum moe_order */
    uint32_t projection;  /* P, dimensions of MOE_ROUTER_COSINE's comparison, 1 to D; 0: 256, or D
                           * where D is less.  0 for other routers */
    uint32_t combine;     /* enum moe_combine */
    uint32_t ranks_per_rack; /* a rack holds several nearby nodes; 0 = all nodes are equally near */
    /* Since 0.4: */
    uint32_t space; /* which declared space, see moelookup_space(); 0 = moetune's plans */
};

/* One way to run the layer. */
struct moe_plan {
    uint32_t struct_size;      /* sizeof(struct moe_plan) */
    uint32_t r;                /* parallelism degree; 0 = data parallel: weights are gathered */
    uint32_t d;                /* pipelining degree: chunks in flight */
    uint32_t a;                /* enum moe_a2a */
    uint32_t source;           /* enum moe_source: why this plan is the answer */
    uint32_t bucket;           /* floor(capacity / R) for which the plan was measured */
    float time_us, default_us; /* step times of this plan and the default plan; 0 = unknown */
    /* Since 0.2: */
    uint32_t ctas; /* blocks of GPU threads for the all-to-alls (ncclConfig_t.minCTAs and maxCTAs);
                    * 0 = the communication library chooses */
    /* Since 0.3: */
    uint32_t e; /* enum moe_experts; a program whose struct ends before it gets the default plan
                 * instead of a MOE_SPARSE one */
    uint32_t w; /* enum moe_weights; as with e: the default plan instead of a MOE_CACHE one */
    /* Since 0.4: */
    uint32_t proto;  /* enum moe_proto: gathers weights and sums their gradients by this protocol */
    uint32_t space;  /* as in struct moe_shape.  If it is not 0, the fields above are as in
                      * MOE_PLAN_INIT ... */
    uint32_t choice; /* ... and this number names the plan: see moelookup_value() */
};

/* A program that was compiled against another version of this header has structs of another size.
 * The library reads and writes only the fields inside struct_size.  0 means the size of the first
 * version. */
/* clang-format off */
#define MOE_SHAPE_INIT { (uint32_t)sizeof(struct moe_shape), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define MOE_PLAN_INIT { (uint32_t)sizeof(struct moe_plan), 1, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

struct moelookup;      /* a set of tables; it never changes once it is open */
struct moelookup_view; /* the table of one layer, prepared for fast answers */

/* Reads tables into memory; no file stays open.
 *
 * A path names a database X.db, a snapshot, or a file of packed bytes.  For X.db the snapshot
 * X.db.published is read if it exists and is sound.  MOE_ERR_IO: the file does not exist or cannot
 * be read.  MOE_ERR_FORMAT: it is damaged, of another program or version, or this library was built
 * without SQLite.
 *
 * NULL reads the search path: $MOELOOKUP_DB, $MOETUNE_DB, $XDG_DATA_HOME/moetune/moetune.db (or
 * below $HOME/.local/share), /etc/moetune/moetune.db, PREFIX/share/moetune/moetune.db.  All of
 * these files that exist and are sound are read.  For each bucket of a layer, the first file that
 * has an entry which is not stale answers.  If no file is found, the set is empty, its views answer
 * the default plan, and the status is MOE_OK.
 *
 * Tables of modelled clusters (moetune --sim) never answer.  Imported tables answer only if moetune
 * found their cluster to be equal to this one. */
MOELOOKUP_API int moelookup_open(const char *path_or_null, struct moelookup **out);

/* Finds the table of a layer.  All members of the shape must be equal, except two.  tokens: 0 fits
 * any table; another number prefers the table with the same T, but takes the only one that exists.
 * layers: like tokens.
 *
 * device selects a table by one of:
 * - the name of one device, as `moetune fingerprint` prints it,
 * - the first 8 or more digits of a fingerprint's hash,
 * - "implementation NAME": a table of that code.  "tutel" fits every version of Tutel; "moetune" is
 *   moetune's own layer.  The fastest plans of one implementation are not those of another.
 * NULL: any device and implementation, if only one fits.
 *
 * Several tables of one device: the first file on the search path answers.  It may hold tables of
 * several widths R.  Tables that reach less than half as far as the longest one are left out.  Of
 * the others, the one with the most recent measured entry answers.  In doubt, more buckets win,
 * then the smaller R.  A line on standard error names the table that answers, once per process.
 * Pins of the other tables keep their capacities.
 *
 * MOE_ERR_ARGUMENT: the shape breaks a rule; standard error says which.  MOE_ERR_AMBIGUOUS: several
 * tables fit; standard error lists them.  No table fits: MOE_OK, and the view answers the
 * default plan.  Standard error says once per process which command fills the gap.  Tables from
 * moelookup_unpack print nothing unless MOELOOKUP_LOG is set: the rank that opened the table did.
 *
 * The view copies what it needs: the table may be closed before it. */
MOELOOKUP_API int moelookup_bind(const struct moelookup *table, const struct moe_shape *shape,
                                 const char *device_or_null, struct moelookup_view **out);

/* moelookup_bind inside one launch of a declared space.  A job starts with one set of launch
 * values, the values of the axes that need a restart.  It cannot run a plan with other launch
 * values.  `launch_words` gives them: "backend=deepep ep=8", in any order; axes that it does not
 * name have their defaults.  Every answer of this view has these values.
 *
 * NULL or "": MOELOOKUP_LAUNCH gives the launch values.  moelookup_bind reads that variable, too.
 * It holds for the whole job, so layers without a space, or without restart axes, ignore it.  It
 * does not travel in packed bytes: set it on every rank.
 *
 * If neither gives launch values, the entries answer, as after moelookup_bind.  One exception: all
 * entries have the same launch values, and the table has results of launches.  Then a bucket
 * without an entry answers as inside that launch.
 *
 * The first of these that exists answers:
 *   MOELOOKUP_FORCE, then `moetune override`, of this launch       MOE_OVERRIDE
 *   the bucket's entry, if its plan is of this launch              its own source
 *   the best plan that this launch ran in the bucket               MOE_EXACT
 *   if the table knows this launch in other buckets: its plan
 *     that differs least from the default plan of the space        MOE_DEFAULT
 *   otherwise the same plan                                        MOE_UNKNOWN_LAUNCH
 * Pins and FORCE of another launch are ignored; standard error says so.
 *
 * MOE_ERR_ARGUMENT, with one sentence on standard error: an axis or value that the space does not
 * have, a live axis, an axis that is named twice, a launch without a legal plan on these ranks, or
 * any words for a layer without a declared space. */
MOELOOKUP_API int moelookup_bind_launch(const struct moelookup *table,
                                        const struct moe_shape *shape, const char *device_or_null,
                                        const char *launch_words, struct moelookup_view **out);

/* The fast call: it takes no lock, allocates nothing, does no I/O and leaves errno alone.  Set
 * out->struct_size (MOE_PLAN_INIT) first.  It returns MOE_OK and a plan that is legal for the bound
 * shape; MOE_ERR_ARGUMENT only for NULL.
 *
 * The first of these that exists answers:
 *   MOELOOKUP_FORCE, then `moetune override`              MOE_OVERRIDE
 *   the default plan, if the bucket's entry is unsound    MOE_UNSOUND
 *   the bucket's own entry, unless stale                  MOE_EXACT, MOE_INFERRED, MOE_IMPORTED
 *   the bucket just below, else just above, unless stale  MOE_NEIGHBOUR
 *   the bucket's own stale entry                          MOE_STALE
 *   the nearest entry below, else above                   MOE_NEIGHBOUR, or MOE_STALE
 *   the default plan                                      MOE_DEFAULT
 * The default plan is r=1 d=1 a=linear; in MOE_LAYOUT_HIDDEN it is r=0 d=1 a=linear e=sparse.  A
 * bucket outside of the tuned range has MOE_CLAMPED instead of MOE_NEIGHBOUR.  out->bucket is the
 * bucket for which the plan was measured; with MOE_OVERRIDE and MOE_DEFAULT it is the capacity's
 * own.  In a declared space no other bucket answers: a bucket without an entry gets the default.
 *
 * An entry that `moetune verify` refuted holds the default plan and is not stale.  An entry is
 * unsound if its own numbers say that its plan is not faster than the default.  It is also unsound
 * if no measurement can give these numbers.  The default plan answers in its place, also in other
 * buckets. */
MOELOOKUP_API int moelookup_get(const struct moelookup_view *view, uint32_t capacity,
                                struct moe_plan *out);

/* The plan of a step that drops no token and runs only rows that hold one.  Megatron-Core, DeepEP
 * and MegaBlocks run such steps.  Such a step has no capacity.  A plan with r >= 1 waits for the
 * rank whose experts receive most.  A plan with r = 0 waits for the rank that sends most.  So this
 * call makes two capacities of the counts, and compares them as moelookup_get_uneven does.
 *
 * counts[] are the rows that a rank sends to each expert.  A token counts once for each expert that
 * it chose.  n tells which counts these are:
 *   n = W E  the counts of every rank, those of rank q in row q: exact
 *   n = E    for each expert the largest count of any rank: an upper limit.  A single rank passes
 *            its own counts
 * Every rank must pass the same numbers.  Otherwise ranks run different plans and wait for each
 * other for ever.  So gather the counts first, or reduce them by the maximum:
 *
 *     MPI_Allgather(mine, E, MPI_UINT32_T, all, E, MPI_UINT32_T, MPI_COMM_WORLD);
 *     moelookup_get_counts(view, all, (size_t)W * E, &plan);
 * or
 *     MPI_Allreduce(mine, most, E, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
 *     moelookup_get_counts(view, most, E, &plan);
 * or exchange two numbers only:
 *     moe_keys(mine, E, E, W, &keys[0], &keys[1]);
 *     MPI_Allreduce(MPI_IN_PLACE, keys, 2, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
 *     moelookup_get_uneven(view, keys[0], keys[1], &plan);
 *
 * A layer that pads every expert to the fullest one (Tutel with capacity factor 0) has one
 * capacity, that expert's.  It calls moelookup_get.
 *
 * Takes no lock, allocates nothing, does no I/O.  MOE_ERR_ARGUMENT: NULL, another n, a count of
 * UINT32_MAX (which is -1 as unsigned), a view of a declared space. */
MOELOOKUP_API int moelookup_get_counts(const struct moelookup_view *view, const uint32_t *counts,
                                       size_t n, struct moe_plan *out);

/* The two capacities themselves, both rounded up.  *key: the rows that the fullest rank receives,
 * per source and per expert that it holds.  Rank q holds the experts from q E/W on; where E <= W,
 * *key is the rows of the fullest expert.  *key_r0: the rows that the busiest source sends, per
 * expert.  key is at least key_r0.  A program that tunes while it trains passes *key to
 * moetune_ask. */
MOELOOKUP_API int moe_keys(const uint32_t *counts, size_t n, uint32_t experts, uint32_t ranks,
                           uint32_t *key, uint32_t *key_r0);

/* moelookup_get for experts with different capacities.  There a plan with r >= 1 takes as long as
 * at the equal capacity `key`, and a plan with r = 0 as long as at `key_r0`.  moe_keys makes both;
 * so does struct moe_capacities_state.  The answer is the faster one of two measured plans: the
 * best with r >= 1 at key and the best with r = 0 at key_r0.  out->time_us is its expected time,
 * interpolated between bucket edges.  out->default_us is the default plan's.
 *
 * The first of these that applies decides:
 * - MOELOOKUP_FORCE answers everything.
 * - MOE_LAYOUT_HIDDEN: moelookup_get(key_r0), for there every plan computes all experts' rows.
 * - Both keys lie in one bucket: moelookup_get(key).
 * - A pin of key's bucket answers; a pin of key_r0's bucket answers if it has r = 0.
 * - No plan of one kind can run, or `moetune tune` was told to try none: the best plan of the other
 *   kind answers.
 * - Both plans have a time in entries that are neither stale nor unsound: the faster one answers.
 * - Otherwise the default plan answers, with MOE_UNCOMPARED.  Tables of an older moetune lack the
 *   second time.
 * A plan with r >= 1 and MOE_SPARSE was measured with the rows of the table's expert load.  For
 * other rows the library bounds its time from there.  Where these bounds leave open which plan is
 * faster, or whether the default plan is, the default plan answers, with MOE_UNCOMPARED.
 *
 * Takes no lock, allocates nothing, does no I/O; slower than moelookup_get, below a microsecond.
 * moelookup_record counts both buckets.  MOE_ERR_ARGUMENT: NULL, or key_r0 above key. */
MOELOOKUP_API int moelookup_get_uneven(const struct moelookup_view *view, uint32_t key,
                                       uint32_t key_r0, struct moe_plan *out);

/* ---- spaces that a program declares
 *
 * A program may declare axes of its own in a short text, and `moetune tune --space FILE --exec`
 * measures them (moetune-spaces(7)).  A table holds the texts of its spaces.
 *
 *     struct moe_shape shape = MOE_SHAPE_INIT;
 *     moelookup_space(table, "torch-moe", &shape.space);
 *     moelookup_space_layer(table, shape.space, 0, &shape);   or the layer that tune was given
 *     moelookup_bind(table, &shape, NULL, &view);
 *     moelookup_get_key(view, tokens, skew, &plan);           at every step
 *     moelookup_value(&plan, "dispatcher", text, sizeof(text));
 *     moelookup_number(&plan, "chunks", &chunks);
 *
 * Entries of a space answer only shapes with that `space`.  A program that was compiled against a
 * header without the member cannot ask for them. */

/* The number of a space of which the table has a layer.  name is "torch-moe", or
 * "torch-moe@3f2a91c0", which also fixes the text of the space.  A name without @ may have several
 * versions.  The newest version with entries is meant.  It is in the first file on the search
 * path that has any, and its layer was added last.  MOELOOKUP_LOG=info prints which one.
 * MOE_ERR_ARGUMENT: no layer has the space.  MOE_ERR_AMBIGUOUS: packed bytes of an older moetune do
 * not say which version is the newest.  Standard error explains both.
 *
 * Without a table, and with MOELOOKUP_DISABLE, a name is MOE_ERR_ARGUMENT.  Only the text of a
 * space says what its default plan is.  So `name` may also be the text of the space, which has more
 * than one line.  Its default plan answers if no table has the space.  A wrong text is
 * MOE_ERR_ARGUMENT; standard error says why. */
MOELOOKUP_API int moelookup_space(const struct moelookup *table, const char *name, uint32_t *out);

/* Layer number `at`, from 0 on, of those that the table has of a space.  So a program need not
 * repeat the layer that tune was given.  Set out->struct_size first.  A space that was given as a
 * text, and is in no table, has one layer: without sizes (top_k 0), and ready to bind.
 * MOE_ERR_ARGUMENT: the space has fewer layers. */
MOELOOKUP_API int moelookup_space_layer(const struct moelookup *table, uint32_t space, uint32_t at,
                                        struct moe_shape *out);

/* moelookup_get for a declared space: a key of up to 64 bits and a class.  The space declares the
 * edges of its buckets.  `class` is ignored if the space has no classes.  The bucket's own entry
 * answers, also a stale one; without an entry, the default plan.  Views of moetune's own plans take
 * the key as a capacity.
 *
 * MOE_ERR_ARGUMENT leaves *out untouched: NULL; a class that is negative or NaN; a struct moe_plan
 * that ends before its `choice`.  moelookup_get of a view of a space asks with class 0. */
MOELOOKUP_API int moelookup_get_key(const struct moelookup_view *view, uint64_t key,
                                    double class_value, struct moe_plan *out);

/* moelookup_explain for moelookup_get_key. */
MOELOOKUP_API int moelookup_explain_key(const struct moelookup_view *view, uint64_t key,
                                        double class_value, char *text, size_t size);

/* moelookup_value writes a plan's value on an axis of its space as text, and returns the length as
 * snprintf does.  moelookup_number returns MOE_OK and the value of an axis of integers.
 * MOE_ERR_ARGUMENT: the space has no such axis; the axis has words (moelookup_number); the plan is
 * of no space, or of one that is in no table here. */
MOELOOKUP_API int moelookup_value(const struct moe_plan *plan, const char *axis, char *text,
                                  size_t size);
MOELOOKUP_API int moelookup_number(const struct moe_plan *plan, const char *axis, int64_t *out);

/* SHA-256 of everything that decides an answer, FORCE and DISABLE included.  Compare it across
 * ranks before the first step. */
MOELOOKUP_API int moelookup_digest(const struct moelookup *table, uint8_t out[32]);

/* Writes the table as bytes that any machine can unpack; equal tables give equal bytes.  buf NULL:
 * only sets *size.  Otherwise *size is the room in buf, and becomes the number of bytes written;
 * too little room is MOE_ERR_ARGUMENT. */
MOELOOKUP_API int moelookup_pack(const struct moelookup *table, void *buf, size_t *size);

/* Makes a table of packed bytes; buf is copied.  The bytes may come from anywhere: they are checked
 * first.  Bytes that moelookup_pack cannot have written are MOE_ERR_FORMAT. */
MOELOOKUP_API int moelookup_unpack(const void *buf, size_t size, struct moelookup **out);

MOELOOKUP_API void moelookup_view_free(struct moelookup_view *view); /* NULL is fine */
MOELOOKUP_API void moelookup_close(struct moelookup *table);         /* NULL is fine */

/* From here on, every view that is bound to the table counts its look-ups: how often each bucket
 * was asked for, and with which source it was answered.  moelookup_flush, moelookup_view_free, and
 * moelookup_close of the table append the counts to the file, as one line of JSON.  Counts that are
 * not appended when the process ends are lost.  `moetune tune --from-misses FILE` measures the
 * buckets without an entry, the most wanted first; `moetune report --traffic FILE` weights gains.
 *
 * NULL: the file that MOELOOKUP_RECORD names, if it is set.  moelookup_open does this by itself.
 * Tables from moelookup_unpack do not, because all ranks ask the same: only the rank that opened
 * the table records.  Call it before other threads use the table.
 *
 * MOE_ERR_IO: the file cannot be appended to; nothing has changed.  Several processes may append to
 * one file on a local disk.  On a network file system give each job a file of its own; `moetune`
 * adds several files up.  Recording adds half a nanosecond to a look-up, and no lock, allocation or
 * I/O.  The child of a fork() records nothing. */
MOELOOKUP_API int moelookup_record(struct moelookup *table, const char *path_or_null);

/* Appends the counts now, for instance beside a checkpoint.  Any thread may call it, but no signal
 * handler.  MOE_OK also if the view records nothing.  MOE_ERR_IO: the counts are kept for the next
 * call. */
MOELOOKUP_API int moelookup_flush(const struct moelookup_view *view);

/* Never NULL; a static string. */
MOELOOKUP_API const char *moelookup_strerror(int status);
MOELOOKUP_API const char *moelookup_version(void); /* "0.9.0" */

/* Writes "r=2 d=4 a=2dh", or "dispatcher=alltoall chunks=2 space=torch-moe@3f2a91c0" in a space.
 * Returns the length as snprintf does, or MOE_ERR_ARGUMENT. */
MOELOOKUP_API int moe_plan_format(const struct moe_plan *plan, char *buf, size_t size);

/* Reads the text of moe_plan_format, words in any order; an axis that is left out has its default.
 * Set out->struct_size first; on an error *out is untouched.  A space that is in no table here is
 * MOE_ERR_FORMAT. */
MOELOOKUP_API int moe_plan_parse(const char *text, struct moe_plan *out);

/* One line, without a line feed: which source answers, and why.  Returns its length as snprintf
 * does, or MOE_ERR_ARGUMENT; text may be NULL if size is 0. */
MOELOOKUP_API int moelookup_explain(const struct moelookup_view *view, uint32_t capacity,
                                    char *text, size_t size);

/* moelookup_explain for moelookup_get_uneven. */
MOELOOKUP_API int moelookup_explain_uneven(const struct moelookup_view *view, uint32_t key,
                                           uint32_t key_r0, char *text, size_t size);

/* The capacity rule.
 *   factor > 0: top_k * trunc(factor * ceil(tokens / experts)); tokens: the most of any rank
 *   factor 0:   `needed`: the largest count that any rank sends to any expert, agreed over ranks
 *   factor < 0: the smaller of `needed` and the rule for -factor
 * experts 0, or a factor that is NaN, gives 0.  A result above 64 bits gives UINT64_MAX. */
MOELOOKUP_API uint64_t moe_capacity(double factor, uint32_t top_k, uint32_t experts,
                                    uint64_t tokens, uint64_t needed);

/* The default R: the largest power of two up to 128 that leaves at least 8 buckets below the
 * capacity of factor 1.  So a bucket in use is at most an eighth as wide as its capacities are
 * large.  1 if no power fits; 128 if tokens is 0, unknown. */
MOELOOKUP_API uint32_t moe_window(uint32_t top_k, uint32_t experts, uint64_t tokens);

/* Divides `total` (tokens of a batch, hidden columns) among ranks of different speeds.  out[q] is
 * rank q's share; it may be 0.  Shares add up to total.  Each is less than a grain away from its
 * exact part, total times the rank's part of all speeds.  Shares are multiples of `grain`.  If
 * total is not, one rank gets the rest: the next in line for a grain.  Of equally fast ranks the
 * lower one comes first.  The arithmetic uses integers, so all ranks compute the same shares.
 *
 * MOE_ERR_ARGUMENT: no ranks, grain 0, a total above 2^48, or a speed that is not above 0 and
 * finite. */
MOELOOKUP_API int moe_shares(const double *speeds, uint32_t ranks, uint64_t total, uint64_t grain,
                             uint64_t *out);

/* ---- capacities that follow the experts
 *
 * With one capacity for all experts, all pay for the fullest.  This controller follows each
 * expert's counts and gives each expert a capacity c_e of its own.  Ranks agree on it before the
 * step, and it changes seldom.
 *
 *     struct moe_capacities_options options = MOE_CAPACITIES_OPTIONS_INIT;
 *     options.experts = 64; options.ranks = 8; options.most = tokens;
 *     moe_capacities_open(&options, &c);
 *     for (step = 0;; step++) {
 *         moe_capacities_at(c, step, &rows, &state);         rows[e], the same on every rank
 *         moelookup_get_counts(view, rows, 64, &plan);
 *         ... the step; counts[e]: choices of expert e, dropped or not, the largest over ranks ...
 *         moe_capacities_feed(c, step, counts, 64);
 *     }
 *
 * Counts of step t act at t + delta, never earlier.  So the answer of moe_capacities_at follows
 * from the counts up to step - delta.  With delta > 1, feed and at may run on a thread beside the
 * steps, as in tests/program/example_trainer.c.  Equal options and counts give equal answers: the
 * arithmetic uses integers and no clock.  Nothing is allocated after open.  One thread at a time.
 *
 * The rule.  An expert's peak is its largest count in the last hold to 2 hold steps that were fed.
 * A re-plan gives every expert its peak plus slack, rounded up to grid, at most `most`.  Before
 * hold steps were fed, a re-plan lowers no capacity.  Three cases cause a re-plan:
 * - In the last gap steps, a larger share than `drops` was dropped under the capacities in force.
 *   Steps before the last re-plan count as steps without drops.
 * - The same with a quarter of `drops`, once gap steps were fed since the last re-plan was decided.
 * - Every hold steps: both windows are full, and some expert would get less than `low` of its
 *   capacity.
 * No re-plan is decided while another one waits for its step, or if no capacity would change.
 * Counts are the largest over ranks, so the controller overestimates what is dropped. */
struct moe_capacities_options {
    uint32_t struct_size; /* sizeof(struct moe_capacities_options) */
    uint32_t experts;     /* E, up to 65536 */
    uint32_t ranks;       /* W, up to 65536; one of E and W is a multiple of the other */
    uint32_t start;       /* rows of every expert before counts act; 0 = `most` */
    uint32_t grid;        /* capacities are multiples of it, or `most` */
    uint32_t hold;        /* steps for which a peak is remembered, at least */
    uint32_t gap;         /* steps over which drops are summed, up to 32768 */
    uint32_t low;         /* thousandths, below 1000; 0: no expert makes others shrink */
    uint32_t slack;       /* added to the peak, in thousandths of it */
    uint32_t drops;       /* tolerated, per million choices */
    uint32_t most;        /* rows that no expert exceeds; required */
    uint32_t delta;       /* steps until counts act, at least 1 */
};

/* What is in force at a step, and since when. */
struct moe_capacities_state {
    uint32_t struct_size; /* sizeof(struct moe_capacities_state) */
    uint32_t key;      /* the equal capacity at which a plan with r >= 1 takes as long: rows of the
                        * fullest rank per expert it holds, rounded up; where E <= W, the largest
                        * capacity, for all ranks wait for that expert */
    uint64_t rows;     /* of all experts, from one source rank */
    uint64_t fullest;  /* rows of the fullest rank, if rank q holds the experts from q E/W on;
                        * where E < W, rows of the fullest expert */
    uint64_t balanced; /* what `fullest` would be with another placement, E/W experts per rank: the
                        * largest expert first, each to the rank with least rows */
    uint64_t first;    /* step from which this is in force; 0: from the start */
    uint64_t pending;  /* step from which other capacities hold; UINT64_MAX: none are decided */
    uint64_t replans;  /* re-plans that led to what is in force */
    uint64_t digest;   /* of the options, all capacities up to now, and their steps */
    uint32_t dropped_ppm; /* dropped per million of all choices that were fed */
    uint32_t key_r0;      /* as key, for plans with r = 0, where every rank computes the rows of all
                           * experts: rows / E, rounded up; at most key.  0: an older library */
};

/* clang-format off */
#define MOE_CAPACITIES_OPTIONS_INIT { (uint32_t)sizeof(struct moe_capacities_options), 0, 0, 0, 1, 300, 100, 800, 0, 500, 0, 1 }
#define MOE_CAPACITIES_STATE_INIT { (uint32_t)sizeof(struct moe_capacities_state), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

struct moe_capacities;

/* MOE_ERR_ARGUMENT, and standard error prints the value and the legal ones: experts, ranks or most
 * is missing; neither of E and W is a multiple of the other; start is above most; low is 1000 or
 * more; grid, hold, gap or delta is 0 or too large. */
MOELOOKUP_API int moe_capacities_open(const struct moe_capacities_options *options,
                                      struct moe_capacities **out);

/* Steps go up; some may be left out.  MOE_ERR_ARGUMENT, and nothing has changed: a number of counts
 * other than E, all counts 0, a count of UINT32_MAX (which is -1 as unsigned), a step not after the
 * last one, or a step that comes too late: moe_capacities_at has answered step + delta. */
MOELOOKUP_API int moe_capacities_feed(struct moe_capacities *c, uint64_t step,
                                      const uint32_t *counts, uint32_t experts);

/* *rows: the E capacities of that step, valid until the next call of feed or close.  Set
 * state->struct_size first; state may be NULL.  Before the first counts every step has `start`.
 * MOE_ERR_ARGUMENT, and nothing has changed: counts were fed, but not up to step - delta; the step
 * lies before the capacities in force; the step is UINT64_MAX. */
MOELOOKUP_API int moe_capacities_at(struct moe_capacities *c, uint64_t step, const uint32_t **rows,
                                    struct moe_capacities_state *state_or_null);

/* Saves the controller for a checkpoint, as moelookup_pack does.  After load, on any machine, it
 * continues as if never interrupted, with the options that were saved.  MOE_ERR_FORMAT: bytes that
 * save did not write, or that a newer version wrote. */
MOELOOKUP_API int moe_capacities_save(const struct moe_capacities *c, void *buf, size_t *size);
MOELOOKUP_API int moe_capacities_load(const void *buf, size_t size, struct moe_capacities **out);

MOELOOKUP_API void moe_capacities_close(struct moe_capacities *c); /* NULL is fine */

/* ---- counts that are recorded
 *
 * Writes how many tokens chose each expert, one line of JSON per step.  `moetune tune --routing
 * FILE` then measures the layer under these steps:
 *
 *     struct moe_counts_options options = MOE_COUNTS_OPTIONS_INIT;
 *     options.experts = 64; options.top_k = 2; options.ranks = 8; options.tokens = 4096;
 *     moe_counts_open(&options, NULL, &counts);           once, on rank 0
 *     moe_counts_step(counts, step, capacity, n, 64);     n[e]: choices of expert e, over all ranks
 *     moe_counts_close(counts);
 *
 * One rank writes counts that are summed over ranks.  Or each rank writes its own counts to a file
 * of its own, with ranks 1.  tune takes the files of several ranks and runs together.
 *
 * A line is {"step":12,"ranks":8,"tokens":4096,"capacity":1100,"counts":[..E numbers..]}.  tokens
 * and capacity are left out where they are 0, unknown.  A process that dies loses only the step
 * that it has not written.
 *
 * The file stays short: a recorder keeps room / 2 to room lines.  At first it records one step in
 * `every`.  When it has room lines, it drops one of each two neighbours and from then on records
 * half as many steps.  A generator with a fixed seed draws which steps these are.  So the lines are
 * a fair sample of the run, in the order of its steps.  A period of the gate's choices does no
 * harm. */
struct moe_counts_options {
    uint32_t struct_size; /* sizeof(struct moe_counts_options) */
    uint32_t experts;     /* E, up to 65536; required */
    uint32_t top_k;       /* k; required with tokens */
    uint32_t ranks;       /* W, the ranks whose choices are counted */
    uint32_t tokens;      /* T of each rank in every step; 0: unknown, or it varies */
    uint32_t every;       /* records one step in so many, at first */
    uint32_t room;        /* the most lines, an even number */
};

/* clang-format off */
#define MOE_COUNTS_OPTIONS_INIT { (uint32_t)sizeof(struct moe_counts_options), 0, 0, 1, 0, 1, 1024 }
/* clang-format on */

struct moe_counts;

/* Allocates all its memory now: 4 E room bytes and less than a MiB.  Lines are appended to those in
 * the file; only one recorder at a time may write it.  NULL: the file that MOELOOKUP_COUNTS names;
 * if that is not set, no step is recorded, and that is no error.
 * MOE_ERR_ARGUMENT: standard error prints the value and the legal ones.  MOE_ERR_IO, with errno:
 * nothing can be appended to the file. */
MOELOOKUP_API int moe_counts_open(const struct moe_counts_options *options,
                                  const char *path_or_null, struct moe_counts **out);

/* Records one step.  capacity: c of this step; 0: unknown.  A step that is not recorded takes some
 * nanoseconds.  A recorded step takes one write() of its line; seldom all lines are written anew.
 * Nothing is allocated.  One thread at a time; the child of a fork() records nothing.
 *
 * MOE_ERR_ARGUMENT: a number of counts other than E.  For a step that is recorded also, and
 * standard error says so once: all counts 0; a count of UINT32_MAX (which is -1 as unsigned) or
 * above W T; counts that do not add up to W T k.  MOE_ERR_IO, with errno, as on a full disk:
 * this step is not in the file.  The file holds whole lines, and later steps try again. */
MOELOOKUP_API int moe_counts_step(struct moe_counts *c, uint64_t step, uint32_t capacity,
                                  const uint32_t *counts, uint32_t experts);

MOELOOKUP_API void moe_counts_close(struct moe_counts *c); /* NULL is fine */

/* ---- routes that are known
 *
 * Stores which experts the tokens of a batch chose when they were last seen, and decides whether to
 * use that.  If hardly a token changes its experts, a step can send tokens before its gate has run.
 * The trainer names a batch by a key of 64 bits, made of what identifies its tokens.  ids are
 * (rows, k) in row order; the order of a token's k ids does not matter. */
struct moe_routes_options {
    uint32_t struct_size; /* sizeof(struct moe_routes_options) */
    uint32_t experts;     /* E, up to 65536 */
    uint32_t top_k;       /* k, at most E and 64 */
    uint32_t rooms;       /* the number of batches that are stored */
    uint32_t rows;        /* the most tokens of a batch */
    uint32_t on;          /* thousandths of tokens that kept their experts: routes are used */
    uint32_t off;         /* below this they are used no longer; between both nothing changes */
    uint32_t first_pass;  /* routes are not used before this pass over the data */
};

/* clang-format off */
#define MOE_ROUTES_OPTIONS_INIT { (uint32_t)sizeof(struct moe_routes_options), 0, 0, 0, 0, 960, 900, 10 }
/* clang-format on */

struct moe_routes;

/* Allocates all its memory now: 2 bytes for each id of `rooms` batches of `rows` tokens.
 * MOE_ERR_ARGUMENT, explained on standard error: a size that is 0 or too large, off above on, on
 * above 1000. */
MOELOOKUP_API int moe_routes_open(const struct moe_routes_options *options,
                                  struct moe_routes **out);

/* Stores what the tokens of a batch chose now, in place of what was there.  *same of *compared
 * tokens chose the same experts as last time; 0 of 0 if the key is new or had another number of
 * rows.  Either may be NULL.  If all rooms are taken, the batch that was put longest ago is
 * forgotten; standard error says so once.
 * MOE_ERR_ARGUMENT, and nothing has changed: another k, no rows or too many, an id outside of 0 to
 * E-1, an expert twice in a token. */
MOELOOKUP_API int moe_routes_put(struct moe_routes *routes, uint64_t key, const int32_t *ids,
                                 uint32_t rows, uint32_t top_k, uint64_t *same, uint64_t *compared);

/* Copies the ids that were put last, unchanged: *rows tokens into `ids`, which has room for `room`
 * ids.  *rows is 0 if the key is unknown.  MOE_ERR_ARGUMENT: too little room. */
MOELOOKUP_API int moe_routes_get(const struct moe_routes *routes, uint64_t key, int32_t *ids,
                                 size_t room, uint32_t *rows);

/* Decides from totals that the trainer has summed over ranks, so all ranks decide alike.  The
 * totals may be of a whole pass, or of any part of it.  *on is 1 if routes are to be used from here
 * on; it begins as 0, and total 0 leaves it.  MOE_ERR_ARGUMENT: same above total, a pass that goes
 * back. */
MOELOOKUP_API int moe_routes_decide(struct moe_routes *routes, uint64_t pass, uint64_t same,
                                    uint64_t total, uint32_t *on);

MOELOOKUP_API void moe_routes_close(struct moe_routes *routes); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
