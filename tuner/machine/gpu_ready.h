/* Whether a GPU is ours alone, so that what is measured on it is its own. */
#ifndef GPU_READY_H
#define GPU_READY_H

#include "gpu_list.h"

/* ERR_DEVICE after a message if it is cut into instances (MIG), or is busy and stays so for some
 * seconds.  What NVML does not know is no reason. */
int gpu_check_ready(const struct gpu *gpu);

#endif
