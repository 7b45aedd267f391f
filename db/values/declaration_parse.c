/* Reads the text of a declared space statement by statement, and writes its canonical text. Also
 * reads texts of plans. */
#include "declaration.h"

#include "sha256.h"
#include "status.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MOST = 1000000000, SHOWN_BYTES = 48, LIST_BYTES = 160 };

/* A larger key counts nothing real; twice this is still a number. */
static const int64_t largest_key = 1000000000000000;

/* Products up to here stay within 64 bits. */
static const uint64_t largest_product = ((uint64_t)1 << 62) - 1;

/* A text that is being read, the space that it makes, and the caller's buffer for a message. */
struct space_reader {
    struct declaration *d;
    const char *at, *end; /* the rest of the line */
    unsigned line, space_line;
    size_t comparisons; /* number in all needs so far */
    size_t written;     /* bytes of d->text so far; bytes that do not fit are counted, and refused
                         * at the end */
    size_t plan_bytes;  /* length of the longest plan so far */
    char *why;
    size_t why_size;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct space_reader *in, const char *format,
                                                        ...)
{
    va_list args;
    size_t used;

    if (text_put(in->why, in->why_size, "line %u: ", in->line ? in->line : 1)) {
        used = strlen(in->why);
        va_start(args, format);
        text_put_list(in->why + used, in->why_size - used, format, args);
        va_end(args);
    }
    return ERR_ARGUMENT;
}

/* Appends to the canonical text. */
__attribute__((format(printf, 2, 3))) static void put_text(struct space_reader *in,
                                                           const char *format, ...)
{
    size_t used = in->written < DECLARATION_TEXT_BYTES ? in->written : DECLARATION_TEXT_BYTES;
    va_list args;

    va_start(args, format);
    in->written +=
        (size_t)vsnprintf(in->d->text + used, DECLARATION_TEXT_BYTES + 1 - used, format, args);
    va_end(args);
}

/* ---- Pieces of the text. */

struct span {
    const char *at;
    size_t length;
};

/* Writes a piece for a message: in quotes, cut where it is long. An empty piece is the end of the
 * line. The macro's text lasts as long as the block around it. */
#define SHOWN(span) shown(span, (char[SHOWN_BYTES]){ 0 })
static const char *shown(struct span piece, char room[SHOWN_BYTES])
{
    int shown_bytes = SHOWN_BYTES - 6;

    if (!piece.length)
        return "the end of the line";
    if (piece.length <= (size_t)shown_bytes)
        snprintf(room, SHOWN_BYTES, "\"%.*s\"", (int)piece.length, piece.at);
    else
        snprintf(room, SHOWN_BYTES, "\"%.*s...\"", shown_bytes, piece.at);
    return room;
}

static bool span_is(struct span s, const char *word)
{
    return strlen(word) == s.length && !memcmp(s.at, word, s.length);
}

static bool span_is_one_of(struct span s, const char *const *words)
{
    while (*words && !span_is(s, *words))
        words++;
    return *words;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns whether a value may contain the character. */
static bool is_letter(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("_.+-", c));
}

/* Returns whether a piece is a number: digits, perhaps with a minus before them. */
static bool span_is_number(struct span s)
{
    size_t i = s.length && *s.at == '-', digits = s.length - i;

    while (i < s.length && is_digit(s.at[i]))
        i++;
    return digits && i == s.length;
}

/* Reads a number between `least` and `most`. Returns false where it lies outside or is no
 * number. */
