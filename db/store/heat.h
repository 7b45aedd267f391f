/* How many steps something held back: heat or power a GPU's clock, or other processes the ranks. */
#ifndef HEAT_H
#define HEAT_H

#include "store.h"

enum heat_cause { CAUSE_NONE, CAUSE_HEAT, CAUSE_OTHERS };

/* A step that lost so much of its time to other processes tells of them: set aside, or counted as
 * the machine's way. */
bool heat_lost_much(int64_t ns, int64_t lost_ns);

/* What held back a sample that is not free. */
enum heat_cause heat_cause(const struct sample_row *sample);

struct held_back {
    uint64_t steps, set_aside; /* the latter are part of the former */
};

/* What held back a set of steps; all 0 for no steps. */
struct heat {
    uint64_t steps;
    struct held_back throttled, disturbed;  /* by heat or power; by other processes */
    uint32_t clock_low_mhz, clock_high_mhz; /* 0: not known */
};

void heat_add(struct heat *heat, const struct sample_row *sample);
void heat_join(struct heat *heat, const struct heat *more);

/* Those that count although something held them back. */
uint64_t heat_counted(const struct heat *heat);

/* "12 of 240 steps throttled, 9 of them taken again; SM clock 1410 to 1755 MHz", or the half of it
 * that there is to say, or "". */
enum { HEAT_TEXT_BYTES = 160 };
void heat_text(const struct heat *heat, char text[HEAT_TEXT_BYTES]);

/* "3 of 240 steps slowed by other processes, and taken again", or how many of them were kept, or
 * that every step is like that; or "". */
void heat_others_text(const struct heat *heat, char text[HEAT_TEXT_BYTES]);

/* So many that the numbers are those of a machine short of cooling or power. */
bool heat_is_worrying(const struct heat *heat);

#endif
