/* Reads an axis: its values, its default, and how it is changed. */
#include "declaration_read.h"

#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one axis, while it is not known whether all of them are integers. */
struct values {
    uint32_t count;
    bool words, range;
    struct span beyond; /* an integer that is too large, or a word */
    struct value {
        char text[DECLARATION_NAME_BYTES];
        int64_t number;
    } of[DECLARATION_VALUES_MAX];
};

static const char *const not_values[] = { "default", "live", "restart", "values", "step", NULL };
static const char *const not_axes[] = { "default", "live",  "restart", "values",  "step",
                                        "edges",   "space", "memory",  "divides", NULL };

static int add_value(struct declaration_reader *in, struct values *v, const char *text,
                     size_t length, int64_t number)
{
    struct value *to = &v->of[v->count];

    if (v->count == DECLARATION_VALUES_MAX)
        return declaration_wrong(in, "more than %d values", DECLARATION_VALUES_MAX);
    memcpy(to->text, text, length);
    to->text[length] = 0;
    to->number = number;
    v->count++;
    return OK;
}

static int read_integer(struct declaration_reader *in, struct span s, int64_t *out)
{
    if (span_number(s, -DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST, out))
        return OK;
    return declaration_wrong(in, "%s is no integer from -%d to %d", SPAN_SHOWN(s),
                             DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST);
}

/* Where ".." stands in a word; its length: nowhere. */
static size_t dots_of(struct span s)
{
    size_t i = 0;

    while (i < s.length && (i + 1 == s.length || s.at[i] != '.' || s.at[i + 1] != '.'))
        i++;
    return i;
}

static int add_range(struct declaration_reader *in, struct values *v, struct span s, size_t dots)
{
    struct span high = { s.at + dots + 2, s.length - dots - 2 };
    int64_t from, to, step = 1;
    char text[DECLARATION_NAME_BYTES];

    if (!span_number((struct span){ s.at, dots }, -DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST,
                     &from) ||
        !span_number(high, -DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST, &to))
        return declaration_wrong(in, "%s is no range: LO..HI, of integers from -%d to %d",
                                 SPAN_SHOWN(s), DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST);
    if (span_is(declaration_peek(in), "step")) {
        declaration_word(in);
        TRY(read_integer(in, declaration_word(in), &step));
    }
    if (from > to || step < 1)
        return declaration_wrong(in, "the range %s by %lld: a range goes up, by steps of 1 or more",
                                 SPAN_SHOWN(s), (long long)step);
    v->range = true;
    for (; from <= to; from += step)
        TRY(add_value(in, v, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)from),
                      from));
    return OK;
}

static bool is_word(struct span s)
{
    size_t i = 0;

    while (i < s.length && declaration_is_letter(s.at[i]))
        i++;
    return i == s.length && s.length && s.length < DECLARATION_NAME_BYTES;
}

static int add_word(struct declaration_reader *in, struct values *v, struct span s)
{
    size_t dots = dots_of(s);
    int64_t number = 0;

    if (dots < s.length)
        return add_range(in, v, s, dots);
    if (!is_word(s))
        return declaration_wrong(in, "%s is no value: 1 to 31 letters, digits and _ . + -",
                                 SPAN_SHOWN(s));
    if (!span_is_number(s))
        v->words = true;
    else if (!span_number(s, -DECLARATION_NUMBER_MOST, DECLARATION_NUMBER_MOST, &number))
        v->beyond = s;
    return add_value(in, v, s.at, s.length, number);
}

static int read_values(struct declaration_reader *in, struct values *v)
{
    struct span s;
    int64_t number;

    if (span_is(declaration_peek(in), "values"))
        declaration_word(in);
    while (!span_is(s = declaration_word(in), "default")) {
        if (!s.length || span_is_one_of(s, not_values))
            return declaration_wrong(in, "%s stands where a value or \"default V\" should",
                                     SPAN_SHOWN(s));
        TRY(add_word(in, v, s));
    }
    if (!v->count)
        return declaration_wrong(in, "there is no value before \"default\"");
    if (v->words && v->range)
        return declaration_wrong(in, "a range stands beside words: it stands among integers only");
    return !v->words && v->beyond.length ? read_integer(in, v->beyond, &number) : OK;
}

