/* The modelled device of a cluster: how long its kernels take, how noisy they are, and how much
 * memory it has.
 *
 * A kernel takes launch_us, and then the time of its bytes at memory_gbs.  A product takes the
 * longer of that and the time of its operations, at gemm_gflops * s / (s + gemm_half_rows).  s is
 * the smallest of m, n and k: mostly the rows, which in a weight's gradient are k.  Experts without
 * padding compute kept_rows.expected rows, or the rows of a balanced load. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "device.h"

struct cluster;

/* Opens the device of a cluster that passed cluster_check_model().  The cluster need not outlive
 * the call. */
int sim_model_open(const struct cluster *cluster, uint64_t seed, struct device **out);

/* Bytes that a kernel reads and writes; an argument that is read twice counts twice. */
double kernel_bytes(enum kernel kernel, const void *args);

#endif