static bool span_number(struct span s, int64_t least, int64_t most, int64_t *out)
{
    bool negative = s.length && *s.at == '-';
    int64_t value = 0;

    if (!span_is_number(s))
        return false;
    for (size_t i = negative; i < s.length; i++) {
        int digit = s.at[i] - '0';

        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    value = negative ? -value : value;
    if (value < least || value > most)
        return false;
    *out = value;
    return true;
}

/* Reads a decimal above 0, with up to three digits behind its point, in thousandths. */
static bool span_thousandths(struct span s, int64_t *out)
{
    int64_t whole, part = 0;
    size_t point = 0;

    if (memchr(s.at, '-', s.length)) /* also rejects "-0.5", whose whole part is 0 */
        return false;
    while (point < s.length && s.at[point] != '.')
        point++;
    if (!span_number((struct span){ s.at, point }, 0, 1000000, &whole))
        return false;
    if (point < s.length) {
        struct span digits = { s.at + point + 1, s.length - point - 1 };

        if (digits.length > 3 || !span_number(digits, 0, 999, &part))
            return false;
        for (size_t i = digits.length; i < 3; i++)
            part *= 10;
    }
    *out = 1000 * whole + part;
    return *out > 0 && *out <= 1000000000;
}

/* ---- Words of a line, separated by blanks and commas. An empty word is the end of the line. */

static struct span next_word(struct space_reader *in)
{
    struct span s;

    while (in->at < in->end && strchr(" \t\r,", *in->at))
        in->at++;
    s.at = in->at;
    while (in->at < in->end && !strchr(" \t\r,", *in->at))
        in->at++;
    s.length = (size_t)(in->at - s.at);
    return s;
}

/* Returns the next word and leaves it to be read again. */
static struct span peek_word(struct space_reader *in)
{
    const char *at = in->at;
    struct span s = next_word(in);

    in->at = at;
    return s;
}

/* Skips the next word if it is this one. */
static bool skip_word(struct space_reader *in, const char *word)
{
    bool found = span_is(peek_word(in), word);

    if (found)
        next_word(in);
    return found;
}

static int read_end(struct space_reader *in)
{
    struct span s = next_word(in);

    return s.length ? refuse(in, "%s follows, where the line should end", SHOWN(s)) : OK;
}

enum name_kind { NAME_PLAIN, NAME_WITH_MINUS }; /* what a name may contain */

/* Reads the next word as a name. */
static int read_name(struct space_reader *in, const char *of_what, enum name_kind kind,
                     char name[DECLARATION_NAME_BYTES])
{
    struct span s = next_word(in);
    bool good = s.length && s.length < DECLARATION_NAME_BYTES;

    for (size_t i = 0; i < s.length; i++) {
        bool letter = s.at[i] >= 'a' && s.at[i] <= 'z';
        bool later =
            is_digit(s.at[i]) || s.at[i] == '_' || (kind == NAME_WITH_MINUS && s.at[i] == '-');

        good = good && (letter || (i && later));
    }
    if (!good)
        return refuse(in,
                      "%s stands where the name of %s should: 1 to 31 letters a-z, digits "
                      "and _%s, the first a letter",
                      SHOWN(s), of_what, kind == NAME_WITH_MINUS ? " or -" : "");
    memcpy(name, s.at, s.length);
    name[s.length] = 0;
    return OK;
}

/* Reads the next word as a name that no axis, key or class has. */
static int read_new_name(struct space_reader *in, const char *of_what,
                         char name[DECLARATION_NAME_BYTES])
{
    const struct declaration *d = in->d;
    char read[DECLARATION_NAME_BYTES];

    TRY(read_name(in, of_what, NAME_PLAIN, read));
    if (declaration_axis(d, read, strlen(read)) < d->axes || !strcmp(read, d->key) ||
        !strcmp(read, d->class_name))
        return refuse(in, "\"%s\" is declared twice", read);
    memcpy(name, read, sizeof(read));
    return OK;
}

/* ---- The statement "axis NAME [values] V.. default V [live|restart] [threshold OPTION]". */

/* Values of one axis, while reading: until the end it is open whether all of them are integers. */
struct values {
    uint32_t count;
    bool words, range;
    struct span beyond; /* an integer that is too large, or a word */
    struct value {
        char text[DECLARATION_NAME_BYTES];
        int64_t number;
    } list[DECLARATION_VALUES_MAX];
};

static const char *const no_values[] = { "default", "live", "restart", "values", "step", NULL };
static const char *const no_axis_names[] = { "default", "live",  "restart", "values",  "step",
                                             "edges",   "space", "memory",  "divides", NULL };

static int add_value(struct space_reader *in, struct values *v, const char *text, size_t length,
                     int64_t number)
{
    struct value *added = &v->list[v->count];

    if (v->count == DECLARATION_VALUES_MAX)
        return refuse(in, "more than %d values", DECLARATION_VALUES_MAX);
    memcpy(added->text, text, length);
    added->text[length] = 0;
    added->number = number;
    v->count++;
    return OK;
}

static int read_integer(struct space_reader *in, struct span s, int64_t *out)
{
    if (span_number(s, -NUMBER_MOST, NUMBER_MOST, out))
        return OK;
    return refuse(in, "%s is no integer from -%d to %d", SHOWN(s), NUMBER_MOST, NUMBER_MOST);
}

/* Adds the integers of "LO..HI [step N]", whose dots are at `dots`. */
static int add_range(struct space_reader *in, struct values *v, struct span s, size_t dots)
{
    struct span low = { s.at, dots }, high = { s.at + dots + 2, s.length - dots - 2 };
    int64_t from, to, step = 1;
    char text[DECLARATION_NAME_BYTES];

    if (!span_number(low, -NUMBER_MOST, NUMBER_MOST, &from) ||
        !span_number(high, -NUMBER_MOST, NUMBER_MOST, &to))
        return refuse(in, "%s is no range: LO..HI, of integers from -%d to %d", SHOWN(s),
                      NUMBER_MOST, NUMBER_MOST);
    if (skip_word(in, "step"))
        TRY(read_integer(in, next_word(in), &step));
    if (from > to || step < 1)
        return refuse(in, "the range %s by %lld: a range goes up, by steps of 1 or more", SHOWN(s),
                      (long long)step);
    v->range = true;
    for (; from <= to; from += step)
        TRY(add_value(in, v, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)from),
                      from));
    return OK;
}

