/* Writes verdicts in every form; a file is whole, or it is not there. */
#include "verdicts.h"

#include "grid.h"
#include "json.h"
#include "output_file.h"
#include "quote.h"
#include "status.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct verdict_files, field)
const struct option_row verdict_file_rows[] = {
    { "junit", "FILE", OPTION_TEXT, AT(junit), "verdicts as JUnit's XML, too; -: here" },
    { "markdown", "FILE", OPTION_TEXT, AT(markdown), "as a table in Markdown; -: here" },
    { NULL },
};
#undef AT

/* ---- for a person, and as JSON */

static const struct grid_column columns[] = {
    { "key", GRID_LEFT },         { "plan", GRID_LEFT },       { "before\nms", GRID_POINT },
    { "now\nms", GRID_POINT },    { "faster\n%", GRID_POINT }, { "99 %\nlow", GRID_POINT },
    { "99 %\nhigh", GRID_POINT }, { "pairs", GRID_RIGHT },     { "verdict", GRID_LEFT },
};

static int add_row(const struct verdict *v, struct grid *grid)
{
    TRY(grid_row(grid, v->failed ? INK_BAD : v->gain.low > 0 ? INK_GOOD : INK_PLAIN));
    TRY(grid_cell(grid, "%s", strncmp(v->key, "c=", 2) ? v->key : v->key + 2));
    TRY(grid_cell(grid, "%s", v->plan));
    TRY(isnan(v->before_us) ? grid_cell(grid, "-") : grid_cell(grid, "%.4g", v->before_us * 1e-3));
    TRY(isnan(v->now_us) ? grid_cell(grid, "-") : grid_cell(grid, "%.4g", v->now_us * 1e-3));
    TRY(grid_gain(grid, &v->gain));
    TRY(grid_cell(grid, "%u", v->pairs));
    TRY(grid_cell(grid, "%s", v->word));
    return *v->why ? grid_note(grid, v->why) : OK;
}

int verdicts_table(const struct verdict *verdicts, size_t count, FILE *to)
{
    struct grid grid = GRID_OF(columns);
    int rc = OK;

    for (size_t i = 0; i < count && !rc; i++)
        rc = add_row(&verdicts[i], &grid);
    if (!rc)
        grid_print(&grid, to);
    grid_clear(&grid);
    return rc;
}

void verdict_json_gain(const struct gain *gain, FILE *to)
{
    json_write(to, ", 'gain': %g, 'gain_low': %g, 'gain_high': %g", gain->value, gain->low,
               gain->high);
}

void verdicts_json(const struct verdict *verdicts, size_t count, FILE *to)
{
    json_write(to, "{'entries': [");
    for (size_t i = 0; i < count; i++) {
        const struct verdict *v = &verdicts[i];

        json_write(to,
                   "%s\n {'key': '%s', 'plan': '%s', 'pairs': %u, 'verdict': '%s', "
                   "'before_us': %g, 'now_us': %g",
                   i ? "," : "", v->key, v->plan, v->pairs, v->word, v->before_us, v->now_us);
        verdict_json_gain(&v->gain, to);
        json_write(to, ", 'why': '%s'}", v->why);
    }
    fprintf(to, "\n]}\n");
}

/* ---- JUnit */

static void xml_attribute(const char *name, const char *text, FILE *to)
{
    fprintf(to, " %s=\"", name);
    quote_xml(text, to);
    fputc('"', to);
}

/* Whether the measurements showed nothing of this key. */
static bool is_skipped(const struct verdict *v)
{
    return !v->failed && isnan(v->gain.value);
}

