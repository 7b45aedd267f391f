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
    const struct grid_row fresh = { .ink = ink };

    ARRAY_APPEND(grid->rows, grid->row_count, fresh);
    grid->cell_count = 0;
    return OK;
}

int grid_cell(struct grid *grid, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&grid->rows[grid->row_count - 1].cells[grid->cell_count], format, args);
    va_end(args);
    if (n < 0)
        grid->rows[grid->row_count - 1].cells[grid->cell_count] = NULL;
    grid->cell_count++;
    return n < 0 ? fail(ERR_NOMEM, "a table's cell") : OK;
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
static int width_of(const char *text, size_t bytes)
{
    int n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

static const char *cell_text(const struct grid *grid, size_t row, size_t column)
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
    int whole[GRID_COLUMNS_MAX]; /* of the whole column */
    int after[GRID_COLUMNS_MAX]; /* of that from the decimal point on */
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Returns the first or second line of a title, and its length.  A title of one line stands on the
 * second line. */
static const char *title_line(const char *title, int line, size_t *bytes)
{
    size_t first = strcspn(title, "\n");
    bool two = title[first];

    if (!two && !line)
        *bytes = 0;
    else
        *bytes = line && two ? strlen(title + first + 1) : first;
    return line && two ? title + first + 1 : title;
}

static void measure_widths(const struct grid *grid, struct widths *w)
{
    memset(w, 0, sizeof(*w));
    for (size_t j = 0; j < grid->column_count; j++) {
        bool point = grid->columns[j].align == GRID_POINT;
        int before = 0;

        for (size_t i = 0; i < grid->row_count; i++) {
            const char *text = cell_text(grid, i, j);
            size_t head = point ? before_point(text) : strlen(text);

            before = larger(before, width_of(text, head));
            w->after[j] = larger(w->after[j], (int)strlen(text + head));
        }
        w->whole[j] = j + 1 < grid->column_count ? before + w->after[j] : 0;
        for (int line = 0; line < 2; line++) {
            size_t bytes;
            const char *title = title_line(grid->columns[j].title, line, &bytes);

            w->whole[j] = larger(w->whole[j], width_of(title, bytes));
        }
    }
}

/* ---- printing */

enum { GAP = 2, WRAPPED_LEAST = 12 };

/* Where text is printed.  Blanks are held back until text follows, so that no line ends with
 * blanks. */
struct pen {
    FILE *to;
    int blanks;
};

static void put_text(struct pen *pen, const char *text, size_t bytes)
{
    if (!bytes)
        return;
    fprintf(pen->to, "%*s%.*s", pen->blanks, "", (int)bytes, text);
    pen->blanks = 0;
}

static void end_line(struct pen *pen)
{
    fputc('\n', pen->to);
    pen->blanks = 0;
}

/* Prints a cell and the blanks around it.  `after`: how many more characters other numbers of the
 * column have from their points on. */
static void put_padded(struct pen *pen, const char *text, size_t bytes, enum grid_align align,
                       int width, int after)
{
    int blanks = width - after - width_of(text, bytes);

    blanks = blanks > 0 ? blanks : 0;
    pen->blanks += align == GRID_LEFT ? 0 : blanks;
    put_text(pen, text, bytes);
    pen->blanks += (align == GRID_LEFT ? blanks : 0) + after + GAP;
}

/* Prints words and wraps them at the edge of the screen; later lines begin below the first one. */
static void put_wrapped(struct pen *pen, const char *text, int indent)
{
    int room = screen_columns(pen->to) - indent, at = 0;

    if (room < WRAPPED_LEAST)
        room = (int)strlen(text);
    while (*text) {
        size_t bytes = strcspn(text, " ");
        int width = width_of(text, bytes);

        if (at && at + 1 + width > room) {
            end_line(pen);
            pen->blanks = indent;
            at = 0;
        }
        pen->blanks += at > 0;
        put_text(pen, text, bytes);
        at += width + (at > 0);
        text += bytes + strspn(text + bytes, " ");
    }
}

static void print_titles(const struct grid *grid, const struct widths *w, struct pen *pen)
{
    bool two = false;

    for (size_t j = 0; j < grid->column_count; j++)
        two |= strchr(grid->columns[j].title, '\n') != NULL;
    screen_ink(INK_HEAD, pen->to);
    for (int line = two ? 0 : 1; line < 2; line++) {
        for (size_t j = 0; j < grid->column_count; j++) {
            size_t bytes;
            const char *title = title_line(grid->columns[j].title, line, &bytes);

            put_padded(pen, title, bytes, grid->columns[j].align, w->whole[j], 0);
        }
        if (line == 1)
            screen_ink(INK_PLAIN, pen->to);
        end_line(pen);
    }
}

static void print_row(const struct grid *grid, const struct widths *w, size_t row, struct pen *pen)
{
    size_t last = grid->column_count - 1;
    int at = 0;

    for (size_t j = 0; j < last; j++) {
        const char *text = cell_text(grid, row, j);
        bool point = grid->columns[j].align == GRID_POINT;
        int after = point ? w->after[j] - (int)strlen(text + before_point(text)) : 0;

        put_padded(pen, text, strlen(text), grid->columns[j].align, w->whole[j], after);
        at += w->whole[j] + GAP;
    }
    screen_ink(grid->rows[row].ink, pen->to);
    put_wrapped(pen, cell_text(grid, row, last), at);
    if (grid->rows[row].note) {
        end_line(pen);
        pen->blanks = w->whole[0] + GAP;
        put_wrapped(pen, grid->rows[row].note, w->whole[0] + GAP);
    }
    screen_ink(INK_PLAIN, pen->to);
    end_line(pen);
}

void grid_print(const struct grid *grid, FILE *to)
{
    struct pen pen = { to, 0 };
    struct widths w;

    measure_widths(grid, &w);
    print_titles(grid, &w, &pen);
    for (size_t i = 0; i < grid->row_count; i++)
        print_row(grid, &w, i, &pen);
}
