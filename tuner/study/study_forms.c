/* Prints the numbers of a study in three forms: text for a terminal, JSON, and one HTML page with
 * pictures that gnuplot draws. */
#include "gnuplot.h"
#include "json.h"
#include "output_file.h"
#include "quote.h"
#include "report.h"
#include "status.h"
#include "study.h"
#include "text.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* The columns of a table, each as its first cell; borrowed from the table. */
struct form_grid {
    const struct study_table *table;
    const struct study_cell *columns[32];
    int count;
};

/* Returns the first cell of this row and this column, of which one may be NULL: any. */
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

/* Writes three or four digits: no model is better than that.  "-" for NAN. */
static const char *value_text(double value, char text[VALUE_BYTES])
{
    if (isnan(value))
        snprintf(text, VALUE_BYTES, "-");
    else if (fabs(value) >= 100)
        text_put(text, VALUE_BYTES, "%.0f", value);
    else if (value == floor(value))
        snprintf(text, VALUE_BYTES, "%g", value);
    else
        text_put(text, VALUE_BYTES, "%.*f", fabs(value) >= 10 ? 1 : 2, value);
    return text;
}

static const char *published_text(const struct study_cell *cell, char text[VALUE_BYTES])
{
    snprintf(text, VALUE_BYTES, "%.4g", cell->published);
    return text;
}

const char *study_title(const struct study *study)
{
    return study->paper ? study->paper : study->summary;
}

/* ---- how near our numbers are to the published ones */

enum nearness { NEAR, FAIR, FAR, NEARNESSES };
static const double near_percent = 10, fair_percent = 25;

/* How near the cells of one mark are to the published numbers, and which is the furthest. */
struct study_score {
    uint32_t cells[STUDY_MARKS][NEARNESSES];
    const struct study_cell *furthest[STUDY_MARKS]; /* borrowed; NULL: no cell counts */
    double off[STUDY_MARKS];                        /* of the furthest, as off_percent() */
};

/* Returns how far our number is off: in percentage points if it counts percent, else in percent of
 * the published number.  NAN: the cell does not count. */
static double off_percent(const struct study_row *row, const struct study_cell *cell)
{
    bool percent = *row->unit == '%' || strchr(cell->column, '%');

    if (isnan(cell->value))
        return INFINITY;
    if (percent)
        return fabs(cell->value - cell->published);
    if (cell->published == 0) /* 0 beside 0 is so by definition, and no success of a model */
        return cell->value == 0 ? NAN : INFINITY;
    return 100 * fabs(cell->value / cell->published - 1);
}

static void score_table(const struct study_row *row, const struct study_table *table,
                        struct study_score *score)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct study_cell *cell = &table->cells[i];
        double off = isnan(cell->published) ? NAN : off_percent(row, cell);

        if (isnan(off))
            continue;
        score->cells[cell->mark][off <= near_percent ? NEAR : off <= fair_percent ? FAIR : FAR]++;
        if (!score->furthest[cell->mark] || off > score->off[cell->mark]) {
            score->furthest[cell->mark] = cell;
            score->off[cell->mark] = off;
        }
    }
}

static uint32_t scored_cells(const struct study_score *score, enum study_mark mark)
{
    return score->cells[mark][NEAR] + score->cells[mark][FAIR] + score->cells[mark][FAR];
}

static struct study_score score_all(const struct study_result *r)
{
    struct study_score all = { 0 };

    for (size_t i = 0; *r->rows[i].name; i++)
        if (study_shows(r, i) && !*r->rows[i].not_yet)
            score_table(&r->rows[i], &r->tables[i], &all);
    return all;
}

/* Writes "31 of 78 predictions are within 10 % of the paper, 52 within 25 %", and the same of
 * fitted numbers.  "" if the paper has no numbers. */
