/* Products without a BLAS: for checks, not for measuring. */
#include "blas.h"

#include <stddef.h>

void blas_product(const struct gemm *g, const float *a, const float *b, float *c)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            float sum = 0;

            for (size_t l = 0; l < g->k; l++)
                sum += a[g->transpose_a ? l * g->m + i : i * g->k + l] *
                       b[g->transpose_b ? j * g->k + l : l * g->n + j];
            c[i * g->n + j] = g->keep ? c[i * g->n + j] + sum : sum;
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
