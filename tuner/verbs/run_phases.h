/* run --phases: measures and prints where a step's time goes, and what the host issues in it. */
#ifndef RUN_PHASES_H
#define RUN_PHASES_H

#include "runner.h"

/* One plan under measurement. */
struct subject {
    struct runner runner;
    uint32_t baseline;                    /* one of enum baseline; 0: the plan itself */
    struct spread spread[STEP_MODES + 1]; /* the last where the others are graphs */
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

/* "r=1 d=1 a=linear dense" where it is a baseline.  The result lasts as long as the block around
 * it.
 */
enum { SUBJECT_TEXT_BYTES = PLAN_TEXT_BYTES + 16 };
#define SUBJECT_TEXT(subject) subject_text(subject, (char[SUBJECT_TEXT_BYTES]){ 0 })
const char *subject_text(const struct subject *subject, char room[SUBJECT_TEXT_BYTES]);

/* Interleaved over the plans, at least so often that each phase has an interval.  Collective. */
int run_phases(struct subject *subjects, size_t count, uint32_t reps, uint64_t seed);

void run_phases_text(const struct subject *subjects, size_t count, int plan_width);
void run_phases_json(const struct subject *subject); /* members of an object */

#endif
