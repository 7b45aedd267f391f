/* moetune run: what it is asked, and the plans that it has measured. */
#ifndef RUN_H
#define RUN_H

#include "layer_options.h"
#include "place.h"
#include "runner.h"

/* Choices are fresh: from the gate; known: from a step before; both: by turns. */
enum run_routes { RUN_FRESH, RUN_KNOWN, RUN_BOTH };
extern const char *const run_routes_words[];
extern const char *const run_changed_words[]; /* what the gate learns from tokens that changed */

struct run_options {
    struct place_setup where;
    struct layer_options layer;
    uint32_t reps, warmup;
    uint64_t seed;
    double factor;          /* NAN: not given */
    const char *capacities; /* instead; NULL: not given */
    struct load_options load;
    const char *shape, *speeds, *sim, *balance;
    struct option_list plans;
    bool check, phases, json;
    uint32_t graphs;
    uint32_t baseline;        /* of enum baseline, all that are asked for */
    uint32_t routes, changed; /* enum run_routes, and a place in run_changed_words */
};

/* One plan under measurement. */
struct measured_plan {
    struct runner runner;
    uint32_t baseline;                    /* one of enum baseline; 0: the plan itself */
    struct spread spread[STEP_MODES + 1]; /* the last if steps are not eager */
    struct phase_spreads phases;          /* with --phases */
    struct known_steps {
        struct spread fresh, step, gate; /* by turns: fresh and known steps, the gate alone */
        struct spread gain_ppm;          /* of rounds; no time */
        double error;                    /* of their check */
    } known;                             /* with --routes both */
    int64_t dropped;
    double balance; /* the loss */
    double error;   /* of the check, as a share of what is allowed */
};

/* For a person, or for programs; rank 0 calls it. */
void run_print(const struct rig *rig, const struct measured_plan *subjects, size_t count,
               const struct run_options *o);

#endif
