/* Reads the text of a declared space line by line, and writes its canonical text. */
#include "declaration_need.h"

#include "sha256.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys beyond this are no counts of anything, and twice it is still a number. */
static const int64_t key_most = 1000000000000000;

/* ---- key and class */

/* A decimal with up to three digits behind its point, above 0, as thousandths. */
static bool span_thousandths(struct span s, int64_t *out)
{
    int64_t whole, part = 0;
    size_t point = 0;

    if (memchr(s.at, '-', s.length)) /* also of "-0.5", whose whole part is 0 */
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

/* "edges E1 E2 ...", ascending. */
static int read_edges(struct declaration_reader *in, bool thousandths, size_t room, uint64_t *edges,
                      size_t *count)
{
    struct span s = declaration_word(in);
    int64_t edge, before = -1;

    if (!span_is(s, "edges"))
        return declaration_wrong(in, "%s stands where \"edges\" should", SPAN_SHOWN(s));
    while ((s = declaration_word(in)).length) {
        if (*count == room)
            return declaration_wrong(in, "more than %zu edges", room);
        if (!(thousandths ? span_thousandths(s, &edge) : span_number(s, 0, key_most, &edge)))
            return declaration_wrong(in, "the edge %s is no %s", SPAN_SHOWN(s),
                                     thousandths ? "decimal above 0, with three digits behind the "
                                                   "point at most, up to 1000000"
                                                 : "integer from 0 to 10^15");
        if (edge <= before)
            return declaration_wrong(in, "the edge %s is not above the one before it",
                                     SPAN_SHOWN(s));
        before = edge;
        edges[(*count)++] = (uint64_t)edge;
    }
    return *count ? OK : declaration_wrong(in, "there is no edge");
}

static int read_key(struct declaration_reader *in)
{
    struct declaration *d = in->d;

    if (*d->key)
        return declaration_wrong(in, "there is a key already: %s", d->key);
    TRY(declaration_column(in, "a key", d->key));
    TRY(read_edges(in, false, DECLARATION_KEY_EDGES_MAX, d->key_edge, &d->key_edges));
    declaration_write(in, "key %s edges", d->key);
    for (size_t i = 0; i < d->key_edges; i++)
        declaration_write(in, " %llu", (unsigned long long)d->key_edge[i]);
    declaration_write(in, "\n");
    return OK;
}

static int read_class(struct declaration_reader *in)
{
    struct declaration *d = in->d;
    uint64_t edges[DECLARATION_CLASS_EDGES_MAX];

    if (*d->class_name)
        return declaration_wrong(in, "there is a class already: %s", d->class_name);
    TRY(declaration_column(in, "a class", d->class_name));
    TRY(read_edges(in, true, DECLARATION_CLASS_EDGES_MAX, edges, &d->class_edges));
    declaration_write(in, "class %s edges", d->class_name);
    for (size_t i = 0; i < d->class_edges; i++) {
        char text[DECLARATION_THOUSANDTHS_BYTES];

        d->class_edge[i] = (uint32_t)edges[i];
        declaration_write(in, " %s", declaration_thousandths(edges[i], text));
    }
    declaration_write(in, "\n");
    return OK;
}

/* ---- lines */

static int read_space(struct declaration_reader *in)
{
    if (*in->d->name)
        return declaration_wrong(in, "the space has a name already: %s", in->d->name);
    TRY(declaration_name(in, "a space", true, in->d->name));
    in->space_line = in->line;
    TRY(declaration_end(in));
    declaration_write(in, "space %s\n", in->d->name);
    return OK;
}

static const struct statement {
    const char *word;
    int (*read)(struct declaration_reader *in);
} statements[] = {
    { "space", read_space }, { "axis", declared_axis_read }, { "need", declared_need_read },
    { "key", read_key },     { "class", read_class },
};
enum { STATEMENTS = sizeof(statements) / sizeof(statements[0]) };

static int read_line(struct declaration_reader *in)
{
    struct span word = declaration_word(in);
    size_t i = 0;

    if (!word.length)
        return OK;
    while (i < STATEMENTS && !span_is(word, statements[i].word))
        i++;
    if (!*in->d->name && i != 0)
        return declaration_wrong(in, "%s stands where \"space NAME\" should", SPAN_SHOWN(word));
    if (i == STATEMENTS)
        return declaration_wrong(in, "%s begins no line: axis, need, key and class do",
                                 SPAN_SHOWN(word));
    return statements[i].read(in);
}

static int read_lines(struct declaration_reader *in, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");

        in->line++;
        in->at = text;
        in->end = text + strcspn(text, "#\n");
        TRY(read_line(in));
        text += length + (text[length] == '\n');
    }
    if (!*in->d->name)
        return declaration_wrong(in, "there is no \"space NAME\"");
    return OK;
}

/* ---- the whole */

static void set_strides(struct declaration *d)
{
    uint32_t stride = 1;

    for (size_t i = d->axes; i-- > 0; stride *= d->axis[i].values) {
        d->axis[i].stride = stride;
        d->usual += d->axis[i].fallback * stride;
    }
}

static int finish(struct declaration_reader *in)
{
    struct declaration *d = in->d;
    struct sha256 s;
    uint8_t hash[SHA256_BYTES];
    char *text;

    in->line = in->space_line;
    if (!d->axes || !*d->key)
        return declaration_wrong(in, "the space %s has no %s", d->name, d->axes ? "key" : "axis");
    if (in->written > DECLARATION_TEXT_BYTES)
        return declaration_wrong(in,
                                 "with its ranges written out the text has %zu bytes: %d may be",
                                 in->written, DECLARATION_TEXT_BYTES);
    sha256_init(&s);
    sha256_add(&s, d->text, in->written);
    sha256_end(&s, hash);
    d->id = (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
    d->id += !d->id;
    set_strides(d);
    TRY(declaration_list(in));
    text = realloc(d->text, in->written + 1); /* there was room for the longest one */
    d->text = text ? text : d->text;
    return OK;
}

static int read_all(struct declaration_reader *in, const char *text)
{
    size_t length = strlen(text);

    if (!in->d)
        return ERR_NOMEM;
    in->d->combinations = 1;
    in->d->text = calloc(1, DECLARATION_TEXT_BYTES + 1);
    if (!in->d->text)
        return ERR_NOMEM;
    if (length > DECLARATION_TEXT_BYTES)
        return declaration_wrong(in, "the text has %zu bytes: %d may be", length,
                                 DECLARATION_TEXT_BYTES);
    TRY(read_lines(in, text));
    return finish(in);
}

int declaration_fault(const char *text, struct declaration **out, char *why, size_t size)
{
    struct declaration_reader in = { .d = calloc(1, sizeof(*in.d)), .why = why, .why_size = size };
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
    int rc = declaration_fault(text, out, why, sizeof(why));

    return rc ? fail(rc, "declared space: %s", why) : OK;
}
