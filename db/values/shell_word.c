/* Quotes a word for a shell; control characters are written by their numbers. */
#include "shell_word.h"

#include <stdbool.h>
#include <string.h>

void shell_word(const char *word, FILE *to)
{
    static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-_=./:,+%@";
    bool odd = false;

    for (const char *c = word; *c; c++)
        odd = odd || (unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f;
    if (*word && strspn(word, harmless) == strlen(word)) {
        fputs(word, to);
        return;
    }
    fputs(odd ? "$'" : "'", to);
    for (const char *c = word; *c; c++)
        if (odd && ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f))
            fprintf(to, "\\%03o", (unsigned char)*c);
        else if (odd && (*c == '\'' || *c == '\\'))
            fprintf(to, "\\%c", *c);
        else
            fputs(*c == '\'' ? "'\\''" : (char[]){ *c, 0 }, to);
    putc('\'', to);
}
