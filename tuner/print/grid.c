/* Prints a table of text: titles, rows of aligned cells, and notes below rows. */
#include "grid.h"

#include "array.h"
#include "status.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The texts of a row, which grid_clear() frees.  A cell or note that is not there is NULL. */
struct grid_row {
    enum ink ink;
    char *cells[GRID_COLUMNS_MAX], *note;
};

int grid_row(struct grid *grid, enum ink ink)
{
    const struct grid_row row = { .ink = ink };

    ARRAY_APPEND(grid->rows, grid->row_count, row);
    grid->cell_count = 0;
    return OK;
}

int grid_cell(struct grid *grid, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vasprintf(&grid->rows[grid->row_count - 1].cells[grid->cell_count], format, args);
    va_end(args);
    if (length < 0)
        grid->rows[grid->row_count - 1].cells[grid->cell_count] = NULL;
    grid->cell_count++;
    return length < 0 ? fail(ERR_NOMEM, "a table's cell") : OK;
}

int grid_percent(struct grid *grid, double share)
{
    /* The sum with 0.0 turns -0.0 into 0.0, which prints without a sign. */
    return isnan(share) ? grid_cell(grid, "-")
                        : grid_cell(grid, "%.1f", round(share * 1000) / 10 + 0.0);
}

int grid_gain(struct grid *grid, const struct gain *gain)
{
    /* A gain from a model without noise has no interval. */
    bool exact = gain->low == gain->high;

    TRY(grid_percent(grid, gain->value));
    TRY(grid_percent(grid, exact ? NAN : gain->low));
    return grid_percent(grid, exact ? NAN : gain->high);
}

int grid_note(struct grid *grid, const char *text)
{
    char **note = &grid->rows[grid->row_count - 1].note;

    *note = strdup(text);
    return *note ? OK : fail(ERR_NOMEM, "a table's note");
}

void grid_clear(struct grid *grid)
{
    for (size_t i = 0; i < grid->row_count; i++) {
        for (size_t j = 0; j < grid->column_count; j++)
            free(grid->rows[i].cells[j]);
        free(grid->rows[i].note);
    }
    free(grid->rows);
    grid->rows = NULL;
    grid->row_count = 0;
}

/* ---- widths */

/* Counts characters, not bytes. */
static int count_characters(const char *text, size_t bytes)
{
    int characters = 0;

    for (size_t i = 0; i < bytes; i++)
        characters += (text[i] & 0xc0) != 0x80;
    return characters;
}

static const char *text_of_cell(const struct grid *grid, size_t row, size_t column)
{
    const char *text = grid->rows[row].cells[column];

    return text ? text : "";
}

/* Counts the characters of a number before its decimal point. */
static size_t before_point(const char *text)
{
    return strcspn(text, ".");
}

/* The widths of columns, in characters. */
struct widths {
    int column[GRID_COLUMNS_MAX];
    int fraction[GRID_COLUMNS_MAX]; /* from the decimal point on; 0 if the column has no points */
};

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Returns line 0 or 1 of a title, and its length.  A title of one line stands on line 1. */
static const char *title_line(const char *title, int line, size_t *bytes)
{
    size_t first_bytes = strcspn(title, "\n");
    bool has_two = title[first_bytes];

    if (has_two && line == 1) {
        title += first_bytes + 1;
        *bytes = strlen(title);
    } else {
        *bytes = has_two || line == 1 ? first_bytes : 0;
    }
    return title;
}

static void measure_columns(const struct grid *grid, struct widths *widths)
{
    memset(widths, 0, sizeof(*widths));
    for (size_t column = 0; column < grid->column_count; column++) {
        bool has_points = grid->columns[column].align == GRID_POINT;
        int before_point_width = 0;

        for (size_t row = 0; row < grid->row_count; row++) {
            const char *text = text_of_cell(grid, row, column);
            size_t head_bytes = has_points ? before_point(text) : strlen(text);

            before_point_width = max_int(before_point_width, count_characters(text, head_bytes));
            widths->fraction[column] =
                max_int(widths->fraction[column], (int)strlen(text + head_bytes));
        }
        widths->column[column] =
            column + 1 < grid->column_count ? before_point_width + widths->fraction[column] : 0;
        for (int line = 0; line < 2; line++) {
            size_t bytes;
            const char *title = title_line(grid->columns[column].title, line, &bytes);

            widths->column[column] =
                max_int(widths->column[column], count_characters(title, bytes));
        }
    }
}

