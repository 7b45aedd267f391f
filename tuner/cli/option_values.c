/* Reads the value of an option by its kind, and describes what it may be and what it is by default.
 */
#include "option_values.h"

#include "common_rows.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const graphs_words[] = { "auto", "on", "off", NULL };

static int bad_value(const struct option_row *row, const char *text, const char *wanted)
{
    return fail(ERR_ARGUMENT, "--%s %s: %s is wanted", row->name, *text ? text : "\"\"", wanted);
}

static bool has_range(const struct option_row *row)
{
    return row->least < row->most;
}

static int out_of_range(const struct option_row *row, const char *text, const char *what)
{
    char wanted[96] = "";

    if (has_range(row))
        snprintf(wanted, sizeof(wanted), "%s from %.10g to %.10g", what, row->least, row->most);
    return bad_value(row, text, *wanted ? wanted : what);
}

static bool fits(const struct option_row *row, double value)
{
    return !has_range(row) || (value >= row->least && value <= row->most);
}

static int take_whole(const struct option_row *row, const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || !fits(row, (double)value))
        return out_of_range(row, text, "a whole number");
    if (errno || value > most)
        return fail(ERR_ARGUMENT, "--%s %s: at most %llu is wanted", row->name, text,
                    (unsigned long long)most);
    *out = value;
    return OK;
}

static int take_number(const struct option_row *row, const char *text, double *out)
{
    double value;

    if (!number_read(text, NULL, &value) || !fits(row, value))
        return out_of_range(row, text, "a number");
    *out = value;
    return OK;
}

struct unit {
    const char *name;
    double factor;
};

/* "2GiB" with one of the units; an empty unit is the first.  Up to `most` of it. */
static bool read_quantity(const char *text, const struct unit *units, size_t count, double most,
                          double *out)
{
    const char *end;
    double value;

    if (number_read(text, &end, &value) && value > 0)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(end, units[i].name) && value <= most / units[i].factor) {
                *out = value * units[i].factor;
                return true;
            }
    return false;
}

static int take_time(const struct option_row *row, const char *text, double *seconds)
{
    static const struct unit units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 } };

    return read_quantity(text, units, 3, 1e9, seconds)
               ? OK
               : bad_value(row, text, "a time such as 90s, 10m or 2h");
}

bool bytes_read(const char *text, int64_t *bytes)
{
    static const struct unit units[] = {
        { "", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }
    };
    double value;

    if (!read_quantity(text, units, 4, 0x1p60, &value))
        return false;
    *bytes = (int64_t)ceil(value); /* 0 would mean that nothing is said */
    return true;
}

static int take_bytes(const struct option_row *row, const char *text, int64_t *bytes)
{
    return bytes_read(text, bytes) ? OK : bad_value(row, text, "a size such as 512MiB or 2GiB");
}

static int refuse_word(const struct option_row *row, const char *text, const char *what)
{
    char wanted[128];

    text_put(wanted, sizeof(wanted), "%s", what);
    for (uint32_t i = 0; row->words[i]; i++)
        text_add(wanted, sizeof(wanted), " %s", row->words[i]);
    return bad_value(row, text, wanted);
}

/* Its index, or that of the NULL at the end. */
static uint32_t find_word(const char *const *words, const char *text, size_t length)
{
    uint32_t i = 0;

    while (words[i] && (strlen(words[i]) != length || memcmp(words[i], text, length) != 0))
        i++;
    return i;
}

static int take_word(const struct option_row *row, const char *text, uint32_t *out)
{
    uint32_t i = find_word(row->words, text, strlen(text));

    if (!row->words[i])
        return refuse_word(row, text, "one of");
    *out = i;
    return OK;
}

static int take_words(const struct option_row *row, const char *text, uint32_t *mask)
{
    uint32_t found = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        uint32_t i = find_word(row->words, at, length);

        if (!row->words[i] || (found >> i & 1))
            return refuse_word(row, text, "one or more of");
        found |= 1u << i;
        at += length;
        if (!*at)
            break;
    }
    *mask = found;
    return OK;
}

