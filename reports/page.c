/* Writes the report as one HTML page: head, contents, and a section for each layer with gnuplot's
 * pictures.  html_write() escapes all text. */
#include "buckets.h"
#include "drops.h"
#include "followed.h"
#include "plan.h"
#include "quote.h"
#include "remarks.h"
#include "text.h"
#include "whatif.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char style[] = {
#include <page_style.inc>
    0
};

void page_begin(const char *title, FILE *to)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n" /* else browsers ask for one */
            "<title>%s</title>\n<style>\n",
            title);
    fputs(style, to);
    fprintf(to, "</style>\n</head>\n<body>\n<h1>%s</h1>\n", title);
}

/* Writes a paragraph for each line; `class` is their style. */
static void print_remarks(const struct remarks *remarks, const char *class, FILE *to)
{
    for (int i = 0; i < remarks->count; i++)
        html_write(to, "<p class='%s'>%s</p>\n", class, remarks->lines[i]);
}

/* Writes one warning as it is.  Several are folded under a line that names each by its text up to
 * the first ':'. */
static void print_warnings(const struct remarks *warnings, FILE *to)
{
    if (warnings->count < 2) {
        print_remarks(warnings, "note", to);
        return;
    }
    html_write(to, "<details class='note'><summary>%d warnings: ", warnings->count);
    for (int i = 0; i < warnings->count; i++) {
        const char *line = warnings->lines[i];
        size_t length = strcspn(line, ":");
        char label[64];
        int earlier = 0;

        while (earlier < i && strncmp(warnings->lines[earlier], line, length + 1) != 0)
            earlier++;
        if (earlier < i)
            continue;
        text_put(label, sizeof(label), "%.*s", (int)length, line);
        html_write(to, i ? "; %s" : "%s", label);
    }
    fputs("</summary>\n", to);
    print_remarks(warnings, "warning", to);
    fputs("</details>\n", to);
}

static void print_title(const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];

    if (section->scope.count > 1) {
        fprintf(to, "All %zu layers", section->scope.count);
        return;
    }
    html_write(to, "%s", SHAPE_TEXT(&layer->shape));
    if (layer->buckets.declared && *layer->buckets.declared->class_name)
        html_write(to, ",%s",
                   strchr(BUCKETS_TEXT(layer->buckets, layer->class, layer->class), ' '));
}

/* ---- head */

static void print_contents(const struct report *report, FILE *to)
{
    if (report->section_count < 2)
        return;
    fputs("<nav aria-label=\"Contents\"><ol>\n", to);
    for (size_t i = 0; i < report->section_count; i++) {
        fprintf(to, "<li><a href=\"#%s\">", report->sections[i].name);
        print_title(&report->sections[i], to);
        fputs("</a>", to);
        if (report->sections[i].scope.count == 1) {
            char text[HEADLINE_BYTES];

            remarks_headline(&report->sections[i].scope.layers[0], text);
            fprintf(to, ": %s", text);
        }
        fputs("</li>\n", to);
    }
    fputs("</ol></nav>\n", to);
}

/* ---- gnuplot's pictures are copied line by line, because gnuplot writes one element per line */

/* Replacements in a picture: black becomes the page's text colour, and what is superfluous goes. */
static const struct change {
    const char *from, *to;
} changes[] = {
    { "stroke='black'", "stroke='currentColor'" },
    { "color=\"black\"", "color=\"inherit\"" },
    { "fill=\"black\"", "fill=\"currentColor\"" },
    { "stroke='rgb(  0,   0,   0)'", "stroke='currentColor'" },
    { "stroke=\"rgb(  0,   0,   0)\"", "stroke=\"currentColor\"" },
    { "color='rgb(  0,   0,   0)'", "color='inherit'" },
    { "font-family=\"sans-serif\" ", "" },
    { " id=\"gnuplot_canvas\"", "" },
    { " stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", "" }, /* the default of SVG */
    { " stroke-width=\"1.00\"", "" },
    { "\t", "" },
};
enum { CHANGE_COUNT = sizeof(changes) / sizeof(changes[0]) };

