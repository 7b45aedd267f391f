/* Made-up traces of what gates choose, where a paper shows its own as a picture: seeded. */
#ifndef MADE_TRACES_H
#define MADE_TRACES_H

#include "counts_file.h"

/* One step: so many choices fall on experts one by one, as tokens do. */
void made_draw(uint64_t key, uint64_t step, const double *share, uint32_t experts, uint32_t choices,
               uint32_t *counts);

/* No steps are filled.  ERR_NOMEM; freed by counts_free(). */
int made_trace_open(uint32_t experts, uint32_t ranks, size_t steps, uint32_t choices,
                    struct counts_trace *out);

/* DynaMoE's Figure 8, 8 experts on 4 ranks in 500 epochs: the factors that its authors set at some
 * of these, whose mean is 1, with the shares moving from each to the next.  As above. */
int made_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices, struct counts_trace *out);

#endif
