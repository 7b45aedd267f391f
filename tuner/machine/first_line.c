/* Reads lines of a file until one begins as wanted. */
#include "first_line.h"

#include <stdio.h>
#include <string.h>

bool first_line(const char *path, const char *begin, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[256];
    bool found = false;

    *text = 0;
    while (file && !found && fgets(line, sizeof(line), file)) {
        const char *at = line + strlen(begin);

        found = !strncmp(line, begin, strlen(begin));
        if (found)
            snprintf(text, size, "%.*s", (int)strcspn(at + strspn(at, " \t"), "\n"),
                     at + strspn(at, " \t"));
    }
    if (file)
        fclose(file);
    return found;
}
