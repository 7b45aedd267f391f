/* Lists every way in which an entry's own numbers forbid its plan, every word that an entry may
 * have, and entries that look alike but are right.  All have another plan than the default. */
#ifndef CLAIM_FAULTS_H
#define CLAIM_FAULTS_H

#include "store.h"

#include <math.h>
#include <stdio.h>

static const char *const claim_words[] = { "adopted", "likely", "default",  "incumbent", "alone",
                                           "static",  "tie",    "inferred", "refuted" };
enum { CLAIM_WORDS = sizeof(claim_words) / sizeof(claim_words[0]) };

static const struct claim_case {
    double time_us, default_us;
    struct gain gain;
    double low_us, high_us, bound;
    const char *field; /* that is named; NULL: nothing is wrong */
    bool is_loss;      /* and not impossible: what the whole table gains may outweigh it */
} claim_cases[] = {
    { 900, 1000, { 0.1, 0.05, 0.15 }, 890, 910, 0.01, NULL, false },
    { 900, 1000, { 0.1, -0.05, 0.15 }, 890, 910, 0.01, NULL, false },
    { 900, 1000, { NAN, NAN, NAN }, NAN, NAN, NAN, NULL, false },
    { 900, 1000, { 0.1, NAN, NAN }, NAN, NAN, NAN, NULL, false },
    /* It does not gain. */
    { 1300, 1000, { -0.3, -0.35, -0.25 }, 1290, 1310, 0.01, "gain", true },
    { 1300, 1000, { -0.3, NAN, NAN }, NAN, NAN, NAN, "gain", true },
    { 1000, 1000, { 0, 0, 0 }, NAN, NAN, 0, "gain", true },
    { 900, 1000, { -0.1, -0.2, 0.1 }, NAN, NAN, NAN, "gain", true },
    { NAN, NAN, { -0.1, -0.2, 0.1 }, NAN, NAN, NAN, "gain", true },
    { 1300, NAN, { -0.1, NAN, NAN }, NAN, NAN, NAN, "gain", true },
    /* By its times it does not. */
    { 1300, 1000, { NAN, NAN, NAN }, NAN, NAN, NAN, "time_us", true },
    { 1000, 1000, { NAN, NAN, NAN }, NAN, NAN, NAN, "time_us", true },
    { 1300, 1000, { 0.3, 0.25, 0.35 }, 1290, 1310, 0.01, "time_us", true },
    /* No measurement says this. */
    { 900, 1000, { 0.1, 0.15, 0.05 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, 0.2, 0.3 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, 0.01, 0.05 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, NAN, 0.15 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, 0.05, NAN }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { NAN, 0.05, 0.15 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 1.5, 1.2, 1.8 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, 0.05, 0.15 }, 910, 890, 0.01, "low_us", false },
    { 900, 1000, { 0.1, 0.05, 0.15 }, 890, 910, -1, "bound", false },
    /* As SQLite may hold it; no exported table can. */
    { 900, 1000, { INFINITY, NAN, NAN }, NAN, NAN, NAN, "gain", false },
    { 900, 1000, { 0.1, -INFINITY, 0.15 }, 890, 910, 0.01, "gain", false },
    { 900, 1000, { 0.1, 0.05, INFINITY }, 890, 910, 0.01, "gain", false },
};
enum { CLAIM_CASES = sizeof(claim_cases) / sizeof(claim_cases[0]) };

/* The default has no time: it cannot run there. */
static const struct claim_case claim_alone = { 1300, NAN,  { NAN, NAN, NAN }, NAN, NAN, NAN,
                                               NULL, false };

/* Walks through every word with every case. */
#define EACH_CLAIM(c, word)                                                                        \
    for (const struct claim_case *c = claim_cases; c < claim_cases + CLAIM_CASES; c++)             \
        for (const char *const *word = claim_words; word < claim_words + CLAIM_WORDS; word++)

static inline void claim_put(const struct claim_case *c, const char *word, struct entry_row *e)
{
    e->time_us = c->time_us;
    e->default_us = c->default_us;
    e->gain = c->gain;
    e->low_us = c->low_us;
    e->high_us = c->high_us;
    e->bound = c->bound;
    snprintf(e->decision, sizeof(e->decision), "%s", word);
}

static inline void claim_print(const struct claim_case *c, const char *word)
{
    printf("    %s: time %g, default %g, gain %g (%g to %g), times %g to %g, bound %g\n", word,
           c->time_us, c->default_us, c->gain.value, c->gain.low, c->gain.high, c->low_us,
           c->high_us, c->bound);
}

#endif
