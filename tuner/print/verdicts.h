/* Prints the results of comparing two plans at some keys: as a table for a person, and as JSON. */
#ifndef VERDICTS_H
#define VERDICTS_H

#include "plan.h"
#include "stats.h"

#include <stdio.h>

/* The result for one key of one layer; a plain value. */
struct verdict {
    char key[80]; /* "c=96-127", or a range of a declared space */
    char plan[PLAN_TEXT_BYTES];
    double before_us, now_us; /* times of a step; NAN: not known */
    struct gain gain;         /* what the time now saves against before; NAN: not compared */
    uint32_t pairs;
    const char *word; /* the verdict, as "faster" or "same plan"; constant text */
    bool failed;
    char why[240]; /* details; "": none */
};

/* Prints the table.  ERR_NOMEM after a message. */
int verdicts_table(const struct verdict *verdicts, size_t count, FILE *out);
/* Prints one object: {"entries": [...]}. */
void verdicts_json(const struct verdict *verdicts, size_t count, FILE *out);

/* Prints members of an object: , "gain": ..., "gain_low": ..., "gain_high": ... */
void verdict_json_gain(const struct gain *gain, FILE *out);

#endif
