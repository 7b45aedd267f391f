/* Experts without padding: functions that cuda_esmm.cu, cuda_estmm.cu and cuda_tokens.cu share. */
#ifndef CUDA_SPARSE_CUH
#define CUDA_SPARSE_CUH

#include "cuda_tile.cuh"

/* ---- Loads and stores of C neighbouring elements of a row, of which `left` exist.  WIDE: rows
 * allow accesses of 16 bytes. */

/* Two elements for one access. */
template <class T> struct alignas(2 * sizeof(T)) two {
    T first, second;
};

template <bool WIDE, class T, int C>
DEVICE void load_some(const T *from, uint64_t left, float (&to)[C])
{
    if constexpr (WIDE && C > 1 && C * sizeof(T) % WIDE_BYTES == 0) {
        load(from, to);
    } else if constexpr (WIDE && C == 2) {
        two<T> x = *reinterpret_cast<const two<T> *>(from);

        to[0] = widen(x.first);
        to[1] = widen(x.second);
    } else {
#pragma unroll
        for (int i = 0; i < C; i++)
            to[i] = (uint64_t)i < left ? widen(from[i]) : 0;
    }
}

template <bool WIDE, class T, int C>
DEVICE void store_some(T *to, uint64_t left, const float (&values)[C])
{
    if constexpr (WIDE && C > 1 && C * sizeof(T) % WIDE_BYTES == 0) {
        store(to, values);
    } else if constexpr (WIDE && C == 2) {
        pair<T> x = narrow_two<T>(values[0], values[1]);

        *reinterpret_cast<two<T> *>(to) = { x.first, x.second };
    } else {
#pragma unroll
        for (int i = 0; i < C; i++)
            if ((uint64_t)i < left)
                to[i] = narrow<T>(values[i]);
    }
}

/* ---- The factors of a tile: the tokens of kept choices, or rows in order */

template <class T> DEVICE lines<T> tokens_of(const struct kept_rows &at, const void *tokens)
{
    return { (const T *)tokens, at.width, at.choice, at.top_k };
}

template <class T> DEVICE lines<T> rows_of(const void *rows, uint64_t stride)
{
    return { (const T *)rows, (uint32_t)stride, NULL, 1 };
}

template <class T> static inline uint32_t tiles_across(uint32_t columns)
{
    return columns / tile<T>::columns + (columns % tile<T>::columns != 0);
}

/* ---- Checks of a call's arguments */

/* True where all rows allow accesses of 16 bytes. */
static inline bool wide_rows(const struct kept_rows &at)
{
    uint32_t n = wide_elements(at.dtype);

    return at.hidden % n == 0 && at.width % n == 0 && at.unit_stride % n == 0 &&
           at.expert_stride % n == 0;
}

/* Checks what the kernels assume: both factors have one type, and choices are 32-bit numbers. */
static inline int check_rows(const struct kept_rows &at)
{
    bool fits = (uint64_t)at.tokens * at.top_k <= UINT32_MAX && at.unit_stride <= UINT32_MAX;

    if (at.token_type != at.dtype)
        return cuda_check(cudaErrorInvalidValue, "tokens of another type than their experts");
    return cuda_check(fits ? cudaSuccess : cudaErrorInvalidValue,
                      "2^32 choices, or a stride as long");
}

/* Replaces strides of 0 by their defaults, because kernels use them as they are. */
static inline struct kept_rows strided(struct kept_rows at)
{
    at.expert_stride = kept_expert_stride(&at);
    at.unit_stride = kept_unit_stride(&at);
    return at;
}

/* The results of ESMM_TOKENS: a matrix (kept_rows_limit(), columns) of dtype, with the columns of D
 * from `column` on. */
struct results {
    void *at;
    uint32_t columns, column;
};

/* Adds up each token's results in so many columns (cuda_tokens.cu).  For `wide` see BY_TYPE. */
cudaError_t add_results(const struct esmm *m, const struct results *r, uint32_t columns, bool wide,
                        cudaStream_t stream);

#endif
