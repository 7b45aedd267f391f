/* Splits a gemm_rows into products of single experts, for devices without a grouped product. */
#ifndef GEMM_ROWS_H
#define GEMM_ROWS_H

#include "kernels.h"

/* The product of expert i; m or k is 0 where it has no rows. */
static inline struct gemm gemm_of_rows(const struct gemm_rows *g, uint32_t i)
{
    uint64_t row0 = g->first[i], rows = g->first[i + 1] - row0;
    uint64_t element_bytes = dtype_bytes(g->dtype), matrix_offset = i * g->n * g->k * element_bytes;
    uint64_t b_offset = g->sums ? row0 * g->n * element_bytes : matrix_offset;
    uint64_t c_offset = g->sums ? matrix_offset : row0 * g->n * element_bytes;

    return (struct gemm){ .dtype = g->dtype,
                          .transpose_a = g->sums,
                          .transpose_b = g->transpose_b,
                          .keep = g->keep,
                          .batch = 1,
                          .m = g->sums ? g->k : rows,
                          .n = g->n,
                          .k = g->sums ? rows : g->k,
                          .a = (const char *)g->a + row0 * g->k * element_bytes,
                          .b = (const char *)g->b + b_offset,
                          .c = (char *)g->c + c_offset };
}

#endif
