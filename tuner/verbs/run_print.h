/* moetune run: its options, and what it prints of them and of the plans it measured. */
#ifndef RUN_PRINT_H
#define RUN_PRINT_H

#include "layer_options.h"
#include "place.h"
#include "run_routes.h"

struct run_options {
    struct place_setup where;
    struct layer_options layer;
    uint32_t reps, warmup;
    uint64_t seed;
    double factor;          /* NAN: not given */
    const char *capacities; /* instead; NULL: not given */
    struct load_options load;
    const char *speeds, *sim, *balance;
    struct option_list plans;
    bool check, phases, json;
    uint32_t graphs;
    uint32_t baseline;        /* of enum baseline, all that are asked for */
    uint32_t routes, changed; /* enum run_routes, and a place in run_changed_words */
};

/* For a person, or for programs; rank 0 calls it. */
void run_print(const struct rig *rig, const struct subject *subjects, size_t count,
               const struct run_options *o);

#endif