enum { SCORE_BYTES = 240 };
static const char *score_text(const struct study_result *r, char text[SCORE_BYTES])
{
    struct study_score all = score_all(r);
    uint32_t predicted = scored_cells(&all, STUDY_PREDICTED),
             fitted = scored_cells(&all, STUDY_FITTED);

    *text = 0;
    if (predicted)
        text_add(text, SCORE_BYTES,
                 "%u of %u predictions are within %g %% of the paper, %u within %g %%",
                 all.cells[STUDY_PREDICTED][NEAR], predicted, near_percent,
                 all.cells[STUDY_PREDICTED][NEAR] + all.cells[STUDY_PREDICTED][FAIR], fair_percent);
    if (fitted)
        text_add(text, SCORE_BYTES, "%s%u of %u fitted numbers are within %g %%",
                 predicted ? "; " : "", all.cells[STUDY_FITTED][NEAR], fitted, near_percent);
    return text;
}

/* ---- text */

static void print_grid(const struct study_table *table, FILE *to)
{
    struct form_grid grid = grid_of(table);

    fprintf(to, "  %-22s", "");
    for (int c = 0; c < grid.count; c++)
        fprintf(to, "  %14s", grid.columns[c]->column);
    for (size_t i = 0; i < table->count; i++) {
        if (!begins_row(table, i))
            continue;
        fprintf(to, "\n  %-22s", table->cells[i].row);
        for (int c = 0; c < grid.count; c++) {
            const struct study_cell *cell =
                find_cell(table, table->cells[i].row, grid.columns[c]->column);
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
    char score[SCORE_BYTES];

    fprintf(to, "%s\nMODELLED on %s: %s\n", study_title(r->study), r->machine.name,
            r->study->assumptions);
    if (*r->remark)
        fprintf(to, "%s\n", r->remark);
    if (*score_text(r, score))
        fprintf(to, "%s\n", score);
    fputs(r->study->paper ? "In brackets: the published number; * marks one to which ours was "
                            "fitted.\n\n"
                          : "\n",
          to);
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

/* ---- pictures */

enum { PLOT_NAMES_MAX = 32 };

/* The picture of one table, as its line `plot [across] LABEL; NAME; ...` describes it.  Each column
 * is a curve over the rows; with `across` each row is a curve over the columns.  A NAME picks a row
 * or a column.  If no curve is picked, all are shown; if no place is picked, all places with
 * numbers of at least half of the curves are shown.  Names are borrowed from the table. */
struct study_plot {
    const struct study_table *table;
    char label[64];                     /* of the y axis */
    const char *curves[PLOT_NAMES_MAX]; /* names in the table */
    const char *places[PLOT_NAMES_MAX]; /* names along the x axis, in the table */
    int curve_count, place_count;
    bool across;
};

/* Returns the cell of a curve at a place; NULL: the table has none. */
static const struct study_cell *plotted_cell(const struct study_plot *p, int curve, int place)
{
    if (p->across)
        return find_cell(p->table, p->curves[curve], p->places[place]);
    return find_cell(p->table, p->places[place], p->curves[curve]);
}

/* Where a table has a name. */
enum table_side { ROWS, COLUMNS };

/* Returns the table's own copy of the name of a row, or of a column; NULL: the table has no such
 * name.  `text` is not terminated. */
static const char *find_name(const struct study_table *t, enum table_side side, const char *text,
                             size_t length)
{
    for (size_t i = 0; i < t->count; i++) {
        const char *name = side == ROWS ? t->cells[i].row : t->cells[i].column;

        if (strlen(name) == length && !memcmp(name, text, length))
            return name;
    }
    return NULL;
}

static void add_all_names(const struct study_table *t, enum table_side side, const char **names,
                          int *count)
{
    for (size_t i = 0; i < t->count && *count < PLOT_NAMES_MAX; i++) {
        const struct study_cell *first = side == ROWS ? find_cell(t, t->cells[i].row, NULL)
                                                      : find_cell(t, NULL, t->cells[i].column);

        if (first == &t->cells[i])
            names[(*count)++] = side == ROWS ? first->row : first->column;
    }
}

/* Reads a table's `plot` line.  ERR_ARGUMENT for a name that the table does not have. */
static int read_plot(const struct study_row *row, const struct study_table *t, struct study_plot *p)
{
    static const char across[] = "across ";
    const char *text = row->plot;
    enum table_side curve_side, place_side;
    size_t length;

    *p = (struct study_plot){ .table = t, .across = !strncmp(text, across, strlen(across)) };
    if (p->across)
        text += strlen(across);
    curve_side = p->across ? ROWS : COLUMNS;
    place_side = p->across ? COLUMNS : ROWS;
    length = strcspn(text, ";");
    text_put(p->label, sizeof(p->label), "%.*s", (int)length, text);
    for (text += length; *text; text += length) {
        const char *name;
        enum table_side side = COLUMNS;

        text += 1 + strspn(text + 1, " ");
        length = strcspn(text, ";");
        name = find_name(t, COLUMNS, text, length);
        if (!name) {
            side = ROWS;
            name = find_name(t, ROWS, text, length);
        }
        if (!name)
            return fail(ERR_ARGUMENT, "%s: its plot names \"%.*s\", which is no row and no column",
                        row->name, (int)length, text);
        if (side == curve_side && p->curve_count < PLOT_NAMES_MAX)
            p->curves[p->curve_count++] = name;
        else if (side == place_side && p->place_count < PLOT_NAMES_MAX)
            p->places[p->place_count++] = name;
    }
    if (!p->curve_count)
        add_all_names(t, curve_side, p->curves, &p->curve_count);
    if (!p->place_count) {
        int kept = 0;

        add_all_names(t, place_side, p->places, &p->place_count);
        for (int place = 0; place < p->place_count; place++) {
            int cells = 0;

            for (int curve = 0; curve < p->curve_count; curve++)
                cells += plotted_cell(p, curve, place) != NULL;
            if (2 * cells >= p->curve_count)
                p->places[kept++] = p->places[place];
        }
        p->place_count = kept;
    }
    return OK;
}

/* Places form groups: "1 MiB, 64 GPUs" and "1 MiB, 128 GPUs" are one group, "32 MiB, 64 GPUs" is
 * another.  Returns the length of the group's name. */
static size_t group_length(const char *place)
{
    const char *comma = strrchr(place, ',');

    return comma ? (size_t)(comma - place) : 0;
}

static bool has_digit(const char *text, size_t length)
{
    return strcspn(text, "0123456789") < length;
}

/* Returns whether a line joins this place to the one before: both are numbers of one group. */
static bool is_joined(const struct study_plot *p, int place)
{
    const char *name = p->places[place], *name_before = place ? p->places[place - 1] : "";
    size_t group = group_length(name);

    return place && group == group_length(name_before) && !memcmp(name, name_before, group) &&
           has_digit(name + group, strlen(name + group)) &&
           has_digit(name_before + group, strlen(name_before + group));
}

/* Returns whether all groups have several places; then each group's name is written once. */
static bool has_groups(const struct study_plot *p)
{
    bool grouped = true;

    for (int place = 0; place < p->place_count; place++)
        grouped = grouped && group_length(p->places[place]) &&
                  (is_joined(p, place) || (place + 1 < p->place_count && is_joined(p, place + 1)));
    return grouped;
}

/* Returns a place's name without that of its group: "64 GPUs". */
static const char *name_in_group(const struct study_plot *p, int place)
{
    const char *name = p->places[place];

    if (!has_groups(p))
        return name;
    name += group_length(name) + 1;
    return name + strspn(name, " ");
}

/* Returns the unit of all places, " GPUs", if each is a number and this unit; else "".  The unit
 * becomes the axis's label. */
static const char *common_unit(const struct study_plot *p)
{
    const char *unit = NULL;

    for (int place = 0; place < p->place_count; place++) {
        const char *name = name_in_group(p, place), *last_word = strrchr(name, ' ');

        if (!last_word || strchr(name, ',') || !has_digit(name, (size_t)(last_word - name)) ||
            (unit && strcmp(unit, last_word) != 0))
            return "";
        unit = last_word;
    }
    return unit ? unit : "";
}

/* Writes a block for each curve.  Columns: place; our number; the published one that ours predicts;
 * the published one that ours was fitted to; name of the place. */
static void write_plot_data(const struct study_plot *p, FILE *to)
{
    enum { OURS, PREDICTED, FITTED, NUMBERS };

    for (int curve = 0; curve < p->curve_count; curve++) {
        fprintf(to, "%s\"%s\"\n", curve ? "\n\n" : "", p->curves[curve]);
        for (int place = 0; place < p->place_count; place++) {
            const struct study_cell *cell = plotted_cell(p, curve, place);
            double numbers[] = { [OURS] = NAN, [PREDICTED] = NAN, [FITTED] = NAN };

            if (place && !is_joined(p, place))
                fputs("\n", to);
            if (cell) {
                numbers[OURS] = cell->value;
                numbers[cell->mark == STUDY_FITTED ? FITTED : PREDICTED] = cell->published;
            }
            fprintf(to, "%d", place);
            for (int i = 0; i < NUMBERS; i++)
                if (isnan(numbers[i]))
                    fputs(" NaN", to);
                else
                    fprintf(to, " %.6g", numbers[i]);
            fprintf(to, " \"%s\"\n", p->places[place]);
        }
    }
}

/* Writes what the script needs of this table: the names of the places, and whether the y axis is
 * logarithmic. */
static void write_plot_settings(const struct study_plot *p, FILE *to)
{
    enum { LETTERS_SIDEWAYS = 44 }; /* more letters do not fit below the x axis */
    const char *unit = common_unit(p);
    double smallest = INFINITY, largest = 0;
    size_t tic_letters = 0; /* of all tics: many are written upright */
    bool marked[STUDY_MARKS] = { false };

    fputs("set xtics (", to);
    for (int place = 0; place < p->place_count; place++) {
        const char *name = name_in_group(p, place);
        char tic[sizeof(p->table->cells->row)];

        text_put(tic, sizeof(tic), "%.*s", (int)(strlen(name) - strlen(unit)), name);
        tic_letters += strlen(tic) + 2;
        gnuplot_write(to, place ? ", %s %d" : "%s %d", tic, place);
        for (int curve = 0; curve < p->curve_count; curve++) {
            const struct study_cell *cell = plotted_cell(p, curve, place);

            if (!cell)
                continue;
            marked[cell->mark] = true;
            smallest = fmin(smallest, fmin(cell->value, cell->published));
            largest = fmax(largest, fmax(cell->value, cell->published));
        }
    }
    fprintf(to, ")%s\n", tic_letters > LETTERS_SIDEWAYS ? " rotate by 90 right" : "");
    for (int place = 0, first = 0, group = 0; place < p->place_count && has_groups(p); place++) {
        const char *name = p->places[place];
        char text[sizeof(p->table->cells->row)];

        if (place + 1 < p->place_count && is_joined(p, place + 1))
            continue;
        text_put(text, sizeof(text), "%.*s", (int)group_length(name), name);
        gnuplot_write(to, "set label %s at first %g, graph %g center font small\n", text,
                      0.5 * (first + place),
                      group++ % 2 ? 1.11 : 1.05); /* long names need the room of two */
        first = place + 1;
    }
    if (has_groups(p))
        fputs("set tmargin at screen 0.86\n", to);
    gnuplot_write(to,
                  "places = %d\nseries = %d\npredicted = %d\nfitted = %d\nset xlabel %s\n"
                  "set ylabel %s\n",
                  p->place_count, p->curve_count, marked[STUDY_PREDICTED], marked[STUDY_FITTED],
                  unit + strspn(unit, " "), p->label);
    if (smallest > 0 && largest > 20 * smallest)
        fputs("set logscale y\n", to);
    else
        fprintf(to, "set yrange [%s:]\n", smallest < 0 ? "" : "0");
}

enum { PICTURE_BYTES = 64 };

static const char *picture_name(const struct study_result *r, size_t row, char room[PICTURE_BYTES])
{
    text_put(room, PICTURE_BYTES, "%s_%s", r->study->name, r->rows[row].name);
    for (char *c = room; *c; c++) /* "section3.2": what follows a point is taken for an ending */
        *c = *c == '.' ? '_' : *c;
    return room;
}

static int create_file(const char *folder, const char *name, const char *ending,
                       struct output_file *file)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ending) >= (int)sizeof(path))
        return fail(ERR_ARGUMENT, "-o: the path is too long");
    return output_begin(path, file);
}

