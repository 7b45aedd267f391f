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
 * the same digest answer alike, whatever their own files and environment say, except for the launch
 * of moelookup_bind_launch: all ranks must say the same one.
 *
 * Capacity is c: the rows that one expert gets from one source rank in this step, before any
 * alignment, and the same number on every rank (see moe_capacity).  A step that drops nothing has
 * counts instead: moelookup_get_counts.  Bucket i of width R holds
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
 * by moelookup_bind and moelookup_bind_launch:
 *   MOELOOKUP_LAUNCH   "backend=deepep ep=8": the launch of this job; see moelookup_bind_launch
 * and by moe_counts_open:
 *   MOELOOKUP_COUNTS   a file: how many tokens chose each expert, step by step
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
enum moe_a2a {
    MOE_A2A_LINEAR = 0,
    MOE_A2A_2DH = 1,
    MOE_A2A_NCCL = 2, /* ncclAlltoAll */
    MOE_A2A_RAIL = 3, /* a token goes to a node once, and is forwarded inside */
    MOE_A2A_3DH = 4   /* inside nodes, then inside racks, then between racks */
};
enum moe_experts {
    MOE_PADDED = 0, /* c rows of every expert are computed, filled or not */
    MOE_SPARSE = 1  /* the rows that there are: with r=0 read and summed up where tokens lie, with
                     * r >= 1 sent as many as each step counts */
};
enum moe_weights {
    MOE_KEEP = 0, /* gathered weights stay until the backward pass */
    MOE_CACHE = 1 /* they share one region, piece after piece, and are gathered again */
};
enum moe_proto {                     /* what NCCL_PROTO says when a communicator is made */
                 MOE_PROTO_AUTO = 0, /* the library's choice */
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
    MOE_SHARES_SPEED = 1,  /* tokens follow the ranks' speeds, in MOE_LAYOUT_HIDDEN units as well */
    MOE_SHARES_TOKENS = 2, /* in MOE_LAYOUT_HIDDEN: tokens do, and hidden units are equal */
    MOE_SHARES_HIDDEN = 3  /* in MOE_LAYOUT_HIDDEN: hidden units do, and tokens are equal */
};
enum moe_router {
    MOE_ROUTER_SOFTMAX = 0, /* groups count by their best expert */
    MOE_ROUTER_SIGMOID = 1, /* groups count by the sum of their best two; a bias takes part in the
                             * choice, but not in the gate */
    MOE_ROUTER_BILEVEL = 2, /* a group, then an expert's place in it, by two softmaxes */
    MOE_ROUTER_COSINE = 3   /* softmax of the cosines of a projected token and each expert's column,
                             * times a temperature */
};
enum moe_order {
    MOE_ORDER_TOKEN = 0,   /* slots are given to tokens as they lie */
    MOE_ORDER_PRIORITY = 1 /* to those first whose largest gate probability is larger */
};
enum moe_combine {
    MOE_COMBINE_SUM = 0, /* y (T,D): each token's rows, weighted by their gates, summed */
    MOE_COMBINE_CHOICES =
        1 /* y (T k,D): a row for each choice, as its expert gives it; dropped: 0 */
};

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
    MOE_TENTATIVE = 8, /* being measured: libmoetune's answer (moetune.h), never this library's */
    MOE_UNCOMPARED =
        9,            /* capacities differ, and the table does not know what the best plan with r=0
                       * and the best one with r >= 1 take: the default; see moelookup_get_uneven */
    MOE_UNSOUND = 10, /* the entry's own numbers say that its plan is not faster than the default,
                       * or cannot be true: the default */
    MOE_UNKNOWN_LAUNCH = 11 /* the table knows nothing of this launch; see moelookup_bind_launch */
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
    /* Since 0.3: */
    uint32_t layout;      /* enum moe_layout */
    uint32_t shares;      /* enum moe_shares_by: what a rank has of the tokens (W T in all) and, in
                           * MOE_LAYOUT_HIDDEN, of the hidden units */
    uint32_t layers;      /* as many alike in a step; 0 = any, where a table is asked; else one */
    uint32_t groups;      /* of E/groups experts that follow each other; 0 = none */
    uint32_t group_limit; /* a token's experts are of so many groups; 0 with groups 0 only */
    uint32_t router;      /* enum moe_router */
    uint32_t order;       /* enum moe_order */
    uint32_t projection;  /* P, dimensions in which MOE_ROUTER_COSINE compares, 1 to D; 0: 256, or D
                           * where that is less.  Else 0 */
    uint32_t combine;     /* enum moe_combine */
    uint32_t ranks_per_rack; /* of several nodes that are near each other; 0 = all are alike */
    /* Since 0.4: */
    uint32_t space; /* the plans that a program declares, see moelookup_space(); 0 = those above */
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
    uint32_t w; /* enum moe_weights; likewise for MOE_CACHE */
    /* Since 0.4: */
    uint32_t proto;  /* enum moe_proto, by which weights are gathered and their gradients summed */
    uint32_t space;  /* as in struct moe_shape; unless it is 0, all of the above are as in
                      * MOE_PLAN_INIT ... */
    uint32_t choice; /* ... and this is the plan: see moelookup_value() */
};