static int read_value(struct space_reader *in, struct values *v, struct span s)
{
    size_t dots = 0, letters = 0;
    int64_t number = 0;

    while (dots < s.length && (dots + 1 == s.length || memcmp(s.at + dots, "..", 2) != 0))
        dots++;
    if (dots < s.length)
        return add_range(in, v, s, dots);
    while (letters < s.length && is_letter(s.at[letters]))
        letters++;
    if (letters < s.length || s.length >= DECLARATION_NAME_BYTES)
        return refuse(in, "%s is no value: 1 to 31 letters, digits and _ . + -", SHOWN(s));
    if (!span_is_number(s))
        v->words = true;
    else if (!span_number(s, -NUMBER_MOST, NUMBER_MOST, &number))
        v->beyond = s;
    return add_value(in, v, s.at, s.length, number);
}

static int by_number(const void *a, const void *b)
{
    int64_t left = ((const struct value *)a)->number, right = ((const struct value *)b)->number;

    return (left > right) - (left < right);
}

/* Reads values up to "default". Writes integers in their one form, and sorts them. */
static int read_values(struct space_reader *in, struct values *v)
{
    struct span s;
    int64_t number;

    skip_word(in, "values");
    while (!span_is(s = next_word(in), "default")) {
        if (!s.length || span_is_one_of(s, no_values))
            break;
        TRY(read_value(in, v, s));
    }
    for (size_t i = 0; i < v->count && !span_is(s, "default"); i++)
        if (!strncmp(v->list[i].text, "def", 3)) /* "defualt" looks like a value, so name it in the
                                                  * message */
            return refuse(in,
                          "%s stands where a value or \"default V\" should: is \"%s\" meant to be "
                          "\"default\"?",
                          SHOWN(s), v->list[i].text);
    if (!span_is(s, "default"))
        return refuse(in, "%s stands where a value or \"default V\" should", SHOWN(s));
    if (!v->count)
        return refuse(in, "there is no value before \"default\"");
    if (v->words && v->range)
        return refuse(in, "a range stands beside words: ranges are for integers only");
    if (!v->words && v->beyond.length)
        TRY(read_integer(in, v->beyond, &number)); /* prints what is wrong with it */
    if (!v->words)
        qsort(v->list, v->count, sizeof(v->list[0]), by_number);
    for (uint32_t i = 0; i < v->count; i++) {
        if (!v->words)
            snprintf(v->list[i].text, sizeof(v->list[i].text), "%lld",
                     (long long)v->list[i].number);
        for (uint32_t j = v->words || !i ? 0 : i - 1; j < i; j++)
            if (!strcmp(v->list[j].text, v->list[i].text))
                return refuse(in, "the value %s stands there twice", v->list[i].text);
    }
    return OK;
}

/* Reads the option by which the program takes a threshold between two values. */
static int read_threshold(struct space_reader *in, struct declared_axis *axis)
{
    const struct declaration *d = in->d;
    struct span s = next_word(in);
    size_t letters = 0;

    while (letters < s.length && is_letter(s.at[letters]))
        letters++;
    if (!s.length || letters < s.length || s.length >= DECLARATION_OPTION_BYTES)
        return refuse(in,
                      "%s stands where the option of the threshold should: 1 to %d letters, digits "
                      "and _ . + -",
                      SHOWN(s), DECLARATION_OPTION_BYTES - 1);
    if (axis->values != 2)
        return refuse(in, "the axis %s has %u value%s: a threshold lies between two", axis->name,
                      axis->values, axis->values > 1 ? "s" : "");
    if (axis->restart)
        return refuse(in, "the axis %s needs a restart: a threshold is crossed between two steps",
                      axis->name);
    for (size_t i = 0; i + 1 < d->axes; i++)
        if (span_is(s, d->axis[i].threshold))
            return refuse(in, "%s is already the threshold of the axis %s", SHOWN(s),
                          d->axis[i].name);
    memcpy(axis->threshold, s.at, s.length);
    return OK;
}

