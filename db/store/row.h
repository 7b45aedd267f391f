/* What a row of a table is made of, said once: SQL, exported tables, imports, spreadsheets and
 * `show --json` follow from the list of its fields. */
#ifndef ROW_H
#define ROW_H

#include "plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum row_kind {
    ROW_INTEGER, /* uint32_t or int64_t, as its bytes say */
    ROW_BOOL,
    ROW_REAL, /* NAN: not known */
    ROW_TEXT,
    ROW_NAME, /* text of letters, digits, blanks, - and _ */
    ROW_ENUM, /* `words` has a name for every value */
    ROW_PLAN  /* struct_size 0: there is none */
};

struct row_field {
    const char *name; /* of the column, and of the member in exported tables */
    enum row_kind kind;
    size_t offset, bytes; /* in the row's struct */
    /* An enum's names; all that a text may say; false and true in a spreadsheet.  Ends with NULL.
     */
    const char *const *words;
    int since;          /* which EXPORT_VERSION; 0: it is not exported */
    int decimals;       /* of a number where it is exported */
    double least, most; /* legal in a table that is imported; of plans and texts nothing is said */
    bool optional; /* a plan that may be missing; a text whose member is left out where it is "" */
    bool quiet;    /* the member is left out where it says nothing: no plan, 0, false */
    const char *none; /* what the column says where there is no plan; NULL: NULL */
    const char *read; /* the SQL that reads it; NULL: the column */
};

struct row_table {
    const char *name;
    size_t row_bytes;
    const struct row_field *fields; /* the order of the columns, and of exported members */
    size_t count;
};

/* The offset and size of a member, for a row_field; a table of such. */
#define ROW_AT(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define ROW_TABLE(name, type, fields)                                                              \
    {                                                                                              \
        name, sizeof(type), fields, sizeof(fields) / sizeof((fields)[0])                           \
    }

/* Rows that were read at once: whoever looks at them may write others.  `rows` is freed by who
 * asked for them. */
struct row_list {
    void *rows;
    size_t count;
};
#define EACH_ROW(type, row, list)                                                                  \
    for (const struct type *row = (list).rows;                                                     \
         row && row < (const struct type *)(list).rows + (list).count; row++)

/* What of a row a reader sees is a text of words "field" or "field=its name there".  Walks to the
 * next one: its field, and its name there; NULL after the last. */
enum { ROW_NAME_BYTES = 32 };
const struct row_field *row_next(const struct row_table *table, const char **view,
                                 char name[ROW_NAME_BYTES]);

int64_t row_integer(const struct row_field *field, const void *row); /* also a bool or an enum */
double row_real(const struct row_field *field, const void *row);
void row_set_integer(const struct row_field *field, void *row, int64_t value);

/* As it is exported and comes in again; NAN where that is null, which it also is where a double
 * does not hold all of the digits. */
double row_rounded(const struct row_field *field, double value);

enum row_digits { ROW_ROUNDED /* to the field's decimals */, ROW_SHORT /* six */, ROW_EXACT };

/* The value as text, in `room` or in the row; "" for what is not known. */
enum { ROW_VALUE_BYTES = PLAN_TEXT_BYTES };
const char *row_text(const struct row_field *field, const void *row, enum row_digits digits,
                     char room[ROW_VALUE_BYTES]);

/* Members of an object, all of them after a comma: what is exported, without blanks; what a reader
 * sees, with them. */
void row_json_exported(const struct row_table *table, const void *row, FILE *to);
void row_json_view(const struct row_table *table, const char *view, const void *row, FILE *to);

/* Which of two rows comes first by what of them is exported: field by field as text, from the one
 * of that name on and from the last one back to the first.  0: they are exported as the same. */
int row_order(const struct row_table *table, const char *from, const void *a, const void *b);

#endif
