/* The device that tests/gpu/test_cuda_kernels.c compares with the host: a GPU, or the same kernels
 * run on a CPU by cuda_on_cpu.h. */
#ifndef CUDA_SUBJECT_H
#define CUDA_SUBJECT_H

#include "device.h"

/* ERR_DEVICE, after a message, where no GPU answers. */
int subject_open(struct device **out);

/* Kernels that only a GPU has are not asked of the other. */
bool subject_has(enum kernel kernel);

/* So many were launched so far; a GPU does not count them. */
extern uint64_t subject_launches;

/* The scratch memory of what is launched from now on; 0: as it is as a rule, of which the CPU's
 * subject has little. */
void subject_scratch(struct stream *stream, size_t bytes);

/* From now on kernels run `blocks` of their grid's blocks, from the one at `at` on (0: the first,
 * 1: so that they are the last); 0: all of them.  A GPU always runs all. */
void subject_sample(double at, uint64_t blocks);

#endif