/* A program compiled against an older or newer header hands in structs of another size: only the
 * fields inside struct_size are read and written.  0 counts as the size of the first version. */
/* clang-format off */
#define MOE_SHAPE_INIT { (uint32_t)sizeof(struct moe_shape), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#define MOE_PLAN_INIT { (uint32_t)sizeof(struct moe_plan), 1, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
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
 * Likewise layers.
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

/* The same inside a launch of a declared space.  A job has one set of values of the axes that need
 * a restart; what another launch runs is of no use to it.  So every answer of this view has the
 * values that `launch_words` says: "backend=deepep ep=8", in any order; restart axes that are not
 * named have their defaults.
 *
 * NULL or "": the words of MOELOOKUP_LAUNCH.  Where that is not set, as moelookup_bind: the entries
 * answer.  Where they are all of one launch, and the table has rows of launches, a range without an
 * entry answers as inside that one.  MOELOOKUP_LAUNCH is for the whole job, so moelookup_bind heeds
 * it, too, and layers without a space, or of one without restart axes, do not look at it.
 * It does not travel with packed bytes: every rank must have it.
 *
 * The first of these that exists answers:
 *   MOELOOKUP_FORCE, then `moetune override`, of this launch       MOE_OVERRIDE
 *   the range's entry, if its plan is of this launch               its own source
 *   the best plan that this launch was seen to run in the range    MOE_EXACT
 *   of a launch that the table knows in other buckets, the plan
 *     that differs least from the default plan of the space        MOE_DEFAULT
 *   of any other launch the same plan                              MOE_UNKNOWN_LAUNCH
 * Pins and FORCE of another launch are ignored, which a line on standard error says.
 *
 * MOE_ERR_ARGUMENT, said in one sentence on standard error: an axis or value that the space does
 * not have, an axis that is live, one that is named twice, a launch of which no plan is legal on
 * these ranks, any words for a layer without a declared space. */
MOELOOKUP_API int moelookup_bind_launch(const struct moelookup *table,
                                        const struct moe_shape *shape, const char *device_or_null,
                                        const char *launch_words, struct moelookup_view **out);

/* The hot call: no lock, allocation, I/O or errno.  Set out->struct_size (MOE_PLAN_INIT) first.
 * Always MOE_OK and a plan that is legal for the bound shape; MOE_ERR_ARGUMENT only for NULL.
 *
 * The first of these that exists answers:
 *   MOELOOKUP_FORCE, then `moetune override`              MOE_OVERRIDE
 *   the default plan, where the own entry is unsound      MOE_UNSOUND
 *   the bucket's own entry, unless stale                  MOE_EXACT, MOE_INFERRED, MOE_IMPORTED
 *   the bucket just below, else just above, unless stale  MOE_NEIGHBOUR
 *   the bucket's own stale entry                          MOE_STALE
 *   the nearest entry below, else above                   MOE_NEIGHBOUR, or MOE_STALE
 *   the default plan                                      MOE_DEFAULT
 * where the default plan is r=1 d=1 a=linear, in MOE_LAYOUT_HIDDEN r=0 d=1 a=linear e=sparse, and a
 * bucket outside of the tuned range says MOE_CLAMPED instead of MOE_NEIGHBOUR.  out->bucket
 * is the bucket the answer was measured for; with MOE_OVERRIDE and MOE_DEFAULT, capacity's own.
 * In a declared space no other bucket answers: without an entry of its own, the default does.
 * An entry that `moetune verify` refuted holds the default plan and counts as not stale.  An entry
 * of another plan is unsound where it says that this plan is not faster than the default, or what
 * no measurement can have said: in the place of such a plan the default answers, in other buckets,
 * too. */
