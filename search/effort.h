/* How thorough is thorough. */
#ifndef EFFORT_H
#define EFFORT_H

#include <stdint.h>

/* How much is measured, and how sure is sure; one row per word of --effort. */
struct effort {
    const char *name, *summary;
    double anchors_per_octave; /* buckets measured per doubling of c; 0 = every bucket */
    double worth;              /* of a sample of the search, as struct search_setup has it */
    double refine_above;       /* measure an inferred bucket whose bound is above this; 0 = never */
    double confidence;         /* of the contest with the default plan */
    uint32_t rounds_max;       /* of the contest */
};
extern const struct effort efforts[];
extern const char *const effort_words[];

#endif
