/* Where characters begin and end in text that may be anything. */
#include "utf8.h"

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

bool utf8_is_control(const unsigned char *c)
{
    return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0);
}
