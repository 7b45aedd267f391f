/* A study as text for a terminal, as JSON, and as one page. */
#include "json.h"
#include "quote.h"
#include "report.h"
#include "study.h"
#include "text.h"

#include <math.h>
#include <string.h>

/* Rows and columns of a table, in the order of their first cells. */
struct form_grid {
    const struct study_table *table;
    const struct study_cell *columns[32];
    int count;
};

static const struct study_cell *find_cell(const struct study_table *t, const char *row,
                                          const char *column)
{
    for (size_t i = 0; i < t->count; i++)
        if ((!row || !strcmp(t->cells[i].row, row)) &&
            (!column || !strcmp(t->cells[i].column, column)))
            return &t->cells[i];
    return NULL;
}

static struct form_grid grid_of(const struct study_table *t)
{
    struct form_grid grid = { .table = t };

    for (size_t i = 0; i < t->count && grid.count < 32; i++)
        if (find_cell(t, NULL, t->cells[i].column) == &t->cells[i])
            grid.columns[grid.count++] = &t->cells[i];
    return grid;
}

static bool begins_row(const struct study_table *t, size_t i)
{
    return find_cell(t, t->cells[i].row, NULL) == &t->cells[i];
}

enum { VALUE_BYTES = 32 };

/* Four digits are more than any model is good for. */
static const char *value_text(double value, char room[VALUE_BYTES])
{
    if (isnan(value))
        snprintf(room, VALUE_BYTES, "-");
    else if (fabs(value) >= 100)
        text_put(room, VALUE_BYTES, "%.0f", value);
    else if (value == floor(value))
        snprintf(room, VALUE_BYTES, "%g", value);
    else
        text_put(room, VALUE_BYTES, "%.*f", fabs(value) >= 10 ? 1 : 2, value);
    return room;
}

static const char *published_text(const struct study_cell *cell, char room[VALUE_BYTES])
{
    snprintf(room, VALUE_BYTES, "%.4g", cell->published);
    return room;
}

const char *study_title(const struct study *study)
{
    return study->paper ? study->paper : study->summary;
}

/* ---- text */

static void print_grid(const struct study_table *t, FILE *to)
{
    struct form_grid grid = grid_of(t);

    fprintf(to, "  %-22s", "");
    for (int c = 0; c < grid.count; c++)
        fprintf(to, "  %14s", grid.columns[c]->column);
    for (size_t i = 0; i < t->count; i++) {
        if (!begins_row(t, i))
            continue;
        fprintf(to, "\n  %-22s", t->cells[i].row);
        for (int c = 0; c < grid.count; c++) {
            const struct study_cell *cell = find_cell(t, t->cells[i].row, grid.columns[c]->column);
            char value[VALUE_BYTES], published[VALUE_BYTES], text[3 * VALUE_BYTES] = "";

            if (cell)
                snprintf(text, sizeof(text), isnan(cell->published) ? "%s" : "%s (%s%s)",
                         value_text(cell->value, value), published_text(cell, published),
                         cell->mark == STUDY_FITTED ? "*" : "");
            fprintf(to, "  %14s", text);
        }
    }
    fputs("\n\n", to);
}

void study_print(const struct study_result *r, FILE *to)
{
    fprintf(to, "%s\nMODELLED on %s: %s\n", study_title(r->study), r->machine.name,
            r->study->assumptions);
    if (*r->remark)
        fprintf(to, "%s\n", r->remark);
    fputs(r->study->paper ? "(published), (fitted*)\n\n" : "\n", to);
    for (size_t i = 0; *r->rows[i].name; i++) {
        const struct study_row *row = &r->rows[i];

        if (!study_shows(r, i))
            continue;
        if (*row->not_yet) {
            fprintf(to, "%s: %s: not yet (%s)\n", row->name, row->title, row->not_yet);
            continue;
        }
        fprintf(to, "%s: %s, %s\n%s\n", row->name, row->title, row->unit, row->assumptions);
        print_grid(&r->tables[i], to);
    }
}

/* ---- JSON */

