/* Reads JSON strictly, with a limit on depth, and calls a function for each value. */
#include "json.h"

#include "status.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The document that is being read, and where reading is. */
struct json_input {
    const char *text, *at, *end, *origin;
    int (*on_value)(void *self, const struct json_value *value);
    void *self;
    char *buffer, *key; /* room for a string and a key; unescaped text is never longer than the
                         * document */
};

static int refuse(const struct json_input *r, const char *what)
{
    int line = 1;

    for (const char *c = r->text; c < r->at; c++)
        line += *c == '\n';
    return r->origin ? fail(ERR_FORMAT, "%s:%d: not JSON: %s", r->origin, line, what) : UNSUPPORTED;
}

static void skip_blanks(struct json_input *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n'))
        r->at++;
}

static bool accept_byte(struct json_input *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static int read_hex(struct json_input *r, uint32_t *out)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *found = r->at < r->end && *r->at ? strchr(digits, *r->at) : NULL;
        uint32_t digit;

        if (!found)
            return refuse(r, "\\u wants four hexadecimal digits");
        digit = (uint32_t)(found - digits);
        value = value << 4 | (digit > 15 ? digit - 6 : digit);
        r->at++;
    }
    *out = value;
    return OK;
}

static size_t put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

static int read_unicode(struct json_input *r, char *to, size_t *used)
{
    uint32_t code, low;

    TRY(read_hex(r, &code));
    if (code >= 0xd800 && code < 0xdc00) {
        if (!accept_byte(r, '\\') || !accept_byte(r, 'u'))
            return refuse(r, "half of a surrogate pair");
        TRY(read_hex(r, &low));
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return refuse(r, "half of a surrogate pair");
    }
    *used += put_utf8(to + *used, code);
    return OK;
}

/* Returns how many bytes come before the next escape or the end of the string; they are copied at
 * once. */
static size_t plain_bytes(const struct json_input *r)
{
    const char *c = r->at;

    while (c < r->end && *c != '"' && *c != '\\' && (unsigned char)*c >= 0x20)
        c++;
    return (size_t)(c - r->at);
}

static int read_escape(struct json_input *r, char *to, size_t *used)
{
    static const char escapes[] = "\"\\/bfnrt", unescaped[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (accept_byte(r, 'u'))
        return read_unicode(r, to, used);
    found = r->at < r->end && *r->at ? strchr(escapes, *r->at) : NULL;
    if (!found)
        return refuse(r, "an unknown escape");
    to[(*used)++] = unescaped[found - escapes];
    r->at++;
    return OK;
}

static int read_string(struct json_input *r, char *to, size_t *length)
{
    size_t used = 0;

    if (!accept_byte(r, '"'))
        return refuse(r, "a string is wanted");
    for (;;) {
        size_t plain = plain_bytes(r);

        memcpy(to + used, r->at, plain);
        used += plain;
        r->at += plain;
        if (!accept_byte(r, '\\'))
            break;
        TRY(read_escape(r, to, &used));
    }
    if (!accept_byte(r, '"'))
        return refuse(r, r->at < r->end ? "a control character in a string"
                                        : "a string without an end");
    to[used] = 0;
    *length = used;
    return OK;
}

static size_t skip_digits(struct json_input *r)
{
    size_t count = 0;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
        count++;
    }
    return count;
}

static int read_number(struct json_input *r, size_t *length)
{
    const char *begin = r->at;
    bool zero;

    accept_byte(r, '-');
    zero = r->at < r->end && *r->at == '0';
    if (zero) /* no digit may follow it */
        r->at++;
    else if (!skip_digits(r))
        return refuse(r, "a value is wanted");
    if (accept_byte(r, '.') && !skip_digits(r))
        return refuse(r, "digits after the point are wanted");
    if (accept_byte(r, 'e') || accept_byte(r, 'E')) {
        if (!accept_byte(r, '+'))
            accept_byte(r, '-');
        if (!skip_digits(r))
            return refuse(r, "digits of the exponent are wanted");
    }
    *length = (size_t)(r->at - begin);
    memcpy(r->buffer, begin, *length);
    r->buffer[*length] = 0;
    return OK;
}

