/* The facts behind a report and the tables of `show`: trials with their steps, and neighbouring
 * entries with one plan.  For a report the whole database is read once into sorted arrays, and cut
 * into layers. */
#ifndef FACTS_H
#define FACTS_H

#include "buckets.h"
#include "counts_replay.h"
#include "declaration.h"
#include "heat.h"
#include "overlap.h"
#include "shape.h"
#include "standings.h"
#include "stats.h"
#include "store.h"
#include "traffic.h"

/* ---- trials */

/* One trial (a plan in a bucket) and its timed steps under one load, that of the newest step: a
 * plain value. */
struct trial_facts {
    struct trial_row row;
    uint32_t search_steps, contest_steps, rounds_steps; /* by purpose, with those set aside */
    int64_t taken_ns;                                   /* sum of all steps */
    struct spread steps;                                /* that count as samples */
    struct heat heat;                                   /* of all steps */
    struct phase_time phases[PHASE_COUNT];              /* 0: not measured */
    char load[LOAD_NAME_BYTES];                         /* of all steps */
};

/* Trials in the order in which they were begun.  trials_free() frees them. */
struct trial_list {
    struct trial_facts *items;
    size_t count;
};

/* Reads the trials of a cluster, a shape and a bucket with their steps, but without phases.  Ids of
 * 0 and the bucket UINT32_MAX mean all.  as_decided: leaves out steps under another load than that
 * of the bucket's entry.  Call trials_free() also after an error. */
int trials_read(struct store *store, const struct trial_key *wanted, bool as_decided,
                struct trial_list *out);
void trials_free(struct trial_list *list);

/* Returns whether the trial's plan ran with a right result and has samples. */
bool trial_usable(const struct trial_facts *trial);

/* Writes which plan of a bucket has the smallest median: "r=1 d=2 a=linear took 3.1 % less time in
 * its own 12 steps".  Writes "" if that is `plan` itself. */
enum { RIVAL_TEXT_BYTES = 64 + PLAN_TEXT_BYTES };
void trials_rival(const struct trial_facts *trials, size_t count, uint32_t bucket,
                  const struct moe_plan *plan, char text[RIVAL_TEXT_BYTES]);

/* Writes overlap_beyond() of a plan and the same plan with d=1.  Writes "" also if one of them was
 * not timed in the bucket. */
void trials_beyond(const struct trial_facts *trials, size_t count, uint32_t bucket,
                   const struct moe_plan *plan, char text[BEYOND_TEXT_BYTES]);

/* ---- entries */

/* Returns whether two entries share a line or a band: `next` is the next bucket, `stride` buckets
 * on, and has the same plan. */
bool entries_join(const struct entry_row *entry, const struct entry_row *next, uint32_t stride);

/* Neighbouring entries with one plan, summed up: a plain value.  An entry claims a gain (or 0) if
 * it has one with an interval and is not unsound. */
struct plan_range {
    uint32_t buckets;
    uint32_t disturbed;                 /* entries with disturbed steps */
    uint32_t states[ENTRY_STATE_COUNT]; /* entries in each state, by bit of enum entry_state */
    uint32_t claims;                    /* entries that claim a gain */
    /* Geometric means over the entries that claim a gain, or over all if none does. */
    double time_us, default_us;
    /* Of the entries that claim a gain.  The interval does not get narrower with more buckets, as
     * if differences between launches were the same in all of them. */
    struct gain gain;
};
struct plan_range plan_range_of(const struct entry_row *entries, size_t count);

/* Writes what a table saves if it was never compared as a whole: the mean over the buckets,
 * inferred ones too.  Returns false if nothing is proven to be faster than the default. */
bool plan_range_worth(const struct entry_row *entries, size_t count,
                      char text[STANDING_TEXT_BYTES]);

/* Writes how entries were found: "3 of 9 measured, 1 stale"; for one entry "adopted, disturbed".
 * but_for: bits of enum entry_state that are not written. */
enum { FOUND_BYTES = 256 };
void plan_range_found(const struct plan_range *range, const struct entry_row *entries,
                      unsigned but_for, char text[FOUND_BYTES]);

