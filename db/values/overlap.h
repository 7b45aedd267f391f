/* Explains a plan with chunks that gains more than overlap can give. */
#ifndef OVERLAP_H
#define OVERLAP_H

#include "stats.h"

/* Times of one plan's steps, and of their computing and their exchanges alone: a plain value. */
struct step_halves {
    struct spread steps;
    int64_t compute_ns, comm_ns;
};

/* Chunks can only hide exchanges. Where a plan gains more over the same plan with d=1 than all
 * exchanges take, beyond both intervals, writes that and the likely reason: "gains 12.5 ms over
 * d=1, where ...". Else writes "". */
enum { BEYOND_TEXT_BYTES = 320 };
void overlap_beyond(const struct step_halves *whole, const struct step_halves *cut,
                    char text[BEYOND_TEXT_BYTES]);

#endif
