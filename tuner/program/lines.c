/* Reads the lines that programs write, word by word, and the guards that `--guard` names. */
#include "lines.h"

#include "options.h"
#include "status.h"
#include "text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line while it is read.  All pointers are borrowed. */
struct line_reader {
    const char *rest; /* what is not read yet */
    const struct declaration *space;
    struct program_line *line;
    char *why; /* LINE_WHY_BYTES: what is wrong with the line */
};

static bool refuse(const struct line_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(const struct line_reader *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_put_list(r->why, LINE_WHY_BYTES, format, args);
    va_end(args);
    return false;
}

/* Reads the next word.  Returns false and reads nothing if the line is at its end, or the word does
 * not fit. */
static bool next_word(struct line_reader *r, char *word, size_t size)
{
    size_t length;

    r->rest += strspn(r->rest, " \t\r");
    length = strcspn(r->rest, " \t\r");
    if (!text_put(word, size, "%.*s", (int)length, r->rest) || !length)
        return false;
    r->rest += length;
    return true;
}

static bool is_at_end(struct line_reader *r)
{
    r->rest += strspn(r->rest, " \t\r");
    return !*r->rest;
}

/* ---- ask */

static bool read_ask(struct line_reader *r)
{
    const struct declaration *d = r->space;
    const unsigned long long key_max = d ? INT64_MAX : UINT32_MAX;
    unsigned long long key;
    char digits[32], word[64], *end;
    double class;

    if (!next_word(r, digits, sizeof(digits)) || !isdigit((unsigned char)*digits))
        return refuse(r, d ? "ask KEY: %s must be a number" : "ask CAPACITY: %s must be a number",
                      d ? d->key : "the capacity");
    key = strtoull(digits, &end, 10);
    if (*end || key > key_max)
        return refuse(r, "ask %s: a whole number up to %llu is wanted", TEXT_SHORT(digits, 20),
                      key_max);
    r->line->key = key;
    if (!d || !*d->class_name)
        return is_at_end(r) || refuse(r, "ask KEY: only one number is wanted");
    if (!next_word(r, word, sizeof(word)))
        return refuse(r, "ask KEY CLASS: the space has the class %s", d->class_name);
    if (!number_read(word, NULL, &class) || class < 0 || class * 1000 > UINT32_MAX || !is_at_end(r))
        return refuse(r, "ask KEY CLASS: %s must be one number from 0 on", d->class_name);
    /* Rounded up, so that a class above an edge is also above the edge's thousandths. */
    r->line->class_thousandths = (uint32_t)fmin(UINT32_MAX, ceil(class * 1000 - 1e-6));
    return true;
}

/* ---- tell */

static bool is_name(const char *text, size_t length)
{
    bool is_valid = length && length < LINE_NAME_BYTES && !isdigit((unsigned char)*text);

    for (size_t i = 0; i < length; i++)
        is_valid &= isalnum((unsigned char)text[i]) || strchr("_.-", text[i]);
    return is_valid;
}

/* Reads "memory=BYTES" or "NAME=NUMBER". */
static bool read_named(struct line_reader *r, const char *word)
{
    size_t length = strcspn(word, "=");
    const char *value = word + length + 1;
    struct program_line *line = r->line;
    struct named_number number = { .value = 0 };

    if (!word[length] || !is_name(word, length))
        return refuse(r, "tell: \"%s\" is no NAME=NUMBER", TEXT_SHORT(word, 40));
    text_put(number.name, sizeof(number.name), "%.*s", (int)length, word);
    if (!strcmp(number.name, "memory")) {
        if (!strcmp(value, "0"))
            line->memory_bytes = 0;
        else if (!bytes_read(value, &line->memory_bytes))
            return refuse(r, "memory=%s: bytes such as 1234, 512MiB or 31GiB are wanted",
                          TEXT_SHORT(value, 30));
        return true;
    }
    if (!number_read(value, NULL, &number.value))
        /* A value that is no number breaks a guard, but the line is read. */
        number.value = NAN;
    for (size_t i = 0; i < line->numbers; i++)
        if (!strcmp(line->number[i].name, number.name))
            return refuse(r, "tell: the line names %s twice", number.name);
    if (line->numbers == LINE_NUMBERS_MAX)
        return refuse(r, "tell: %s is one number too many, %d are allowed", number.name,
                      LINE_NUMBERS_MAX);
    line->number[line->numbers++] = number;
    return true;
}

static bool read_tell(struct line_reader *r)
{
    char word[96];
    double us;

    if (!next_word(r, word, sizeof(word)) || !number_read(word, NULL, &us) ||
        !(us > 0 && us < 1e12))
        return refuse(r, "tell MICROSECONDS: a number above 0 is wanted");
    r->line->ns = (int64_t)fmax(1, us * 1e3);
    while (next_word(r, word, sizeof(word)))
        if (!read_named(r, word))
            return false;
    return is_at_end(r) || refuse(r, "tell: a word has more than %zu bytes", sizeof(word) - 1);
}

/* ---- a whole line */

bool program_line_read(const char *line, const struct declaration *space, struct program_line *out,
                       char why[LINE_WHY_BYTES])
{
    struct line_reader r = { .rest = line, .space = space, .line = out, .why = why };
    char word[16];

    *out = (struct program_line){ .word = LINE_ASK };
    if (strlen(line) >= PROGRAM_LINE_BYTES - 1)
        return refuse(&r, "the line has more than 1000 letters");
    if (!next_word(&r, word, sizeof(word)))
        *word = 0;
    if (!strcmp(word, "ask"))
        return read_ask(&r);
    if (!strcmp(word, "tell")) {
        out->word = LINE_TELL;
        return read_tell(&r);
    }
    if (!strcmp(word, "failed")) {
        out->word = LINE_FAILED;
        out->reason = is_at_end(&r) ? "the program could not run it" : r.rest;
        return true;
    }
    if (!strcmp(word, "status")) {
        out->word = LINE_STATUS;
        return is_at_end(&r) || refuse(&r, "status: nothing may follow it");
    }
    return refuse(&r, "ask, tell, failed or status is wanted");
}

/* ---- guards */

int guard_parse(const char *text, struct measured_guard *out)
{
    size_t length = strcspn(text, "<>");
    struct measured_guard g = { .at_least = text[length] == '>' };

    if (!is_name(text, length) || !text[length] || text[length + 1] != '=' ||
        !number_read(text + length + 2, NULL, &g.limit))
        return fail(ERR_ARGUMENT, "--guard \"%s\": NAME>=NUMBER or NAME<=NUMBER is wanted", text);
    text_put(g.name, sizeof(g.name), "%.*s", (int)length, text);
    if (!strcmp(g.name, "memory"))
        return fail(ERR_ARGUMENT, "--guard \"%s\": --max-memory limits memory", text);
    *out = g;
    return OK;
}

bool guard_broken(const struct measured_guard *g, const struct program_line *tell,
                  char why[LINE_WHY_BYTES])
{
    const char *sign = g->at_least ? ">=" : "<=";

    for (size_t i = 0; i < tell->numbers; i++) {
        double value = tell->number[i].value;

        if (strcmp(tell->number[i].name, g->name) != 0)
            continue;
        text_put(why, LINE_WHY_BYTES, "%s=%g breaks %s%s%g", g->name, value, g->name, sign,
                 g->limit);
        return !(g->at_least ? value >= g->limit : value <= g->limit);
    }
    text_put(why, LINE_WHY_BYTES, "the program does not tell %s, and %s%s%g is wanted", g->name,
             g->name, sign, g->limit);
    return true;
}