static int draw_table(const struct study_result *r, size_t row, const char *folder,
                      struct gnuplot *gnuplot)
{
    char name[PICTURE_BYTES];
    struct study_plot plot;
    struct output_file file;

    TRY(read_plot(&r->rows[row], &r->tables[row], &plot));
    picture_name(r, row, name);
    TRY(create_file(folder, name, "dat", &file));
    fprintf(file.to,
            "# %s: %s\n# place; ours; published, and ours predicts it; published, and ours was "
            "fitted to it; what the place is\n",
            r->rows[row].name, r->rows[row].title);
    write_plot_data(&plot, file.to);
    TRY(output_end(&file, OK, NULL, false));
    TRY(create_file(folder, name, "gp", &file));
    script_begin(name, "svg", true, file.to);
    write_plot_settings(&plot, file.to);
    script_end("study", file.to);
    TRY(output_end(&file, OK, NULL, false));
    return gnuplot_draw(gnuplot, name);
}

static bool is_drawn(const struct study_result *r, size_t row)
{
    return study_shows(r, row) && *r->rows[row].plot && !*r->rows[row].not_yet;
}

int study_draw(const struct study_result *r, const char *folder)
{
    struct gnuplot *gnuplot;
    size_t count = 0;
    int rc = OK, ended;

    for (size_t i = 0; *r->rows[i].name; i++)
        count += is_drawn(r, i);
    if (!count)
        return UNSUPPORTED;
    TRY(gnuplot_open(folder, "svg", count, &gnuplot));
    for (size_t i = 0; *r->rows[i].name && !rc; i++)
        if (is_drawn(r, i))
            rc = draw_table(r, i, folder, gnuplot);
    ended = gnuplot_close(gnuplot);
    return rc ? rc : ended;
}

