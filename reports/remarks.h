/* The sentences of a report: warnings about its numbers, what a table saves (one sentence and three
 * numbers), what the last run changed, and what to do next. */
#ifndef REMARKS_H
#define REMARKS_H

#include "report.h"
#include "standings.h"

enum { REMARKS_MAX = 16, REMARK_BYTES = 1500 };

/* Lines of text: a plain value.  Writers must quote them (quote.h), because parts of them come from
 * the database. */
struct remarks {
    char lines[REMARKS_MAX][REMARK_BYTES];
    int count;
};

/* Writes the warnings about one section: modelled, disturbed or missing numbers, a load, stale or
 * cut off entries, failed trials, pinned buckets.  Text up to a line's first ':' is its summary. */
void remarks_section(const struct facts *facts, const struct scope *scope, struct remarks *out);
/* Adds the warnings about the whole database: empty, throttled, disturbed, runs cut off. */
void remarks_overall(const struct facts *facts, struct remarks *out);

/* Writes what a section rests on, "14 buckets measured, 18 inferred; 117 trials, 1172 timed steps;
 * run 1", with heat_text().  For one layer a second line has its traffic, "5000 look-ups, ...". */
void remarks_totals(const struct scope *scope, struct remarks *out);

/* Writes a line for each thing that may improve the layer's table.  If a command does it, the
 * command follows behind a '\n'. */
void remarks_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out);

/* Writes what the layer's newest run changed in the table before it; no line if there was none. */
void remarks_since(const struct facts *facts, const struct layer_facts *layer, struct remarks *out);

/* Writes what a picture rests on: "23 values from 412 timed steps, 7 of them throttled; run 1". */
void remarks_trace(const struct scope *scope, const struct picture *picture, char *text,
                   size_t size);

/* Writes what the table saves: standing_text() if the whole table was compared, else
 * plan_range_worth(). */
enum { HEADLINE_BYTES = STANDING_TEXT_BYTES, FIGURE_BYTES = 32 + PLAN_TEXT_BYTES };
void remarks_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES]);

/* A number and what it is; both are empty if it is not known. */
struct figure {
    char number[FIGURE_BYTES], words[FIGURE_BYTES];
};
enum { FIGURES = 3 };
/* Writes the numbers below the headline: the gain over the default, the gain over the best static
 * plan, and the time that the timed steps took. */
void remarks_figures(const struct layer_facts *layer, struct figure out[FIGURES]);

#endif