/* An empty one is a variable of a script that nobody set. */
static int take_text(const struct option_row *row, const char *text, const char **out)
{
    if (!*text)
        return bad_value(row, text, row->value);
    *out = text;
    return OK;
}

static int take_item(const struct option_row *row, const char *text, struct option_list *list)
{
    if (list->count == OPTION_LIST_MAX)
        return fail(ERR_ARGUMENT, "--%s is given more than %d times", row->name, OPTION_LIST_MAX);
    TRY(take_text(row, text, &list->items[list->count]));
    list->count++;
    return OK;
}

int option_take(const struct option_row *row, const char *text, void *target)
{
    void *at = (char *)target + row->offset;
    uint64_t whole;

    switch (row->kind) {
    case OPTION_FLAG: *(bool *)at = true; return OK;
    case OPTION_SEED: return take_whole(row, text, UINT64_MAX, at);
    case OPTION_NUMBER: return take_number(row, text, at);
    case OPTION_TIME: return take_time(row, text, at);
    case OPTION_BYTES: return take_bytes(row, text, at);
    case OPTION_WORD: return take_word(row, text, at);
    case OPTION_WORDS: return take_words(row, text, at);
    case OPTION_TEXT: return take_text(row, text, at);
    case OPTION_MAYBE_TEXT: *(const char **)at = text; return OK;
    case OPTION_LIST: return take_item(row, text, at);
    case OPTION_COUNT:
    case OPTION_GROUP: break;
    }
    TRY(take_whole(row, text, UINT32_MAX, &whole));
    *(uint32_t *)at = (uint32_t)whole;
    return OK;
}

static size_t bytes_of(enum option_kind kind)
{
    switch (kind) {
    case OPTION_FLAG: return sizeof(bool);
    case OPTION_COUNT:
    case OPTION_WORD:
    case OPTION_WORDS: return sizeof(uint32_t);
    case OPTION_SEED: return sizeof(uint64_t);
    case OPTION_NUMBER:
    case OPTION_TIME: return sizeof(double);
    case OPTION_BYTES: return sizeof(int64_t);
    case OPTION_TEXT:
    case OPTION_MAYBE_TEXT: return sizeof(const char *);
    case OPTION_LIST: return sizeof(struct option_list);
    case OPTION_GROUP: break;
    }
    return 0;
}

bool option_is_given(const struct option_row *row, const void *options, const void *defaults)
{
    return memcmp((const char *)options + row->offset, (const char *)defaults + row->offset,
                  bytes_of(row->kind)) != 0;
}

static void format_default(const struct option_row *row, const void *defaults, char *text,
                           size_t size)
{
    const void *at = (const char *)defaults + row->offset;
    const char *word = NULL;

    *text = 0;
    switch (row->kind) {
    case OPTION_COUNT:
        if (*(const uint32_t *)at && *(const uint32_t *)at != UINT32_MAX)
            snprintf(text, size, "%u", *(const uint32_t *)at);
        break;
    case OPTION_SEED:
        snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case OPTION_NUMBER:
        if (!isnan(*(const double *)at))
            snprintf(text, size, "%g", *(const double *)at);
        break;
    case OPTION_WORD:
        if (*(const uint32_t *)at != UINT32_MAX)
            word = row->words[*(const uint32_t *)at];
        break;
    case OPTION_TEXT:
    case OPTION_MAYBE_TEXT: word = *(const char *const *)at; break;
    case OPTION_TIME:
    case OPTION_BYTES:
    case OPTION_WORDS:
    case OPTION_FLAG:
    case OPTION_LIST:
    case OPTION_GROUP: break;
    }
    if (word)
        snprintf(text, size, "%s", word);
}

void option_describe(const struct option_row *row, const void *defaults, char *text, size_t size)
{
    const char *end = strrchr(row->help, ']');
    char value[256] = "";

    if (defaults && !(end && !end[1])) /* the words do not say it themselves */
        format_default(row, defaults, value, sizeof(value));
    snprintf(text, size, *value ? "%s [%s]" : "%s", row->help, value);
}
