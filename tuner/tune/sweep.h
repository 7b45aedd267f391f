/* One layer's sweep: bucket by bucket, samples, decision, entry; then the buckets between.
 * Everything is remembered as it is learnt, and what is known is not measured again. */
#ifndef SWEEP_H
#define SWEEP_H

#include "campaign.h"
#include "dictionary.h"
#include "misses.h"
#include "pairs.h"

/* What the table as a whole is worth. */
struct standing {
    struct standing_row row;
    char why[128]; /* why nothing is known; "": the row says it */
};

#define TOO_WIDE_LOSS 0.05 /* at the lower end, from which on a bucket is too wide */
struct too_wide {
    uint32_t buckets;
    uint32_t window; /* with which none of them would be; 0: there is none */
};

/* What a sweep adds up to. */
struct sweep_result {
    uint32_t measured, inferred, known, pinned; /* buckets: now, between, from earlier runs; left
                                                 * alone, for a person says what is told there */
    uint32_t failed_trials, ruled_out;
    struct standing standing;
    struct too_wide too_wide;
};

/* One of the request's layers.  ERR_CUT when the deadline or an interrupt came first; the table is
 * usable all the same. */
int sweep_layer(struct campaign *campaign, const struct tune_request *request, size_t number,
                struct sweep_result *out);

/* These buckets of the request's layers, in this order, whose results are added up by layer.
 * Nothing else is measured; what lies between is inferred where it has no entry. */
int sweep_misses(struct campaign *campaign, const struct tune_request *request,
                 const struct misses *misses, struct sweep_result *results);

/* ---- between sweep.c, between.c and standing.c */

/* A layer's sweep under way. */
struct sweep {
    struct campaign *campaign; /* borrowed, as the request and its space */
    const struct tune_request *request;
    struct layer_plans *space;
    const struct traffic_layer *asked; /* what trainers asked for; NULL: nobody knows */
    struct dictionary dictionary;
    bool ranks_know;   /* the ranks know the layer */
    bool misses;       /* certain buckets alone */
    bool settled;      /* the rounds of the whole table have begun */
    int64_t first_run; /* the first that this one goes on with */
    bool whole;        /* entries hold plans of one launch, not the default's, and no other's */
    struct sweep_result result;
};

/* What all samples that were taken there say by now; none is added.  Of `arm`, which another rule
 * has chosen, or of the plan that is best here: -1. */
int visit_redecide(struct sweep *sweep, uint32_t bucket, int arm, struct entry_row *out);

/* The entry of one plan for the sake of the whole table: by what was sampled there or, `inferred`,
 * elsewhere.  UNSUPPORTED: it cannot run there. */
int visit_place(struct sweep *sweep, uint32_t bucket, int arm, bool inferred,
                struct entry_row *out);

/* A plan that stands for the sake of the table answers also where it is not faster than the default
 * in the bucket: then the entry says nothing of that one. */
void visit_claim_nothing(const struct sweep *sweep, struct entry_row *entry);

/* The plan that was chosen there, -1 if it is the default or another run chose it, the pairs of it
 * and the default that have been taken since, and what was believed of them. */
int visit_candidate(struct sweep *sweep, uint32_t bucket, int *arm, struct pairs *pairs,
                    struct normal *belief);

/* One step of any bucket, as attempt_step() has it.  ERR_CUT when time is up.  The ranks hear of
 * the layer when it is first needed: many a bucket is decided by what is known. */
int visit_step(struct sweep *sweep, struct attempt *attempt, enum sample_kind kind, uint32_t round,
               struct campaign_step *out);

#endif