/* Copies a line with its replacements. */
static void copy_line(const char *line, FILE *to)
{
    while (*line) {
        const struct change *change = NULL;
        size_t copied;

        for (int i = 0; i < CHANGE_COUNT && !change; i++)
            if (*line == *changes[i].from &&
                !strncmp(line, changes[i].from, strlen(changes[i].from)))
                change = &changes[i];
        /* Pictures are long, and mostly numbers.  Every replacement begins with one of these. */
        copied = change ? 0 : 1 + strcspn(line + 1, "scf \t");
        fwrite(line, 1, copied, to);
        line += copied;
        if (change) {
            fputs(change->to, to);
            line += strlen(change->from);
        }
    }
}

static const char hover[] = "<text>~~";

/* Writes a text that is only for the pointer as an invisible disc with a title, which every browser
 * shows.  Returns false for any other line. */
static bool write_hover(const char *line, FILE *to)
{
    const char *text = strstr(line, hover), *end = text ? strstr(text, "</text>") : NULL;

    if (!end)
        return false;
    text += strlen(hover);
    fprintf(to,
            "<circle r=\"9\" fill-opacity=\"0\" pointer-events=\"all\"><title>%.*s</title>"
            "</circle>\n",
            (int)(end - text), text);
    return true;
}

/* The parts of a picture: lines before its body, the body, and the definitions of its marks. */
enum svg_part { PROLOGUE, BODY, MARKS };

/* Copies one part of a picture. */
static void copy_part(FILE *from, enum svg_part wanted_part, FILE *to)
{
    enum svg_part part = PROLOGUE;
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, from) > 0) {
        enum svg_part part_before = part;
        bool closes = part == MARKS && strstr(line, "</defs>"), left_out;

        if (part == PROLOGUE)
            part = line[0] == '>' ? BODY : PROLOGUE;
        else if (strstr(line, "<defs>"))
            part = MARKS;
        /* Title and description would be read aloud instead of the label.  The rectangle and the
         * discs under points with error bars are white paper, which only a picture alone needs. */
        left_out = !strncmp(line, "<title>", 7) || !strncmp(line, "<desc>", 6) ||
                   !strncmp(line, "<rect x=\"0\" y=\"0\"", 17) || strstr(line, "color='#FFFFFF'") ||
                   *line == '\n';
        /* The line that opens the body belongs to the prologue, "<defs>" to the marks. */
        if (part == wanted_part && part_before != PROLOGUE && !left_out && !write_hover(line, to))
            copy_line(line, to);
        if (closes)
            part = BODY;
    }
    free(line);
}

bool page_marks(const char *folder, const char *name, FILE *to)
{
    char path[PATH_MAX];
    FILE *from;

    snprintf(path, sizeof(path), "%s/%s.svg", folder, name);
    from = fopen(path, "r");
    if (!from)
        return false;
    html_write(to, "<svg width='0' height='0' class='marks' aria-hidden='true'>\n");
    copy_part(from, MARKS, to);
    fputs("</svg>\n", to);
    fclose(from);
    return true;
}

/* Writes the marks of the first picture: all pictures have the same. */
static void write_marks(const struct report *report, FILE *to)
{
    bool found = false;

    for (size_t i = 0; i < report->section_count && !found; i++)
        for (size_t j = 0; j < report->sections[i].picture_count && !found; j++) {
            const struct picture *p = &report->sections[i].pictures[j];

            found = !p->without && p->plot->script && page_marks(report->folder, p->name, to);
        }
}

bool page_picture(const char *folder, const char *name, const char *ending, const char *title,
                  const char *class, FILE *to)
{
    int width = 420, height = 360;
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    FILE *from;

    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ending);
    from = fopen(path, "r");
    if (!from)
        return false;
    /* gnuplot's prologue has the picture's size; sizes differ. */
    while (getline(&line, &room, from) > 0)
        if (sscanf(line, " viewBox=\"0 0 %d %d\"", &width, &height) == 2)
            break;
    free(line);
    rewind(from);
    html_write(to, "<svg viewBox='0 0 %d %d' class='%s' role='img' aria-label='%s'>\n", width,
               height, class, title);
    copy_part(from, BODY, to); /* gnuplot's body has the closing tag */
    fclose(from);
    return true;
}

/* ---- plots */

enum plot_size { LARGE, SMALL };

