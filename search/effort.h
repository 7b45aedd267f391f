/* What `--effort` means: how many buckets are measured, and how many steps each of them is worth.
 */
#ifndef EFFORT_H
#define EFFORT_H

#include <stdint.h>

/* How much is measured; one row per word of effort_words (store.h), in their order. */
struct effort {
    const char *name, *summary;
    double anchors_per_octave; /* buckets measured per doubling of c; 0 = every bucket */
    double worth;              /* of a sample of the search, as struct search_setup has it */
    double refine_above;       /* measure an inferred bucket whose bound is above this; 0 = never */
    uint32_t patience;         /* samples to prove a plan in one launch, as decision_setup's */
    uint32_t launches;         /* of the ranks, in which a table meets the default */
    uint32_t launch_cycles;    /* rounds over all buckets in each of them but the first */
};
extern const struct effort efforts[];

#endif
