/* Products of matrices for the host's kernels.  OpenBLAS computes them (blas_openblas.c); a build
 * without it uses plain loops (blas_none.c), whose results are right but which are too slow to
 * measure with. */
#ifndef BLAS_H
#define BLAS_H

#include "kernels.h"

/* Computes one product of a batch in f32: C = A B, or C += A B with `keep`.  k > 0. */
void blas_product(const struct gemm *gemm, const float *a, const float *b, float *c);

/* OpenBLAS's description of itself, "OpenBLAS 0.3.21 ..."; NULL: a build without OpenBLAS. */
const char *blas_version(void);

/* The processor for which OpenBLAS has chosen its kernels; NULL: a build without OpenBLAS. */
const char *blas_core(void);

/* Makes OpenBLAS compute each product in the calling thread only. */
void blas_stay_in_thread(void);

#endif
