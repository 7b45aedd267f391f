/* Puts gnuplot's SVG into a page; it goes line by line, because gnuplot writes one element per
 * line. */
#include "inline.h"

#include "quote.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What is black is to be the page's colour of text; what is white its background. */
static const struct change {
    const char *from, *to;
} changes[] = {
    { "stroke='black'", "stroke='currentColor'" },
    { "color=\"black\"", "color=\"inherit\"" },
    { "fill=\"black\"", "fill=\"currentColor\"" },
    { "font-family=\"sans-serif\" ", "" },
    { " id=\"gnuplot_canvas\"", "" },
    { " stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", "" }, /* as it is anyway */
    { " stroke-width=\"1.00\"", "" },
    { "\t", "" },
};
enum { CHANGE_COUNT = sizeof(changes) / sizeof(changes[0]) };

static const struct change *change_at(const char *line)
{
    for (int i = 0; i < CHANGE_COUNT; i++)
        if (*line == *changes[i].from && !strncmp(line, changes[i].from, strlen(changes[i].from)))
            return &changes[i];
    return NULL;
}

static void put_line(const char *line, FILE *to)
{
    while (*line) {
        const struct change *change = change_at(line);
        /* Pictures are long, and most of them numbers: no change begins before one of these. */
        size_t same = change ? 0 : 1 + strcspn(line + 1, "scf \t");

        fwrite(line, 1, same, to);
        line += same;
        if (change) {
            fputs(change->to, to);
            line += strlen(change->from);
        }
    }
}

/* Title and description would be read aloud instead of the label; the rectangle is the white paper
 * that a picture alone needs, and so are the white discs under points with error bars. */
static bool is_left_out(const char *line)
{
    return !strncmp(line, "<title>", 7) || !strncmp(line, "<desc>", 6) ||
           !strncmp(line, "<rect x=\"0\" y=\"0\"", 17) || strstr(line, "color='#FFFFFF'") ||
           *line == '\n';
}

enum part { PROLOGUE, BODY, MARKS };

static enum part part_after(enum part part, const char *line)
{
    if (part == PROLOGUE)
        return line[0] == '>' ? BODY : PROLOGUE;
    if (strstr(line, "<defs>"))
        return MARKS;
    return part;
}

static const char hover[] = "<text>~~";

/* A text that only the pointer is to find: a disc with a title, which every browser shows. */
static bool put_hover(const char *line, FILE *to)
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

static void walk(FILE *from, enum part wanted, FILE *to)
{
    enum part part = PROLOGUE;
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, from) > 0) {
        enum part before = part;
        bool closes = part == MARKS && strstr(line, "</defs>");

        part = part_after(part, line);
        /* The line that opens the body belongs to the prologue, "<defs>" to the marks. */
        if (part == wanted && before != PROLOGUE && !is_left_out(line) && !put_hover(line, to))
            put_line(line, to);
        if (closes)
            part = BODY;
    }
    free(line);
}

void inline_marks(const char *path, FILE *to)
{
    FILE *from = fopen(path, "r");

    if (!from)
        return;
    fputs("<svg width=\"0\" height=\"0\" class=\"marks\" aria-hidden=\"true\">\n", to);
    walk(from, MARKS, to);
    fputs("</svg>\n", to);
    fclose(from);
}

/* From gnuplot's own prologue, for pictures are of several sizes. */
static void view_box(FILE *from, int *width, int *height)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    while (!found && getline(&line, &room, from) > 0)
        found = sscanf(line, " viewBox=\"0 0 %d %d\"", width, height) == 2;
    free(line);
    rewind(from);
}

void inline_svg(const char *path, const char *label, const char *class, FILE *to)
{
    FILE *from = fopen(path, "r");
    int width = 420, height = 360;

    if (!from)
        return;
    view_box(from, &width, &height);
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" class=\"%s\" role=\"img\" aria-label=\"", width, height,
            class);
    quote_html(label, to);
    fputs("\">\n", to);
    walk(from, BODY, to); /* with gnuplot's own closing tag */
    fclose(from);
}