/* Writes the section's large plot, or all others, each with caption and formula. */
static void print_plots(const struct report *report, const struct section *section,
                        enum plot_size wanted, FILE *to)
{
    for (size_t i = 0; i < section->picture_count; i++) {
        const struct picture *picture = &section->pictures[i];
        const struct plot *plot = picture->plot;
        enum plot_size size = plot->kind & PLOT_LARGE ? LARGE : SMALL;
        char trace[400];

        if (!plot->script || picture->without || size != wanted)
            continue;
        fprintf(to, "<figure id=\"%s\">\n<h3>%s</h3>\n", picture->name, plot->title);
        page_picture(report->folder, picture->name, "svg", plot->title,
                     size == LARGE ? "wide" : "small", to);
        if (size == LARGE)
            page_picture(report->folder, picture->name, "narrow.svg", plot->title, "narrow", to);
        html_write(to, "<figcaption>%s<details><summary>How it is computed</summary>%s",
                   plot->caption, plot->formula);
        remarks_trace(&section->scope, picture, trace, sizeof(trace));
        fprintf(to, "<br>%s; %s.dat, %s.gp</details></figcaption>\n</figure>\n", trace,
                picture->name, picture->name);
    }
}

/* ---- the table of plans */

static void print_share(double share, const char *class, FILE *to)
{
    if (isnan(share))
        html_write(to, "<td class='%s'>-</td>", class);
    else
        html_write(to, "<td class='%s'>%.1f %%</td>", class, 100 * share);
}

static void print_ms(double us, const char *class, FILE *to)
{
    if (us > 0 && isfinite(us))
        html_write(to, "<td class='%s'>%.4g</td>", class, us * 1e-3);
    else
        html_write(to, "<td class='%s'>-</td>", class);
}

/* Writes one row of the table for entries of neighbouring buckets with one plan.  `how` is worded
 * as in `moetune show`. */
static void dictionary_row(const struct layer_facts *layer, const struct entry_row *e, size_t count,
                           FILE *to)
{
    struct plan_range range = plan_range_of(e, count);
    uint32_t first = e->bucket, last = e[count - 1].bucket;
    char text[BUCKETS_TEXT_BYTES], found[FOUND_BYTES];

    if (layer->buckets.declared)
        facts_range(layer, first, last, text);
    else
        snprintf(text, sizeof(text), "%" PRIu64 " to %" PRIu64,
                 buckets_lowest(layer->buckets, first), buckets_highest(layer->buckets, last));
    html_write(to, "<tr><td class='n'>%s</td><td class='plan'>%s</td>", text, PLAN_WORDS(&e->plan));
    print_ms(range.time_us, "n", to);
    print_ms(range.default_us, "n extra", to);
    print_share(range.gain.value, "n", to);
    print_share(range.gain.low, "n extra", to);
    plan_range_found(&range, e, 0, found);
    html_write(to, "<td class='extra'>%s</td></tr>\n", found);
}

static void print_dictionary(const struct layer_facts *layer, FILE *to)
{
    const struct entry_row *e = layer->entries;

    if (!layer->entry_count)
        return;
    html_write(to,
               "<h3>The table</h3>\n<div class='scroll'><table class='dictionary'>\n<tr>"
               "<th class='n'>%s</th><th>plan</th><th class='n'>step, ms</th>"
               "<th class='n extra'>default, ms</th><th class='n'>saves</th>"
               "<th class='n extra'>at least</th><th class='extra'>how</th></tr>\n",
               facts_key(layer));
    for (size_t i = 0, end; i < layer->entry_count; i = end) {
        for (end = i + 1;
             end < layer->entry_count && entries_join(&e[end - 1], &e[end], facts_stride(layer));)
            end++;
        dictionary_row(layer, &e[i], end - i, to);
    }
    fprintf(to,
            "</table></div>\n<p class=\"soft\">Step, default and saves are means over the row's "
            "buckets.  At least: the 95 %% lower bound of what the row saves.%s</p>\n",
            layer->has_standing
                ? "  The headline is no mean of the rows: it was timed separately, and "
                  "gives each doubling of the capacity the same weight."
                : "");
}

