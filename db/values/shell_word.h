/* Command lines that are printed to be typed again. */
#ifndef SHELL_WORD_H
#define SHELL_WORD_H

#include <stdio.h>

/* One word, in quotes where a shell would read it as something else; bytes that a terminal must
 * not get are written as bash, ksh and zsh read them. */
void shell_word(const char *word, FILE *to);

#endif
