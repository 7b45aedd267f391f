/* Reads and writes single fields of a row: as numbers, as text, as JSON. */
#include "row.h"

#include "json.h"
#include "text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Finds the field with that name, which must exist. */
static const struct row_field *row_field(const struct row_table *table, const char *name)
{
    size_t i = 0;

    while (i < table->count && strcmp(table->fields[i].name, name) != 0)
        i++;
    assert(i < table->count);
    return &table->fields[i];
}

const struct row_field *row_view_next(const struct row_table *table, const char **view,
                                      char name[ROW_NAME_BYTES])
{
    const char *word = *view;
    int word_length = (int)strcspn(word, " "), name_length = (int)strcspn(word, " =");
    const struct row_field *field;

    if (!word_length)
        return NULL;
    text_put(name, ROW_NAME_BYTES, "%.*s", name_length, word);
    field = row_field(table, name);
    if (name_length < word_length)
        text_put(name, ROW_NAME_BYTES, "%.*s", word_length - name_length - 1,
                 word + name_length + 1);
    *view += word_length + (word[word_length] == ' ');
    return field;
}

static const void *value_of(const struct row_field *field, const void *row)
{
    return (const char *)row + field->offset;
}

int64_t row_integer(const struct row_field *field, const void *row)
{
    int64_t value64 = 0;
    uint32_t value32;

    if (field->kind == ROW_BOOL)
        return *(const bool *)value_of(field, row);
    if (field->bytes == sizeof(value64)) {
        memcpy(&value64, value_of(field, row), sizeof(value64));
        return value64;
    }
    memcpy(&value32, value_of(field, row), sizeof(value32));
    return value32;
}

void row_set_integer(const struct row_field *field, void *row, int64_t value)
{
    void *member = (char *)row + field->offset;
    uint32_t value32 = (uint32_t)value;

    if (field->kind == ROW_BOOL)
        *(bool *)member = value != 0;
    else if (field->bytes == sizeof(value))
        memcpy(member, &value, sizeof(value));
    else
        memcpy(member, &value32, sizeof(value32));
}

double row_real(const struct row_field *field, const void *row)
{
    return *(const double *)value_of(field, row);
}

/* ---- Numbers with a fixed point, the same in every locale. */

static uint64_t scale_of(int decimals)
{
    uint64_t scale = 1;

    while (decimals-- > 0)
        scale *= 10;
    return scale;
}

static const uint64_t no_digits = UINT64_MAX;

static uint64_t digits_of(double value, int decimals)
{
    double digits = round(fabs(value) * (double)scale_of(decimals));

    return digits < 1e15 ? (uint64_t)digits : no_digits;
}

double row_rounded(const struct row_field *field, double value)
{
    uint64_t digits = digits_of(value, field->decimals);

    if (digits == no_digits)
        return NAN;
    return (value < 0 && digits ? -1 : 1) * ((double)digits / (double)scale_of(field->decimals));
}

/* ---- Text. */

static void real_text(const struct row_field *field, double value, enum row_digits precision,
                      char text[ROW_VALUE_BYTES])
{
    uint64_t scale = scale_of(field->decimals), digits = digits_of(value, field->decimals);

    *text = 0;
    if (!isfinite(value))
        return;
    if (precision != ROW_ROUNDED)
        snprintf(text, ROW_VALUE_BYTES, precision == ROW_SHORT ? "%.6g" : "%.17g", value);
    else if (digits != no_digits) /* as integers, because a printed double would have the locale's
                                   * point */
        text_put(text, ROW_VALUE_BYTES, "%s%" PRIu64 ".%0*" PRIu64, value < 0 && digits ? "-" : "",
                 digits / scale, field->decimals, digits % scale);
}

const char *row_text(const struct row_field *field, const void *row, enum row_digits digits,
                     char room[ROW_VALUE_BYTES])
{
    static const char *const bool_words[] = { "false", "true" };

    switch (field->kind) {
    case ROW_INTEGER:
        snprintf(room, ROW_VALUE_BYTES, "%" PRId64, row_integer(field, row));
        return room;
    case ROW_BOOL: return bool_words[row_integer(field, row)];
    case ROW_REAL: real_text(field, row_real(field, row), digits, room); return room;
    case ROW_TEXT:
    case ROW_NAME: return value_of(field, row);
    case ROW_ENUM: return field->words[row_integer(field, row)];
    case ROW_PLAN: *room = 0; return plan_text(value_of(field, row), room);
    }
    return "";
}

/* Writes the value as JSON. */
static void row_json(const struct row_field *field, const void *row, enum row_digits digits,
                     FILE *to)
{
    bool quoted = field->kind >= ROW_TEXT;
    char room[ROW_VALUE_BYTES];
    const char *text = row_text(field, row, digits, room);

    if (!*text && (field->kind == ROW_REAL || field->kind == ROW_PLAN))
        fputs("null", to);
    else if (quoted)
        json_quote(text, to);
    else
        fputs(text, to);
}

static bool is_left_out(const struct row_field *field, const void *row)
{
    switch (field->kind) {
    case ROW_TEXT: return field->optional && !*(const char *)value_of(field, row);
    case ROW_REAL: return field->quiet && !(row_real(field, row) > 0);
    case ROW_PLAN:
        return field->quiet && !((const struct moe_plan *)value_of(field, row))->struct_size;
    case ROW_BOOL: return field->quiet && !row_integer(field, row);
    default: return false;
    }
}

void row_json_exported(const struct row_table *table, const void *row, FILE *to)
{
    for (const struct row_field *f = table->fields; f < table->fields + table->count; f++) {
        if (!f->since || is_left_out(f, row))
            continue;
        fprintf(to, ",\"%s\":", f->name);
        row_json(f, row, ROW_ROUNDED, to);
    }
}

void row_json_view(const struct row_table *table, const char *view, const void *row, FILE *to)
{
    const struct row_field *f;
    char name[ROW_NAME_BYTES];

    while ((f = row_view_next(table, &view, name))) {
        if (is_left_out(f, row))
            continue;
        fprintf(to, ", \"%s\": ", name);
        row_json(f, row, ROW_SHORT, to);
    }
}

/* Compares texts as if each ended with a '|', which sorts above all characters in them. */
static int text_order(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (*a ? *a : '|') - (*b ? *b : '|');
}

int row_order(const struct row_table *table, const char *from, const void *a, const void *b)
{
    size_t first_field = (size_t)(row_field(table, from) - table->fields);
    int order = 0;

    for (size_t i = 0; i < table->count && !order; i++) {
        const struct row_field *f = &table->fields[(first_field + i) % table->count];
        char text_a[ROW_VALUE_BYTES], text_b[ROW_VALUE_BYTES];

        if (f->since)
            order =
                text_order(row_text(f, a, ROW_EXACT, text_a), row_text(f, b, ROW_EXACT, text_b));
    }
    return order;
}
