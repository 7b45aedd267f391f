/* Studies: a paper's tables and figures, computed on a modelled cluster and put beside what was
 * published. */
#ifndef STUDY_H
#define STUDY_H

#include "cluster.h"

#include <stdio.h>

/* fitted: the cluster's numbers were chosen by it.  unpublished: the paper has a picture, words, or
 * nothing there. */
enum study_mark { STUDY_FITTED, STUDY_PREDICTED, STUDY_UNPUBLISHED, STUDY_MARKS };
extern const char *const study_mark_words[];

struct study_cell {
    char row[48], column[32];
    double value, published; /* NAN: no plan fits into the memory; nothing was published */
    enum study_mark mark;
};

struct study_table {
    struct study_cell *cells;
    size_t count, room;
};

/* A column that has an unknown value keeps its place. */
int study_put(struct study_table *table, const char *row, const char *column,
              struct study_cell value);

struct study_row {
    const char *name; /* as --only has it */
    const char *title, *unit;
    const char *assumptions; /* what the paper leaves open, and what is compared */
    int (*fill)(const struct cluster *machine, struct study_table *table);
    const char *not_yet; /* which feature is missing, where there is no `fill` */
};

struct study {
    const char *name, *paper, *assumptions;
    uint32_t most_ranks;          /* that any of its rows models */
    const char *(*machine)(void); /* text of the cluster it is made for */
    const struct study_row *rows; /* end with a NULL name */
};

/* ERR_ARGUMENT after a list of those that there are. */
int study_find(const char *name, const struct study **out);

struct study_result {
    const struct study *study;
    struct cluster machine;
    struct study_table *tables; /* one for each row of the study */
    const char *only;           /* the one row that was computed; NULL: all */
};

/* `sim`: a cluster's file; NULL: the study's own.  Ranks of it are as many as each row wants. */
int study_run(const struct study *study, const char *only, const char *sim,
              struct study_result *out);
void study_free(struct study_result *result);

/* The i-th row of its study has a table here. */
bool study_shows(const struct study_result *result, size_t i);

/* The same numbers in three forms. */
void study_print(const struct study_result *result, FILE *to);
void study_json(const struct study_result *result, FILE *to);
void study_page(const struct study_result *result, FILE *to);

extern const struct study study_tutel, study_hexa, study_smile, study_dynamoe;

#endif