MOELOOKUP_API int moelookup_get(const struct moelookup_view *view, uint32_t capacity,
                                struct moe_plan *out);

/* The plan of a step that drops nothing and runs only the rows that there are: Megatron-Core,
 * DeepEP, MegaBlocks and the like.  Such a step has no capacity.  A plan with r >= 1 waits for the
 * rank whose experts receive most, a plan with r = 0 for the rank that sends most: two capacities,
 * which this call makes of the counts and compares as moelookup_get_uneven does.
 *
 * counts, row by row: how many rows a rank sends to each expert, where one token counts once for
 * each expert that it chose.  n says which numbers they are:
 *   n = W E  what each rank sends, row q of rank q: exact
 *   n = E    the largest over the ranks, expert by expert: an upper limit; of a single rank its own
 * Every rank must hand in the same numbers, or ranks run different plans and wait for each other
 * for ever.  So gather them, or reduce them by the maximum, first:
 *
 *     MPI_Allgather(mine, E, MPI_UINT32_T, all, E, MPI_UINT32_T, MPI_COMM_WORLD);
 *     moelookup_get_counts(view, all, (size_t)W * E, &plan);
 * or
 *     MPI_Allreduce(mine, most, E, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
 *     moelookup_get_counts(view, most, E, &plan);
 * or two numbers alone:
 *     moe_keys(mine, E, E, W, &keys[0], &keys[1]);
 *     MPI_Allreduce(MPI_IN_PLACE, keys, 2, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
 *     moelookup_get_uneven(view, keys[0], keys[1], &plan);
 *
 * A layer that pads every expert to the fullest one (Tutel with capacity factor 0) does have one
 * capacity, that of the fullest: it asks moelookup_get.
 *
 * No lock, allocation or I/O.  MOE_ERR_ARGUMENT: NULL, another n, a count of UINT32_MAX (which is
 * how -1 looks), a view of a declared space. */
MOELOOKUP_API int moelookup_get_counts(const struct moelookup_view *view, const uint32_t *counts,
                                       size_t n, struct moe_plan *out);

/* The two capacities themselves.  *key: the rows that the fullest rank receives, per expert it
 * holds (rank q holds experts q E/W and following) and per source; where E <= W, those of the
 * fullest expert.  *key_r0: the rows that the busiest source sends, per expert.  Both are rounded
 * up, and key is not below key_r0.  A tuner that runs in the training is asked with *key:
 * moetune_ask. */
MOELOOKUP_API int moe_keys(const uint32_t *counts, size_t n, uint32_t experts, uint32_t ranks,
                           uint32_t *key, uint32_t *key_r0);

/* moelookup_get where experts have capacities of their own, at which plans with r >= 1 and plans
 * with r = 0 take as long as at two different equal ones: see struct moe_capacities_state, whose
 * key and key_r0 these are.  It answers the faster one of the best plan with r >= 1 at key and the
 * best one with r = 0 at key_r0, as the table has measured them; out->time_us is what it is
 * expected to take, between the edges of buckets in proportion, out->default_us that of the default
 * plan.
 *
 * Where both lie in one bucket this is moelookup_get(key), and in MOE_LAYOUT_HIDDEN, where every
 * plan computes the rows of all experts, moelookup_get(key_r0).  MOELOOKUP_FORCE answers
 * everything; else a pin of key's bucket, and one of key_r0's if it has r = 0.  Where the table
 * does not know both plans with their times in entries of their own, neither stale nor unsound, the
 * default plan answers, with MOE_UNCOMPARED: so it is with tables that an older moetune wrote.
 * A plan with r >= 1 and MOE_SPARSE was measured with the rows of the load that the table was tuned
 * under: with other ones its time is reckoned from there, and where it might be slower than the
 * default, that answers likewise.
 * Where no plan of one kind can run, or `moetune tune` was to try none, the best one of the other
 * kind answers.
 *
 * No lock, allocation or I/O; it takes longer than moelookup_get, but less than a microsecond.
 * Counted (moelookup_record) are both buckets.  MOE_ERR_ARGUMENT: NULL, or key_r0 above key. */
