/* The one product that the host kernels ask of BLAS, for machines without OpenBLAS: plain loops,
 * for checks, not for measuring. */
#ifndef CBLAS_H
#define CBLAS_H

typedef int blasint;
enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };

static inline void openblas_set_num_threads(int count)
{
    (void)count;
}

static inline void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta,
                               enum CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k,
                               float alpha, const float *a, blasint lda, const float *b,
                               blasint ldb, float beta, float *c, blasint ldc)
{
    (void)order;
    for (blasint i = 0; i < m; i++)
        for (blasint j = 0; j < n; j++) {
            float *to = c + (long)i * ldc + j, sum = 0;

            for (blasint l = 0; l < k; l++)
                sum += (ta == CblasTrans ? a[(long)l * lda + i] : a[(long)i * lda + l]) *
                       (tb == CblasTrans ? b[(long)j * ldb + l] : b[(long)l * ldb + j]);
            *to = alpha * sum + (beta == 0 ? 0 : beta * *to);
        }
}

#endif
