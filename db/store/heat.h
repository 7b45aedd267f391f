/* Counts how many steps something held back: heat or power limits slowed a GPU's clock, or other
 * processes slowed the ranks. */
#ifndef HEAT_H
#define HEAT_H

#include "store.h"

enum heat_cause { CAUSE_NONE, CAUSE_HEAT, CAUSE_OTHERS };

/* Returns whether a step lost so much time to other processes that it counts as disturbed. */
bool heat_lost_much(int64_t ns, int64_t lost_ns);

/* Returns what held a sample back. CAUSE_NONE: nothing did. */
enum heat_cause heat_cause(const struct sample_row *sample);

/* Steps that one cause held back: a plain value. */
struct held_back {
    uint64_t steps, set_aside; /* set_aside: how many of `steps` were taken again */
};

/* What held back a set of steps: a plain value. All 0 means no steps. */
struct heat {
    uint64_t steps;
    struct held_back throttled, disturbed;  /* by heat or power; by other processes */
    uint32_t clock_low_mhz, clock_high_mhz; /* 0: not known */
};

/* Adds one sample, or another set of steps. */
void heat_add(struct heat *heat, const struct sample_row *sample);
void heat_join(struct heat *heat, const struct heat *more);

/* Returns how many held-back steps count as samples all the same. */
uint64_t heat_counted(const struct heat *heat);

/* Writes "12 of 240 steps throttled, 9 of them taken again; SM clock 1410 to 1755 MHz", or only the
 * part that is known, or "". */
enum { HEAT_TEXT_BYTES = 160 };
void heat_text(const struct heat *heat, char text[HEAT_TEXT_BYTES]);

/* Writes "3 of 240 steps slowed by other processes, and taken again", or how many of them were
 * kept, or that every step was disturbed; or "". */
void heat_others_text(const struct heat *heat, char text[HEAT_TEXT_BYTES]);

/* Returns whether so many steps were throttled that the times are those of a machine without enough
 * cooling or power. */
bool heat_is_worrying(const struct heat *heat);

#endif
