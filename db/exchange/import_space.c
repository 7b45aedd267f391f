/* Lines of a table that declare a space: its text must be the one that its name says. */
#include "import_table.h"

#include "array.h"
#include "json.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

static int wrong(const struct import_table *r, const char *field, const char *why)
{
    return line_fault(&r->at, field, why);
}

/* The members of a line; a text has line feeds, which no other member may have. */
struct declared_line {
    char tag[DECLARATION_TAG_BYTES], text[DECLARATION_TEXT_BYTES + 1];
    bool has_tag, has_text, strange;
};

static bool take(const struct json_value *v, char *to, size_t size, bool *has)
{
    bool fits =
        v->kind == JSON_STRING && v->length < size && strlen(v->value) == v->length && !*has;

    if (fits)
        memcpy(to, v->value, v->length + 1);
    *has = true;
    return fits;
}

static int on_value(void *self, const struct json_value *v)
{
    struct declared_line *line = self;

    if (v->depth == 0) {
        line->strange |= v->kind != JSON_OBJECT && v->kind != JSON_END;
        return OK;
    }
    if (v->kind == JSON_END)
        return OK;
    if (v->depth == 1 && v->key && !strcmp(v->key, "space"))
        line->strange |= !take(v, line->tag, sizeof(line->tag), &line->has_tag);
    else if (v->depth == 1 && v->key && !strcmp(v->key, "text"))
        line->strange |= !take(v, line->text, sizeof(line->text), &line->has_text);
    else
        line->strange = true;
    return OK;
}

int import_read_space(struct import_table *r, const char *text, size_t length)
{
    struct declared_line line = { .strange = false };
    struct incoming_space in = { .space = NULL };
    char tag[DECLARATION_TAG_BYTES];
    int rc = json_read(text, length, NULL, on_value, &line);

    if (rc == ERR_NOMEM)
        return rc;
    if (rc || line.strange || !line.has_tag || !line.has_text)
        return wrong(r, "space", "is no space with its text");
    if (declaration_learn(line.text, &in.space) || strcmp(in.space->text, line.text) != 0)
        return wrong(r, "text", "declares no space in its one form");
    if (strcmp(declaration_tag(in.space, tag), line.tag) != 0)
        return wrong(r, "space", "is not what its text is called");
    if (r->space_count &&
        strcmp(declaration_tag(r->spaces[r->space_count - 1].space, tag), line.tag) >= 0)
        return wrong(r, "space", "comes twice, or is out of order");
    ARRAY_APPEND(r->spaces, r->space_count, in);
    return OK;
}

int import_use_space(struct import_table *r, const struct moe_shape *shape)
{
    for (size_t i = 0; i < r->space_count; i++)
        if (r->spaces[i].space->id == shape->space) {
            r->spaces[i].used = true;
            return OK;
        }
    return wrong(r, "layer", "has a space that no line before declares");
}

int import_check_bucket(const struct import_table *r, const struct incoming *in)
{
    const struct declaration *d = declaration_find(in->shape.space);
    const struct entry_row *e = &in->row;

    if (!d)
        return OK;
    if (e->window != 1)
        return wrong(r, "window", "is not 1, as those of declared spaces are");
    if (e->bucket >= declaration_buckets(d))
        return wrong(r, "bucket", "is none of its space");
    if (declaration_bucket(d, e->capacity, 0) / declaration_classes(d) !=
        e->bucket / declaration_classes(d))
        return wrong(r, "capacity", "lies outside of its bucket");
    return OK;
}

int import_check_spaces(const struct import_table *r)
{
    for (size_t i = 0; i < r->space_count; i++)
        if (!r->spaces[i].used)
            return fail(ERR_FORMAT, "%s declares the space %s, which no entry has", r->at.file,
                        r->spaces[i].space->name);
    return OK;
}