MOELOOKUP_API int moelookup_get_uneven(const struct moelookup_view *view, uint32_t key,
                                       uint32_t key_r0, struct moe_plan *out);

/* ---- spaces that a program declares
 *
 * A program may declare axes of its own in a short text, and `moetune tune --space FILE --exec`
 * measures them (moetune-spaces(7)).  A table has the texts of its spaces.
 *
 *     struct moe_shape shape = MOE_SHAPE_INIT;
 *     moelookup_space(table, "torch-moe", &shape.space);
 *     moelookup_space_layer(table, shape.space, 0, &shape);   or its words, as tune was told
 *     moelookup_bind(table, &shape, NULL, &view);
 *     moelookup_get_key(view, tokens, skew, &plan);           at every step
 *     moelookup_value(&plan, "dispatcher", text, sizeof(text));
 *     moelookup_number(&plan, "chunks", &chunks);
 *
 * Entries of a space answer nobody else, and a program compiled against a header without
 * struct moe_shape's `space` cannot ask for them. */

/* The number of a space that some layer of the table has: "torch-moe", or "torch-moe@3f2a91c0",
 * which says what its text is, too.  MOE_ERR_ARGUMENT: no layer has it.  Of several versions of a
 * name the newest that has entries is meant: of the first file on the search path that has any, the
 * one of which a layer was added last; with MOELOOKUP_LOG=info this is said.  MOE_ERR_AMBIGUOUS:
 * packed bytes of an older moetune do not say which is the newest.  Both are said on standard
 * error.
 *
 * Without a table, and with MOELOOKUP_DISABLE, a name says nothing: MOE_ERR_ARGUMENT.  So instead
 * of a name the text of the space may be given, which is more than one line: then its default plan
 * answers where no table has it.  MOE_ERR_ARGUMENT, said on standard error: the text is wrong. */
MOELOOKUP_API int moelookup_space(const struct moelookup *table, const char *name, uint32_t *out);

/* The at-th of the layers of a space that the table has, at from 0 on: so a program need not repeat
 * what tune was told.  Set out->struct_size first.  Of a space that was given as a text, and is in
 * no table, the first is one without words, with top_k 0, to bind.  MOE_ERR_ARGUMENT: there are not
 * so many. */
MOELOOKUP_API int moelookup_space_layer(const struct moelookup *table, uint32_t space, uint32_t at,
                                        struct moe_shape *out);

/* moelookup_get for a key of up to 64 bits and a class beside it, by the edges that the space says;
 * `class` is not looked at where the space has none.  The bucket's own entry answers, also a stale
 * one; without one, the default plan.  Views of moetune's own plans take the key as a capacity.
 *
 * MOE_ERR_ARGUMENT, and *out is untouched: NULL; a class that is negative or no number; a struct
 * moe_plan that ends before its `choice`.  moelookup_get of a view of a space is the same with
 * class 0, which is the lowest. */
MOELOOKUP_API int moelookup_get_key(const struct moelookup_view *view, uint64_t key,
                                    double class_value, struct moe_plan *out);

/* moelookup_explain, likewise. */
MOELOOKUP_API int moelookup_explain_key(const struct moelookup_view *view, uint64_t key,
                                        double class_value, char *text, size_t size);

/* A plan's value on an axis of its space, as text: its length as snprintf returns it.  And as a
 * number, of an axis whose values are integers: MOE_OK.  MOE_ERR_ARGUMENT: the space has no such
 * axis, the axis has words, the plan is none of a space, or of one that no table told of here. */
MOELOOKUP_API int moelookup_value(const struct moe_plan *plan, const char *axis, char *text,
                                  size_t size);
MOELOOKUP_API int moelookup_number(const struct moe_plan *plan, const char *axis, int64_t *out);

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
MOELOOKUP_API const char *moelookup_version(void); /* "0.9.0" */

/* Writes "r=2 d=4 a=2dh", of a space "dispatcher=alltoall chunks=2 space=torch-moe@3f2a91c0".
 * Returns the length as snprintf does, or MOE_ERR_ARGUMENT. */
MOELOOKUP_API int moe_plan_format(const struct moe_plan *plan, char *buf, size_t size);

/* Reads the same text, in any order; an axis left out takes its default.  Set out->struct_size
 * first; on an error *out is untouched.  MOE_ERR_FORMAT also for a space that no table told of. */
