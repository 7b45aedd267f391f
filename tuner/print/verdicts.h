/* What came of steps that were put side by side: as a table for a person, as JSON, as JUnit's XML
 * for servers that build and test, as Markdown for a request to merge. */
#ifndef VERDICTS_H
#define VERDICTS_H

#include "options.h"
#include "plan.h"
#include "stats.h"

#include <stdio.h>

/* One key of one layer. */
struct verdict {
    const char *group; /* the layer, or what else keys belong to; borrowed */
    char key[80];      /* "c=96-127", or a range of a declared space */
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

/* Paths, NULL where none is wanted; "-" is standard output. */
struct verdict_files {
    const char *junit, *markdown;
};

/* Options that fill struct verdict_files. */
extern const struct option_row verdict_file_rows[];

/* Whether a path is "-". */
bool verdicts_here(const char *path);

/* Before anything runs: whether the files can be written. */
int verdicts_check(const struct verdict_files *files);

/* The heading names what was compared: "the table against the default plan". */
int verdicts_write(const struct verdict_files *files, const char *heading,
                   const struct verdict *verdicts, size_t count);

#endif
