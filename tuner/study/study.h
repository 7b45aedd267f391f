/* Studies on modelled clusters: a paper's tables and figures beside what was published; and what
 * a training would cost whose capacity changes. */
#ifndef STUDY_H
#define STUDY_H

#include "cluster.h"
#include "tune_options.h"

#include <stdio.h>

/* fitted: by what was published the cluster's numbers were chosen, or what is added to ours.
 * unpublished: the paper has a picture, words, or nothing there. */
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

int study_put(struct study_table *table, const struct study_cell *cell);
/* Nothing was published. */
int study_put_value(struct study_table *table, const char *row, const char *column, double value);

/* What is said of a table. */
struct study_row {
    char name[16]; /* as --only has it */
    char title[80], unit[24];
    char assumptions[960]; /* what the paper leaves open, and what is compared */
    char not_yet[64];      /* which feature is missing; "": none */
    char plot[256]; /* what its picture shows, as the study's file has it; "": there is none */
};

/* What a study is asked.  Of `tune` only what study_layer_rows fill. */
struct study_ask {
    const char *only; /* the one row that is computed; NULL: all */
    const char *sim;  /* a cluster's file; NULL: the study's own */
    const char *file; /* the argument after the study's name; NULL: none */
    struct tune_options tune;
    double noise_percent, share;
    uint32_t seeds;
};
#define STUDY_DEFAULTS                                                                             \
    {                                                                                              \
        .tune = { .setup = { CAMPAIGN_DEFAULTS, .seed = 1 },                                       \
                  .layer = LAYER_DEFAULTS,                                                         \
                  .effort = 1,                                                                     \
                  .repeats = 1,                                                                    \
                  .max_factor = 8,                                                                 \
                  .axes = "r,d,a=linear:2dh:rail:3dh" },                                           \
        .noise_percent = 5, .share = 0.01, .seeds = 10                                             \
    }

/* Options of a layer on a modelled cluster, of a struct study_ask. */
extern const struct option_row study_layer_rows[];

struct study_result;

struct study {
    const char *name, *paper, *assumptions;
    const char *summary;  /* of a study without a paper */
    const char *argument; /* that may follow its name, as --help has it; NULL: none */
    /* Of a study without a paper: sets the result's machine, remark and tables. */
    int (*run)(const struct study_ask *ask, struct study_result *result);
    const struct study_row *rows; /* of such a study; end with an empty name */
    uint32_t most_ranks;          /* that any table of a paper models */
    const char *machine;          /* text of the cluster it is made for */
    const char *const *lines;     /* of NAME.study; end with NULL */
};

extern const struct study *const studies[]; /* end with NULL */
/* ERR_ARGUMENT after a list of those that there are. */
int study_find(const char *name, const struct study **out);

struct study_result {
    const struct study *study;
    struct cluster machine;
    struct study_row *rows;     /* end with an empty name */
    struct study_table *tables; /* one for each row */
    const char *only;           /* the one row that was computed; NULL: all */
    char remark[512];           /* what is said of what was asked; "": nothing */
    char *details;              /* a member of the JSON, beside the tables; NULL: none */
    const char *folder;         /* where its pictures are; NULL: there are none */
};

/* The ranks of a paper's cluster are as many as each row wants. */
int study_run(const struct study *study, const struct study_ask *ask, struct study_result *out);
void study_free(struct study_result *result);

/* The i-th row has a table here. */
bool study_shows(const struct study_result *result, size_t i);

const char *study_title(const struct study *study);

/* The tables of a paper's study as its lines have them: the caller's to free. */
int paper_tables(const struct study *study, struct study_row **out);
/* Computes their cells, or of one table alone. */
int paper_fill(const struct study *study, const struct cluster *machine, const char *only,
               struct study_table *tables);

/* Draws tables as pictures, FOLDER/STUDY_TABLE.svg with data and program, for the page. */
int study_draw(const struct study_result *result, const char *folder);

/* The same numbers in three forms. */
void study_print(const struct study_result *result, FILE *to);
void study_json(const struct study_result *result, FILE *to);
void study_page(const struct study_result *result, FILE *to);

extern const struct study study_tutel, study_trace;

#endif
