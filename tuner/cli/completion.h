/* Completion in a shell, from the tables that --help is printed from. */
#ifndef COMPLETION_H
#define COMPLETION_H

#include "verb.h"

/* A script for bash to source. */
void completion_print(const struct verb *const *verbs, FILE *out);

#endif
