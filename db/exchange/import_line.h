/* One line of a table from elsewhere: an object of known members, each of them once. */
#ifndef IMPORT_LINE_H
#define IMPORT_LINE_H

#include "row.h"

enum { LINE_MEMBERS_MAX = 40 };

struct line_origin {
    char file[256]; /* for messages */
    uint32_t line;
};

struct line_object {
    const struct line_origin *origin;
    struct line_member {
        const struct row_field *field;
        void *row; /* where it goes */
    } members[LINE_MEMBERS_MAX];
    size_t count, next; /* next: where the following member probably is */
    uint64_t seen;
    /* A member that is itself an object of texts: lines "name = value". */
    const char *inner;
    char *inner_text;
    size_t inner_size, inner_used;
};

/* Members that a table of this version has, besides those that are expected already. */
void line_expect(struct line_object *object, const struct row_field *fields, size_t count,
                 int version, void *row);

/* ERR_FORMAT, said with the line and the member: no such object; a member that is missing, comes
 * twice, is not expected, or is out of range. */
int line_read(struct line_object *object, const char *text, size_t length);

/* Says what is wrong with that member of the line, and returns ERR_FORMAT. */
int line_fault(const struct line_origin *at, const char *field, const char *why);

#endif
