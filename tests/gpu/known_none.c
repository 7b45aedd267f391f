/* Of plans alone, where there is no SQLite: nothing is known.  Gives way to tuner/machine/known.c
 * where that is linked too. */
#include "known.h"

__attribute__((weak)) struct store *known_open(const char *given, unsigned use)
{
    (void)given;
    (void)use;
    return NULL;
}

__attribute__((weak)) bool known_cluster(struct store *store, const struct cluster *here,
                                         struct cluster *out)
{
    (void)store;
    (void)here;
    (void)out;
    return false;
}

__attribute__((weak)) void store_close(struct store *store)
{
    (void)store;
}