/* Writes what each axis is worth, the most important axis first. */
static void print_axes(const struct layer_facts *layer, FILE *to)
{
    struct axis_worth axes[DECLARATION_AXES_MAX + 16];
    size_t count = 0, axis_count = contrast_axes(layer);

    for (size_t i = 0; i < axis_count && count < sizeof(axes) / sizeof(axes[0]); i++) {
        struct axis_worth worth = contrast_axis(layer, i);
        size_t place = count;

        if (!worth.buckets)
            continue;
        while (place &&
               (isnan(axes[place - 1].without) || worth.without > axes[place - 1].without)) {
            axes[place] = axes[place - 1];
            place--;
        }
        axes[place] = worth;
        count++;
    }
    if (count < 2) /* a single axis makes the whole gain */
        return;
    fputs("<h3>Which axis matters</h3>\n<ul>\n", to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "<li>With %s as in the default plan, ", axes[i].name);
        if (axes[i].timed)
            fprintf(to, "a step takes %.1f %% %s, mean of %u bucket%s", 100 * fabs(axes[i].without),
                    axes[i].without < 0 ? "less" : "longer", axes[i].timed,
                    axes[i].timed == 1 ? "" : "s");
        else
            fputs("no step was timed", to);
        if (axes[i].timed && axes[i].timed < axes[i].buckets)
            fprintf(to, " (%u buckets have another %s than the default)", axes[i].buckets,
                    axes[i].name);
        fputs(".</li>\n", to);
    }
    fputs("</ul>\n", to);
}

static void print_last_changes(const struct report *report, const struct layer_facts *layer,
                               FILE *to)
{
    struct remarks since;

    remarks_since(report->facts, layer, &since);
    if (!since.count)
        return;
    fputs("<h3>What the last run changed</h3>\n", to);
    print_remarks(&since, "since", to);
}

static void print_next_steps(const struct report *report, const struct layer_facts *layer, FILE *to)
{
    struct remarks next;

    remarks_next(report->facts, layer, report->db, &next);
    if (!next.count)
        return;
    fputs("<h3>What to do next</h3>\n<ul>\n", to);
    for (int i = 0; i < next.count; i++) {
        char *command = strchr(next.lines[i], '\n');

        if (command)
            *command++ = 0;
        html_write(to, command ? "<li>%s:<br><code>" : "<li>%s", next.lines[i]);
        while (command) { /* a line may break between words, not behind the hyphen of an option */
            size_t length = strcspn(command, " ");
            bool last = !command[length];

            command[length] = 0;
            html_write(to, "<span class='word'>%s</span>", command);
            fputs(last ? "</code>" : " ", to);
            command = last ? NULL : command + length + 1;
        }
        fputs("</li>\n", to);
    }
    fputs("</ul>\n", to);
}

/* ---- tables */

enum summary { MEAN, WORST, SUMMARIES };

static void improvement_row(const struct scope *scope, uint32_t ranks,
                            const struct static_line *line, enum summary summary, FILE *to)
{
    uint32_t compared = 0, timed = 0;

    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td>%s</td>", ranks, line->name,
            summary == WORST ? "worst" : "mean");
    for (int i = 0; i < line->count; i++) {
        struct improvement pooled = series_pooled_improvement(scope, ranks, &line->plans[i]);

        print_share(summary == WORST ? pooled.worst : pooled.mean, "n", to);
        compared += pooled.buckets;
        timed += pooled.measured;
    }
    if (line->count < SERIES_LINE_PLANS)
        fprintf(to, "<td colspan=\"%d\"></td>", SERIES_LINE_PLANS - line->count);
    html_write(to, "<td class='n'>%u of %u</td></tr>\n", timed, compared);
}

/* Returns the next larger number of ranks that a layer of the scope has, or 0. */
static uint32_t next_ranks(const struct scope *scope, uint32_t ranks_before)
{
    uint32_t next = 0;

    for (size_t i = 0; i < scope->count; i++) {
        uint32_t ranks = scope->layers[i].shape.ranks;

        if (ranks > ranks_before && (!next || ranks < next))
            next = ranks;
    }
    return next;
}

