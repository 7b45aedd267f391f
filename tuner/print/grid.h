/* A table of text for a person.  Each column is as wide as its widest cell. */
#ifndef GRID_H
#define GRID_H

#include "screen.h"
#include "stats.h"

#include <stddef.h>
#include <stdio.h>

enum grid_align {
    GRID_LEFT,
    GRID_RIGHT,
    GRID_POINT, /* numbers, with their decimal points below each other */
};

/* The title of a column, which may have two lines, and how its cells are aligned. */
struct grid_column {
    const char *title;
    enum grid_align align;
};

enum { GRID_COLUMNS_MAX = 16 };

/* Rows of cells to print.  Begins as GRID_OF(columns), which borrows the columns; grid_clear()
 * frees the rows, also after an error. */
struct grid {
    const struct grid_column *columns;
    size_t column_count;
    struct grid_row *rows;
    size_t row_count, cell_count; /* rows; cells of the last row so far */
};
#define GRID_OF(columns)                                                                           \
    {                                                                                              \
        columns, sizeof(columns) / sizeof((columns)[0]), NULL, 0, 0                                \
    }

/* Begins a row; `ink` is the colour of its last column.  All of these return ERR_NOMEM after a
 * message. */
int grid_row(struct grid *grid, enum ink ink);
/* Adds the row's next cell. */
int grid_cell(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a share as percent; a dash for NAN. */
int grid_percent(struct grid *grid, double share);
/* Adds three cells of percent: the gain, and the low and high ends of its interval. */
int grid_gain(struct grid *grid, const struct gain *gain);
/* Adds a line below the row, for text that is too long for a column. */
int grid_note(struct grid *grid, const char *text);

/* Prints the titles and all rows, wrapped at the edge of the screen. */
void grid_print(const struct grid *grid, FILE *out);
/* Frees the rows; the grid is empty again. */
void grid_clear(struct grid *grid);

#endif