/* ---- a page */

static void page_table(const struct study_table *t, FILE *to)
{
    struct form_grid grid = grid_of(t);
    char room[VALUE_BYTES];

    html_write(to, "<div class='scroll'><table>\n<tr><th></th>");
    for (int c = 0; c < grid.count; c++)
        html_write(to, "<th class='n'>%s</th>\n", grid.columns[c]->column);
    fputs("</tr>\n", to);
    for (size_t i = 0; i < t->count; i++) {
        if (!begins_row(t, i))
            continue;
        html_write(to, "<tr><th>%s</th>\n", t->cells[i].row);
        for (int c = 0; c < grid.count; c++) {
            const struct study_cell *cell = find_cell(t, t->cells[i].row, grid.columns[c]->column);

            if (!cell) {
                fputs("<td></td>", to);
                continue;
            }
            html_write(to, "<td class='n'>%s", value_text(cell->value, room));
            if (!isnan(cell->published))
                html_write(to, "<br><span class='soft'>paper %s, %s</span>",
                           published_text(cell, room), study_mark_words[cell->mark]);
            fputs("</td>", to);
        }
        fputs("</tr>\n", to);
    }
    fputs("</table></div>\n", to);
}

/* Writes a line for each table with published numbers and each mark: how near our numbers are, and
 * which is the furthest. */
