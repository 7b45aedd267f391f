/* Bars of what a step is made of. */
#ifndef PHASE_BARS_H
#define PHASE_BARS_H

#include "facts.h"

/* Of the bucket that is drawn: the one with the most plans whose phases are known, of several the
 * largest. */
uint32_t phase_bars_capacity(const struct layer_facts *layer);

#endif
