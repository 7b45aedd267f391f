/* The cluster of the DynaMoE paper: tests/data/clusters/p100-4.txt, as the build quotes it. */
#include "dynamoe_rows.h"

const char *dynamoe_machine(void)
{
    return
#include <p100-4.inc>
        ;
}
