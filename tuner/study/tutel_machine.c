/* The cluster of the Tutel paper: tests/data/clusters/ndm-a100.txt, as the build quotes it. */
#include "tutel_rows.h"

const char *tutel_machine(void)
{
    return
#include <ndm-a100.inc>
        ;
}