static int read_axis(struct space_reader *in)
{
    struct declaration *d = in->d;
    struct declared_axis *axis = &d->axis[d->axes];
    struct span s = peek_word(in);
    struct values v = { 0 };
    size_t longest = 0;

    if (d->axes == DECLARATION_AXES_MAX)
        return refuse(in, "more than %d axes", DECLARATION_AXES_MAX);
    if (span_is_one_of(s, no_axis_names))
        return refuse(in, "%s cannot be the name of an axis: the word is reserved", SHOWN(s));
    TRY(read_new_name(in, "an axis", axis->name));
    d->axes++;
    TRY(read_values(in, &v));
    axis->values = v.count;
    axis->words = v.words;
    axis->text = calloc(v.count, sizeof(*axis->text));
    axis->number = v.words ? NULL : calloc(v.count, sizeof(*axis->number));
    if (!axis->text || (!axis->number && !v.words))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < v.count; i++) {
        memcpy(axis->text[i], v.list[i].text, sizeof(axis->text[i]));
        if (!v.words)
            axis->number[i] = v.list[i].number;
        longest = strlen(axis->text[i]) > longest ? strlen(axis->text[i]) : longest;
    }

    s = next_word(in);
    axis->fallback = declared_axis_value(axis, s.at, s.length);
    if (axis->fallback == axis->values)
        return refuse(in, "%s is no value of the axis %s, as its default must be", SHOWN(s),
                      axis->name);
    axis->restart = skip_word(in, "restart");
    if (!axis->restart)
        skip_word(in, "live");
    if (skip_word(in, "threshold"))
        TRY(read_threshold(in, axis));
    TRY(read_end(in));

    in->plan_bytes += (d->axes > 1) + strlen(axis->name) + 1 + longest;
    if (in->plan_bytes >= DECLARATION_PLAN_BYTES)
        return refuse(in, "with the axis %s a plan has up to %zu characters, more than %d",
                      axis->name, in->plan_bytes, DECLARATION_PLAN_BYTES - 1);
    if (d->combinations > DECLARATION_COMBINATIONS_MAX / axis->values)
        return refuse(in, "with the axis %s there are more than %d combinations", axis->name,
                      DECLARATION_COMBINATIONS_MAX);
    d->combinations *= axis->values;

    put_text(in, "axis %s", axis->name);
    for (uint32_t i = 0; i < axis->values; i++)
        put_text(in, " %s", axis->text[i]);
    put_text(in, " default %s %s", axis->text[axis->fallback], axis->restart ? "restart" : "live");
    if (*axis->threshold)
        put_text(in, " threshold %s", axis->threshold);
    put_text(in, "\n");
    return OK;
}

/* ---- The statement "need COMPARISON [& COMPARISON].. [| ..]". Its words need no blanks between
 * them. */

/* A longer sign stands before the shorter one that begins it. */
static const char *const relation_texts[NEED_RELATIONS] = { "=",  "!=", "<=",     "<",
                                                            ">=", ">",  "divides" };

/* One side of a comparison, while the other side is not known yet. */
struct need_side {
    struct span word;      /* first factor */
    struct span unknown;   /* first factor that is no integer and no axis of integers */
    struct span too_large; /* first factor with which the product could be too large */
    size_t factors;
    uint64_t most; /* largest product, without its sign */
    struct declared_term term;
};

/* Skips blanks and returns the rest of the line. */
static struct span rest_of(struct space_reader *in)
{
    while (in->at < in->end && strchr(" \t\r", *in->at))
        in->at++;
    return (struct span){ in->at, (size_t)(in->end - in->at) };
}

/* Extends the bound of a product by a factor from `low` to `high`. Returns false where the product
 * could be too large. Zeros count as ones, so that the bound also holds before the zero. */
static bool extend_bound(struct need_side *s, int64_t low, int64_t high)
{
    uint64_t a = low < 0 ? (uint64_t)-low : (uint64_t)low;
    uint64_t b = high < 0 ? (uint64_t)-high : (uint64_t)high;
    uint64_t larger = a > b ? a : b;

    larger = larger ? larger : 1;
    if (s->most > largest_product / larger)
        return false;
    s->most *= larger;
    return true;
}

/* Returns whether a word is the number of ranks. An axis of that name takes precedence. */
static bool span_is_ranks(const struct declaration *d, struct span word)
{
    return span_is(word, "ranks") && declaration_axis(d, word.at, word.length) == d->axes;
}

enum { NEED_RANKS_MOST = 1 << 24 }; /* the limit of a layer's W */

