/* Compares a step in chunks with the same step in one piece. */
#include "overlap.h"

#include "text.h"

#include <stdbool.h>

void overlap_beyond(const struct step_halves *whole, const struct step_halves *cut,
                    char text[BEYOND_TEXT_BYTES])
{
    double gain_ns = (double)(whole->steps.median_ns - cut->steps.median_ns);
    double least_gain_ns = (double)(whole->steps.low_ns - cut->steps.high_ns);
    double exchanges_ns = (double)whole->comm_ns,
           saved_ns = (double)(whole->compute_ns - cut->compute_ns);
    bool known = whole->steps.count > 1 && cut->steps.count > 1 && whole->comm_ns > 0;

    *text = 0;
    if (!known || !(least_gain_ns > exchanges_ns))
        return;
    text_put(text, BEYOND_TEXT_BYTES,
             "gains %.3g ms over d=1, where all exchanges take %.3g ms: ", gain_ns * 1e-6,
             exchanges_ns * 1e-6);
    if (saved_ns > (gain_ns - exchanges_ns) / 2)
        text_add(text, BEYOND_TEXT_BYTES,
                 "it computes faster (%.3g ms instead of %.3g, alone), perhaps because fewer rows "
                 "at a time stay in a cache",
                 (double)cut->compute_ns * 1e-6, (double)whole->compute_ns * 1e-6);
    else
        text_add(text, BEYOND_TEXT_BYTES,
                 "perhaps other work on the machine slowed the steps with d=1");
}
