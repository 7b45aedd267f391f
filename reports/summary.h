/* What a table is worth in one sentence and three numbers, and what to do next about it. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "origin.h"
#include "standings.h"

enum { HEADLINE_BYTES = STANDING_TEXT_BYTES, FIGURE_BYTES = 32 + PLAN_TEXT_BYTES };

/* What standing_text() says; else the mean of what is measured. */
void summary_headline(const struct layer_facts *layer, char text[HEADLINE_BYTES]);

/* A number, and what it is. */
struct figure {
    char number[FIGURE_BYTES], words[FIGURE_BYTES];
};
enum { FIGURES = 3 };
void summary_figures(const struct layer_facts *layer, struct figure out[FIGURES]);

/* A line for each thing that is worth doing; behind a '\n' the command that does it, if any. */
void summary_next(const struct facts *facts, const struct layer_facts *layer, const char *db,
                  struct remarks *out);

#endif
