/* Makes up traces of what a gate chooses, for papers that publish theirs only as a picture.  The
 * same seed gives the same trace. */
#ifndef MADE_TRACES_H
#define MADE_TRACES_H

#include "counts_file.h"

/* Draws one step: each of `choices` choices falls on an expert at random, in proportion to
 * share[expert].  Writes how many each expert got into counts (experts).  The draw depends on key +
 * step alone. */
void made_draw(uint64_t key, uint64_t step, const double *share, uint32_t experts, uint32_t choices,
               uint32_t *counts);

/* Opens a trace whose counts are all 0; made_draw() fills its steps.  ERR_NOMEM; the caller frees
 * it with counts_free(). */
int made_trace_open(uint32_t experts, uint32_t ranks, size_t steps, uint32_t choices,
                    struct counts_trace *out);

/* Makes up the trace of DynaMoE's Figure 8: 8 experts on 4 ranks, 500 epochs of epoch_steps steps
 * with `choices` choices each.  The authors' program sets every expert's share at eight epochs;
 * between two of them shares move evenly.  ERR_NOMEM; the caller frees it with counts_free(). */
int made_figure_8(uint64_t seed, uint32_t epoch_steps, uint32_t choices, struct counts_trace *out);

#endif
