/* Columns of text as wide as what stands in them. */
#ifndef GRID_H
#define GRID_H

#include "screen.h"
#include "stats.h"

#include <stddef.h>
#include <stdio.h>

enum grid_align {
    GRID_LEFT,
    GRID_RIGHT,
    GRID_POINT, /* numbers: their decimal points stand under each other */
};

/* A title of two lines has a line feed in it. */
struct grid_column {
    const char *title;
    enum grid_align align;
};

enum { GRID_COLUMNS_MAX = 16 };

/* All zero but for the columns: an empty one. */
struct grid {
    const struct grid_column *columns;
    size_t column_count;
    struct grid_row *rows;
    size_t row_count, cell_count; /* cells of the last row */
};
#define GRID_OF(columns)                                                                           \
    {                                                                                              \
        columns, sizeof(columns) / sizeof((columns)[0]), NULL, 0, 0                                \
    }

/* A new row; the ink is that of its last column. */
int grid_row(struct grid *grid, enum ink ink);
/* The row's next cell. */
int grid_cell(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A share in percent; NAN: a dash. */
int grid_percent(struct grid *grid, double share);
int grid_gain(struct grid *grid,
              const struct gain *gain); /* three of them: with its low and high end */
/* A line of its own below the row, for what is too long for a column. */
int grid_note(struct grid *grid, const char *text);

void grid_print(const struct grid *grid, FILE *to);
void grid_clear(struct grid *grid); /* of its rows */

#endif
