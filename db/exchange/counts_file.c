/* Reads counts of steps, a line at a time. */
#include "counts_file.h"

#include "input_file.h"
#include "json.h"
#include "status.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The lists of a line, and its numbers. */
enum { COUNTS, LARGEST, LISTS, NONE = -1 };
static const char *const list_words[LISTS] = { "counts", "largest" };
enum { RANKS, TOKENS, CAPACITY, NUMBERS };
static const char *const number_words[NUMBERS] = { "ranks", "tokens", "capacity" };

struct reading {
    const char *path;
    int (*on)(void *self, const struct counts_line *line);
    void *self;
    double *values[LISTS]; /* (COUNTS_EXPERTS_MOST) */
    uint32_t found[LISTS];
    double numbers[NUMBERS];
    int open; /* which list is being read */
    bool given[LISTS], wrong;
    const char *wrong_number; /* that is none */
    bool any;
};

static int place_of(const char *key, const char *const *words, int count)
{
    for (int i = 0; key && i < count; i++)
        if (!strcmp(key, words[i]))
            return i;
    return NONE;
}

static void take_number(struct reading *r, const struct json_value *v)
{
    int place = place_of(v->key, number_words, NUMBERS);
    double n = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (place == NONE)
        return;
    if (!(n >= 1 && n <= UINT32_MAX) || n != floor(n))
        r->wrong_number = number_words[place];
    r->numbers[place] = n;
}

static int on_value(void *self, const struct json_value *v)
{
    struct reading *r = self;

    if (v->depth == 1) {
        r->open = v->kind == JSON_ARRAY ? place_of(v->key, list_words, LISTS) : NONE;
        if (r->open != NONE) {
            r->given[r->open] = true;
            r->found[r->open] = 0;
        }
        take_number(r, v);
    } else if (v->depth == 2 && r->open != NONE && v->kind != JSON_END) {
        double n = v->kind == JSON_NUMBER ? json_number(v) : -1;

        r->wrong |= !(n >= 0 && n <= 0x1p53);
        if (r->found[r->open] < COUNTS_EXPERTS_MOST)
            r->values[r->open][r->found[r->open]] = n;
        r->found[r->open]++;
    }
    return OK;
}

static const char *fault_of(const struct reading *r)
{
    double sum = 0;

    if (!r->given[COUNTS] && !r->given[LARGEST])
        return "has no \"counts\"";
    if (r->wrong)
        return "has a count that is no number from 0 on";
    if (r->wrong_number)
        return "has \"ranks\", \"tokens\" or a \"capacity\" that is no whole number from 1 on";
    if (r->given[COUNTS] && r->given[LARGEST] && r->found[COUNTS] != r->found[LARGEST])
        return "has not one count for each expert in both of its lists";
    for (int list = 0; list < LISTS; list++)
        for (uint32_t e = 0; e < r->found[list] && e < COUNTS_EXPERTS_MOST; e++)
            sum += r->values[list][e];
    return sum > 0 ? NULL : "counts nothing";
}

int counts_line_wrong(const struct counts_line *line, const char *fault)
{
    return fail(ERR_FORMAT, "%s:%u %s (%u counts)", line->path, line->number, fault, line->experts);
}

static int on_line(void *self, const char *text, size_t length, uint32_t number)
{
    struct reading *r = self, before = *r;
    struct counts_line line = { .path = r->path, .number = number };
    const char *fault;

    if (strspn(text, " \t\r") >= length)
        return OK;
    *r = (struct reading){
        .path = r->path, .on = r->on, .self = r->self, .open = NONE, .any = true
    };
    memcpy(r->values, before.values, sizeof(r->values));
    if (json_read(text, length, NULL, on_value, r))
        return fail(ERR_FORMAT,
                    "%s:%u is no JSON: a line {\"counts\": [12, 7, ...]} is wanted for each step",
                    r->path, number);
    line.experts = r->found[r->given[COUNTS] ? COUNTS : LARGEST];
    fault = fault_of(r);
    if (fault)
        return counts_line_wrong(&line, fault);
    if (line.experts > COUNTS_EXPERTS_MOST)
        return fail(ERR_FORMAT, "%s:%u counts %u experts; %d are the most", r->path, number,
                    line.experts, COUNTS_EXPERTS_MOST);
    line.counts = r->given[COUNTS] ? r->values[COUNTS] : NULL;
    line.largest = r->given[LARGEST] ? r->values[LARGEST] : NULL;
    line.ranks = r->numbers[RANKS];
    line.tokens = r->numbers[TOKENS];
    line.capacity = r->numbers[CAPACITY];
    return r->on(r->self, &line);
}

static int each_line(struct reading *r, const char *text)
{
    uint32_t number = 0;

    for (const char *at = text; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");

        TRY(on_line(r, at, length, ++number));
        at += length;
    }
    return OK;
}

/* Of a file, or of a text where there is one. */
static int read_steps(struct reading *r, const char *text)
{
    int rc = OK;

    for (int i = 0; i < LISTS; i++) {
        r->values[i] = calloc(COUNTS_EXPERTS_MOST, sizeof(*r->values[i]));
        rc = r->values[i] ? rc : fail(ERR_NOMEM, "counts of experts");
    }
    if (!rc)
        rc = text ? each_line(r, text) : input_lines(r->path, on_line, r);
    if (!rc && !r->any)
        rc = fail(ERR_FORMAT, "%s holds no step", r->path);
    for (int i = 0; i < LISTS; i++)
        free(r->values[i]);
    return rc;
}

int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self)
{
    return read_steps(&(struct reading){ .path = path, .on = on, .self = self }, NULL);
}

int counts_file_take(const char *text, const char *path,
                     int (*on)(void *self, const struct counts_line *line), void *self)
{
    return read_steps(&(struct reading){ .path = path, .on = on, .self = self }, text);
}
