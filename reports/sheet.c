/* Writes the report as text for a terminal: headings, sentences, and plots that gnuplot draws with
 * characters. */
#include "drops.h"
#include "followed.h"
#include "quote.h"
#include "remarks.h"
#include "text.h"
#include "whatif.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_COLUMNS = 79 };

/* Writes a text in indented lines of at most COLUMNS characters, broken at blanks. */
static void wrap(const char *text, FILE *to)
{
    while (*text) {
        size_t length = strlen(text), width = LINE_COLUMNS - 2;

        if (length > width) {
            for (length = width; length && text[length] != ' '; length--)
                ;
            length = length ? length : width;
        }
        fprintf(to, "  %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* As wrap(), for a text that comes from the database: control characters become blanks. */
static void wrap_database_text(const char *text, FILE *to)
{
    char *clean = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&clean, &bytes);

    if (!memory)
        return;
    quote_plain(text, memory);
    if (!fclose(memory))
        wrap(clean, to);
    free(clean);
}

/* Writes each line of the remarks.  A command behind a line feed is not broken, so that people can
 * paste it. */
static void print_remarks(const struct remarks *remarks, FILE *to)
{
    for (int i = 0; i < remarks->count; i++) {
        const char *line = remarks->lines[i], *command = strchr(line, '\n');
        char words[REMARK_BYTES];

        text_put(words, sizeof(words), "%.*s", (int)strcspn(line, "\n"), line);
        wrap_database_text(words, to);
        if (command)
            quote_write(to, QUOTE_PLAIN, "    %s\n", command + 1);
    }
}

static void print_plot(const struct report *report, const struct section *section,
                       const struct picture *picture, FILE *to)
{
    char trace[400], path[PATH_MAX], *line = NULL;
    size_t room = 0;
    FILE *from;

    if (!picture->plot->script)
        return;
    fprintf(to, "\n");
    if (picture->without) {
        fprintf(to, "No plot \"%s\":\n", picture->plot->title);
        wrap(picture->without, to);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s.txt", report->folder, picture->name);
    from = fopen(path, "r");
    while (from && getline(&line, &room, from) > 0) {
        /* gnuplot fills lines with blanks, and begins with a form feed. */
        const char *begin = line + (line[0] == '\f');
        size_t length = strlen(begin);

        while (length && isspace((unsigned char)begin[length - 1]))
            length--;
        if (length)
            fprintf(to, "%.*s\n", (int)length, begin);
    }
    free(line);
    if (from)
        fclose(from);
    wrap(picture->plot->caption, to);
    remarks_trace(&section->scope, picture, trace, sizeof(trace));
    wrap(trace, to);
}

enum summary { MEAN, WORST };

/* Writes how much longer each static plan takes than the table: mean, or worst bucket. */
static void print_improvement(const struct section *section, enum summary summary, FILE *to)
{
    struct static_line lines[SERIES_LINES];
    int count = series_lines(&section->scope, lines);

    fprintf(to, "  %-18s    d=1     d=2     d=4     d=8\n",
            summary == WORST ? "worst bucket" : "mean");
    for (int i = 0; i < count; i++) {
        fprintf(to, "  %-14s", lines[i].name);
        for (int j = 0; j < lines[i].count; j++) {
            struct improvement pooled =
                series_pooled_improvement(&section->scope, 0, &lines[i].plans[j]);
            double share = summary == WORST ? pooled.worst : pooled.mean;

            if (isnan(share))
                fprintf(to, "%8s", "-");
            else
                fprintf(to, "%7.1f%%", 100 * share);
        }
        fprintf(to, "\n");
    }
}

static void print_section(const struct report *report, const struct section *section, FILE *to)
{
    const struct layer_facts *layer = &section->scope.layers[0];
    bool one_layer = section->scope.count == 1;
    struct remarks remarks;

    if (one_layer) {
        quote_write(to, QUOTE_PLAIN, "\n== %s: %s\n   %s, %u ranks, buckets ", section->name,
                    SHAPE_TEXT(&layer->shape), layer->cluster.device, layer->cluster.ranks);
        if (layer->buckets.declared)
            fprintf(to, "by %s\n", layer->buckets.declared->key);
        else
            fprintf(to, "of %u\n", layer->buckets.window);
    } else {
        fprintf(to, "\n== all %zu layers\n", section->scope.count);
    }
    remarks_section(report->facts, &section->scope, &remarks);
    print_remarks(&remarks, to);
    if (one_layer) {
        char text[HEADLINE_BYTES];

        remarks_headline(layer, text);
        wrap(text, to);
        remarks_since(report->facts, layer, &remarks);
        print_remarks(&remarks, to);
        remarks_next(report->facts, layer, report->db, &remarks);
        print_remarks(&remarks, to);
    }
    remarks_totals(&section->scope, &remarks);
    print_remarks(&remarks, to);
    if (one_layer && !layer->buckets.declared) {
        drops_remarks(layer, &remarks);
        print_remarks(&remarks, to);
    }
    whatif_remarks(&section->scope, &remarks);
    print_remarks(&remarks, to);
    followed_remarks(&section->scope, &remarks);
    print_remarks(&remarks, to);
    for (size_t i = 0; i < section->picture_count; i++)
        print_plot(report, section, &section->pictures[i], to);
    if (!scope_has_own_axes(&section->scope))
        return;
    fprintf(to, "\nHow much longer each static plan takes than the table, r=0 or r=1\n");
    print_improvement(section, MEAN, to);
    print_improvement(section, WORST, to);
}

void sheet_write(const struct report *report, FILE *to)
{
    struct remarks remarks;

    quote_write(to, QUOTE_PLAIN, "moetune report of %s\n", report->db);
    remarks.count = 0;
    remarks_overall(report->facts, &remarks);
    print_remarks(&remarks, to);
    for (size_t i = 0; i < report->section_count; i++)
        print_section(report, &report->sections[i], to);
    quote_write(to, QUOTE_PLAIN, "\nData and scripts of every plot: %s\n", report->folder);
}
