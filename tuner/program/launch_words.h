/* What a launch of a program that has a space is told before it runs: the values of the axes that
 * need one.  Pure. */
#ifndef LAUNCH_WORDS_H
#define LAUNCH_WORDS_H

#include "declaration.h"

/* Whether some axis needs a launch. */
bool launch_matters(const struct declaration *space);

/* "dispatcher=alltoall ep=4": those axes alone; returns `text`. */
char *launch_words(const struct declaration *space, uint32_t choice,
                   char text[DECLARATION_PLAN_BYTES]);

/* The command line with its placeholders replaced: {dispatcher} by the axis' value.  {{word}} is
 * {word}; whatever else stands in braces, and ${NAME}, is the shell's.  ERR_ARGUMENT, after a
 * sentence, for a {word} that is no axis, or one that varies while the program runs.  The caller
 * frees *out. */
int launch_command(const char *command, const struct declaration *space, uint32_t choice,
                   char **out);

#endif
