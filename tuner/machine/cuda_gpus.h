/* gpu_list.h with the CUDA unit. */
#ifndef CUDA_GPU_LIST_H
#define CUDA_GPU_LIST_H

#include "gpu_list.h"

void cuda_gpus(struct gpus *out);
int cuda_gpus_own(void); /* -1: none */
int cuda_gpus_copies_beside(void);

#endif