static bool accept_word(struct json_input *r, const char *text)
{
    size_t length = strlen(text);

    if (r->at == r->end || *r->at != *text || (size_t)(r->end - r->at) < length ||
        memcmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

static int read_value(struct json_input *r, int depth, const char *key);

static int read_members(struct json_input *r, int depth, bool object)
{
    char close = object ? '}' : ']';
    size_t length;

    skip_blanks(r);
    if (accept_byte(r, close))
        return OK;
    for (;;) {
        skip_blanks(r);
        if (object) {
            TRY(read_string(r, r->key, &length));
            skip_blanks(r);
            if (!accept_byte(r, ':'))
                return refuse(r, "\":\" is wanted");
        }
        TRY(read_value(r, depth + 1, object ? r->key : NULL));
        skip_blanks(r);
        if (accept_byte(r, close))
            return OK;
        if (!accept_byte(r, ','))
            return refuse(r, object ? "\",\" or \"}\" is wanted" : "\",\" or \"]\" is wanted");
    }
}

static int read_value(struct json_input *r, int depth, const char *key)
{
    struct json_value value = { .depth = depth, .key = key };

    skip_blanks(r);
    if (accept_byte(r, '{') || accept_byte(r, '[')) {
        value.kind = r->at[-1] == '{' ? JSON_OBJECT : JSON_ARRAY;
        if (depth >= JSON_DEPTH_MAX)
            return refuse(r, "nested too deeply");
        TRY(r->on_value(r->self, &value));
        TRY(read_members(r, depth, value.kind == JSON_OBJECT));
        return r->on_value(r->self, &(struct json_value){ .depth = depth, .kind = JSON_END });
    }
    if (accept_word(r, "null")) {
        value.kind = JSON_NULL;
    } else if (accept_word(r, "true")) {
        value.kind = JSON_TRUE;
    } else if (accept_word(r, "false")) {
        value.kind = JSON_FALSE;
    } else if (r->at < r->end && *r->at == '"') {
        value.kind = JSON_STRING;
        TRY(read_string(r, r->buffer, &value.length));
        value.value = r->buffer;
    } else {
        value.kind = JSON_NUMBER;
        TRY(read_number(r, &value.length));
        value.value = r->buffer;
    }
    return r->on_value(r->self, &value);
}

int json_read(const char *text, size_t length, const char *origin,
              int (*on)(void *self, const struct json_value *value), void *self)
{
    struct json_input r = { .text = text,
                            .at = text,
                            .end = text + length,
                            .origin = origin,
                            .on_value = on,
                            .self = self,
                            .buffer = malloc(2 * (length + 8)) };
    int rc;

    if (!r.buffer)
        return fail(ERR_NOMEM, "%zu bytes of JSON", length);
    r.key = r.buffer + length + 8;
    rc = read_value(&r, 0, NULL);
    if (!rc)
        skip_blanks(&r);
    if (!rc && r.at != r.end)
        rc = refuse(&r, "something follows the document");
    free(r.buffer);
    return rc;
}

/* Reads digits with a point if they are few enough to be exact; returns false otherwise. A whole
 * number below 2^53 and a power of ten below 10^23 are both doubles, and one division rounds as
 * strtod() does. */
static bool short_number(const char *text, double *out)
{
    static const double tens[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9 };
    bool minus = *text == '-', point = false;
    int64_t whole = 0;
    int decimals = 0;

    for (text += minus; *text; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9' || decimals == 9 || whole >= (int64_t)1 << 49)
            return false;
        whole = 10 * whole + (*text - '0');
        decimals += point;
    }
    *out = (double)whole / tens[decimals];
    *out = minus ? -*out : *out;
    return true;
}

double json_number(const struct json_value *value)
{
    const char *point;
    char local[64], *at;
    double number;

    if (value->kind != JSON_NUMBER || value->length >= sizeof(local))
        return NAN;
    if (short_number(value->value, &number))
        return number;
    point = localeconv()->decimal_point;
    memcpy(local, value->value, value->length + 1);
    at = strchr(local, '.');
    if (at && strlen(point) == 1)
        *at = *point;
    return strtod(local, NULL);
}