static void page_scores(const struct study_result *r, FILE *to)
{
    static const char *const words[] = {
        [STUDY_PREDICTED] = "predicted", [STUDY_FITTED] = "fitted"
    };
    char text[SCORE_BYTES], room[VALUE_BYTES], published[VALUE_BYTES];

    if (!*score_text(r, text))
        return;
    fprintf(
        to,
        "<h2>%s</h2>\n<div class=\"scroll\"><table class=\"dictionary\">\n<tr><th></th><th></th>"
        "<th class=\"n\">within %g %%</th><th class=\"n\">within %g %%</th><th class=\"n\">of</th>"
        "<th class=\"extra\">furthest: ours, the paper's</th></tr>\n",
        text, near_percent, fair_percent);
    for (size_t i = 0; *r->rows[i].name; i++) {
        const struct study_row *row = &r->rows[i];
        struct study_score score = { 0 };

        if (!study_shows(r, i) || *row->not_yet)
            continue;
        score_table(row, &r->tables[i], &score);
        for (enum study_mark mark = 0; mark < STUDY_MARKS; mark++) {
            const struct study_cell *cell = score.furthest[mark];

            if (!cell)
                continue;
            html_write(to,
                       "<tr><td><a href='#%s'>%s</a></td><td>%s</td><td class='n'>%u</td>"
                       "<td class='n'>%u</td><td class='n'>%u</td><td class='extra'>%s, %s: %s, "
                       "%s</td></tr>\n",
                       row->name, row->title, words[mark], score.cells[mark][NEAR],
                       score.cells[mark][NEAR] + score.cells[mark][FAIR],
                       scored_cells(&score, mark), value_text(cell->value, room),
                       published_text(cell, published), cell->row, cell->column);
        }
    }
    fputs("</table></div>\n<p class=\"soft\">A distance is a share of the published number.  Of "
          "numbers in percent it is in percentage points.  tuner/study/README.md says why numbers "
          "are missed.</p>\n",
          to);
}

