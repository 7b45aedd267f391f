/* Describes the rows of a table once, as a list of fields. SQL, exported tables, imports,
 * spreadsheets and `show --json` all follow from that list. */
#ifndef ROW_H
#define ROW_H

#include "plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum row_kind {
    ROW_INTEGER, /* uint32_t or int64_t, by its bytes */
    ROW_BOOL,
    ROW_REAL, /* NAN: not known */
    ROW_TEXT,
    ROW_NAME, /* text of letters, digits, blanks, - and _ */
    ROW_ENUM, /* `words` has a name for every value */
    ROW_PLAN  /* struct_size 0: no plan */
};

/* One field of a row: a column in SQL, and a member of the row's struct. */
struct row_field {
    const char *name; /* of the column, and of the member in exported tables */
    enum row_kind kind;
    size_t offset, bytes; /* in the row's struct */
    /* For an enum the names of its values; for a text all that it may be; for a bool its two words
     * in a spreadsheet. Ends with NULL. */
    const char *const *words;
    int since;          /* EXPORT_VERSION from which it is exported; 0: never */
    int decimals;       /* of an exported number */
    double least, most; /* legal range in an imported table; not used for plans and texts */
    bool optional;      /* a plan may be missing; a text is left out where it is "" */
    bool quiet;         /* left out where there is no plan, 0, or false */
    const char *none;   /* column's text where there is no plan; NULL: SQL's NULL */
    const char *read;   /* SQL that reads it; NULL: the column itself */
};

/* One table: its name in SQL and the fields of its rows. All of them are constants. */
struct row_table {
    const char *name;
    size_t row_bytes;
    const struct row_field *fields; /* in the order of the columns and of exported members */
    size_t count;
};

/* ROW_AT: offset and size of a member, for a row_field. ROW_TABLE: a row_table of a list of
 * fields. */
#define ROW_AT(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define ROW_TABLE(name, type, fields)                                                              \
    {                                                                                              \
        name, sizeof(type), fields, sizeof(fields) / sizeof((fields)[0])                           \
    }

/* Rows that were read at once, so that a caller may write rows while it looks at them. The caller
 * frees `rows`. */
struct row_list {
    void *rows;
    size_t count;
};
#define EACH_ROW(type, row, list)                                                                  \
    for (const struct type *row = (list).rows;                                                     \
         row && row < (const struct type *)(list).rows + (list).count; row++)

/* A view is a text of words "field" or "field=its name there": what a certain reader sees of a row.
 * Returns the field of the view's next word and writes its name there. NULL: there are no more
 * words. */
enum { ROW_NAME_BYTES = 32 };
const struct row_field *row_view_next(const struct row_table *table, const char **view,
                                      char name[ROW_NAME_BYTES]);

int64_t row_integer(const struct row_field *field,
                    const void *row); /* also reads a bool or an enum */
double row_real(const struct row_field *field, const void *row);
void row_set_integer(const struct row_field *field, void *row, int64_t value);

/* Returns a number as an export followed by an import returns it. NAN where the number is exported
 * as null, as when a double cannot hold all of its digits. */
double row_rounded(const struct row_field *field, double value);

enum row_digits { ROW_ROUNDED /* to the field's decimals */, ROW_SHORT /* six */, ROW_EXACT };

/* Returns the value as text, in `room` or in the row; "" where it is not known. */
enum { ROW_VALUE_BYTES = PLAN_TEXT_BYTES };
const char *row_text(const struct row_field *field, const void *row, enum row_digits digits,
                     char room[ROW_VALUE_BYTES]);

/* Write members of a JSON object, each after a comma. row_json_exported() writes the exported
 * fields without blanks, row_json_view() a reader's view with blanks. */
void row_json_exported(const struct row_table *table, const void *row, FILE *to);
void row_json_view(const struct row_table *table, const char *view, const void *row, FILE *to);

/* Compares two rows by their exported fields, as text, beginning with the field `from` and wrapping
 * around at the last one. 0: they are exported as the same text. */
int row_order(const struct row_table *table, const char *from, const void *a, const void *b);

#endif
