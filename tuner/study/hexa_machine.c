/* The cluster of the HEXA-MoE paper: tests/data/clusters/workstation-4x4090.txt, as the build
 * quotes it. */
#include "hexa_rows.h"

const char *hexa_machine(void)
{
    return
#include <workstation-4x4090.inc>
        ;
}
