/* Reads the word that follows an option of the command line. */
#ifndef OPTION_H
#define OPTION_H

#include <string.h>

static inline const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    return otherwise;
}

#endif