static void print_improvement(const struct section *section, FILE *to)
{
    const struct scope *scope = &section->scope;
    struct static_line lines[SERIES_LINES];
    int count = series_lines(scope, lines);

    html_write(to,
               "<details><summary>How much longer each static plan takes than the table, r=0 or "
               "r=1</summary><div class='scroll'><table>\n<tr><th class='n'>ranks</th>"
               "<th>static plan</th><th></th><th class='n'>d=1</th><th class='n'>d=2</th>"
               "<th class='n'>d=4</th><th class='n'>d=8</th><th class='n'>timed</th></tr>\n");
    for (uint32_t ranks = next_ranks(scope, 0); ranks; ranks = next_ranks(scope, ranks))
        for (enum summary summary = MEAN; summary < SUMMARIES; summary++)
            for (int line = 0; line < count; line++)
                improvement_row(scope, ranks, &lines[line], summary, to);
    fputs("</table></div><p class=\"soft\">A number is time of the static plan / time of the "
          "table's plan - 1, mean or worst of the measured buckets.  timed: how many of the step "
          "times behind a row were measured; the others are interpolated.  -: never timed.</p>"
          "</details>\n",
          to);
}

enum { FAILURES_SHOWN = 100 };

static void print_failures(const struct layer_facts *layer, FILE *to)
{
    size_t count = 0;

    for (size_t i = 0; i < layer->trial_count; i++) {
        const struct trial_row *t = &layer->trials[i].row;

        if (t->state == TRIAL_OK)
            continue;
        if (!count++)
            html_write(to,
                       "<details><summary>Trials that gave no time</summary><div class='scroll'>"
                       "<table>\n<tr><th class='n'>bucket</th><th>plan</th><th>state</th>"
                       "<th>message</th></tr>\n");
        if (count > FAILURES_SHOWN)
            continue;
        html_write(
            to, "<tr><td class='n'>%u</td><td>%s</td><td>%s</td><td class='long'>%s</td></tr>\n",
            t->key.bucket, PLAN_WORDS(&t->key.plan), trial_state_words[t->state], t->message);
    }
    if (count)
        fputs("</table></div>", to);
    if (count > FAILURES_SHOWN)
        html_write(to, "<p class='soft'>and %zu more</p>", count - FAILURES_SHOWN);
    if (count)
        fputs("</details>\n", to);
}

/* ---- what if routing were limited */

/* Writes a cell: the best plan of a router and an all-to-all at one capacity. */
static void print_best_plan(const struct moe_shape *shape, const struct trial_facts *trial,
                            FILE *to)
{
    const char *interval;

    if (!trial) {
        html_write(to, "<td class='n'>-</td>");
        return;
    }
    interval = whatif_sure(&trial->steps)
                   ? INTERVAL_BARE("%.4g", (double)trial->steps.low_ns * 1e-6,
                                   (double)trial->steps.high_ns * 1e-6)
                   : "";
    fprintf(to, "<td class=\"n\">%.4g ms<br>%s%s%.4g MiB<br>r=%u d=%u</td>",
            (double)trial->steps.median_ns * 1e-6, interval, *interval ? "<br>" : "",
            whatif_bytes(shape, trial) / 1048576, trial->row.key.plan.r, trial->row.key.plan.d);
}

/* Writes the table of a pair of layers: a row for each capacity. */
static void print_pair(const struct whatif_pair *pair, FILE *to)
{
    struct whatif_row row = { .capacity = 0 };

    html_write(to,
               "<details><summary>The best plans of %s</summary><div class='scroll'><table>\n<tr>"
               "<th class='n'>c</th>",
               SHAPE_TEXT(&pair->limited->shape));
    for (int i = 0; i < WHATIF_WAYS; i++)
        if (whatif_tried(pair, i))
            html_write(to, "<th class='n'>%s</th>", whatif_ways[i].name);
    html_write(to, "<th class='n'>gain</th><th class='n'>of it flat</th></tr>\n");
    while (whatif_next(pair, &row)) {
        const struct gain gains[] = { row.gain, row.flat };

        html_write(to, "<tr><td class='n'>%" PRIu64 "</td>", row.capacity);
        for (int i = 0; i < WHATIF_WAYS; i++)
            if (whatif_tried(pair, i))
                print_best_plan(whatif_shape(pair, i), row.best[i], to);
        for (int i = 0; i < 2; i++) {
            const char *interval = INTERVAL_BARE("%.1f", 100 * gains[i].low, 100 * gains[i].high);

            fprintf(to, "<td class=\"n\">%.1f %%%s%s</td>", 100 * gains[i].value,
                    *interval ? "<br>" : "", interval);
        }
        fputs("</tr>\n", to);
    }
    fputs("</table></div></details>\n", to);
}