static int add_factor(struct space_reader *in, struct need_side *s, struct span word)
{
    const struct declaration *d = in->d;
    size_t axis = declaration_axis(d, word.at, word.length);
    int64_t number;
    bool fits = true;

    if (!s->factors++)
        s->word = word;
    if (axis < d->axes && !d->axis[axis].words) {
        if (s->term.axes == DECLARATION_AXES_MAX)
            return refuse(in, "a product of more than %d axes", DECLARATION_AXES_MAX);
        fits = extend_bound(s, d->axis[axis].number[0],
                            d->axis[axis].number[d->axis[axis].values - 1]);
        s->term.axis[s->term.axes++] = (uint8_t)axis;
    } else if (span_is_ranks(d, word)) {
        if (s->term.axes == DECLARATION_AXES_MAX)
            return refuse(in, "a product of more than %d axes", DECLARATION_AXES_MAX);
        fits = extend_bound(s, 1, NEED_RANKS_MOST);
        s->term.axis[s->term.axes++] = DECLARED_RANKS;
    } else if (span_is_number(word)) {
        fits = span_number(word, -INT64_MAX, INT64_MAX, &number) && extend_bound(s, number, number);
        s->term.constant *= fits ? number : 1;
    } else if (!s->unknown.length) {
        s->unknown = word;
    }
    if (!fits && !s->too_large.length)
        s->too_large = word;
    return OK;
}

static int read_side(struct space_reader *in, struct need_side *out)
{
    struct span word;

    *out = (struct need_side){ .most = 1, .term.constant = 1 };
    for (;;) {
        word = rest_of(in);
        while (in->at < in->end && is_letter(*in->at))
            in->at++;
        word.length = (size_t)(in->at - word.at);
        if (!word.length)
            return refuse(in, "%s stands where an axis, an integer or a word should",
                          SHOWN(rest_of(in)));
        TRY(add_factor(in, out, word));
        if (!rest_of(in).length || *in->at != '*')
            return OK;
        in->at++;
    }
}

static int read_relation(struct space_reader *in, enum declared_relation *relation)
{
    struct span rest = rest_of(in);

    for (int i = 0; i < NEED_RELATIONS; i++) {
        size_t length = strlen(relation_texts[i]);

        if (rest.length < length || memcmp(rest.at, relation_texts[i], length) != 0 ||
            (i == NEED_DIVIDES && rest.length > length && is_letter(rest.at[length])))
            continue;
        in->at += length;
        *relation = (enum declared_relation)i;
        return OK;
    }
    return refuse(in, "%s stands where =, !=, <, <=, >, >= or divides should", SHOWN(rest));
}

/* Returns the axis of words that is the whole side; d->axes: the side is something else. */
static size_t axis_of_words(const struct declaration *d, const struct need_side *s)
{
    size_t axis = declaration_axis(d, s->word.at, s->word.length);

    return s->factors == 1 && axis < d->axes && d->axis[axis].words ? axis : d->axes;
}

/* Makes terms of two sides if `s` is an axis of words and `other` a word of it. */
static bool match_words(const struct declaration *d, struct need_side *s, struct need_side *other)
{
    size_t axis = axis_of_words(d, s);
    uint32_t value;

    if (axis == d->axes || other->factors != 1)
        return false;
    value = declared_axis_value(&d->axis[axis], other->word.at, other->word.length);
    if (value == d->axis[axis].values)
        return false;
    s->term = (struct declared_term){ .constant = 1, .axes = 1, .axis = { (uint8_t)axis } };
    other->term = (struct declared_term){ .constant = value };
    return true;
}

/* Adds a word to a list, and ends the list with dots before it is too long for a message. */
static void list_word(char list[LIST_BYTES], const char *word)
{
    size_t used = strlen(list);

    if (used < LIST_BYTES - 2 * DECLARATION_NAME_BYTES)
        text_add(list, LIST_BYTES, "%s%s", used ? ", " : "", word);
    else if (list[used - 1] != '.')
        text_add(list, LIST_BYTES, ", ...");
}

/* Says what is wrong with two sides that are neither two numbers nor an axis of words and one of
 * its words. */
