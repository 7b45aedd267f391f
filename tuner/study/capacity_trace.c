/* Reads the capacities of a training from a file, or makes them up. */
#include "capacity_trace.h"

#include "counts_file.h"
#include "input_file.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_BYTES_MAX = 1 << 28 };

static int add_step(struct capacity_trace *t, size_t *room, uint32_t capacity)
{
    if (t->steps == *room) {
        uint32_t *capacities;

        *room = 2 * *room + 1024;
        capacities = realloc(t->capacities, *room * sizeof(*capacities));
        if (!capacities)
            return fail(ERR_NOMEM, "the capacities of %zu steps", *room);
        t->capacities = capacities;
    }
    t->capacities[t->steps++] = capacity;
    return OK;
}

static int parse_lines(const char *text, const char *path, struct capacity_trace *t)
{
    uint32_t line_number = 0;
    size_t room = 0;

    for (const char *line = text; *line; line += *line == '\n') {
        const char *number = line + strspn(line, " \t\r");
        size_t number_length = strcspn(number, " \t\r#\n"), line_length = strcspn(number, "\r\n");
        const char *behind = number + number_length + strspn(number + number_length, " \t\r");
        char *value_end = NULL;
        unsigned long value =
            *number >= '0' && *number <= '9' ? strtoul(number, &value_end, 10) : 0;

        line_number++;
        if (*behind && *behind != '#' && *behind != '\n')
            return fail(ERR_ARGUMENT, "%s:%u: a line has one capacity, not \"%.*s\"", path,
                        line_number, (int)(line_length < 40 ? line_length : 40), number);
        if (number_length &&
            (value < 1 || value > TRACE_CAPACITY_MOST || value_end != number + number_length))
            return fail(ERR_ARGUMENT, "%s:%u: \"%.*s\" is no capacity from 1 to %d", path,
                        line_number, (int)(number_length < 40 ? number_length : 40), number,
                        TRACE_CAPACITY_MOST);
        if (number_length)
            TRY(add_step(t, &room, (uint32_t)value));
        line += strcspn(line, "\n");
    }
    return t->steps ? OK : fail(ERR_ARGUMENT, "%s has no line with a capacity", path);
}

/* Reads counts that a gate chose.  A step's capacity is the count of its fullest expert. */
static int parse_counts(const char *text, const char *path, const struct moe_shape *shape,
                        struct capacity_trace *t)
{
    struct counts_trace counts;
    size_t room = 0;
    int rc = OK;

    if (counts_parse(text, path, shape->ranks, &counts))
        return ERR_ARGUMENT;
    if (counts.experts != shape->experts)
        rc = fail(ERR_ARGUMENT, "%s has counts of %u experts, but the layer is %s", path,
                  counts.experts, SHAPE_TEXT(shape));
    for (size_t i = 0; i < counts.steps && !rc; i++) {
        const uint32_t *rows = counts.counts + i * counts.experts;
        uint32_t largest = 1;

        for (uint32_t e = 0; e < counts.experts; e++)
            largest = rows[e] > largest ? rows[e] : largest;
        rc = largest <= TRACE_CAPACITY_MOST
                 ? add_step(t, &room, largest)
                 : fail(ERR_ARGUMENT, "%s: step %zu: an expert has %u rows, more than %d", path,
                        i + 1, largest, TRACE_CAPACITY_MOST);
    }
    counts_free(&counts);
    return rc;
}

int capacity_trace_read(const char *path, const struct moe_shape *shape, struct capacity_trace *out)
{
    struct capacity_trace t = { .steps = 0 };
    char *text = NULL;
    size_t length;
    int rc;

    TRY(input_read(path, TRACE_BYTES_MAX, &text, &length));
    if (strlen(text) != length)
        rc = fail(ERR_ARGUMENT, "%s is no text file: it has a zero byte", path);
    else if (text[strspn(text, " \t\r\n")] == '{')
        rc = parse_counts(text, path, shape, &t);
    else
        rc = parse_lines(text, path, &t);
    free(text);
    if (rc)
        capacity_trace_free(&t);
    else
        *out = t;
    return rc;
}

/* ---- made up */

double swing_factor(size_t step, size_t steps)
{
    return 1 + (SWING_MOST - 1) * (0.5 - 0.5 * cos(2 * M_PI * 2 * (double)step / (double)steps));
}

int capacity_trace_swing(const struct moe_shape *shape, size_t steps, struct capacity_trace *out)
{
    struct capacity_trace t = { .steps = 0 };
    size_t room = 0;
    int rc = shape->tokens ? OK : fail(ERR_ARGUMENT, "--tokens 0: no capacity can change");

    for (size_t i = 0; i < steps && !rc; i++)
        rc = add_step(&t, &room,
                      (uint32_t)moe_capacity(swing_factor(i, steps), shape->top_k, shape->experts,
                                             shape->tokens, 0));
    if (rc)
        capacity_trace_free(&t);
    else
        *out = t;
    return rc;
}

void capacity_trace_free(struct capacity_trace *trace)
{
    free(trace->capacities);
    *trace = (struct capacity_trace){ .steps = 0 };
}