MOELOOKUP_API int moe_plan_parse(const char *text, struct moe_plan *out);

/* One line, without a line feed, that says which rung answers and why.  Returns its length as
 * snprintf does, or MOE_ERR_ARGUMENT; text may be NULL if size is 0. */
MOELOOKUP_API int moelookup_explain(const struct moelookup_view *view, uint32_t capacity,
                                    char *text, size_t size);

/* The same of moelookup_get_uneven. */
MOELOOKUP_API int moelookup_explain_uneven(const struct moelookup_view *view, uint32_t key,
                                           uint32_t key_r0, char *text, size_t size);

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

/* ---- capacities that follow the experts
 *
 * One capacity for all experts pays for the hottest.  This follows each expert's counts, so that
 * every expert gets a capacity c_e of its own: agreed before the step, and changed seldom.
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
 * Counts of step t act at t + delta, never earlier.  So what at() says of a step is a function of
 * the counts up to step - delta, and with delta > 1 there is time to decide: feed and at may then
 * run beside the steps, on a thread of their own, as in tests/program/example_trainer.c.  Equal
 * options and counts give equal answers: integers decide, and no clock.  Nothing is allocated
 * after open.  One thread at a time.
 *
 * The rule.  An expert's peak is its largest count in the last hold to 2 hold steps that were fed.
 * A re-plan gives every expert its peak and slack, rounded up to grid, at most `most`.  (Before
 * hold steps were fed, none gets less than it has.)  It comes
 * - when, of the last gap steps, a larger share than `drops` was dropped under the capacities in
 *   force, steps before the last re-plan counting as without drops; or a quarter of that, once gap
 *   steps were fed since the last re-plan was decided;
 * - at the end of every hold steps, if both windows are full and an expert would get less than
 *   `low` of what it has.
 * No re-plan is decided while another one waits for its step, or if no expert's capacity changes.
 * Counts are the largest over ranks, so what is called dropped is at least what is dropped. */
struct moe_capacities_options {
    uint32_t struct_size; /* sizeof(struct moe_capacities_options) */
    uint32_t experts;     /* E, up to 65536 */
    uint32_t ranks;       /* W, up to 65536; one of E and W is a multiple of the other */
    uint32_t start;       /* rows of every expert before counts act; 0 = most */
    uint32_t grid;        /* capacities are multiples of it, or `most` */
    uint32_t hold;        /* steps that a peak is remembered, at least */
    uint32_t gap;         /* steps, up to 32768 */
    uint32_t low;         /* thousandths, below 1000; 0: an expert never makes others shrink */
    uint32_t slack;       /* thousandths of the peak */
    uint32_t drops;       /* per million choices */
    uint32_t most;        /* no expert gets more rows; required */
    uint32_t delta;       /* steps, at least 1 */
};

/* What is in force at a step, and how it came. */
struct moe_capacities_state {
    uint32_t struct_size; /* sizeof(struct moe_capacities_state) */
    uint32_t key;      /* the equal capacity at which a plan with r >= 1 takes as long: rows of the
                        * fullest rank per expert it holds, rounded up; where E <= W, the largest
                        * capacity, as all ranks wait for that expert */
    uint64_t rows;     /* of all experts, from one source rank */
    uint64_t fullest;  /* of the rank with most, where rank q holds experts q E/W and following;
                        * where E < W, of the expert with most */
    uint64_t balanced; /* the same if experts were dealt out by size, E/W to each rank: the largest
                        * first, to the rank with least; what a placement could gain */
    uint64_t first;    /* step from which this is in force; 0: from the start */
    uint64_t pending;  /* step from which other capacities are; UINT64_MAX: none is decided yet */
    uint64_t replans;  /* how many led to what is in force */
    uint64_t digest;   /* of options and of all capacities up to these, and of their steps */
    uint32_t dropped_ppm; /* of all choices that were fed */
    uint32_t key_r0; /* the same of a plan with r = 0, where every rank computes the rows of all
                      * experts: rows / E, rounded up; never above key.  0: an older library */
};

/* clang-format off */
#define MOE_CAPACITIES_OPTIONS_INIT { (uint32_t)sizeof(struct moe_capacities_options), 0, 0, 0, 1, 300, 100, 800, 0, 500, 0, 1 }
#define MOE_CAPACITIES_STATE_INIT { (uint32_t)sizeof(struct moe_capacities_state), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