static int refuse_sides(struct space_reader *in, const struct need_side *left,
                        const struct need_side *right)
{
    const struct declaration *d = in->d;
    bool words_left = axis_of_words(d, left) < d->axes;
    size_t axis = axis_of_words(d, words_left ? left : right);
    struct span unknown = left->unknown.length ? left->unknown : right->unknown;
    struct span too_large = left->too_large.length ? left->too_large : right->too_large;
    char list[LIST_BYTES] = "";

    if (axis < d->axes) {
        for (uint32_t i = 0; i < d->axis[axis].values; i++)
            list_word(list, d->axis[axis].text[i]);
        return refuse(in, "%s is no value of the axis %s, which has %s",
                      SHOWN(words_left ? right->word : left->word), d->axis[axis].name, list);
    }
    if (!unknown.length)
        return refuse(in, "the product with %s may be 2^62 or more", SHOWN(too_large));
    if (declaration_axis(d, unknown.at, unknown.length) < d->axes)
        return refuse(in, "the values of %s are words, which cannot be multiplied", SHOWN(unknown));
    for (size_t i = 0; i < d->axes; i++)
        list_word(list, d->axis[i].name);
    return refuse(in, "%s is no integer and no axis declared above%s%s", SHOWN(unknown),
                  *list ? ": " : "", list);
}

static void note_axes(const struct declared_term *term, struct declared_comparison *c)
{
    for (uint8_t i = 0; i < term->axes; i++)
        if (term->axis[i] == DECLARED_RANKS)
            c->ranks = true;
        else
            c->axes |= 1u << term->axis[i];
}

static int read_comparison(struct space_reader *in, struct declared_comparison *c)
{
    struct need_side left, right;
    bool words;

    TRY(read_side(in, &left));
    TRY(read_relation(in, &c->relation));
    TRY(read_side(in, &right));
    words = match_words(in->d, &left, &right) || match_words(in->d, &right, &left);
    if (!words && (left.unknown.length || left.too_large.length || right.unknown.length ||
                   right.too_large.length))
        return refuse_sides(in, &left, &right);
    if (words && c->relation != NEED_EQUAL && c->relation != NEED_UNEQUAL)
        return refuse(in, "words are compared by = and !=, not by %s", relation_texts[c->relation]);
    c->left = left.term;
    c->right = right.term;
    note_axes(&c->left, c);
    note_axes(&c->right, c);
    if (!c->axes)
        return refuse(in, "%s is compared with %s, and neither is an axis", SHOWN(left.word),
                      SHOWN(right.word));
    return OK;
}

/* Writes one side. A constant may stand for a word of the other side's axis. */
static void put_term(struct space_reader *in, const struct declared_term *term,
                     const struct declared_term *other)
{
    const struct declaration *d = in->d;

    for (uint8_t i = 0; i < term->axes; i++)
        put_text(in, "%s%s", i ? "*" : "",
                 term->axis[i] == DECLARED_RANKS ? "ranks" : d->axis[term->axis[i]].name);
    if (!term->axes && other->axes == 1 && other->axis[0] != DECLARED_RANKS &&
        d->axis[other->axis[0]].words)
        put_text(in, "%s", d->axis[other->axis[0]].text[term->constant]);
    else if (!term->axes || term->constant != 1)
        put_text(in, "%s%lld", term->axes ? "*" : "", (long long)term->constant);
}

static void put_need(struct space_reader *in, struct declared_need *need)
{
    put_text(in, "need ");
    need->text = in->written;
    for (size_t i = 0; i < need->comparisons; i++) {
        const struct declared_comparison *c = &need->comparison[i];
        const char *blank = c->relation == NEED_DIVIDES ? " " : "";

        put_text(in, "%s", i ? c->opens ? " | " : " & " : "");
        put_term(in, &c->left, &c->right);
        put_text(in, "%s%s%s", blank, relation_texts[c->relation], blank);
        put_term(in, &c->right, &c->left);
    }
    need->length = in->written - need->text;
    put_text(in, "\n");
}

/* Checks that a need allows the default plan, which runs where nothing is known. */
static int check_default(struct space_reader *in, const struct declared_need *need)
{
    const struct declaration *d = in->d;
    int64_t at[DECLARED_NUMBERS] = { 0 };
    char list[DECLARATION_FAULT_BYTES] = "";

    for (size_t i = 0; i < d->axes; i++) {
        const struct declared_axis *axis = &d->axis[i];

        at[i] = declared_number(axis, axis->fallback);
        if (need->axes >> i & 1)
            text_add(list, sizeof(list), "%s%s=%s", *list ? " " : "", axis->name,
                     axis->text[axis->fallback]);
    }
    if (declared_need_holds(need, at))
        return OK;
    return refuse(in, "the need excludes the default plan, which has %s", list);
}

