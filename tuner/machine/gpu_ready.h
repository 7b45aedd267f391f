/* Whether the GPUs here are ours alone, so that what is measured on them is theirs. */
#ifndef GPU_READY_H
#define GPU_READY_H

#include "gpu_list.h"

/* ERR_DEVICE after a message if one of the first `count` GPUs is an instance of one (MIG), or is
 * busy and stays so for some seconds.  What NVML does not know is no reason. */
int gpus_check_ready(const struct gpus *gpus, int count);

#endif
