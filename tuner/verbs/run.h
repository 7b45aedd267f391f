/* The options of moetune run, and the plans that it measures, for run.c and run_print.c. */
#ifndef RUN_H
#define RUN_H

#include "layer_options.h"
#include "place.h"
#include "runner.h"

/* Where the choices of a step come from: the gate (fresh), a step before (known), or both in turn.
 */
enum run_routes { RUN_FRESH, RUN_KNOWN, RUN_BOTH };
extern const char *const run_routes_words[];
extern const char
    *const run_changed_words[]; /* the gate's gradient of tokens that would now choose others */

/* The values of the verb's options. */
struct run_options {
    struct place_setup where;
    struct layer_options layer;
    uint32_t reps, warmup;
    uint64_t seed;
    double factor;          /* of the capacity; NAN: not given */
    const char *capacities; /* the text of --capacities, instead of a factor; NULL: not given */
    struct load_options load;
    const char *shape, *speeds, *sim, *balance;
    struct option_list plans;
    bool check, phases, json;
    uint32_t graphs;          /* enum graphs_way */
    uint32_t baseline;        /* bits of enum baseline */
    uint32_t routes, changed; /* enum run_routes; an index of run_changed_words */
};

/* One plan that is measured; run.c opens and closes its runner. */
struct measured_plan {
    struct runner runner;
    uint32_t baseline; /* one of enum baseline; 0: the plan itself */
    struct spread
        spread[STEP_MODES + 1];  /* by enum step_mode; the last only if steps are not eager */
    struct phase_spreads phases; /* with --phases */
    struct known_steps {
        struct spread fresh, step, gate; /* fresh steps, known steps, the gate alone */
        struct spread gain_ppm;          /* what known steps save, in millionths; by rounds */
        double error;                    /* of the check of known steps */
    } known;                             /* with --routes both */
    int64_t dropped;                     /* choices, over all ranks */
    double balance;                      /* the loss */
    double error;                        /* of the check, as a share of the allowed error */
};

/* Prints all plans as text, or as JSON with --json.  Only one rank calls it. */
void run_print(const struct rig *rig, const struct measured_plan *subjects, size_t count,
               const struct run_options *o);

#endif
