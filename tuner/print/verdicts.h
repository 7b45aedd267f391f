/* What came of steps that were put side by side: as a table for a person, and as JSON. */
#ifndef VERDICTS_H
#define VERDICTS_H

#include "plan.h"
#include "stats.h"

#include <stdio.h>

/* One key of one layer. */
struct verdict {
    char key[80]; /* "c=96-127", or a range of a declared space */
    char plan[PLAN_TEXT_BYTES];
    double before_us, now_us; /* of a step; NAN: not known */
    struct gain gain;         /* of now over before; NAN: not compared */
    uint32_t pairs;
    const char *word; /* what came of it */
    bool failed;
    char why[240]; /* "": the word says it */
};

int verdicts_table(const struct verdict *verdicts, size_t count, FILE *to);
void verdicts_json(const struct verdict *verdicts, size_t count, FILE *to);

/* Members of an object: , "gain": ..., "gain_low": ..., "gain_high": ... */
void verdict_json_gain(const struct gain *gain, FILE *to);

#endif
