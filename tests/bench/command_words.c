/* Splits the words of a benchmark's command line into options and sections. */
#include "command_words.h"

#include <string.h>

int words_left(int argc, char **argv, bool (*take)(void *options, const char *text), void *options)
{
    int count = 0;

    for (int i = 1; i < argc; i++)
        if (!take(options, argv[i]))
            argv[count++] = argv[i];
    return count;
}

bool section_wanted(const char *name, char *const *words, int count)
{
    bool wanted = !count;

    for (int i = 0; i < count; i++)
        wanted |= !strcmp(words[i], name);
    return wanted;
}
