/* run --routes: steps whose choices are known before them, and what that gains. */
#ifndef RUN_ROUTES_H
#define RUN_ROUTES_H

#include "run_phases.h"

/* Fresh: from the gate.  Both: both, interleaved. */
enum run_routes { RUN_FRESH, RUN_KNOWN, RUN_BOTH };
extern const char *const run_routes_words[];
extern const char *const run_changed_words[]; /* what the gate learns from tokens that changed */

/* ROUTES_KEEP or ROUTES_ZERO. */
enum routes run_routes_of(uint32_t changed);

/* A prepared plan whose choices are known: those of a fresh step.  Collective. */
int run_routes_open(struct rig *rig, const struct moe_plan *plan, enum routes routes,
                    struct runner *out);

/* Beside the fresh steps of each plan as many known ones, and the gate alone, interleaved: fills
 * the subjects' `known`.  Collective. */
int run_routes(struct subject *subjects, size_t count, enum routes routes, bool check,
               uint32_t reps, uint64_t seed);

void run_routes_text(const struct subject *subjects, size_t count, int plan_width);
void run_routes_json(const struct subject *subject); /* members of an object */

#endif
