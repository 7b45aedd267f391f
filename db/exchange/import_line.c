/* Reads one line and compares its members with the list of fields: each must be there once, of its
 * kind, and within its range. */
#include "import_line.h"

#include "json.h"
#include "status.h"
#include "text.h"
#include "utf8.h"
#include "word.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int line_fault(const struct line_origin *at, const char *field, const char *why)
{
    return fail(ERR_FORMAT, "%s, line %u: \"%s\" %s", at->file, at->line, TEXT_SHORT(field, 40),
                why);
}

void line_expect(struct line_object *o, const struct row_field *fields, size_t count, int version,
                 void *row)
{
    for (const struct row_field *f = fields; f < fields + count; f++) {
        if (!f->since || f->since > version)
            continue;
        assert(o->count < LINE_MEMBERS_MAX);
        o->members[o->count++] = (struct line_member){ f, row };
    }
}

static int wrong(const struct line_object *o, const char *field, const char *why)
{
    return line_fault(o->origin, field, why);
}

/* What is printed later must be text, and must not move a terminal's cursor or end a line. */
static bool is_plain(const struct json_value *v)
{
    const unsigned char *c = (const unsigned char *)v->value, *end = c + v->length;

    while (c < end) {
        size_t bytes = utf8_bytes(c);

        if (!bytes || utf8_is_control(c))
            return false;
        c += bytes;
    }
    return true;
}

static int take_text(const struct line_object *o, const struct row_field *f, void *to,
                     const struct json_value *v)
{
    static const char in_names[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_";
    char why[64];

    if (v->kind != JSON_STRING || v->length >= f->bytes || !is_plain(v))
        return wrong(o, f->name, "is no text that fits");
    if (f->kind == ROW_NAME && strspn(v->value, in_names) != v->length)
        return wrong(o, f->name, "is no word");
    if (f->words && word_find(f->words, v->value) < 0) {
        snprintf(why, sizeof(why), "is no %s", f->name);
        return wrong(o, f->name, why);
    }
    memcpy(to, v->value, v->length + 1);
    return OK;
}

static int take_plan(const struct line_object *o, const struct row_field *f, void *to,
                     const struct json_value *v)
{
    struct moe_plan plan = { 0 };

    if (!(v->kind == JSON_NULL && f->optional) &&
        (v->kind != JSON_STRING || strlen(v->value) != v->length || plan_parse(v->value, &plan)))
        return wrong(o, f->name, "is no plan");
    memcpy(to, &plan, sizeof(plan));
    return OK;
}

static int take_integer(const struct line_object *o, const struct row_field *f, void *row,
                        const struct json_value *v)
{
    double value = v->kind == JSON_NUMBER ? json_number(v) : -1;

    if (!(value >= 0 && value <= f->most) || value != floor(value))
        return wrong(o, f->name, "is no whole number in range");
    row_set_integer(f, row, (int64_t)value);
    return OK;
}

static int take_real(const struct line_object *o, const struct row_field *f, void *to,
                     const struct json_value *v)
{
    double value = v->kind == JSON_NUMBER ? json_number(v) : (double)NAN;

    if (v->kind != JSON_NULL && !(value >= f->least && fabs(value) < f->most))
        return wrong(o, f->name, "is no number in range");
    /* What is compared must be what is written again. */
    value = row_rounded(f, value);
    memcpy(to, &value, sizeof(value));
    return OK;
}

static int take_bool(const struct line_object *o, const struct row_field *f, void *row,
                     const struct json_value *v)
{
    if (v->kind != JSON_TRUE && v->kind != JSON_FALSE)
        return wrong(o, f->name, "is neither true nor false");
    row_set_integer(f, row, v->kind == JSON_TRUE);
    return OK;
}

static int take(const struct line_object *o, const struct line_member *m,
                const struct json_value *v)
{
    const struct row_field *f = m->field;
    void *to = (char *)m->row + f->offset;

    switch (f->kind) {
    case ROW_INTEGER: return take_integer(o, f, m->row, v);
    case ROW_BOOL: return take_bool(o, f, m->row, v);
    case ROW_REAL: return take_real(o, f, to, v);
    case ROW_PLAN: return take_plan(o, f, to, v);
    default: return take_text(o, f, to, v);
    }
}

/* "name = value", as the text form of a cluster wants it; '#' would begin a comment there. */
static int take_inner(struct line_object *o, const struct json_value *v)
{
    if (v->kind != JSON_STRING || !v->key || strlen(v->value) != v->length || !is_plain(v) ||
        strchr(v->value, '#'))
        return wrong(o, v->key ? v->key : o->inner, "is no text that fits");
    o->inner_used += (size_t)snprintf(o->inner_text + o->inner_used, o->inner_size - o->inner_used,
                                      "%s = %s\n", v->key, v->value);
    return o->inner_used < o->inner_size ? OK : wrong(o, v->key, "is too long");
}

/* Members mostly come in the list's order. */
static int take_member(struct line_object *o, const struct json_value *v)
{
    for (size_t k = 0; k < o->count; k++) {
        size_t i = (o->next + k) % o->count;

        if (strcmp(o->members[i].field->name, v->key) != 0)
            continue;
        if (o->seen >> i & 1)
            return wrong(o, v->key, "comes twice");
        o->seen |= (uint64_t)1 << i;
        o->next = i + 1;
        return take(o, &o->members[i], v);
    }
    return wrong(o, v->key, "is not known to this version");
}

static int on_value(void *self, const struct json_value *v)
{
    struct line_object *o = self;

    if (v->depth == 0)
        return v->kind == JSON_OBJECT || v->kind == JSON_END ? OK
                                                             : wrong(o, "line", "is no object");
    if (v->depth == 2 && o->inner && v->kind != JSON_END)
        return take_inner(o, v);
    if (v->kind == JSON_END)
        return OK;
    if (v->depth != 1 || !v->key)
        return wrong(o, v->key ? v->key : "value", "is in an unexpected place");
    if (o->inner && !strcmp(v->key, o->inner) && v->kind == JSON_OBJECT && !(o->seen >> 63)) {
        o->seen |= (uint64_t)1 << 63;
        return OK;
    }
    return take_member(o, v);
}

int line_read(struct line_object *o, const char *text, size_t length)
{
    int rc = json_read(text, length, NULL, on_value, o);

    if (rc == UNSUPPORTED)
        return wrong(o, "line", "is no JSON");
    TRY(rc);
    for (size_t i = 0; i < o->count; i++) {
        const struct row_field *f = o->members[i].field;

        if (!(o->seen >> i & 1) && !f->quiet && !(f->kind == ROW_TEXT && f->optional))
            return wrong(o, f->name, "is missing");
    }
    return o->inner && !(o->seen >> 63) ? wrong(o, o->inner, "is missing") : OK;
}
