/* Reads lines of a file until one begins as wanted. */
#include "first_line.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

/* Behind the blanks; NULL if the line is of another name. */
static const char *value_of(const char *line, const char *name)
{
    size_t length = strlen(name);

    if (strncmp(line, name, length))
        return NULL;
    line += length;
    line += strspn(line, " \t");
    if (length && *line++ != ':')
        return NULL;
    return line + strspn(line, " \t");
}

bool first_line(const char *path, const char *name, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    const char *value = NULL;
    char line[256];

    *text = 0;
    while (file && !value && fgets(line, sizeof(line), file))
        value = value_of(line, name);
    if (value)
        text_put(text, size, "%.*s", (int)strcspn(value, "\n"), value);
    if (file)
        fclose(file);
    return value != NULL;
}
