/* How many steps GPUs took while heat or power held a clock back. */
#ifndef HEAT_H
#define HEAT_H

#include "store.h"

/* Of a set of steps; all 0: of none. */
struct heat {
    uint64_t steps, throttled, set_aside;
    uint32_t clock_low_mhz, clock_high_mhz; /* 0: not known */
};

void heat_add(struct heat *heat, const struct sample_gpu *gpu);
void heat_join(struct heat *heat, const struct heat *more);

/* "12 of 240 steps throttled, 9 of them taken again; SM clock 1410 to 1755 MHz", or the half of it
 * that there is to say, or "". */
enum { HEAT_TEXT_BYTES = 160 };
void heat_text(const struct heat *heat, char text[HEAT_TEXT_BYTES]);

/* So many that the numbers are those of a machine short of cooling or power. */
bool heat_is_worrying(const struct heat *heat);

#endif
