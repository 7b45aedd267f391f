/* Studies on modelled clusters, for `moetune study`: the tables and figures of a paper beside the
 * published numbers, and `trace`, the cost of a training whose capacity changes. */
#ifndef STUDY_H
#define STUDY_H

#include "cluster.h"
#include "tune_options.h"

#include <stdio.h>

/* How our number relates to the published one.  Fitted: the cluster, or a number added to ours, was
 * chosen so that the two agree.  Unpublished: the paper has a picture, words, or nothing. */
enum study_mark { STUDY_FITTED, STUDY_PREDICTED, STUDY_UNPUBLISHED, STUDY_MARKS };
extern const char *const study_mark_words[];

/* One number of a table: a plain value. */
struct study_cell {
    char row[48], column[32]; /* the words of its row and column */
    double value;             /* ours; NAN: no plan fits into the memory */
    double published;         /* NAN: nothing was published */
    enum study_mark mark;
};

/* The cells of one table, in the order in which they were added.  study_free() frees them. */
struct study_table {
    struct study_cell *cells;
    size_t count, room;
};

/* Adds a cell.  ERR_NOMEM. */
int study_put(struct study_table *table, const struct study_cell *cell);
/* Adds a cell for which nothing was published.  ERR_NOMEM. */
int study_put_value(struct study_table *table, const char *row, const char *column, double value);

/* The words around one table, a row of a study's list of tables: a plain value.  The rows of the
 * table itself are text (struct study_cell). */
struct study_row {
    char name[16]; /* for --only */
    char title[80], unit[24];
    char assumptions[960]; /* what the paper leaves open, and what is compared */
    char not_yet[64];      /* which feature is missing; "": the table is computed */
    char plot[256];        /* the table's `plot` line (README.md); "": no picture */
};

/* The options of `moetune study`: a plain value that borrows its strings.  Only those members of
 * `tune` count that study_layer_rows set. */
struct study_ask {
    const char *only; /* the one row that is computed; NULL: all */
    const char *sim;  /* a cluster's file; NULL: the study's own */
    const char *file; /* the argument after the study's name; NULL: none */
    struct tune_options tune;
    double noise_percent; /* of step times, that tuning sees */
    double share;         /* of training time that a trainer may spend on trying plans */
    uint32_t seeds;       /* how many runs, each with a seed of its own */
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

/* The options of a layer on a modelled cluster, which set members of a struct study_ask. */
extern const struct option_row study_layer_rows[];

struct study_result;

/* One study: a constant of the program.  A study of a paper has `paper`, `most_ranks`, `machine`
 * and `lines`; any other study has `summary`, `run` and `rows`. */
struct study {
    const char *name;
    const char *assumptions;  /* that hold for all tables */
    const char *argument;     /* that may follow its name, for --help; NULL: none */
    const char *paper;        /* title of the paper */
    uint32_t most_ranks;      /* the most that any of its tables models */
    const char *machine;      /* text of the cluster it is made for */
    const char *const *lines; /* of NAME.study; end with NULL */
    const char *summary;
    int (*run)(const struct study_ask *ask, struct study_result *result); /* sets machine, remark
                                                                           * and tables */
    const struct study_row *rows; /* end with an empty name */
};

extern const struct study *const studies[]; /* end with NULL */
/* ERR_ARGUMENT after a message that lists the studies. */
int study_find(const char *name, const struct study **out);

/* The numbers of one study.  study_run() makes one, study_free() frees it. */
struct study_result {
    const struct study *study;
    struct cluster machine;
    struct study_row *rows;     /* end with an empty name */
    struct study_table *tables; /* one for each row */
    const char *only;           /* the one row that was computed; NULL: all; borrowed */
    char remark[512];           /* a sentence about the machine or the options; "": none */
    char *details;              /* a member of the JSON, beside the tables; NULL: none */
    const char *folder;         /* where its pictures are; NULL: there are none; borrowed */
};

/* Computes the study's tables.  A paper's tables resize the cluster to the ranks they model. */
int study_run(const struct study *study, const struct study_ask *ask, struct study_result *out);
void study_free(struct study_result *result);

/* Returns whether the result has the i-th row's table: all of them do unless --only names one. */
bool study_shows(const struct study_result *result, size_t i);

/* Returns the paper's title, or the summary of a study without a paper. */
const char *study_title(const struct study *study);

/* Reads the rows of a paper's study from its lines.  The caller frees `out`. */
int paper_tables(const struct study *study, struct study_row **out);
/* Computes the cells of all tables, or of the table `only`. */
int paper_fill(const struct study *study, const struct cluster *machine, const char *only,
               struct study_table *tables);

/* Draws the tables for the page: FOLDER/STUDY_TABLE.svg, with data (.dat) and script (.gp).
 * UNSUPPORTED if no table has a picture; ERR_IO. */
int study_draw(const struct study_result *result, const char *folder);

/* Write the result as text for a terminal, as JSON, as an HTML page. */
void study_print(const struct study_result *result, FILE *to);
void study_json(const struct study_result *result, FILE *to);
void study_page(const struct study_result *result, FILE *to);

extern const struct study study_tutel, study_trace;

#endif
