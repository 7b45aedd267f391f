/* Puts the values of restart axes into a command line. */
#include "launch_words.h"

#include "status.h"
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool launch_matters(const struct declaration *d)
{
    for (size_t a = 0; a < d->axes; a++)
        if (d->axis[a].restart)
            return true;
    return false;
}

static const char *value_of(const struct declaration *d, uint32_t choice, size_t axis)
{
    return d->axis[axis].text[declaration_value(d, choice, axis)];
}

char *launch_words(const struct declaration *d, uint32_t choice, char text[DECLARATION_PLAN_BYTES])
{
    *text = 0;
    for (size_t a = 0; a < d->axes; a++)
        if (d->axis[a].restart)
            text_add(text, DECLARATION_PLAN_BYTES, "%s%s=%s", *text ? " " : "", d->axis[a].name,
                     value_of(d, choice, a));
    return text;
}

/* The length of "{word}"; 0: that is not what stands there. */
static size_t braced(const char *at)
{
    size_t length = 1;

    if (*at != '{' || !(isalpha((unsigned char)at[1]) || at[1] == '_'))
        return 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_')
        length++;
    return at[length] == '}' ? length + 1 : 0;
}

static int find_axis(const struct declaration *d, const char *word, size_t length, size_t *axis)
{
    *axis = declaration_axis(d, word, length);
    if (*axis == d->axes)
        return fail(ERR_ARGUMENT,
                    "--exec: {%.*s} is no axis of %s; {{%.*s}} stands for the word in braces",
                    (int)length, word, d->name, (int)length, word);
    if (!d->axis[*axis].restart)
        return fail(ERR_ARGUMENT,
                    "--exec: {%s} varies while the program runs, so it is told by \"plan\", not by "
                    "the command line; declare it \"restart\" or leave it out",
                    d->axis[*axis].name);
    return OK;
}

int launch_command(const char *command, const struct declaration *d, uint32_t choice, char **out)
{
    char *text = NULL;
    size_t size, length, axis;
    FILE *to = open_memstream(&text, &size);
    int rc = to ? OK : fail(ERR_NOMEM, "a command line");

    while (!rc && *command) {
        if (command[0] == '{' && (length = braced(command + 1)) && command[length + 1] == '}') {
            fprintf(to, "%.*s", (int)length, command + 1);
            command += length + 2;
        } else if (command[0] == '$' && (length = braced(command + 1))) {
            fprintf(to, "%.*s", (int)length + 1, command);
            command += length + 1;
        } else if ((length = braced(command))) {
            rc = find_axis(d, command + 1, length - 2, &axis);
            if (!rc)
                fputs(value_of(d, choice, axis), to);
            command += length;
        } else {
            fputc(*command++, to);
        }
    }
    if (to && fclose(to) && !rc)
        rc = fail(ERR_NOMEM, "a command line");
    if (rc)
        free(text);
    else
        *out = text;
    return rc;
}
