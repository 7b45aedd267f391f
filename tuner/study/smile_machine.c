/* The cluster of the SMILE paper: tests/data/clusters/p4d-16-nccl210.txt, as the build quotes it.
 */
#include "smile_rows.h"

const char *smile_machine(void)
{
    return
#include <p4d-16-nccl210.inc>
        ;
}
