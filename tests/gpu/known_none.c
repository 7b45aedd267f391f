/* Of plans alone, where there is no SQLite: nothing is known.  Gives way to tuner/machine/known.c
 * where that is linked too. */
#include "known.h"

__attribute__((weak)) struct store *known_open(const char *path_or_null, unsigned flags)
{
    (void)path_or_null;
    (void)flags;
    return NULL;
}

__attribute__((weak)) bool known_cluster_read(struct store *store, const struct cluster *here,
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
