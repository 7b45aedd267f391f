/* Reads counts of steps, one line at a time or all at once. */
#include "counts_file.h"

#include "input_file.h"
#include "json.h"
#include "status.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The members of a line: lists, and single numbers. */
enum { COUNTS, LARGEST, LISTS, NONE = -1 };
static const char *const list_words[LISTS] = { "counts", "largest" };
enum { RANKS, TOKENS, CAPACITY, NUMBERS };
static const char *const number_words[NUMBERS] = { "ranks", "tokens", "capacity" };

/* A file that is being read, and the function that gets its steps. */
struct counts_reading {
    const char *path;
    int (*on)(void *self, const struct counts_line *line);
    void *self;
    double *values[LISTS]; /* (COUNTS_EXPERTS_MOST) */
    bool any;              /* there was a step */
    /* What the present line has said so far. */
    struct members {
        uint32_t found[LISTS];
        double numbers[NUMBERS];
        int open; /* the list that is being read */
        bool given[LISTS], wrong_count, wrong_number;
    } members;
};

static int place_of(const char *key, const char *const *words, int count)
{
    for (int i = 0; key && i < count; i++)
        if (!strcmp(key, words[i]))
            return i;
    return NONE;
}

static int on_value(void *self, const struct json_value *v)
{
    struct counts_reading *r = self;
    struct members *members = &r->members;
    double n = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (v->depth == 1) {
        int number = place_of(v->key, number_words, NUMBERS);

        members->open = v->kind == JSON_ARRAY ? place_of(v->key, list_words, LISTS) : NONE;
        if (members->open != NONE) {
            members->given[members->open] = true;
            members->found[members->open] = 0;
        }
        if (number != NONE) {
            members->wrong_number |= !(n >= 1 && n <= UINT32_MAX) || n != floor(n);
            members->numbers[number] = n;
        }
    } else if (v->depth == 2 && members->open != NONE && v->kind != JSON_END) {
        members->wrong_count |= !(n >= 0 && n <= 0x1p53);
        if (members->found[members->open] < COUNTS_EXPERTS_MOST)
            r->values[members->open][members->found[members->open]] = n;
        members->found[members->open]++;
    }
    return OK;
}

static const char *fault_of(const struct counts_reading *r)
{
    const struct members *members = &r->members;
    double sum = 0;

    if (!members->given[COUNTS] && !members->given[LARGEST])
        return "has no \"counts\"";
    if (members->wrong_count)
        return "has a count that is no number from 0 on";
    if (members->wrong_number)
        return "has \"ranks\", \"tokens\" or a \"capacity\" that is no whole number from 1 on";
    if (members->given[COUNTS] && members->given[LARGEST] &&
        members->found[COUNTS] != members->found[LARGEST])
        return "has not one count for each expert in both of its lists";
    for (int list = 0; list < LISTS; list++)
        for (uint32_t e = 0; e < members->found[list] && e < COUNTS_EXPERTS_MOST; e++)
            sum += r->values[list][e];
    return sum > 0 ? NULL : "counts nothing";
}

static int refuse_line(const struct counts_line *line, const char *fault)
{
    return fail(ERR_FORMAT, "%s:%u %s (%u counts)", line->path, line->number, fault, line->experts);
}

static int on_line(void *self, const char *text, size_t length, uint32_t number)
{
    struct counts_reading *r = self;
    struct members *members = &r->members;
    struct counts_line line = { .path = r->path, .number = number };
    const char *fault;

    if (strspn(text, " \t\r") >= length)
        return OK;
    r->any = true;
    *members = (struct members){ .open = NONE };
    if (json_read(text, length, NULL, on_value, r))
        return fail(ERR_FORMAT,
                    "%s:%u is no JSON: each step needs a line {\"counts\": [12, 7, ...]}", r->path,
                    number);
    line.experts = members->found[members->given[COUNTS] ? COUNTS : LARGEST];
    fault = fault_of(r);
    if (fault)
        return refuse_line(&line, fault);
    if (line.experts > COUNTS_EXPERTS_MOST)
        return fail(ERR_FORMAT, "%s:%u counts %u experts; at most %d are allowed", r->path, number,
                    line.experts, COUNTS_EXPERTS_MOST);
    line.counts = members->given[COUNTS] ? r->values[COUNTS] : NULL;
    line.largest = members->given[LARGEST] ? r->values[LARGEST] : NULL;
    for (uint32_t e = 0; e < line.experts && line.counts; e++) {
        line.sum += line.counts[e];
        line.most = fmax(line.most, line.counts[e]);
    }
    line.ranks = members->numbers[RANKS];
    line.tokens = members->numbers[TOKENS];
    line.capacity = members->numbers[CAPACITY];
    return r->on(r->self, &line);
}

