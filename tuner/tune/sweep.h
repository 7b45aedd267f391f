/* The sweep of one layer: it measures and decides bucket by bucket, infers the buckets between, and
 * runs the rounds.  It stores everything at once, and does not measure known buckets again. */
#ifndef SWEEP_H
#define SWEEP_H

#include "campaign.h"
#include "dictionary.h"
#include "misses.h"
#include "pairs.h"

/* The gain of the table as a whole. */
struct standing {
    struct standing_row row;
    char why[128]; /* why the gain is not known; "": `row` has it */
};

/* A bucket is too wide if its plan loses more than this share at the lower end. */
#define TOO_WIDE_LOSS 0.05
struct too_wide {
    uint32_t buckets; /* how many are too wide */
    uint32_t window;  /* a width with which none would be; 0: none is too wide */
};

/* The counts and results of a sweep; a plain value. */
struct sweep_result {
    uint32_t measured, inferred, known, pinned; /* buckets: measured now, inferred, known from
                                                 * earlier runs, pinned by a person */
    uint32_t failed_trials, ruled_out;          /* trials */
    struct standing standing;
    struct too_wide too_wide;
};

/* Sweeps one of the request's layers.  ERR_CUT if the deadline or an interrupt came first; the
 * table is usable nevertheless. */
int sweep_layer(struct campaign *campaign, const struct tune_request *request, size_t number,
                struct sweep_result *out);

/* Measures these buckets of the request's layers, in this order, and no others.  Buckets between
 * them are inferred if they have no entry.  results: by layer. */
int sweep_misses(struct campaign *campaign, const struct tune_request *request,
                 const struct misses *misses, struct sweep_result *results);

/* ---- shared by sweep.c, between.c, standing.c and launch_values.c */

/* A layer's sweep in progress; sweep.c owns it. */
struct sweep {
    struct campaign *campaign; /* borrowed, as the next three */
    const struct tune_request *request;
    struct layer_plans *plans;
    const struct traffic_layer *asked; /* what trainers asked for; NULL: not known */
    struct dictionary dictionary;
    bool ranks_know;        /* the ranks have set up the layer */
    bool from_misses;       /* sweep_misses() */
    bool rounds_begun;      /* the rounds have begun: no further bucket is measured */
    int64_t first_run;      /* the first run that this one continues */
    bool has_chosen_values; /* launch values, not the default's, were chosen for the whole table */
    struct sweep_result result;
};

/* Makes the entry of a bucket from its present samples, without a new one.  arm -1: the plan that
 * is best there; else this plan, which another rule has chosen. */
int sweep_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out);

/* Makes the entry of a plan that is chosen for the whole table: from samples in the bucket or, with
 * `inferred`, from the search's model.  UNSUPPORTED: it cannot run there. */
int sweep_place(struct sweep *sweep, uint32_t bucket, int arm, bool inferred,
                struct entry_row *out);

/* Removes the default's time and the gain from an entry whose plan is not faster than the default.
 * For plans that are chosen for the whole table. */
void sweep_claim_nothing(const struct sweep *sweep, struct entry_row *entry);

/* The candidate of a bucket (-1: the default, or another run chose it), its pairs with the default
 * since it was chosen, and the belief then. */
int sweep_candidate(struct sweep *sweep, uint32_t bucket, int *arm, struct pairs *pairs,
                    struct normal *belief);

/* Times one step of any bucket, as attempt_step() does.  ERR_CUT if time is up.  The first step
 * sets the layer up on the ranks: many sweeps need no step at all. */
int sweep_step(struct sweep *sweep, struct attempt *attempt, enum sample_kind kind, uint32_t round,
               struct campaign_step *out);

#endif