struct moe_capacities;

/* MOE_ERR_ARGUMENT, said on standard error with the value and what is legal: experts, ranks or most
 * missing, E and W of which none is a multiple of the other, start above most, low from 1000 on,
 * grid, hold, gap or delta 0 or too large. */
MOELOOKUP_API int moe_capacities_open(const struct moe_capacities_options *options,
                                      struct moe_capacities **out);

/* Steps go up; some may be left out.  MOE_ERR_ARGUMENT, and nothing has changed: a number of counts
 * other than E, all counts 0, a count of UINT32_MAX (which is how -1 looks), a step that does not
 * follow the last one, or one that is more than delta late: at() has answered step + delta. */
MOELOOKUP_API int moe_capacities_feed(struct moe_capacities *c, uint64_t step,
                                      const uint32_t *counts, uint32_t experts);

/* *rows: the E capacities of that step, which stay until the next call of feed or close.  Set
 * state->struct_size first; NULL: not wanted.  MOE_ERR_ARGUMENT, and nothing has changed: counts
 * are more than delta late (were fed, but not up to step - delta), or the step lies before those
 * that are in force, or is UINT64_MAX.  Before the first counts every step has `start`. */
MOELOOKUP_API int moe_capacities_at(struct moe_capacities *c, uint64_t step, const uint32_t **rows,
                                    struct moe_capacities_state *state_or_null);

/* All that it knows, for a checkpoint, as moelookup_pack does; after load everything goes on as if
 * nothing had been in between, on any machine.  Options of load: those that were saved.
 * MOE_ERR_FORMAT: bytes that save has not written, or a newer version has. */
MOELOOKUP_API int moe_capacities_save(const struct moe_capacities *c, void *buf, size_t *size);
MOELOOKUP_API int moe_capacities_load(const void *buf, size_t size, struct moe_capacities **out);

MOELOOKUP_API void moe_capacities_close(struct moe_capacities *c); /* NULL is fine */

/* ---- counts that are recorded
 *
 * Writes how many tokens chose each expert, a line of JSON for a step, for
 * `moetune tune --routing FILE`, which then measures the layer under these steps:
 *
 *     struct moe_counts_options options = MOE_COUNTS_OPTIONS_INIT;
 *     options.experts = 64; options.top_k = 2; options.ranks = 8; options.tokens = 4096;
 *     moe_counts_open(&options, NULL, &counts);           once, on rank 0
 *     moe_counts_step(counts, step, capacity, n, 64);     n[e]: choices of expert e, over all ranks
 *     moe_counts_close(counts);
 *
 * One rank writes, counts that are summed over ranks; or each rank its own counts, with ranks 1, to
 * a file of its own.  Files of several ranks and runs can be handed in together.
 *
 * A line is {"step":12,"ranks":8,"tokens":4096,"capacity":1100,"counts":[..E numbers..]}; tokens
 * and capacity are left out where they are 0, not known.  What has no line when a process dies is
 * lost, and nothing else.
 *
 * The file stays short: room / 2 to room lines of a recorder.  One step of each `every` is
 * recorded; once there are room lines one of each two that follow each other stays, and from then
 * on one step of twice as many is recorded.  Which one is drawn, from a fixed seed.  So the lines
 * are spread evenly over all steps, each of which is as likely to be there as its neighbours, also
 * where what a gate chooses has a period: a fair sample of the run, in the order of its steps. */
struct moe_counts_options {
    uint32_t struct_size; /* sizeof(struct moe_counts_options) */
    uint32_t experts;     /* E, up to 65536; required */
    uint32_t top_k;       /* k; required with tokens */
    uint32_t ranks;       /* W, whose choices are counted */
    uint32_t tokens; /* T of each of them, in every step; 0: not known, or not always as many */
    uint32_t every;  /* one step of so many is recorded, at first */
    uint32_t room;   /* lines, an even number */
};

/* clang-format off */
#define MOE_COUNTS_OPTIONS_INIT { (uint32_t)sizeof(struct moe_counts_options), 0, 0, 1, 0, 1, 1024 }
/* clang-format on */

struct moe_counts;