static void print_whatif(const struct scope *scope, FILE *to)
{
    struct remarks remarks;
    struct whatif_pair pair;

    whatif_remarks(scope, &remarks);
    print_remarks(&remarks, "whatif", to);
    for (size_t i = 0; whatif_pair(scope, i, &pair); i++)
        print_pair(&pair, to);
    followed_remarks(scope, &remarks);
    print_remarks(&remarks, "followed", to);
}

/* ---- sections */

static void print_headline(const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    const struct cluster *c = &layer->cluster;
    char text[HEADLINE_BYTES];
    struct figure figures[FIGURES];

    remarks_headline(layer, text);
    remarks_figures(layer, figures);
    fprintf(to, "<h2>%s</h2>\n<dl class=\"figures\">\n", text);
    for (int i = 0; i < FIGURES; i++)
        if (*figures[i].number)
            fprintf(to, "<div><dt>%s</dt><dd>%s</dd></div>\n", figures[i].words, figures[i].number);
    fputs("</dl>\n<p><b>", to);
    print_title(section, to);
    html_write(to, "</b></p>\n<p>%s%s, %u rank%s on %u node%s; buckets ",
               layer->modelled ? "MODELLED: " : "", c->device, c->ranks, c->ranks == 1 ? "" : "s",
               c->nodes, c->nodes == 1 ? "" : "s");
    if (layer->buckets.declared)
        fprintf(to, "by %s</p>\n", layer->buckets.declared->key);
    else
        fprintf(to, "of %u rows</p>\n", layer->buckets.window);
}

/* Writes what the section rests on, and which plots are missing, folded. */
static void print_fine_print(const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    struct spent spent = series_spent_of(&section->scope);
    struct remarks remarks;

    fputs("<details><summary>What this rests on, and what is not drawn</summary>\n", to);
    remarks_totals(&section->scope, &remarks);
    print_remarks(&remarks, "soft", to);
    if (scope_has_own_axes(&section->scope) && spent.trials)
        fprintf(to,
                "<p class=\"soft\">Steps: %" PRIu64 " for the search, %" PRIu64
                " against the default, %" PRIu64
                " in rounds of the table.  The paper's search would take %" PRIu64
                " trials for these buckets; trying every plan once would take %" PRIu64 ".</p>\n",
                spent.search, spent.contest, spent.rounds, spent.paper, spent.exhaustive);
    for (size_t i = 0; i < section->picture_count; i++) {
        const struct picture *p = &section->pictures[i];

        if (!p->without)
            continue;
        fprintf(to, "<p class=\"soft\">No plot \"%s\": ", p->plot->title);
        html_write(to, "%s.</p>\n", p->without);
    }
    if (section->scope.count == 1 && !layer->buckets.declared) {
        drops_remarks(layer, &remarks);
        print_remarks(&remarks, "soft", to);
    }
    fputs("</details>\n", to);
}

static void print_section(const struct report *report, const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    bool one_layer = section->scope.count == 1;
    struct remarks remarks;

    fprintf(to, "<section id=\"%s\">\n", section->name);
    if (one_layer)
        print_headline(section, to);
    else
        fprintf(to, "<h2>All %zu layers</h2>\n", section->scope.count);
    remarks_section(report->facts, &section->scope, &remarks);
    if (report->section_count == 1)
        remarks_overall(report->facts, &remarks);
    print_warnings(&remarks, to);
    html_write(to, "<div class='top'><div>\n");
    print_plots(report, section, LARGE, to);
    fputs("</div><div>\n", to);
    if (one_layer) {
        print_dictionary(layer, to);
        print_axes(layer, to);
        print_last_changes(report, layer, to);
        print_next_steps(report, layer, to);
    }
    fputs("</div></div>\n", to);
    print_whatif(&section->scope, to);
    html_write(to, "<div class='plots'>\n");
    print_plots(report, section, SMALL, to);
    fputs("</div>\n", to);
    print_fine_print(section, to);
    if (scope_has_own_axes(&section->scope))
        print_improvement(section, to);
    if (one_layer)
        print_failures(layer, to);
    fputs("</section>\n", to);
}

/* ---- the end of the page */

