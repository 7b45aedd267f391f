/* Text in rooms of a fixed size, which is never cut in silence: what has no room ends with "...",
 * behind a whole character, and the caller hears of it.  A name, a path or a value that was cut is
 * another one: who writes such must refuse; what people read may be cut. */
#ifndef TEXT_H
#define TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