/* ---- printing */

enum { GAP = 2, WRAPPED_LEAST = 12 };

/* Where text is printed.  Blanks are held back until text follows, so that no line ends with
 * blanks. */
struct pen {
    FILE *out;
    int blanks;
};

static void put_text(struct pen *pen, const char *text, size_t bytes)
{
    if (!bytes)
        return;
    fprintf(pen->out, "%*s%.*s", pen->blanks, "", (int)bytes, text);
    pen->blanks = 0;
}

static void end_line(struct pen *pen)
{
    fputc('\n', pen->out);
    pen->blanks = 0;
}

/* Prints a cell and the blanks around it.  `fraction_missing`: how many more characters other
 * numbers of the column have from their points on. */
static void put_padded(struct pen *pen, const char *text, size_t bytes, enum grid_align align,
                       int width, int fraction_missing)
{
    int padding = width - fraction_missing - count_characters(text, bytes);

    padding = padding > 0 ? padding : 0;
    pen->blanks += align == GRID_LEFT ? 0 : padding;
    put_text(pen, text, bytes);
    pen->blanks += (align == GRID_LEFT ? padding : 0) + fraction_missing + GAP;
}

/* Prints words and wraps them at the edge of the screen; later lines begin below the first one. */
static void put_wrapped(struct pen *pen, const char *text, int indent)
{
    int line_width = screen_columns(pen->out) - indent, column = 0;

    if (line_width < WRAPPED_LEAST)
        line_width = (int)strlen(text);
    while (*text) {
        size_t bytes = strcspn(text, " ");
        int width = count_characters(text, bytes);

        if (column && column + 1 + width > line_width) {
            end_line(pen);
            pen->blanks = indent;
            column = 0;
        }
        pen->blanks += column > 0;
        put_text(pen, text, bytes);
        column += width + (column > 0);
        text += bytes + strspn(text + bytes, " ");
    }
}

static void print_titles(const struct grid *grid, const struct widths *widths, struct pen *pen)
{
    bool has_two = false;

    for (size_t column = 0; column < grid->column_count; column++)
        has_two |= strchr(grid->columns[column].title, '\n') != NULL;
    screen_ink(INK_HEAD, pen->out);
    for (int line = has_two ? 0 : 1; line < 2; line++) {
        for (size_t column = 0; column < grid->column_count; column++) {
            size_t bytes;
            const char *title = title_line(grid->columns[column].title, line, &bytes);

            put_padded(pen, title, bytes, grid->columns[column].align, widths->column[column], 0);
        }
        if (line == 1)
            screen_ink(INK_PLAIN, pen->out);
        end_line(pen);
    }
}

static void print_row(const struct grid *grid, const struct widths *widths, size_t row,
                      struct pen *pen)
{
    size_t last = grid->column_count - 1;
    int indent = 0;

    for (size_t column = 0; column < last; column++) {
        const char *text = text_of_cell(grid, row, column);
        bool has_points = grid->columns[column].align == GRID_POINT;
        int fraction_missing =
            has_points ? widths->fraction[column] - (int)strlen(text + before_point(text)) : 0;

        put_padded(pen, text, strlen(text), grid->columns[column].align, widths->column[column],
                   fraction_missing);
        indent += widths->column[column] + GAP;
    }
    screen_ink(grid->rows[row].ink, pen->out);
    put_wrapped(pen, text_of_cell(grid, row, last), indent);
    if (grid->rows[row].note) {
        end_line(pen);
        pen->blanks = widths->column[0] + GAP;
        put_wrapped(pen, grid->rows[row].note, widths->column[0] + GAP);
    }
    screen_ink(INK_PLAIN, pen->out);
    end_line(pen);
}

void grid_print(const struct grid *grid, FILE *out)
{
    struct pen pen = { .out = out };
    struct widths widths;

    measure_columns(grid, &widths);
    print_titles(grid, &widths, &pen);
    for (size_t row = 0; row < grid->row_count; row++)
        print_row(grid, &widths, row, &pen);
}