/* Reads the file, or `text` if it is not NULL. */
static int read_steps(struct counts_reading *r, const char *text)
{
    uint32_t number = 0;
    int rc = OK;

    for (int i = 0; i < LISTS; i++) {
        r->values[i] = calloc(COUNTS_EXPERTS_MOST, sizeof(*r->values[i]));
        rc = r->values[i] ? rc : fail(ERR_NOMEM, "counts of experts");
    }
    if (!rc && !text)
        rc = input_lines(r->path, on_line, r);
    while (!rc && text && *text) {
        size_t length = strcspn(text, "\n");

        rc = on_line(r, text, length, ++number);
        text += length;
        text += *text == '\n';
    }
    if (!rc && !r->any)
        rc = fail(ERR_FORMAT, "%s holds no step", r->path);
    for (int i = 0; i < LISTS; i++)
        free(r->values[i]);
    return rc;
}

int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self)
{
    return read_steps(&(struct counts_reading){ .path = path, .on = on, .self = self }, NULL);
}

/* ---- Traces. */

struct collected {
    struct counts_trace trace;
    size_t room; /* in steps */
};

/* Returns how often the fullest rank chose an expert, as far as the line says it. */
static uint32_t largest_of(const struct counts_line *l, uint32_t ranks, uint32_t e)
{
    return (uint32_t)(l->largest ? ceil(l->largest[e]) : ceil(l->counts[e] / ranks));
}

static int add_step(void *self, const struct counts_line *l)
{
    struct collected *c = self;
    struct counts_trace *t = &c->trace;
    bool empty = true;

    if (!t->experts && l->experts % t->ranks && t->ranks % l->experts)
        return fail(ERR_ARGUMENT,
                    "%s:%u: %u experts on %u ranks (--ranks): one of them must be a multiple of "
                    "the other",
                    l->path, l->number, l->experts, t->ranks);
    if (!t->experts)
        t->experts = l->experts;
    if (l->experts != t->experts)
        return fail(ERR_FORMAT,
                    "%s:%u has not one count for each expert (%u counts; the first line has %u)",
                    l->path, l->number, l->experts, t->experts);
    for (uint32_t e = 0; e < t->experts; e++) {
        if ((l->counts && l->counts[e] >= UINT32_MAX) ||
            (l->largest && l->largest[e] >= UINT32_MAX))
            return refuse_line(l, "has a count that is no number from 0 to 4294967294");
        empty &= !largest_of(l, t->ranks, e);
    }
    if (empty)
        return refuse_line(l, "counts nothing on any rank");
    if (t->steps == c->room) {
        uint32_t *more;

        c->room = 2 * c->room + 64;
        more = realloc(t->counts, c->room * t->experts * sizeof(*more));
        if (!more)
            return fail(ERR_NOMEM, "%zu steps of %u experts", c->room, t->experts);
        t->counts = more;
    }
    for (uint32_t e = 0; e < t->experts; e++) {
        t->choices += l->counts ? l->counts[e] / t->ranks : l->largest[e];
        t->counts[t->steps * t->experts + e] = largest_of(l, t->ranks, e);
    }
    t->steps++;
    return OK;
}

int counts_parse(const char *text, const char *path, uint32_t ranks, struct counts_trace *out)
{
    struct collected c = { .trace = { .ranks = ranks ? ranks : 1 } };
    struct counts_reading r = { .path = path, .on = add_step, .self = &c };
    int rc = read_steps(&r, text);

    if (rc) {
        counts_free(&c.trace);
        return rc;
    }
    c.trace.choices /= (double)c.trace.steps;
    *out = c.trace;
    return OK;
}

int counts_read(const char *path, uint32_t ranks, struct counts_trace *out)
{
    return counts_parse(NULL, path, ranks, out);
}

void counts_free(struct counts_trace *trace)
{
    free(trace->counts);
    *trace = (struct counts_trace){ 0 };
}
