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
    int (*on_step)(void *self, const struct counts_line *line);
    void *self;
    double *values[LISTS]; /* (COUNTS_EXPERTS_MOST) */
    bool has_step;         /* the file has at least one step */
    /* What the present line has said so far. */
    struct members {
        uint32_t lengths[LISTS]; /* how many numbers each list has */
        double numbers[NUMBERS];
        int open_list; /* the list that is being read */
        bool given[LISTS], wrong_count, wrong_number;
    } members;
};

static int index_of_word(const char *key, const char *const *words, int count)
{
    for (int i = 0; key && i < count; i++)
        if (!strcmp(key, words[i]))
            return i;
    return NONE;
}

static int read_count_value(void *self, const struct json_value *v)
{
    struct counts_reading *r = self;
    struct members *members = &r->members;
    double value = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (v->depth == 1) {
        int number = index_of_word(v->key, number_words, NUMBERS);

        members->open_list =
            v->kind == JSON_ARRAY ? index_of_word(v->key, list_words, LISTS) : NONE;
        if (members->open_list != NONE) {
            members->given[members->open_list] = true;
            members->lengths[members->open_list] = 0;
        }
        if (number != NONE) {
            members->wrong_number |= !(value >= 1 && value <= UINT32_MAX) || value != floor(value);
            members->numbers[number] = value;
        }
    } else if (v->depth == 2 && members->open_list != NONE && v->kind != JSON_END) {
        members->wrong_count |= !(value >= 0 && value <= 0x1p53);
        if (members->lengths[members->open_list] < COUNTS_EXPERTS_MOST)
            r->values[members->open_list][members->lengths[members->open_list]] = value;
        members->lengths[members->open_list]++;
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
        members->lengths[COUNTS] != members->lengths[LARGEST])
        return "has not one count for each expert in both of its lists";
    for (int list = 0; list < LISTS; list++)
        for (uint32_t e = 0; e < members->lengths[list] && e < COUNTS_EXPERTS_MOST; e++)
            sum += r->values[list][e];
    return sum > 0 ? NULL : "counts nothing";
}

static int refuse_line(const struct counts_line *line, const char *fault)
{
    return fail(ERR_FORMAT, "%s:%u %s (%u counts)", line->path, line->number, fault, line->experts);
}

static int read_step_line(void *self, const char *text, size_t length, uint32_t number)
{
    struct counts_reading *r = self;
    struct members *members = &r->members;
    struct counts_line line = { .path = r->path, .number = number };
    const char *fault;

    if (strspn(text, " \t\r") >= length)
        return OK;
    r->has_step = true;
    *members = (struct members){ .open_list = NONE };
    if (json_read(text, length, NULL, read_count_value, r))
        return fail(ERR_FORMAT,
                    "%s:%u is no JSON: each step needs a line {\"counts\": [12, 7, ...]}", r->path,
                    number);
    line.experts = members->lengths[members->given[COUNTS] ? COUNTS : LARGEST];
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
    return r->on_step(r->self, &line);
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
        rc = input_lines(r->path, read_step_line, r);
    while (!rc && text && *text) {
        size_t length = strcspn(text, "\n");

        rc = read_step_line(r, text, length, ++number);
        text += length;
        text += *text == '\n';
    }
    if (!rc && !r->has_step)
        rc = fail(ERR_FORMAT, "%s holds no step", r->path);
    for (int i = 0; i < LISTS; i++)
        free(r->values[i]);
    return rc;
}

int counts_file_read(const char *path, int (*on)(void *self, const struct counts_line *line),
                     void *self)
{
    return read_steps(&(struct counts_reading){ .path = path, .on_step = on, .self = self }, NULL);
}

/* ---- Traces. */

struct collected {
    struct counts_trace trace;
    size_t steps_room; /* for how many steps trace.counts has room */
};

/* Returns how often the fullest rank chose an expert, as far as the line says it. */
static uint32_t largest_of(const struct counts_line *line, uint32_t ranks, uint32_t expert)
{
    return (uint32_t)(line->largest ? ceil(line->largest[expert])
                                    : ceil(line->counts[expert] / ranks));
}

static int add_step(void *self, const struct counts_line *line)
{
    struct collected *c = self;
    struct counts_trace *t = &c->trace;
    bool empty = true;

    if (!t->experts && line->experts % t->ranks && t->ranks % line->experts)
        return fail(ERR_ARGUMENT,
                    "%s:%u: %u experts on %u ranks (--ranks): one of them must be a multiple of "
                    "the other",
                    line->path, line->number, line->experts, t->ranks);
    if (!t->experts)
        t->experts = line->experts;
    if (line->experts != t->experts)
        return fail(ERR_FORMAT,
                    "%s:%u has not one count for each expert (%u counts; the first line has %u)",
                    line->path, line->number, line->experts, t->experts);
    for (uint32_t e = 0; e < t->experts; e++) {
        if ((line->counts && line->counts[e] >= UINT32_MAX) ||
            (line->largest && line->largest[e] >= UINT32_MAX))
            return refuse_line(line, "has a count that is no number from 0 to 4294967294");
        empty &= !largest_of(line, t->ranks, e);
    }
    if (empty)
        return refuse_line(line, "counts nothing on any rank");
    if (t->steps == c->steps_room) {
        uint32_t *grown;

        c->steps_room = 2 * c->steps_room + 64;
        grown = realloc(t->counts, c->steps_room * t->experts * sizeof(*grown));
        if (!grown)
            return fail(ERR_NOMEM, "%zu steps of %u experts", c->steps_room, t->experts);
        t->counts = grown;
    }
    for (uint32_t e = 0; e < t->experts; e++) {
        t->choices += line->counts ? line->counts[e] / t->ranks : line->largest[e];
        t->counts[t->steps * t->experts + e] = largest_of(line, t->ranks, e);
    }
    t->steps++;
    return OK;
}

int counts_parse(const char *text, const char *path, uint32_t ranks, struct counts_trace *out)
{
    struct collected c = { .trace = { .ranks = ranks ? ranks : 1 } };
    struct counts_reading r = { .path = path, .on_step = add_step, .self = &c };
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
