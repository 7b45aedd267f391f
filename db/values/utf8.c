/* Finds where characters begin and end in text that may be anything. */
#include "utf8.h"

#include <stdio.h>
#include <string.h>

size_t utf8_bytes(const unsigned char *c)
{
    size_t count = *c < 0x80                 ? 1
                   : *c >= 0xc2 && *c < 0xe0 ? 2
                   : *c >= 0xe0 && *c < 0xf0 ? 3
                   : *c >= 0xf0 && *c < 0xf5 ? 4
                                             : 0;

    for (size_t i = 1; i < count; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if (count == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
                       (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe)))
        return 0;
    if (count == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)))
        return 0;
    return count;
}

/* U+061C, 200E, 200F, 202A to 202E, 2066 to 2069. */
static bool turns_letters(const unsigned char *c)
{
    if (c[0] == 0xd8)
        return c[1] == 0x9c;
    if (c[0] != 0xe2)
        return false;
    return c[1] == 0x80 ? c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae)
                        : c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
}

bool utf8_is_control(const unsigned char *c)
{
    return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0) || turns_letters(c);
}

void utf8_clean(char *text, size_t length, bool lines)
{
    unsigned char *c = (unsigned char *)text, *end = c + length;

    while (c < end) {
        size_t bytes = utf8_bytes(c);

        if (bytes && (!utf8_is_control(c) || (lines && (*c == '\n' || *c == '\t')))) {
            c += bytes;
            continue;
        }
        for (bytes = bytes ? bytes : 1; bytes; bytes--)
            *c++ = '?';
    }
}

const char *utf8_line(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text);
    utf8_clean(out, strlen(out), false);
    return out;
}

size_t utf8_unfinished(const char *text, size_t length)
{
    for (size_t i = 1; i <= 3 && i <= length; i++) {
        unsigned char c = (unsigned char)text[length - i];

        if (c >= 0xc0)
            return i < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? i : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}
