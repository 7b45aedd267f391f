/* What cutting a step into chunks is for, and where it gains for another reason. */
#ifndef OVERLAP_H
#define OVERLAP_H

#include "stats.h"

/* Whole steps; and how long computing and exchanges take, each alone. */
struct step_halves {
    struct spread steps;
    int64_t compute_ns, comm_ns;
};

/* Chunks hide exchanges, and nothing else.  Says it where a plan gains more over the same plan with
 * d=1 than these exchanges take, beyond both intervals, and the likely reason: "gains 12.5 ms over
 * d=1, where ...".  Else "". */
enum { BEYOND_TEXT_BYTES = 320 };
void overlap_beyond(const struct step_halves *whole, const struct step_halves *cut,
                    char text[BEYOND_TEXT_BYTES]);

#endif
