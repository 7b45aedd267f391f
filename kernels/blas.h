/* Products of matrices for the host's kernels: OpenBLAS (blas_openblas.c), or plain loops where the
 * build found none (blas_none.c), which are right and so slow that nothing is measured with them.
 */
#ifndef BLAS_H
#define BLAS_H

#include "kernels.h"

/* One product of a batch, in f32: C = A B, or C += A B where `keep` says so.  k > 0. */
void blas_product(const struct gemm *gemm, const float *a, const float *b, float *c);

/* "OpenBLAS 0.3.21 ...", as it describes itself; NULL: there is none. */
const char *blas_version(void);

/* The processor whose kernels it chose; NULL: there is none. */
const char *blas_core(void);

/* Products are computed by the thread that asks for them. */
void blas_stay_in_thread(void);

#endif
