/* Arrays that grow by one item at a time; their room is the next power of two of their count. */
#ifndef ARRAY_H
#define ARRAY_H

#include "status.h"

#include <stddef.h>
#include <stdlib.h>

/* Room for one more item of `bytes`: the array, where it is now.  NULL, said, and the array stays.
 */
static inline void *array_more(void *array, size_t count, size_t bytes)
{
    void *more = array;

    if ((count & (count - 1)) == 0)
        more = realloc(array, (count ? 2 * count : 1) * bytes);
    if (!more)
        fail(ERR_NOMEM, "%zu rows", count);
    return more;
}

/* Appends a value, or returns ERR_NOMEM from the function it stands in. */
#define ARRAY_APPEND(array, count, value)                                                          \
    do {                                                                                           \
        void *more_ = array_more(array, count, sizeof(*(array)));                                  \
        if (!more_)                                                                                \
            return ERR_NOMEM;                                                                      \
        (array) = more_;                                                                           \
        (array)[(count)++] = (value);                                                              \
    } while (0)

#endif
