/* Doubling. */
#include "array.h"

#include <stdlib.h>

void *array_more(void *array, size_t count, size_t bytes)
{
    void *more = array;

    if ((count & (count - 1)) == 0)
        more = realloc(array, (count ? 2 * count : 1) * bytes);
    if (!more)
        fail(ERR_NOMEM, "%zu rows", count);
    return more;
}
