/* Finds the word that was probably meant: the one at the least distance of Damerau and Levenshtein,
 * in which swapping two adjacent letters counts one. */
#include "suggest.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS_MAX = 32 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance(const char *a, const char *b)
{
    unsigned d[LETTERS_MAX + 1][LETTERS_MAX + 1];
    size_t n = strlen(a), m = strlen(b);

    if (n > LETTERS_MAX || m > LETTERS_MAX)
        return LETTERS_MAX;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
                            d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

static void append(char *text, size_t size, const char *prefix, const char *word)
{
    text_add(text, size, "%s%s%s", *text ? " or " : "did you mean ", prefix, word);
}

void suggest(const char *typed, const char *const *words, size_t count, const char *prefix,
             char *text, size_t size)
{
    size_t length = strlen(typed);
    unsigned nearest = (unsigned)length / 3 + 1;
    const char *found = NULL;

    *text = 0;
    for (size_t i = 0; i < count && length; i++)
        if (!strncmp(words[i], typed, length))
            append(text, size, prefix, words[i]);
    for (size_t i = 0; i < count && !*text; i++) {
        unsigned far = distance(typed, words[i]);

        if (far < nearest || (far == nearest && !found && far < length)) {
            nearest = far;
            found = words[i];
        }
    }
    if (found)
        append(text, size, prefix, found);
    if (*text)
        snprintf(text + strlen(text), size - strlen(text), "?");
}