static int read_need(struct space_reader *in)
{
    struct declaration *d = in->d;
    struct declared_need *need;
    struct span rest;
    bool opens = false;

    if (d->needs == DECLARATION_NEEDS_MAX)
        return refuse(in, "more than %d needs", DECLARATION_NEEDS_MAX);
    if (!d->need)
        d->need = calloc(DECLARATION_NEEDS_MAX, sizeof(*d->need));
    if (!d->need)
        return ERR_NOMEM;
    need = &d->need[d->needs++];
    for (;;) {
        struct declared_comparison c = { .opens = opens }, *more;

        if (in->comparisons++ == DECLARATION_COMPARISONS_MAX)
            return refuse(in, "more than %d comparisons in all needs", DECLARATION_COMPARISONS_MAX);
        TRY(read_comparison(in, &c));
        more = realloc(need->comparison, (need->comparisons + 1) * sizeof(*more));
        if (!more)
            return ERR_NOMEM;
        need->comparison = more;
        need->comparison[need->comparisons++] = c;
        need->axes |= c.axes;

        rest = rest_of(in);
        if (!rest.length)
            break;
        opens = *rest.at == '|';
        if (!opens && *rest.at != '&')
            return refuse(in, "%s follows a comparison: & and | join two of them", SHOWN(rest));
        in->at++;
    }
    put_need(in, need);
    return check_default(in, need);
}

/* ---- The statements "key NAME edges E.." and "class NAME edges E..". */

enum edge_kind { WHOLE_EDGES, THOUSANDTHS };

/* Reads "edges E..": at most `room` edges. */
static int read_edges(struct space_reader *in, enum edge_kind kind, size_t room, uint64_t *edges,
                      size_t *count)
{
    struct span s = next_word(in);
    int64_t edge, before = -1;
    bool is_edge;

    if (!span_is(s, "edges"))
        return refuse(in, "%s stands where \"edges\" should", SHOWN(s));
    while ((s = next_word(in)).length) {
        if (*count == room)
            return refuse(in, "more than %zu edges", room);
        is_edge = kind == THOUSANDTHS ? span_thousandths(s, &edge)
                                      : span_number(s, 0, largest_key, &edge);
        if (!is_edge)
            return refuse(in, "the edge %s is no %s", SHOWN(s),
                          kind == THOUSANDTHS ? "decimal above 0, with three digits behind the "
                                                "point at most, up to 1000000"
                                              : "integer from 0 to 10^15");
        if (edge <= before)
            return refuse(in, "the edge %s is not above the one before it", SHOWN(s));
        before = edge;
        edges[(*count)++] = (uint64_t)edge;
    }
    return *count ? OK : refuse(in, "there is no edge");
}

static int read_key(struct space_reader *in)
{
    struct declaration *d = in->d;

    if (*d->key)
        return refuse(in, "there is a key already: %s", d->key);
    TRY(read_new_name(in, "a key", d->key));
    TRY(read_edges(in, WHOLE_EDGES, DECLARATION_KEY_EDGES_MAX, d->key_edge, &d->key_edges));
    put_text(in, "key %s edges", d->key);
    for (size_t i = 0; i < d->key_edges; i++)
        put_text(in, " %llu", (unsigned long long)d->key_edge[i]);
    put_text(in, "\n");
    return OK;
}

static int read_class(struct space_reader *in)
{
    struct declaration *d = in->d;
    uint64_t edges[DECLARATION_CLASS_EDGES_MAX];

    if (*d->class_name)
        return refuse(in, "there is a class already: %s", d->class_name);
    TRY(read_new_name(in, "a class", d->class_name));
    TRY(read_edges(in, THOUSANDTHS, DECLARATION_CLASS_EDGES_MAX, edges, &d->class_edges));
    put_text(in, "class %s edges", d->class_name);
    for (size_t i = 0; i < d->class_edges; i++) {
        char text[DECLARATION_THOUSANDTHS_BYTES];

        d->class_edge[i] = (uint32_t)edges[i];
        put_text(in, " %s", declaration_thousandths(edges[i], text));
    }
    put_text(in, "\n");
    return OK;
}

/* ---- The whole text. */

static int read_space(struct space_reader *in)
{
    if (*in->d->name)
        return refuse(in, "the space has a name already: %s", in->d->name);
    TRY(read_name(in, "a space", NAME_WITH_MINUS, in->d->name));
    in->space_line = in->line;
    TRY(read_end(in));
    put_text(in, "space %s\n", in->d->name);
    return OK;
}

static int read_line(struct space_reader *in)
{
    static const struct statement {
        const char *word;
        int (*read)(struct space_reader *in);
    } statements[] = {
        { "space", read_space }, { "axis", read_axis },   { "need", read_need },
        { "key", read_key },     { "class", read_class }, { NULL, NULL },
    };
    struct span word = next_word(in);
    const struct statement *s = statements;

    if (!word.length)
        return OK;
    while (s->word && !span_is(word, s->word))
        s++;
    if (!*in->d->name && s->read != read_space)
        return refuse(in, "%s stands where \"space NAME\" should", SHOWN(word));
    return s->word ? s->read(in)
                   : refuse(in, "%s begins no line: axis, need, key and class do", SHOWN(word));
}