static void junit_case(const struct verdict *v, FILE *to)
{
    char name[sizeof(v->key) + sizeof(v->plan) + 4];
    struct gain g = v->gain;

    snprintf(name, sizeof(name), "%s: %s", v->key, v->plan);
    fputs("  <testcase", to);
    xml_attribute("classname", v->group, to);
    xml_attribute("name", name, to);
    if (!isnan(v->now_us))
        fprintf(to, " time=\"%.9f\"", v->now_us * 1e-6);
    fputs(v->failed       ? ">\n    <failure message=\""
          : is_skipped(v) ? ">\n    <skipped message=\""
                          : ">\n    <system-out>",
          to);
    quote_xml(v->word, to);
    if (g.value < 0)
        fprintf(to, ": takes %.1f %% longer%s in %u pairs", -100 * g.value,
                INTERVAL_TEXT("%.1f", -100 * g.high, -100 * g.low), v->pairs);
    else if (!isnan(g.value))
        fprintf(to, ": %.1f %% faster%s in %u pairs", 100 * g.value,
                INTERVAL_TEXT("%.1f", 100 * g.low, 100 * g.high), v->pairs);
    fputs(*v->why ? "; " : "", to);
    quote_xml(v->why, to);
    fputs(v->failed || is_skipped(v) ? "\"/>\n  </testcase>\n" : "</system-out>\n  </testcase>\n",
          to);
}

static void junit(const char *heading, const struct verdict *verdicts, size_t count, FILE *to)
{
    size_t failures = 0, skipped = 0;

    for (size_t i = 0; i < count; i++) {
        failures += verdicts[i].failed;
        skipped += is_skipped(&verdicts[i]);
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite", to);
    xml_attribute("name", heading, to);
    fprintf(to, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n", count, failures,
            skipped);
    for (size_t i = 0; i < count; i++)
        junit_case(&verdicts[i], to);
    fputs("</testsuite>\n", to);
}

/* ---- Markdown */

static void cell_us(double us, FILE *to)
{
    if (isnan(us))
        fputs(" | -", to);
    else
        fprintf(to, " | %.1f", us);
}

static void markdown(const char *heading, const struct verdict *verdicts, size_t count, FILE *to)
{
    fprintf(to, "### moetune: %s\n", heading);
    for (size_t i = 0; i < count; i++) {
        const struct verdict *v = &verdicts[i];

        if (!i || strcmp(v->group, verdicts[i - 1].group) != 0)
            fprintf(
                to,
                "\n%s\n\n| key | plan | before us | now us | faster by | 99 %% interval | pairs "
                "| verdict |\n|---|---|--:|--:|--:|---|--:|---|\n",
                v->group);
        fputs("| ", to);
        quote_markdown(v->key, to);
        fputs(" | ", to);
        quote_markdown(v->plan, to);
        cell_us(v->before_us, to);
        cell_us(v->now_us, to);
        if (isnan(v->gain.value))
            fputs(" | - | -", to);
        else
            fprintf(to, " | %.1f %% | %s", 100 * v->gain.value,
                    INTERVAL_BARE("%.1f", 100 * v->gain.low, 100 * v->gain.high));
        fprintf(to, " | %u | %s", v->pairs, v->failed ? "**" : "");
        quote_markdown(v->word, to);
        fputs(v->failed ? "**" : "", to);
        fputs(*v->why ? "; " : "", to);
        quote_markdown(v->why, to);
        fputs(" |\n", to);
    }
}

/* ---- files */

bool verdicts_here(const char *path)
{
    return path && !strcmp(path, "-");
}

typedef void writer(const char *heading, const struct verdict *verdicts, size_t count, FILE *to);

static int write_one(const char *path, writer *write, const char *heading,
                     const struct verdict *verdicts, size_t count)
{
    struct output_file file;

    if (!path)
        return OK;
    if (verdicts_here(path)) {
        write(heading, verdicts, count, stdout);
        return OK;
    }
    TRY(output_begin(path, &file));
    write(heading, verdicts, count, file.to);
    return output_end(&file, OK, NULL, false);
}

static int check_one(const char *path)
{
    struct output_file file;

    if (!path || verdicts_here(path))
        return OK;
    TRY(output_begin(path, &file));
    output_end(&file, ERR_CUT, NULL, false);
    return OK;
}

int verdicts_check(const struct verdict_files *files)
{
    TRY(check_one(files->junit));
    return check_one(files->markdown);
}

int verdicts_write(const struct verdict_files *files, const char *heading,
                   const struct verdict *verdicts, size_t count)
{
    TRY(write_one(files->junit, junit, heading, verdicts, count));
    return write_one(files->markdown, markdown, heading, verdicts, count);
}
