/* Reads JSON from untrusted sources, and writes JSON. */
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
    JSON_OBJECT, /* begins here; its members follow one level deeper */
    JSON_ARRAY,
    JSON_END /* end of the object or array of this depth */
};

enum { JSON_DEPTH_MAX = 32 };

/* One value that the reader has found, valid during the call of `on`. The whole document has depth
 * 0, its members 1. */
struct json_value {
    int depth;
    const char *key; /* NULL for elements of arrays, and at depth 0 */
    enum json_kind kind;
    const char *value; /* NUL-terminated, valid during the call; NULL unless number or string */
    size_t length;     /* of value: strings may hold NUL */
};

/* Calls `on` for every value in order. Stops when `on` returns non-zero, and returns that. Text
 * that is not one JSON document is ERR_FORMAT after one message with `origin` and the line. With
 * origin NULL it is UNSUPPORTED without a message. */
int json_read(const char *text, size_t length, const char *origin,
              int (*on)(void *self, const struct json_value *value), void *self);

/* Returns the number of a JSON_NUMBER, the same in every locale; NAN for any other value. */
double json_number(const struct json_value *value);

/* JSON text that is being written, a row or a line. It begins as {0}, and its owner frees `bytes`.
 * Once memory has run out, `failed` is set and nothing is added any more. */
struct json_text {
    char *bytes;
    size_t used, room;
    bool failed;
};
void json_add(struct json_text *t, const char *bytes, size_t length); /* copies the bytes as they
                                                                       * are */
void json_add_integer(struct json_text *t, int64_t value);
void json_add_number(struct json_text *t, double value);      /* reads back as the same double; null
                                                               * where it is not finite */
void json_add_quoted(struct json_text *t, const char *value); /* escapes as json_quote() does */
/* Adds the next argument, a number. `format` begins with its conversion, as json_write() lists
 * them. Returns the format behind the conversion. */
const char *json_add_argument(struct json_text *t, const char *format, va_list *args);

/* Writes JSON by a pattern like printf's, in which ' stands for ": "{'db': '%s', 'gain': %g}".
 * Between quotes %s is escaped; elsewhere it is JSON already. %g reads back as the same double;
 * %.3f and %.6g are rounded. A double that is not finite becomes null. Integers are %d, %i, %u and
 * %x. A conversion has at most 15 letters from % on, and %s has no width or precision. */
void json_write(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes text in quotes. Control characters are escaped, also those that JSON allows, and bytes
 * that are no UTF-8 become U+FFFD. So the result is JSON whatever the text is. */
void json_quote(const char *text, FILE *to);

#endif
