#include "space_file.h"

#include "input_file.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

int space_file_read(const char *path, const struct declaration **out)
{
    char *text;
    size_t length;
    int rc;

    TRY(input_read(path, DECLARATION_TEXT_BYTES, &text, &length));
    rc = strlen(text) == length ? declaration_register(text, out)
                                : fail(ERR_ARGUMENT, "%s: a zero byte in it", path);
    if (rc)
        note("%s: no space", path);
    free(text);
    return rc;
}