/* Writes a table's picture with its numbers folded below, or the numbers alone. */
static void page_plot(const struct study_result *r, size_t row, FILE *to)
{
    bool drawn = r->folder && *r->rows[row].plot, published = false;
    char name[PICTURE_BYTES];

    for (size_t i = 0; i < r->tables[row].count; i++)
        published = published || !isnan(r->tables[row].cells[i].published);
    if (drawn) {
        fprintf(to, "<figure id=\"%s_plot\">\n", r->rows[row].name);
        page_picture(r->folder, picture_name(r, row, name), "svg", r->rows[row].title, "small", to);
        fprintf(
            to, "<figcaption>%s</figcaption>\n</figure>\n<details><summary>The numbers</summary>\n",
            published ? "Full lines: our modelled numbers.  Broken lines: published numbers.  A "
                        "ring: ours is a prediction.  A cross: ours was fitted to it."
                      : "Our modelled numbers; the paper publishes none.");
    }
    page_table(&r->tables[row], to);
    if (drawn)
        fputs("</details>\n", to);
}

void study_page(const struct study_result *r, FILE *to)
{
    char cluster[CLUSTER_TEXT_BYTES], title[48];
    bool marks = false; /* the marks that all pictures share are written once */

    text_put(title, sizeof(title), "moetune study %s", r->study->name);
    page_begin(title, to);
    html_write(to, "<p class='soft'>%s</p>\n<p class='note'>%s</p>\n", study_title(r->study),
               r->study->paper
                   ? "MODELLED: none of our numbers was measured.  Below each stands the paper's "
                     "number.  Fitted: ours was chosen to agree with it.  Predicted: it was not."
                   : "MODELLED: no number was measured.");
    page_scores(r, to);
    html_write(to, "<p>%s</p>\n", r->study->assumptions);
    if (*r->remark)
        html_write(to, "<p>%s</p>\n", r->remark);
    for (size_t i = 0; *r->rows[i].name; i++) {
        const struct study_row *row = &r->rows[i];

        if (!study_shows(r, i))
            continue;
        fprintf(to, "<section id=\"%s\">\n", row->name);
        html_write(to, "<h2>%s</h2>\n", row->title);
        if (*row->not_yet) {
            fprintf(to, "<p class=\"note\">%s: not yet (%s)</p>\n", row->name, row->not_yet);
        } else {
            fprintf(to, "<p class=\"soft\">%s, %s</p>\n", row->name, row->unit);
            html_write(to, "<p>%s</p>\n", row->assumptions);
            if (r->folder && !marks)
                marks = page_marks(r->folder, picture_name(r, i, (char[PICTURE_BYTES]){ 0 }), to);
            page_plot(r, i, to);
        }
        fputs("</section>\n", to);
    }
    cluster_format(&r->machine, cluster, sizeof(cluster));
    fputs("<details><summary>The cluster</summary>\n", to);
    html_write(to, "<pre>%s</pre>\n", cluster);
    fputs("</details>\n</body>\n</html>\n", to);
}
