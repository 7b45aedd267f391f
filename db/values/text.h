/* Text that people read and write, in buffers of a fixed size; dates, intervals and numbers.
 *
 * A text that does not fit ends with "...", behind a whole character, and the function returns
 * false. A name, a path or a value that was cut would be another one, so its writer must refuse it;
 * text for people may be cut. */
#ifndef TEXT_H
#define TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Write text into `room`, whose `size` includes the final NUL. Return false where the text was
 * cut. */
bool text_put(char *room, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool text_put_list(char *room, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Appends to the text in `room`. Appends nothing to a text that was cut. */
bool text_add(char *room, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies at most `bytes` bytes of a text, dots included. The macro's text lasts as long as the
 * block around it. */
const char *text_short(const char *text, char *room, size_t size);
#define TEXT_SHORT(text, bytes) text_short(text, (char[(bytes) + 1]){ 0 }, (bytes) + 1)

enum { DATE_BYTES = 32 };
enum date_unit { DATE_DAY, DATE_MINUTE, DATE_SECOND };

/* Writes a time in UTC down to the unit: "2026-11-24 21:03". Writes "?" for seconds since 1970 that
 * no calendar has, which a foreign database may hold. */
const char *date_text(int64_t at_s, enum date_unit unit, char room[DATE_BYTES]);

/* Does what date_text() does. The macro's text lasts as long as the block around it. */
#define DATE_TEXT(at_s, unit) date_text(at_s, unit, (char[DATE_BYTES]){ 0 })

/* Writes an interval, each end by `format`, as " (8.4 to 9.1)" or, bare, as "8.4 to 9.1". Writes ""
 * where both ends print the same, as from a model without noise, or are not known. The macros' text
 * lasts as long as the block around it. */
enum { INTERVAL_BYTES = 64 };
const char *interval_text(const char *format, double low, double high, bool bare,
                          char room[INTERVAL_BYTES]);
#define INTERVAL_TEXT(format, low, high)                                                           \
    interval_text(format, low, high, false, (char[INTERVAL_BYTES]){ 0 })
#define INTERVAL_BARE(format, low, high)                                                           \
    interval_text(format, low, high, true, (char[INTERVAL_BYTES]){ 0 })

/* Reads a number: digits, at most one point and an exponent, as "12", "-.5", "1e-3". Returns false
 * for what strtod() accepts besides: blanks and a plus before it, hexadecimal digits, nan and
 * infinity, and too large numbers. `end` NULL: nothing may follow the number; else it is set to
 * what follows. */
bool number_read(const char *text, const char **end, double *value);

/* Returns the index of a word in a list that ends with NULL; -1: not found. */
static inline int word_find(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

/* Writes "2 m 10 s". The macro's text lasts as long as the block around it. */
enum { DURATION_BYTES = 32 };
#define DURATION_TEXT(seconds) text_duration(seconds, (char[DURATION_BYTES]){ 0 })
const char *text_duration(double seconds, char room[DURATION_BYTES]);

/* ---- Single characters of untrusted text, which ends with a NUL. */

/* Returns the bytes of the character that begins here. 0: it is no UTF-8, or XML forbids it. */
size_t utf8_bytes(const unsigned char *c);

/* Returns whether a character would move a terminal's cursor, end a line, or turn the order of
 * letters. */
bool utf8_is_control(const unsigned char *c);

/* Returns whether a text is UTF-8 without such characters. */
bool utf8_is_plain(const char *text, size_t length);

/* Replaces bytes that a terminal must not get by question marks: control characters and what is no
 * UTF-8. With `lines` it keeps line feeds and tabs. */
void utf8_clean(char *text, size_t length, bool lines);

/* Copies a text without control characters for one line of output, because a line feed in it would
 * forge a line. Cuts what does not fit. Returns `out`. */
const char *utf8_line(const char *text, char *out, size_t size);
/* Does the same for an array. A pointer does not compile, because its size is not that of a text.
 * The macro's text lasts as long as the block around it. */
#define UTF8_LINE(array)                                                                           \
    utf8_line(array, (char[_Generic(&(array), char **: -1, const char **: -1,            \
                           char *const *: -1, const char *const *: -1,                   \
                           default: sizeof(array))]){ 0 }, sizeof(array))

/* Returns how many bytes at the end of a text begin a character without ending it. */
size_t utf8_unfinished(const char *text, size_t length);

/* ---- Command lines that are printed to be typed again. */

/* Writes one word for a shell, in quotes where a shell would read it differently. Bytes that a
 * terminal must not get become numbers for printf(1), which any shell reads. */
void shell_word(const char *word, FILE *to);

#endif
