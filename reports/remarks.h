/* What must be known of numbers before they are believed, what a table is worth in one sentence and
 * three numbers, and what to do next about it. */
#ifndef REMARKS_H
#define REMARKS_H

#include "report.h"
#include "standings.h"

enum { REMARKS_MAX = 16, REMARK_BYTES = 1500 };

/* Lines of text; parts of them are from the database, so they must be quoted. */
struct remarks {
    char lines[REMARKS_MAX][REMARK_BYTES];
    int count;
};

/* What is to be known of one section: that it is modelled, partial or cut off, or has entries that
 * are stale, pinned or failed. */
void remarks_section(const struct facts *facts, const struct scope *scope, struct remarks *out);
/* Adds the same of the whole report. */
void remarks_overall(const struct facts *facts, struct remarks *out);

/* "14 buckets measured, 18 inferred; 117 trials, 1172 timed steps; run 1", and what heat_text()
 * says, if anything.  Of one layer also its traffic, "5000 look-ups, ...". */
void remarks_totals(const struct scope *scope, struct remarks *out);

/* A line for each thing that is worth doing; behind a '\n' the command that does it, if any. */
void remarks_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out);

/* What the newest run that decided a bucket of the layer changed in the table that was there before
 * it; no line where there was none. */
void remarks_since(const struct facts *facts, const struct layer_facts *layer, struct remarks *out);

/* What a picture rests on: "23 values from 412 timed steps, 7 of them throttled; run 1". */
void remarks_trace(const struct scope *scope, const struct picture *picture, char *text,
                   size_t size);

/* What standing_text() says, else plan_range_worth(). */
enum { HEADLINE_BYTES = STANDING_TEXT_BYTES, FIGURE_BYTES = 32 + PLAN_TEXT_BYTES };
void remarks_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES]);

/* A number, and what it is; both are empty where it is not known. */
struct figure {
    char number[FIGURE_BYTES], words[FIGURE_BYTES];
};
enum { FIGURES = 3 };
void remarks_figures(const struct layer_facts *layer, struct figure out[FIGURES]);

#endif
