/* Reading JSON that may come from anywhere, and quoting text for it. */
#ifndef JSON_H
#define JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum json_kind {
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER, /* value: its text, a valid JSON number */
    JSON_STRING, /* value: unescaped UTF-8 */
    JSON_OBJECT, /* opens; members follow one level deeper */
    JSON_ARRAY,
    JSON_END /* of the object or array of this depth */
};

enum { JSON_DEPTH_MAX = 32 };

/* One value on its way through the text.  The whole document has depth 0, its members 1. */
struct json_value {
    int depth;
    const char *key; /* NULL for elements of arrays, and at depth 0 */
    enum json_kind kind;
    const char *value; /* NUL-terminated, valid during the call; NULL unless number or string */
    size_t length;     /* of value: strings may hold NUL */
};

/* Calls `on` for every value in order; stops when it returns non-zero and returns that.  ERR_FORMAT
 * for what is not one JSON document, said once with `origin` and the line; origin NULL:
 * UNSUPPORTED, silently. */
int json_read(const char *text, size_t length, const char *origin,
              int (*on)(void *self, const struct json_value *value), void *self);

/* The number of a JSON_NUMBER, read the same in every locale. */
double json_number(const struct json_value *value);

/* JSON in the making, a row or a line of it; {0} to begin with, `bytes` is freed by who made it.
 * Once memory ran out nothing is added any more. */
struct json_text {
    char *bytes;
    size_t used, room;
    bool failed;
};
void json_add(struct json_text *t, const char *bytes, size_t length); /* as it is */
void json_add_integer(struct json_text *t, int64_t value);
void json_add_number(struct json_text *t, double value); /* reads back the same; null: not finite */
void json_add_quoted(struct json_text *t, const char *value); /* as json_quote */
/* The next argument, a number, as the conversion says at which the format begins: see json_write().
 * Returns what follows it. */
const char *json_add_argument(struct json_text *t, const char *format, va_list *args);

/* JSON after a pattern of printf's, in which ' stands for ": "{'db': '%s', 'gain': %g}".  Between
 * quotes %s is escaped, elsewhere it is JSON already.  %g reads back as the same double, %.3f and
 * %.6g are rounded, and a double that is not finite is null.  Integers are %d, %i, %u and %x.  At
 * most 15 letters from % on; %s has no width and no precision. */
void json_write(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text in quotes; control characters are escaped, also those that JSON would allow, and what is no
 * UTF-8 becomes U+FFFD: it is JSON whatever the text is. */
void json_quote(const char *text, FILE *to);

#endif
