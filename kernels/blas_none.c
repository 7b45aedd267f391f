/* Products of matrices for builds without a BLAS: for checks of results, not for measuring. */
#include "blas.h"

#include <stddef.h>

void blas_product(const struct gemm *g, const float *a, const float *b, float *c)
{
    size_t row_b = g->row_b ? g->row_b : (g->transpose_b ? g->k : g->n);
    size_t row_c = g->row_c ? g->row_c : g->n;

    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            float sum = 0;

            for (size_t l = 0; l < g->k; l++)
                sum += a[g->transpose_a ? l * g->m + i : i * g->k + l] *
                       b[g->transpose_b ? j * row_b + l : l * row_b + j];
            c[i * row_c + j] = g->keep ? c[i * row_c + j] + sum : sum;
        }
}

const char *blas_version(void)
{
    return NULL;
}

const char *blas_core(void)
{
    return NULL;
}

void blas_stay_in_thread(void)
{
}