static int by_number(const void *a, const void *b)
{
    int64_t left = ((const struct value *)a)->number, right = ((const struct value *)b)->number;

    return (left > right) - (left < right);
}

/* Integers have one text each, and an order. */
static int sort_values(struct declaration_reader *in, struct values *v)
{
    if (!v->words)
        qsort(v->of, v->count, sizeof(v->of[0]), by_number);
    for (uint32_t i = 0; i < v->count; i++) {
        if (!v->words)
            snprintf(v->of[i].text, sizeof(v->of[i].text), "%lld", (long long)v->of[i].number);
        for (uint32_t j = v->words || !i ? 0 : i - 1; j < i; j++)
            if (!strcmp(v->of[j].text, v->of[i].text))
                return declaration_wrong(in, "the value %s stands there twice", v->of[i].text);
    }
    return OK;
}

static int keep_values(struct declared_axis *axis, const struct values *v)
{
    axis->values = v->count;
    axis->words = v->words;
    axis->text = calloc(v->count, sizeof(*axis->text));
    axis->number = v->words ? NULL : calloc(v->count, sizeof(*axis->number));
    if (!axis->text || (!axis->number && !v->words))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < v->count; i++) {
        memcpy(axis->text[i], v->of[i].text, sizeof(axis->text[i]));
        if (!v->words)
            axis->number[i] = v->of[i].number;
    }
    return OK;
}

/* Behind the values: "V", and perhaps how it is changed. */
static int read_default(struct declaration_reader *in, struct declared_axis *axis)
{
    struct span s = declaration_word(in);

    axis->fallback = declared_axis_value(axis, s.at, s.length);
    if (axis->fallback == axis->values)
        return declaration_wrong(in, "%s is no value of the axis %s, as its default must be",
                                 SPAN_SHOWN(s), axis->name);
    s = declaration_peek(in);
    axis->restart = span_is(s, "restart");
    if (axis->restart || span_is(s, "live"))
        declaration_word(in);
    return declaration_end(in);
}

static void write_axis(struct declaration_reader *in, const struct declared_axis *axis)
{
    declaration_write(in, "axis %s", axis->name);
    for (uint32_t i = 0; i < axis->values; i++)
        declaration_write(in, " %s", axis->text[i]);
    declaration_write(in, " default %s %s\n", axis->text[axis->fallback],
                      axis->restart ? "restart" : "live");
}

/* What all axes together come to. */
static int count_axis(struct declaration_reader *in, const struct declared_axis *axis)
{
    struct declaration *d = in->d;
    size_t longest = 0;

    for (uint32_t i = 0; i < axis->values; i++)
        longest = strlen(axis->text[i]) > longest ? strlen(axis->text[i]) : longest;
    in->plan_bytes += (d->axes > 1) + strlen(axis->name) + 1 + longest;
    if (in->plan_bytes >= DECLARATION_PLAN_BYTES)
        return declaration_wrong(in,
                                 "with the axis %s a plan has up to %zu characters, more than %d",
                                 axis->name, in->plan_bytes, DECLARATION_PLAN_BYTES - 1);
    if (d->combinations > DECLARATION_COMBINATIONS_MAX / axis->values)
        return declaration_wrong(in, "with the axis %s there are more than %d combinations",
                                 axis->name, DECLARATION_COMBINATIONS_MAX);
    d->combinations *= axis->values;
    return OK;
}

int declared_axis_read(struct declaration_reader *in)
{
    struct declaration *d = in->d;
    struct declared_axis *axis = &d->axis[d->axes];
    struct span name = declaration_peek(in);
    struct values values = { 0 };

    if (d->axes == DECLARATION_AXES_MAX)
        return declaration_wrong(in, "more than %d axes", DECLARATION_AXES_MAX);
    if (span_is_one_of(name, not_axes))
        return declaration_wrong(in, "%s is no name of an axis: it has a meaning of its own",
                                 SPAN_SHOWN(name));
    TRY(declaration_column(in, "an axis", axis->name));
    d->axes++;
    TRY(read_values(in, &values));
    TRY(sort_values(in, &values));
    TRY(keep_values(axis, &values));
    TRY(read_default(in, axis));
    TRY(count_axis(in, axis));
    write_axis(in, axis);
    return OK;
}