/* Takes all its memory, 4 E room bytes and less than a MiB.  What is in the file stays, and lines
 * are appended; only one recorder at a time may have it.  NULL: the file that MOELOOKUP_COUNTS
 * names; where it names none, steps are not recorded, and that is no error.
 * MOE_ERR_ARGUMENT, said on standard error with the value and what is legal; MOE_ERR_IO, with
 * errno: nothing can be appended to that file. */
MOELOOKUP_API int moe_counts_open(const struct moe_counts_options *options,
                                  const char *path_or_null, struct moe_counts **out);

/* One step.  Nothing is allocated; a step that is not recorded takes some nanoseconds, one that is
 * a write() of its line, and seldom all lines are written anew.  One thread at a time; the child of
 * a fork() records nothing.  capacity: c of this step; 0: not known.
 *
 * MOE_ERR_ARGUMENT: a number of counts other than E; of a step that is recorded also, said once on
 * standard error: all counts 0, a count of UINT32_MAX (which is how -1 looks) or above W T, counts
 * that do not add up to W T k.  MOE_ERR_IO, with errno: the disk is full, say.  Then this step is
 * not in the file, which holds whole lines; later steps try again. */
MOELOOKUP_API int moe_counts_step(struct moe_counts *c, uint64_t step, uint32_t capacity,
                                  const uint32_t *counts, uint32_t experts);

MOELOOKUP_API void moe_counts_close(struct moe_counts *c); /* NULL is fine */

/* ---- routes that are known
 *
 * Keeps which experts the tokens of a batch chose when they were last seen, and says whether to use
 * them: where hardly a token changes its experts, a step can send tokens before its gate has run.
 * A batch is known by a key of 64 bits, which the trainer makes of what identifies its tokens.  Ids
 * are (rows, k) in row order; the order of the k of one token does not count. */
struct moe_routes_options {
    uint32_t struct_size; /* sizeof(struct moe_routes_options) */
    uint32_t experts;     /* E, up to 65536 */
    uint32_t top_k;       /* k, at most E and 64 */
    uint32_t rooms;       /* batches that are kept */
    uint32_t rows;        /* the most tokens that a batch has */
    uint32_t on;          /* thousandths of tokens that kept their experts: from here on known */
    uint32_t off;         /* below this, no longer; between both it stays as it is */
    uint32_t first_pass;  /* not before this pass over the data */
};

/* clang-format off */
#define MOE_ROUTES_OPTIONS_INIT { (uint32_t)sizeof(struct moe_routes_options), 0, 0, 0, 0, 960, 900, 10 }
/* clang-format on */

struct moe_routes;

/* Takes all its memory: 2 bytes for each id of `rooms` batches of `rows` tokens.  MOE_ERR_ARGUMENT,
 * said on standard error: a size that is 0 or too large, off above on, on above 1000. */
MOELOOKUP_API int moe_routes_open(const struct moe_routes_options *options,
                                  struct moe_routes **out);

/* Stores what the tokens of a batch chose now, whatever was there.  *same of *compared tokens
 * (0 of 0, where the key is new or had another number of rows) chose the same experts as when they
 * were put last; either may be NULL.
 * Where all rooms are taken the batch that was put longest ago goes, which is said once on standard
 * error.  MOE_ERR_ARGUMENT, and nothing has changed: another k, no or too many rows, an id outside
 * of 0 to E-1, an expert twice in a token. */
MOELOOKUP_API int moe_routes_put(struct moe_routes *routes, uint64_t key, const int32_t *ids,
                                 uint32_t rows, uint32_t top_k, uint64_t *same, uint64_t *compared);

/* What was put last, as it was given: *rows tokens (0: nothing is known by this key) into `ids`,
 * which has room for `room` ids.  MOE_ERR_ARGUMENT: too little room. */
MOELOOKUP_API int moe_routes_get(const struct moe_routes *routes, uint64_t key, int32_t *ids,
                                 size_t room, uint32_t *rows);

/* Decides from totals that the trainer has summed over ranks, so that all ranks decide alike: of a
 * pass, or of any part of it.  *on, 0 or 1, is what to do from here on: at first 0; total 0 leaves
 * it.  MOE_ERR_ARGUMENT: same above total, a pass that goes back. */
MOELOOKUP_API int moe_routes_decide(struct moe_routes *routes, uint64_t pass, uint64_t same,
                                    uint64_t total, uint32_t *on);

MOELOOKUP_API void moe_routes_close(struct moe_routes *routes); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