/* Computes what follows from all lines: the id of the space, and its legal plans. */
static int complete_space(struct space_reader *in)
{
    struct declaration *d = in->d;
    struct sha256 sha;
    uint8_t hash[SHA256_BYTES];
    uint32_t stride = 1;
    char *shrunk, why[DECLARATION_FAULT_BYTES];
    int rc;

    in->line = in->space_line;
    if (!d->axes || !*d->key)
        return refuse(in, "the space %s has no %s", d->name, d->axes ? "key" : "axis");
    if (in->written > DECLARATION_TEXT_BYTES)
        return refuse(in,
                      "with its ranges written out the text has %zu bytes: at most %d are allowed",
                      in->written, DECLARATION_TEXT_BYTES);
    sha256_init(&sha);
    sha256_add(&sha, d->text, in->written);
    sha256_end(&sha, hash);
    d->id = (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
    if (!d->id) /* 0 means no space */
        d->id = 1;
    for (size_t i = d->axes; i-- > 0; stride *= d->axis[i].values) {
        d->axis[i].stride = stride;
        d->default_choice += d->axis[i].fallback * stride;
    }
    rc = declaration_list(d, why, sizeof(why));
    if (rc)
        return rc == ERR_ARGUMENT ? refuse(in, "%s", why) : rc;
    shrunk = realloc(d->text, in->written + 1); /* shrinks it; it had room for the longest text */
    d->text = shrunk ? shrunk : d->text;
    return OK;
}

static int read_all(struct space_reader *in, const char *text)
{
    size_t length = strlen(text);

    if (!in->d)
        return ERR_NOMEM;
    in->d->combinations = 1;
    in->d->text = calloc(1, DECLARATION_TEXT_BYTES + 1);
    if (!in->d->text)
        return ERR_NOMEM;
    if (length > DECLARATION_TEXT_BYTES)
        return refuse(in, "the text has %zu bytes: at most %d are allowed", length,
                      DECLARATION_TEXT_BYTES);
    while (*text) {
        length = strcspn(text, "\n");
        in->line++;
        in->at = text;
        in->end = text + strcspn(text, "#\n");
        TRY(read_line(in));
        text += length + (text[length] == '\n');
    }
    return *in->d->name ? complete_space(in) : refuse(in, "there is no \"space NAME\"");
}

int declaration_read(const char *text, struct declaration **out, char *why, size_t size)
{
    struct space_reader in = { .d = calloc(1, sizeof(*in.d)), .why = why, .why_size = size };
    int rc = read_all(&in, text);

    if (rc == ERR_NOMEM)
        snprintf(why, size, "no memory for a declared space");
    if (rc)
        declaration_free(in.d);
    else
        *out = in.d;
    return rc;
}

int declaration_parse(const char *text, struct declaration **out)
{
    char why[DECLARATION_FAULT_BYTES];
    int rc = declaration_read(text, out, why, sizeof(why));

    return rc ? fail(rc, "declared space: %s", why) : OK;
}

/* ---- plans */

size_t declaration_axis(const struct declaration *d, const char *name, size_t length)
{
    size_t i = 0;

    while (i < d->axes && !span_is((struct span){ name, length }, d->axis[i].name))
        i++;
    return i;
}

uint32_t declared_axis_value(const struct declared_axis *axis, const char *text, size_t length)
{
    struct span word = { text, length };
    int64_t number = 0;
    uint32_t i = 0;

    if (!axis->words && !span_number(word, -NUMBER_MOST, NUMBER_MOST, &number))
        return axis->values;
    while (i < axis->values &&
           !(axis->words ? span_is(word, axis->text[i]) : axis->number[i] == number))
        i++;
    return i;
}

bool declaration_scan(const struct declaration *d, const char *text, uint32_t *choice)
{
    uint32_t scanned = d->default_choice, seen = 0;

    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " "), name_length = strcspn(text, "= ");
        size_t axis = declaration_axis(d, text, name_length);
        uint32_t value;

        if (axis == d->axes || name_length == length || (seen >> axis & 1))
            return false;
        value =
            declared_axis_value(&d->axis[axis], text + name_length + 1, length - name_length - 1);
        if (value == d->axis[axis].values)
            return false;
        scanned = declaration_with_value(d, scanned, axis, value);
        seen |= 1u << axis;
        text += length;
    }
    *choice = scanned;
    return true;
}
