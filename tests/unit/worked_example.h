/* The worked example of a folder's README.md: the lines "name = value   # remark" between
 * "```example" and "```".  A test reads the given values there, computes the rest by calling the
 * code, and compares every digit with the README. */
#ifndef WORKED_EXAMPLE_H
#define WORKED_EXAMPLE_H

#include "check.h"

#include "plan.h"
#include "shape.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { EXAMPLE_LINES_MAX = 64 };

/* The one at hand. */
static struct example {
    const char *path;
    int count;
    struct example_line {
        char name[40], value[200];
        bool used;
    } lines[EXAMPLE_LINES_MAX];
} example;

static inline void read_example_line(const char *text)
{
    struct example_line *line = &example.lines[example.count];

    if (sscanf(text, " %39s = %199[^#\n]", line->name, line->value) != 2)
        return;
    for (size_t n = strlen(line->value); n && line->value[n - 1] == ' ';)
        line->value[--n] = 0;
    example.count += example.count < EXAMPLE_LINES_MAX - 1;
}

static inline void begin_example(const char *path)
{
    FILE *file = fopen(path, "r");
    bool inside = false;
    char text[512];

    example = (struct example){ .path = path };
    while (file && fgets(text, sizeof(text), file)) {
        if (!strncmp(text, "```", 3))
            inside = !strncmp(text, "```example", 10);
        else if (inside)
            read_example_line(text);
    }
    if (file)
        fclose(file);
    CHECK(example.count > 0);
}

/* Every line must have been asked for: what nobody computes may be wrong. */
static inline void end_example(void)
{
    for (int i = 0; i < example.count; i++)
        if (!example.lines[i].used)
            printf("    %s: no test computes %s\n", example.path, example.lines[i].name);
    for (int i = 0; i < example.count; i++)
        CHECK(example.lines[i].used);
}

/* "" where the example has no such line. */
static inline const char *given_text(const char *name)
{
    for (int i = 0; i < example.count; i++)
        if (!strcmp(example.lines[i].name, name)) {
            example.lines[i].used = true;
            return example.lines[i].value;
        }
    return "";
}

static inline double given(const char *name)
{
    const char *text = given_text(name);

    CHECK(*text);
    return strtod(text, NULL);
}

static inline struct moe_plan given_plan(const char *name)
{
    struct moe_plan plan = MOE_PLAN_INIT;

    CHECK(!moe_plan_parse(given_text(name), &plan));
    return plan;
}

static inline struct moe_shape given_layer(void)
{
    struct moe_shape shape = { .struct_size = sizeof(shape) };

    CHECK(!shape_parse(given_text("layer"), &shape));
    return shape;
}

/* With as many decimals as the README has. */
static inline bool agrees(const char *name, double computed, char text[64])
{
    const char *value = given_text(name), *point = strchr(value, '.');
    int decimals = point ? (int)strspn(point + 1, "0123456789") : 0;

    text_put(text, 64, "%.*f", decimals, computed);
    return !strcmp(value, text);
}

static inline void is(const char *name, double computed)
{
    char text[64];
    bool right = agrees(name, computed, text);

    if (!right)
        printf("    %s: %s should be %s\n", example.path, name, text);
    CHECK(right);
}

static inline void says(const char *name, const char *computed)
{
    bool right = !strcmp(given_text(name), computed);

    if (!right)
        printf("    %s: %s should be %s\n", example.path, name, computed);
    CHECK(right);
}

/* A list of whole numbers with blanks between. */
struct list {
    char text[200];
    size_t used;
};

static inline void add(struct list *list, long long number)
{
    list->used += (size_t)snprintf(list->text + list->used, sizeof(list->text) - list->used,
                                   "%s%lld", list->used ? " " : "", number);
}

#endif
