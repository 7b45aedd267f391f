/* Strategies that are compared on made-up clusters, one bucket at a time. */
#ifndef ENTRANTS_H
#define ENTRANTS_H

#include "true_bucket.h"

struct entrant {
    const char *name, *strategy;
    uint32_t repeats;
    /* What a trainer gets, and what it costs to find out; NULL: as search and decision make it. */
    struct bucket_outcome (*run)(const struct true_bucket *bucket, struct search *search,
                                 struct noise *noise);
};

enum { ENTRANTS = 10, GUIDED = ENTRANTS - 2, ORACLE = ENTRANTS - 1 }; /* the last two */
extern const struct entrant entrants[ENTRANTS];

#endif
