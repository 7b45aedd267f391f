/* Prints verdicts as a table for a person, and as JSON. */
#include "verdicts.h"

#include "grid.h"
#include "json.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct grid_column columns[] = {
    { "key", GRID_LEFT },         { "plan", GRID_LEFT },       { "before\nms", GRID_POINT },
    { "now\nms", GRID_POINT },    { "faster\n%", GRID_POINT }, { "95 %\nlow", GRID_POINT },
    { "95 %\nhigh", GRID_POINT }, { "pairs", GRID_RIGHT },     { "verdict", GRID_LEFT },
};

static int add_row(const struct verdict *v, struct grid *grid)
{
    TRY(grid_row(grid, v->failed ? INK_BAD : !strcmp(v->word, "faster") ? INK_GOOD : INK_PLAIN));
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
