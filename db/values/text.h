/* Text that people read and write: in rooms of a fixed size, points of time, numbers.
 *
 * Text is never cut in silence: what has no room ends with "...", behind a whole character, and the
 * caller hears of it.  A name, a path or a value that was cut is another one: who writes such must
 * refuse; what people read may be cut. */
#ifndef TEXT_H
#define TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* `size` is of the whole room, which ends with a NUL.  True: all of it is there. */
bool text_put(char *room, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool text_put_list(char *room, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Behind what is there.  Nothing follows what was cut. */
bool text_add(char *room, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A copy of at most `bytes` bytes, dots included, which lasts as long as the block around it. */
const char *text_short(const char *text, char *room, size_t size);
#define TEXT_SHORT(text, bytes) text_short(text, (char[(bytes) + 1]){ 0 }, (bytes) + 1)

enum { DATE_BYTES = 32 };
enum date_unit { DATE_DAY, DATE_MINUTE, DATE_SECOND };

/* "2026-11-24 21:03" in UTC, down to the unit; "?" for seconds since 1970 that no calendar has,
 * which a database from elsewhere may hold. */
const char *date_text(int64_t at_s, enum date_unit unit, char room[DATE_BYTES]);

/* The same; the result lasts as long as the block around it. */
#define DATE_TEXT(at_s, unit) date_text(at_s, unit, (char[DATE_BYTES]){ 0 })

/* The ends of an interval, each as `format` prints a double, as " (8.4 to 9.1)" or, bare, as
 * "8.4 to 9.1"; "" where both print the same, as of a model without noise, or are not known.  The
 * result lasts as long as the block around it. */
enum { INTERVAL_BYTES = 64 };
const char *interval_text(const char *format, double low, double high, bool bare,
                          char room[INTERVAL_BYTES]);
#define INTERVAL_TEXT(format, low, high)                                                           \
    interval_text(format, low, high, false, (char[INTERVAL_BYTES]){ 0 })
#define INTERVAL_BARE(format, low, high)                                                           \
    interval_text(format, low, high, true, (char[INTERVAL_BYTES]){ 0 })

/* "12", "-.5", "1e-3": digits, at most one point and an exponent.  False for what strtod() takes
 * besides: blanks and a plus before it, hexadecimal digits, nan and infinity, what is too large.
 * `end` NULL: nothing may stand behind it; else it is set to what does. */
bool number_read(const char *text, const char **end, double *value);

/* Where a word stands in a list that ends with NULL; -1: it is none of them. */
static inline int word_find(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

/* "2 m 10 s"; the result lasts as long as the block around it. */
enum { DURATION_BYTES = 32 };
#define DURATION_TEXT(seconds) text_duration(seconds, (char[DURATION_BYTES]){ 0 })
const char *text_duration(double seconds, char room[DURATION_BYTES]);

/* ---- One character at a time of text that may come from anywhere; it ends with a NUL. */

/* Bytes of the character that begins here, or 0: no UTF-8, or one that XML forbids. */
size_t utf8_bytes(const unsigned char *c);

/* Whether a character would move a terminal's cursor, end a line, or turn the order of letters. */
bool utf8_is_control(const unsigned char *c);

/* Whether a text has neither such characters nor bytes that are no UTF-8. */
bool utf8_is_plain(const char *text, size_t length);

/* What a terminal must not get becomes question marks, byte for byte: controls and what is no
 * UTF-8.  Line feeds and tabs stay if `lines`. */
void utf8_clean(char *text, size_t length, bool lines);

/* A copy without any control, for a line of output, which one that ends lines would forge; what
 * does not fit is cut.  Returns `out`. */
const char *utf8_line(const char *text, char *out, size_t size);
/* The same of an array (a pointer does not compile, for its size is not that of a text); the result
 * lasts as long as the block around it. */
#define UTF8_LINE(array)                                                                           \
    utf8_line(array, (char[_Generic(&(array), char **: -1, const char **: -1,            \
                           char *const *: -1, const char *const *: -1,                   \
                           default: sizeof(array))]){ 0 }, sizeof(array))

/* How many bytes at the end of a text begin a character that they do not end. */
size_t utf8_unfinished(const char *text, size_t length);

/* ---- Command lines that are printed to be typed again. */

/* One word, in quotes where a shell would read it as something else; bytes that a terminal must
 * not get are numbers for printf(1), so that any shell reads them. */
void shell_word(const char *word, FILE *to);

#endif
