/* Lists of words that end with NULL. */
#ifndef WORD_H
#define WORD_H

#include <string.h>

/* Where the word stands in the list; -1: it is none of them. */
static inline int word_find(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

#endif
