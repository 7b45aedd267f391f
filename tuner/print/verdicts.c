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

/* Adds a time in ms, or a dash if it is not known (NAN). */
static int add_ms_cell(struct grid *grid, double us)
{
    return isnan(us) ? grid_cell(grid, "-") : grid_cell(grid, "%.4g", us * 1e-3);
}

static int add_verdict(const struct verdict *verdict, struct grid *grid)
{
    TRY(grid_row(grid, verdict->failed                    ? INK_BAD
                       : !strcmp(verdict->word, "faster") ? INK_GOOD
                                                          : INK_PLAIN));
    TRY(grid_cell(grid, "%s", strncmp(verdict->key, "c=", 2) ? verdict->key : verdict->key + 2));
    TRY(grid_cell(grid, "%s", verdict->plan));
    TRY(add_ms_cell(grid, verdict->before_us));
    TRY(add_ms_cell(grid, verdict->now_us));
    TRY(grid_gain(grid, &verdict->gain));
    TRY(grid_cell(grid, "%u", verdict->pairs));
    TRY(grid_cell(grid, "%s", verdict->word));
    return *verdict->why ? grid_note(grid, verdict->why) : OK;
}

int verdicts_table(const struct verdict *verdicts, size_t count, FILE *out)
{
    struct grid grid = GRID_OF(columns);
    int rc = OK;

    for (size_t i = 0; i < count && !rc; i++)
        rc = add_verdict(&verdicts[i], &grid);
    if (!rc)
        grid_print(&grid, out);
    grid_clear(&grid);
    return rc;
}

void verdict_json_gain(const struct gain *gain, FILE *out)
{
    json_write(out, ", 'gain': %g, 'gain_low': %g, 'gain_high': %g", gain->value, gain->low,
               gain->high);
}

void verdicts_json(const struct verdict *verdicts, size_t count, FILE *out)
{
    json_write(out, "{'entries': [");
    for (size_t i = 0; i < count; i++) {
        const struct verdict *verdict = &verdicts[i];

        json_write(out,
                   "%s\n {'key': '%s', 'plan': '%s', 'pairs': %u, 'verdict': '%s', "
                   "'before_us': %g, 'now_us': %g",
                   i ? "," : "", verdict->key, verdict->plan, verdict->pairs, verdict->word,
                   verdict->before_us, verdict->now_us);
        verdict_json_gain(&verdict->gain, out);
        json_write(out, ", 'why': '%s'}", verdict->why);
    }
    fprintf(out, "\n]}\n");
}
