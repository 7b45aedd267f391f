/* The command line of a benchmark: its options, and the names of the sections to run. */
#ifndef COMMAND_WORDS_H
#define COMMAND_WORDS_H

#include <stdbool.h>

/* What `take` takes is an option; how many words are left, from argv[0] on. */
int words_left(int argc, char **argv, bool (*take)(void *options, const char *text), void *options);
/* Without any word every section is wanted. */
bool section_wanted(const char *name, char *const *words, int count);

#endif
