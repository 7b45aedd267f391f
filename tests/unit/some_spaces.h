/* Draws random declared spaces, and finds their legal plans in a plain way: it tries every
 * combination, and reads each condition from its text anew. */
#ifndef SOME_SPACES_H
#define SOME_SPACES_H

#include "random.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOME_AXES = 5, SOME_VALUES = 6, SOME_NEEDS = 3, SOME_NEED_BYTES = 256 };

struct some_axis {
    char name[32];
    bool words, restart;
    uint32_t values, fallback;
    long number[SOME_VALUES]; /* ascending */
    char text[SOME_VALUES][24];
};

struct some_space {
    uint64_t seed, drawn;
    size_t axes, needs;
    struct some_axis axis[SOME_AXES];
    char need[SOME_NEEDS][SOME_NEED_BYTES];
    char text[4096];
};

static uint32_t some(struct some_space *s, uint32_t below)
{
    return random_below(s->seed, s->drawn++, below);
}

__attribute__((format(printf, 3, 4))) static void some_append(char *text, size_t size,
                                                              const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* What may stand between two words: of the line, and of it where commas may. */
static const char *some_blank(struct some_space *s)
{
    static const char *const blanks[] = { " ", " ", " ", "  ", "\t" };

    return blanks[some(s, 5)];
}

static const char *some_comma(struct some_space *s)
{
    static const char *const commas[] = { " ", " ", " ", ", ", "," };

    return commas[some(s, 5)];
}

/* ---- axes */

static void some_numbers(struct some_space *s, struct some_axis *a)
{
    uint32_t step = 1 + some(s, 4), in_range = some(s, 2) ? some(s, a->values + 1) : 0;
    long at = (long)some(s, 7) - 3;

    for (uint32_t i = 0; i < a->values; i++, at += i < in_range ? step : 1 + some(s, 9)) {
        a->number[i] = at;
        snprintf(a->text[i], sizeof(a->text[i]), "%ld", at);
    }
    if (in_range > 1) /* a range may end between two of its values */
        some_append(s->text, sizeof(s->text), "%s%ld..%ld step %u", some_blank(s), a->number[0],
                    a->number[in_range - 1] + (long)some(s, step), step);
    else
        in_range = 0;
    for (uint32_t i = a->values; i-- > in_range;)
        some_append(s->text, sizeof(s->text), "%s%ld", some_comma(s), a->number[i]);
}

static void some_words(struct some_space *s, struct some_axis *a)
{
    static const char *const pool[] = { "direct", "2dh", "7", "a.b", "x+y", "B-c", "_", "1e3" };
    uint32_t from = some(s, 8);

    if (a->values == 1 && from == 2) /* 7 alone would be a number */
        from = 0;
    for (uint32_t i = 0; i < a->values; i++) {
        snprintf(a->text[i], sizeof(a->text[i]), "%s", pool[(from + i) % 8]);
        some_append(s->text, sizeof(s->text), "%s%s", some_comma(s), a->text[i]);
    }
}

static void some_axis(struct some_space *s, struct some_axis *a, size_t index)
{
    a->words = !some(s, 3);
    a->restart = !some(s, 3);
    a->values = 1 + some(s, SOME_VALUES);
    a->fallback = some(s, a->values);
    snprintf(a->name, sizeof(a->name), "%s%zu", some(s, 2) ? "n" : "axis_", index);
    some_append(s->text, sizeof(s->text), "axis%s%s%s", some_blank(s), a->name,
                some(s, 4) ? "" : " values");
    if (a->words)
        some_words(s, a);
    else
        some_numbers(s, a);
    some_append(s->text, sizeof(s->text), "%sdefault%s%s%s%s\n", some_comma(s), some_blank(s),
                a->text[a->fallback], some_comma(s),
                a->restart   ? "restart"
                : some(s, 2) ? "live # changed at once"
                             : "");
}

/* ---- needs */

static const struct some_axis *some_axis_of(struct some_space *s, bool words)
{
    for (int i = 0; i < 20; i++) {
        const struct some_axis *a = &s->axis[some(s, (uint32_t)s->axes)];

        if (a->words == words)
            return a;
    }
    return NULL;
}

static void some_term(struct some_space *s, char *need)
{
    const struct some_axis *a;
    uint32_t factors = 1 + !some(s, 3);

    for (uint32_t i = 0; i < factors; i++) {
        a = some(s, 4) ? some_axis_of(s, false) : NULL;
        some_append(need, SOME_NEED_BYTES, "%s", i ? some(s, 2) ? "*" : " * " : "");
        if (a)
            some_append(need, SOME_NEED_BYTES, "%s", a->name);
        else
            some_append(need, SOME_NEED_BYTES, "%d", (int)some(s, 20) - 4);
    }
}

/* One that names an axis; false: nothing was written. */
static bool some_comparison(struct some_space *s, char *need)
{
    static const char *const relations[] = { "=", " != ", "<", "<= ", " >", ">=", " divides " };
    const struct some_axis *a = some_axis_of(s, !some(s, 3));
    size_t used = strlen(need), left;

    if (!a)
        return false;
    if (a->words) {
        const char *word = a->text[some(s, a->values)], *relation = some(s, 2) ? "=" : "!=";
        bool turned = some(s, 2);

        some_append(need, SOME_NEED_BYTES, "%s%s%s", turned ? word : a->name, relation,
                    turned ? a->name : word);
        return true;
    }
    some_term(s, need);
    left = strlen(need);
    some_append(need, SOME_NEED_BYTES, "%s", relations[some(s, 7)]);
    if (memchr(need + used, 'n', left - used) || memchr(need + used, 'x', left - used))
        some_term(s, need);
    else /* no axis yet */
        some_append(need, SOME_NEED_BYTES, "%s", a->name);
    return true;
}

static void some_need(struct some_space *s)
{
    char *need = s->need[s->needs];
    uint32_t comparisons = 1 + some(s, 4);

    *need = 0;
    for (uint32_t i = 0; i < comparisons; i++) {
        size_t used = strlen(need);

        some_append(need, SOME_NEED_BYTES, "%s", !used ? "" : some(s, 2) ? " & " : "|");
        if (!some_comparison(s, need))
            need[used] = 0;
    }
    if (!*need)
        return;
    s->needs++;
    some_append(s->text, sizeof(s->text), "need%s%s\n", some_blank(s), need);
}

static void some_space(uint64_t seed, struct some_space *s)
{
    uint32_t needs;

    *s = (struct some_space){ .seed = seed };
    some_append(s->text, sizeof(s->text), "# drawn\n\nspace some-%u\r\n", some(s, 1000));
    s->axes = 1 + some(s, SOME_AXES);
    for (size_t i = 0; i < s->axes; i++)
        some_axis(s, &s->axis[i], i);
    needs = some(s, SOME_NEEDS + 1);
    for (uint32_t i = 0; i < needs; i++)
        some_need(s);
    some_append(s->text, sizeof(s->text), "key tokens edges %u 70 %u%s", some(s, 69),
                71 + some(s, 1000), some(s, 2) ? "\n" : "");
    if (s->text[strlen(s->text) - 1] == '\n' && some(s, 2))
        some_append(s->text, sizeof(s->text), "class skew edges 0.%u 1.5 2", 1 + some(s, 999));
}

/* ---- what is legal, by the text of the needs */

static const char *plain_value(const struct some_space *s, const uint32_t *at, const char *name)
{
    for (size_t i = 0; i < s->axes; i++)
        if (!strcmp(s->axis[i].name, name))
            return s->axis[i].text[at[i]];
    return name;
}

static long plain_product(const struct some_space *s, const uint32_t *at, char *side)
{
    long product = 1;

    for (char *rest = side, *factor; (factor = strsep(&rest, "*"));)
        product *= strtol(plain_value(s, at, factor), NULL, 10);
    return product;
}

/* "LEFT relation RIGHT" without blanks; divides is ':'. */
static bool plain_comparison(const struct some_space *s, const uint32_t *at, char *text)
{
    char *sign = strpbrk(text, "=!<>:"), *right = sign + 1 + (sign[1] == '='), first = *sign;
    bool or_equal = sign[1] == '=';
    long a, b;

    *sign = 0;
    for (size_t i = 0; i < s->axes; i++)
        if (s->axis[i].words && (!strcmp(s->axis[i].name, text) || !strcmp(s->axis[i].name, right)))
            return !strcmp(plain_value(s, at, text), plain_value(s, at, right)) == (first == '=');
    a = plain_product(s, at, text);
    b = plain_product(s, at, right);
    switch (first) {
    case '=': return a == b;
    case '!': return a != b;
    case '<': return or_equal ? a <= b : a < b;
    case '>': return or_equal ? a >= b : a > b;
    default: return a ? b % a == 0 : b == 0;
    }
}

static bool plain_need(const struct some_space *s, const uint32_t *at, const char *need)
{
    char text[SOME_NEED_BYTES] = "", *rest = text, *part;
    bool any = false;

    for (const char *c = need; *c; c++)
        if (!strncmp(c, " divides ", 9)) {
            some_append(text, sizeof(text), ":");
            c += 8;
        } else if (*c != ' ') {
            some_append(text, sizeof(text), "%c", *c);
        }
    while ((part = strsep(&rest, "|"))) {
        bool all = true;

        for (char *one; (one = strsep(&part, "&"));)
            all = plain_comparison(s, at, one) && all;
        any = any || all;
    }
    return any;
}

static bool plain_legal(const struct some_space *s, const uint32_t *at)
{
    for (size_t i = 0; i < s->needs; i++)
        if (!plain_need(s, at, s->need[i]))
            return false;
    return true;
}

#endif
