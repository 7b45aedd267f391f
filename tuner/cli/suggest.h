/* "Did you mean": the words of a list that someone may have meant. */
#ifndef SUGGEST_H
#define SUGGEST_H

#include <stddef.h>

/* "did you mean --tokens?", with `prefix` before each word: those that begin with what was typed,
 * else the one that is a few letters away from it.  Empty if there is none. */
void suggest(const char *typed, const char *const *words, size_t count, const char *prefix,
             char *text, size_t size);

#endif
