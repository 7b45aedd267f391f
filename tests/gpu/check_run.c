/* `moetune run` without the rest of moetune: for a GPU's machine that has no SQLite. */
#include "status.h"
#include "verbs.h"

__attribute__((weak)) char *openblas_get_config(void);

/* Where there is no OpenBLAS; it names a version, which is not asked for here. */
char *openblas_get_config(void)
{
    static char none[] = "none";

    return none;
}

int main(int argc, char **argv)
{
    (void)argc;
    return verb_main(&run_verb, argv, 0) == OK ? 0 : 1;
}
