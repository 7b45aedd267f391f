/* `moetune run` without the rest of moetune: for a GPU's machine that has no SQLite. */
#include "status.h"
#include "verbs.h"

int main(int argc, char **argv)
{
    (void)argc;
    return verb_main(&run_verb, argv, 0) == OK ? 0 : 1;
}