/* Writes the text of each declared space, folded. */
static void print_spaces(const struct facts *facts, FILE *to)
{
    for (size_t i = 0; i < facts->layer_count; i++) {
        const struct declaration *d = facts->layers[i].buckets.declared;
        size_t first = 0;

        while (facts->layers[first].buckets.declared != d)
            first++;
        if (d && first == i)
            html_write(to, "<details><summary>What may vary: %s</summary><pre>%s</pre></details>\n",
                       d->name, d->text);
    }
}

static void print_letters(FILE *to)
{
    static const char *const letters[][2] = {
        { "E, k", "experts of the layer; experts per token" },
        { "T", "tokens per rank and step" },
        { "D, H", "model dimension; hidden dimension of an expert" },
        { "W, m", "ranks; ranks on each node (0: nodes differ)" },
        { "c, R", "rows that one expert gets from one rank; number of capacities in a bucket" },
        { "r", "0: weights move and tokens stay; above 0: each token goes to r ranks" },
        { "d", "chunks: one is computed while the next one travels" },
        { "a", "which all-to-all moves the tokens: linear, 2dh, nccl, rail, 3dh" },
        { "default", "r=1 d=1 a=linear, what a trainer gets without a table" },
    };

    html_write(to, "<details><summary>What the letters mean</summary><dl class='key'>\n");
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
        fprintf(to, "<dt>%s</dt><dd>%s</dd>\n", letters[i][0], letters[i][1]);
    fputs("</dl></details>\n", to);
}

static void print_runs(const struct facts *facts, FILE *to)
{
    if (!facts->run_count)
        return;
    html_write(to, "<details><summary>Runs</summary><div class='scroll'><table>\n<tr><th "
                   "class='n'>run</th><th>started, UTC</th><th>state</th><th>search</th><th "
                   "class='n'>buckets</th><th class='n'>steps to search</th><th class='n'>against "
                   "the default</th><th class='n'>to warm up</th><th>seed</th><th>version</th>"
                   "<th>command</th></tr>\n");
    for (const struct run_row *r = facts->runs; r < facts->runs + facts->run_count; r++) {
        html_write(to,
                   "<tr><td class='n'>%" PRId64 "</td><td>%s</td><td>%s</td><td>%s, %s</td>"
                   "<td class='n'>%u/%u</td><td class='n'>%" PRIu64 "</td><td class='n'>%" PRIu64
                   "</td><td class='n'>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%s</td>"
                   "<td class='long'><code>%s</code></td></tr>\n",
                   r->id, DATE_TEXT(r->started_s, DATE_MINUTE), run_state_words[r->state],
                   r->search, r->effort, r->buckets_done, r->buckets_planned, r->samples_search,
                   r->samples_default, r->samples_warm, r->seed, r->version, r->command);
    }
    fputs("</table></div></details>\n", to);
}

/* Writes when the newest run or decision was, which distinguishes two pages of one database. */
static void print_date(const struct facts *facts, FILE *to)
{
    int64_t last_s = 0;

    for (size_t i = 0; i < facts->run_count; i++)
        if (facts->runs[i].updated_s > last_s)
            last_s = facts->runs[i].updated_s;
    for (size_t i = 0; i < facts->layer_count; i++)
        for (size_t j = 0; j < facts->layers[i].entry_count; j++)
            if (facts->layers[i].entries[j].decided_s > last_s)
                last_s = facts->layers[i].entries[j].decided_s;
    if (last_s)
        fprintf(to, ", last changed %s UTC", DATE_TEXT(last_s, DATE_MINUTE));
}

void page_write(const struct report *report, FILE *to)
{
    const struct facts *facts = report->facts;
    struct remarks remarks;

    page_begin("moetune report", to);
    html_write(to, "<p class='soft'>Database %s", report->db);
    print_date(facts, to);
    fputs("</p>\n", to);
    print_contents(report, to);
    remarks.count = 0;
    if (report->section_count != 1)
        remarks_overall(facts, &remarks);
    print_warnings(&remarks, to);
    write_marks(report, to);
    for (size_t i = 0; i < report->section_count; i++)
        print_section(report, &report->sections[i], to);
    print_spaces(facts, to);
    if (scope_has_own_axes(&(struct scope){ facts->layers, facts->layer_count }))
        print_letters(to);
    print_runs(facts, to);
    html_write(
        to, "<p class='soft'>Beside this page every plot has its data file (.dat) and its script "
            "(.gp): <code>gnuplot NAME.gp</code> draws it again.</p>\n</body>\n</html>\n");
}
