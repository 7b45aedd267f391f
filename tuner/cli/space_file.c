/* Reads the file that --space names, and the values of --key and --class. */
#include "space_file.h"

#include "input_file.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Refuses values that look like options: a program takes the value of a lone "{flag}" in its
 * command line for one.  Only files are checked, so that older databases stay readable. */
static int check_values(const char *path, const struct declaration *declaration)
{
    for (size_t i = 0; i < declaration->axes; i++)
        for (uint32_t v = 0; v < declaration->axis[i].values; v++) {
            const char *text = declaration->axis[i].text[v];

            if (*text == '-' && text[1 + strspn(text + 1, "0123456789")])
                return fail(ERR_ARGUMENT,
                            "%s: the value %s of %s begins with a minus and is no integer: a "
                            "command line would take it for an option",
                            path, text, declaration->axis[i].name);
        }
    return OK;
}

int space_file_read(const char *path, const struct declaration **out)
{
    char *text, why[DECLARATION_FAULT_BYTES] = "";
    struct declaration *parsed;
    size_t length;
    int rc;

    TRY(input_read(path, DECLARATION_TEXT_BYTES, &text, &length));
    rc = strlen(text) == length ? declaration_read(text, &parsed, why, sizeof(why)) : ERR_FORMAT;
    if (rc) {
        rc = fail(ERR_ARGUMENT, "%s: %s", path, *why ? why : "there is a zero byte in it");
    } else {
        rc = check_values(path, parsed);
        declaration_free(parsed);
        rc = rc ? rc : declaration_register(text, out);
    }
    free(text);
    return rc;
}

int space_name_of(const char **name, char buffer[SPACE_NAME_BYTES])
{
    const struct declaration *declared;

    if (!*name || !strpbrk(*name, "./"))
        return OK;
    TRY(space_file_read(*name, &declared));
    snprintf(buffer, SPACE_NAME_BYTES, "%s@%08x", declared->name, declared->id);
    *name = buffer;
    return OK;
}

int space_key_read(const char *option, const char *text, uint64_t *key)
{
    char *end;

    errno = 0;
    *key = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return fail(ERR_ARGUMENT, "--%s %s: a whole number is wanted", option, text);
    return OK;
}

int space_class_read(const char *text, double *class_value)
{
    if (!number_read(text, NULL, class_value) || !(*class_value >= 0 && *class_value <= 1e9))
        return fail(ERR_ARGUMENT, "--class %s: a number from 0 on is wanted", text);
    return OK;
}
