/* Products of matrices by OpenBLAS, for the host's kernels. */
#include "blas.h"

#include <cblas.h>

/* Some versions of cblas.h do not declare these. */
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);

void blas_product(const struct gemm *g, const float *a, const float *b, float *c)
{
    blasint m = (blasint)g->m, n = (blasint)g->n, k = (blasint)g->k;
    blasint row_b = g->row_b ? (blasint)g->row_b : (g->transpose_b ? k : n);

    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a,
                g->transpose_a ? m : k, b, row_b, g->keep ? 1.0f : 0.0f, c,
                g->row_c ? (blasint)g->row_c : n);
}

const char *blas_version(void)
{
    return openblas_get_config();
}

const char *blas_core(void)
{
    return openblas_get_corename();
}

void blas_stay_in_thread(void)
{
    openblas_set_num_threads(1);
}