static void json_table(const struct study_row *row, const struct study_table *t, bool first,
                       FILE *to)
{
    json_write(to, "%s\n  {'name': '%s', 'title': '%s'", first ? "" : ",", row->name, row->title);
    if (*row->not_yet) {
        json_write(to, ", 'not_yet': '%s'}", row->not_yet);
        return;
    }
    json_write(to, ", 'unit': '%s',\n   'assumptions': '%s',\n   'cells': [", row->unit,
               row->assumptions);
    for (size_t i = 0; i < t->count; i++) {
        const struct study_cell *cell = &t->cells[i];

        json_write(to,
                   "%s\n    {'row': '%s', 'column': '%s', 'value': %g, 'published': %g, "
                   "'mark': '%s'}",
                   i ? "," : "", cell->row, cell->column, cell->value, cell->published,
                   study_mark_words[cell->mark]);
    }
    fputs("]}", to);
}

void study_json(const struct study_result *r, FILE *to)
{
    char cluster[CLUSTER_TEXT_BYTES];
    bool first = true;

    cluster_format(&r->machine, cluster, sizeof(cluster));
    json_write(to, "{'study': '%s', '%s': '%s'", r->study->name,
               r->study->paper ? "paper" : "summary", study_title(r->study));
    if (*r->remark)
        json_write(to, ",\n 'remark': '%s'", r->remark);
    json_write(to, ",\n 'assumptions': '%s',\n 'cluster': '%s',\n 'tables': [",
               r->study->assumptions, cluster);
    for (size_t i = 0; *r->rows[i].name; i++) {
        if (!study_shows(r, i))
            continue;
        json_table(&r->rows[i], &r->tables[i], first, to);
        first = false;
    }
    fprintf(to, "]%s%s}\n", r->details ? ",\n " : "", r->details ? r->details : "");
}

/* ---- a page */

static void element(const char *tag, const char *text, FILE *to)
{
    fprintf(to, "<%s>", tag);
    quote_html(text, to);
    fprintf(to, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

static void page_table(const struct study_table *t, FILE *to)
{
    struct form_grid grid = grid_of(t);
    char room[VALUE_BYTES];

    fputs("<div class=\"scroll\"><table>\n<tr><th></th>", to);
    for (int c = 0; c < grid.count; c++)
        element("th class=\"n\"", grid.columns[c]->column, to);
    fputs("</tr>\n", to);
    for (size_t i = 0; i < t->count; i++) {
        if (!begins_row(t, i))
            continue;
        fputs("<tr>", to);
        element("th", t->cells[i].row, to);
        for (int c = 0; c < grid.count; c++) {
            const struct study_cell *cell = find_cell(t, t->cells[i].row, grid.columns[c]->column);

            if (!cell) {
                fputs("<td></td>", to);
                continue;
            }
            fprintf(to, "<td class=\"n\">%s", value_text(cell->value, room));
            if (!isnan(cell->published))
                fprintf(to, "<br><span class=\"soft\">paper %s, %s</span>",
                        published_text(cell, room), study_mark_words[cell->mark]);
            fputs("</td>", to);
        }
        fputs("</tr>\n", to);
    }
    fputs("</table></div>\n", to);
}

void study_page(const struct study_result *r, FILE *to)
{
    char cluster[CLUSTER_TEXT_BYTES];

    page_begin("moetune study", to);
    element("p class=\"soft\"", study_title(r->study), to);
    element("p class=\"note\"",
            r->study->paper
                ? "MODELLED: no number of ours was measured.  Below each is the paper's, "
                  "and what ours is: fitted, if it was chosen by the paper's, or "
                  "predicted."
                : "MODELLED: no number was measured.",
            to);
    element("p", r->study->assumptions, to);
    if (*r->remark)
        element("p", r->remark, to);
    for (size_t i = 0; *r->rows[i].name; i++) {
        const struct study_row *row = &r->rows[i];

        if (!study_shows(r, i))
            continue;
        fprintf(to, "<section id=\"%s\">\n", row->name);
        element("h2", row->title, to);
        if (*row->not_yet) {
            fprintf(to, "<p class=\"note\">%s: not yet (%s)</p>\n", row->name, row->not_yet);
        } else {
            fprintf(to, "<p class=\"soft\">%s, %s</p>\n", row->name, row->unit);
            element("p", row->assumptions, to);
            page_table(&r->tables[i], to);
        }
        fputs("</section>\n", to);
    }
    cluster_format(&r->machine, cluster, sizeof(cluster));
    fputs("<details><summary>The cluster</summary>\n", to);
    element("pre", cluster, to);
    fputs("</details>\n</body>\n</html>\n", to);
}
