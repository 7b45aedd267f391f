/* The modelled device of a cluster: what its kernels cost, how much they vary, what memory it has.
 *
 * A kernel takes launch_us and then as long as its bytes at memory_gbs; a product as long as its
 * operations or its bytes, whichever is slower.  Products run at gemm_gflops * s / (s +
 * gemm_half_rows), where s is the smallest of m, n and k: mostly the rows, which in a weight's
 * gradient are k.  Experts without padding compute the rows that are said to be kept, or as many as
 * balanced routing gives. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "device.h"

struct cluster;

/* The cluster must have passed cluster_check_model(); it is not kept. */
int sim_model_open(const struct cluster *cluster, uint64_t seed, struct device **out);

/* Bytes that a kernel reads and writes: each argument once for every time it is needed. */
double kernel_bytes(enum kernel kernel, const void *args);

#endif
