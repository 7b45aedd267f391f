/* What views are made of: what the store says of trials and their steps, of neighbouring buckets
 * with one plan, and for a report all of it, read once into plain arrays, sorted, and cut into
 * layers. */
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

/* One plan at one bucket, and what its timed steps say: those under the load of the last one. */
struct trial_facts {
    struct trial_row row;
    uint32_t search_steps, contest_steps, rounds_steps; /* those set aside, too */
    int64_t taken_ns;                                   /* by all of these */
    struct spread steps;                                /* of those that count; count 0: none do */
    struct heat heat;                                   /* of all, with those that were set aside */
    struct phase_time phases[PHASE_COUNT];              /* 0 where nobody asked for them */
    char load[LOAD_NAME_BYTES];                         /* of all */
};

struct trial_list {
    struct trial_facts *items; /* in the order they were begun */
    size_t count;
};

/* Ids of 0 mean any; a bucket of UINT32_MAX means all.  `as_decided`: steps under another load than
 * that of the bucket's entry are left out.  Phases are not read.  trials_free() also after an
 * error.
 */
int trials_read(struct store *store, const struct trial_key *of, bool as_decided,
                struct trial_list *out);
void trials_free(struct trial_list *list);

/* It ran, its result was right, and it has samples. */
bool trial_usable(const struct trial_facts *trial);

/* Compares medians of steps at one bucket: "r=1 d=2 a=linear took 3.1 % less time in its own 12
 * steps" of the fastest plan; "" where none was faster than this one. */
enum { RIVAL_TEXT_BYTES = 64 + PLAN_TEXT_BYTES };
void trials_rival(const struct trial_facts *trials, size_t count, uint32_t bucket,
                  const struct moe_plan *plan, char text[RIVAL_TEXT_BYTES]);

/* overlap_beyond() of a plan and the same plan with d=1; "" also where that was not timed in the
 * bucket. */
void trials_beyond(const struct trial_facts *trials, size_t count, uint32_t bucket,
                   const struct moe_plan *plan, char text[BEYOND_TEXT_BYTES]);

/* ---- entries */

/* Whether the next entry of a table is of the next bucket, `stride` buckets on, and of the same
 * plan: then they share a line, or a band. */
bool entries_join(const struct entry_row *entry, const struct entry_row *next, uint32_t stride);

/* Entries that share one, summed up.  Unsound ones claim nothing. */
struct plan_range {
    uint32_t buckets, disturbed;        /* how many there are; whose steps others held back */
    uint32_t states[ENTRY_STATE_COUNT]; /* how many are in each, by bit of enum entry_state */
    uint32_t claims;                    /* of them that claim a gain, or none */
    double time_us, default_us;         /* geometric means, of those that claim a gain if any do */
    struct gain gain; /* the mean of those that claim one; its interval is as wide as if what one
                         launch does to them were the same in all of them */
};
struct plan_range plan_range_of(const struct entry_row *entries, size_t count);

/* What a table is worth of which nothing was timed as a whole: the mean of buckets, inferred ones
 * too.  False: nothing is proven to be faster. */
bool plan_range_worth(const struct entry_row *entries, size_t count,
                      char text[STANDING_TEXT_BYTES]);

/* How they were found: "3 of 9 measured, 1 stale", or of a single one "adopted, disturbed".
 * but_for: states that the caller says otherwise, as bits of enum entry_state. */
enum { FOUND_BYTES = 256 };
void plan_range_found(const struct plan_range *range, const struct entry_row *entries,
                      unsigned but_for, char text[FOUND_BYTES]);

/* ---- layers */

/* Steps of r=0 with padded and with sparse experts, under one load. */
struct load_pair {
    double skew; /* max/mean of the tokens per expert */
    uint32_t bucket;
    uint64_t capacity;
    struct spread padded, sparse;
};

/* One layer on one cluster with buckets of one width, and of one class where a declared space has
 * several.  Slices of the arrays of struct facts. */
struct layer_facts {
    int64_t cluster_id, shape_id;
    struct buckets buckets; /* with the declaration whose plans it has, too */
    uint32_t class;
    bool modelled; /* simulated: invented, not measured */
    struct cluster cluster;
    struct moe_shape shape;
    const struct entry_row *entries;  /* by bucket */
    const struct trial_facts *trials; /* by bucket, then plan as plan_order() has it */
    size_t entry_count, trial_count;
    struct moe_plan *plans; /* every plan that was timed somewhere, in that order */
    size_t plan_count;
    struct contrasts *contrasts;         /* contrast.h */
    const struct traffic_layer *traffic; /* what trainers asked of it; NULL: nothing is known */
    struct load_pair *loads;             /* where both are known: by capacity, then skew */
    size_t load_count;
    struct counts_trace *counts;  /* what its gate chose in steps that were recorded; or NULL */
    double *popularity;           /* (E) what experts get under their load, drops.h; or NULL */
    bool phases;                  /* some trial has them */
    struct standing_row standing; /* of the table as a whole */
    bool stands;                  /* that is known, and of this table */
};

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

/* `shape`: only layers whose text says so, as in "H=4096 dtype=bf16"; NULL for all.  ERR_ARGUMENT
 * for a text that is none.  A store without entries gives facts without layers. */
int facts_read(struct store *store, const char *shape, struct facts *out);
void facts_free(struct facts *facts);

/* Reads what a gate chose (counts_replay.h) for each layer with so many experts.  UNSUPPORTED after
 * a message if there is none. */
int facts_counts(struct facts *facts, const char *path);

/* Gives each layer its part of what was recorded, which is borrowed; returns how many recorded
 * layers are for none of these.  Where a trainer did not say T, any T will do. */
size_t facts_traffic(struct facts *facts, const struct traffic *traffic);

/* From a bucket to the next one of the layer. */
static inline uint32_t facts_stride(const struct layer_facts *layer)
{
    return buckets_classes(layer->buckets);
}

/* Of the layer's class. */
static inline bool facts_has(const struct layer_facts *layer, uint32_t bucket)
{
    return bucket % facts_stride(layer) == layer->class;
}

/* From one bucket of the layer to another, of its class. */
const char *facts_range(const struct layer_facts *layer, uint32_t first, uint32_t last,
                        char room[BUCKETS_TEXT_BYTES]);

/* What answers depend on, as an axis and a column name it. */
const char *facts_key(const struct layer_facts *layer);

/* NULL: there is none. */
const struct trial_facts *facts_trial(const struct layer_facts *layer, uint32_t bucket,
                                      const struct moe_plan *plan);

/* A bucket's entry; NULL if there is none. */
const struct entry_row *facts_entry(const struct layer_facts *layer, uint32_t bucket);

/* Sorts them as plan_order() has it; returns how many there are without those that repeat. */
size_t facts_distinct_plans(struct moe_plan *plans, size_t count);

#endif