/* ---- layers */

/* Steps of r=0 with padded and with sparse experts, in one bucket under one load: a plain value. */
struct load_pair {
    double skew; /* largest over mean of the tokens per expert */
    uint32_t bucket;
    uint64_t capacity;
    struct spread padded, sparse;
};

/* The table of one layer on one cluster, with buckets of one width.  If a declared space has
 * several classes, each class is a layer of its own.  Entries and trials are slices of the arrays
 * of struct facts; facts_free() frees all other arrays. */
struct layer_facts {
    int64_t cluster_id, shape_id;
    struct buckets buckets; /* has the declaration of a declared space, too */
    uint32_t class;
    bool modelled; /* a virtual clock gave the times */
    struct cluster cluster;
    struct moe_shape shape;
    const struct entry_row *entries;  /* by bucket */
    const struct trial_facts *trials; /* by bucket, then by plan_order() */
    size_t entry_count, trial_count;
    struct moe_plan *plans; /* every plan that was timed in some bucket, by plan_order() */
    size_t plan_count;
    struct contrasts *contrasts;         /* contrast.h */
    const struct traffic_layer *traffic; /* look-ups of trainers, borrowed; NULL: none recorded */
    struct load_pair *loads;             /* by capacity, then skew */
    size_t load_count;
    struct counts_trace *counts;  /* recorded counts of the gate (facts_counts()), or NULL */
    double *popularity;           /* (E) load of the experts (drops_read()), or NULL */
    bool phases;                  /* some trial has phases */
    struct standing_row standing; /* comparison of the table as a whole */
    bool has_standing;            /* there is one, and it is of the present table */
};

/* The facts of a database.  facts_read() makes them, facts_free() frees them. */
struct facts {
    struct layer_facts *layers;
    struct entry_row *entries;
    struct trial_facts *trials;
    struct run_row *runs;        /* newest first */
    struct history_row *history; /* newest first */
    struct override_row *overrides;
    struct classes *classes; /* of shapes with a declared space */
    size_t layer_count, entry_count, trial_count, run_count, history_count, override_count;
    size_t classes_count;
};

/* Reads the facts of a store.  shape: only layers that agree with this text, "H=4096 dtype=bf16";
 * NULL: all.  ERR_ARGUMENT after a message for a text that is no part of a shape.  A store without
 * entries and trials gives facts without layers. */
int facts_read(struct store *store, const char *shape, struct facts *out);
void facts_free(struct facts *facts);

/* Reads counts of a gate (counts_file.h) into each layer with as many experts.  UNSUPPORTED after a
 * message if no layer has. */
int facts_counts(struct facts *facts, const char *path);

/* Sets the layers' `traffic`, which borrows from the argument.  A trainer that did not give T
 * counts for any T.  Returns how many recorded layers are not among the facts. */
size_t facts_traffic(struct facts *facts, const struct traffic *traffic);

/* Returns the distance from a bucket to the next one of the layer: buckets of several classes
 * alternate. */
static inline uint32_t facts_stride(const struct layer_facts *layer)
{
    return buckets_classes(layer->buckets);
}

/* Returns whether the bucket is of the layer's class. */
static inline bool facts_has(const struct layer_facts *layer, uint32_t bucket)
{
    return bucket % facts_stride(layer) == layer->class;
}

/* Writes the keys from one bucket of the layer to another. */
const char *facts_range(const struct layer_facts *layer, uint32_t first, uint32_t last,
                        char room[BUCKETS_TEXT_BYTES]);

/* Returns the name of the layer's key, for axes of plots and columns of tables. */
const char *facts_key(const struct layer_facts *layer);

/* Returns the trial of a plan in a bucket, or NULL. */
const struct trial_facts *facts_trial(const struct layer_facts *layer, uint32_t bucket,
                                      const struct moe_plan *plan);

/* Returns the entry of a bucket, or NULL. */
const struct entry_row *facts_entry(const struct layer_facts *layer, uint32_t bucket);

/* Sorts plans by plan_order() and removes repetitions.  Returns how many plans are left. */
size_t facts_distinct_plans(struct moe_plan *plans, size_t count);

#endif
