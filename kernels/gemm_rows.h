/* Splits a gemm_rows into products of single experts, for devices without a grouped product. */
#ifndef GEMM_ROWS_H
#define GEMM_ROWS_H

#include "kernels.h"

/* The product of expert i; m or k is 0 where it has no rows. */
static inline struct gemm gemm_of_rows(const struct gemm_rows *g, uint32_t i)
{
    uint64_t before = g->first[i], rows = g->first[i + 1] - before;
    uint64_t width = dtype_bytes(g->dtype), matrix = i * g->n * g->k * width;
    uint64_t of_b = g->sums ? before * g->n * width : matrix;
    uint64_t of_c = g->sums ? matrix : before * g->n * width;

    return (struct gemm){ .dtype = g->dtype,
                          .transpose_a = g->sums,
                          .transpose_b = g->transpose_b,
                          .keep = g->keep,
                          .batch = 1,
                          .m = g->sums ? g->k : rows,
                          .n = g->n,
                          .k = g->sums ? rows : g->k,
                          .a = (const char *)g->a + before * g->k * width,
                          .b = (const char *)g->b + of_b,
                          .c = (char *)g->c + of_c };
}

#endif
