/* Arrays that grow by one item at a time. An array has room for the next power of two of its count,
 * so no capacity is kept beside it. */
#ifndef ARRAY_H
#define ARRAY_H

#include "status.h"

#include <stddef.h>
#include <stdlib.h>

/* Returns the array, perhaps moved, with room for one more item of `bytes` bytes behind its first
 * `count`. Returns NULL after a message when memory ran out; the old array is then unchanged. */
static inline void *array_more(void *array, size_t count, size_t bytes)
{
    void *grown = array;

    if ((count & (count - 1)) == 0)
        grown = realloc(array, (count ? 2 * count : 1) * bytes);
    if (!grown)
        fail(ERR_NOMEM, "%zu rows", count);
    return grown;
}

/* Appends a value to an array. When memory ran out, makes the calling function return ERR_NOMEM. */
#define ARRAY_APPEND(array, count, value)                                                          \
    do {                                                                                           \
        void *more_ = array_more(array, count, sizeof(*(array)));                                  \
        if (!more_)                                                                                \
            return ERR_NOMEM;                                                                      \
        (array) = more_;                                                                           \
        (array)[(count)++] = (value);                                                              \
    } while (0)

#endif
