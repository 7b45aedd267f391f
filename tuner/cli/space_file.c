#include "space_file.h"

#include "input_file.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

int space_file_read(const char *path, const struct declaration **out)
{
    char *text, why[DECLARATION_FAULT_BYTES] = "";
    struct declaration *parsed;
    size_t length;
    int rc;

    TRY(input_read(path, DECLARATION_TEXT_BYTES, &text, &length));
    rc = strlen(text) == length ? declaration_fault(text, &parsed, why, sizeof(why)) : ERR_FORMAT;
    if (rc) {
        rc = fail(ERR_ARGUMENT, "%s: %s", path, *why ? why : "there is a zero byte in it");
    } else {
        declaration_free(parsed);
        rc = declaration_register(text, out);
    }
    free(text);
    return rc;
}
