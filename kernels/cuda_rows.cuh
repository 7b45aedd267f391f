/* What all kernels share: rows cut into pieces for groups of lanes, and wide loads and stores of
 * elements that are computed in f32. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

extern "C" {
#include "cuda.h"
#include "cuda_kernels.h"
#include "moelookup.h"
}

#include "cuda_launch.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE static __device__ __forceinline__

/* DEEP: wide loads that each lane has in flight, which is what fills the memory's pipes. */
enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, DEEP = 4, WIDE_BYTES = 16 };
static const unsigned all_lanes = 0xffffffffu;

/* ---- Rows in pieces
 *
 * `rows` rows of `units` units.  2^lanes_log2 neighbouring lanes take up to DEEP units each of one
 * row: short rows share a warp, long ones are shared by warps. */
struct pieces {
    uint64_t rows, units, per_row, count;
    int lanes_log2;
};

static inline struct pieces pieces_of(uint64_t rows, uint64_t units)
{
    struct pieces p = { rows, units, 0, 0, 0 };

    while (p.lanes_log2 < 5 && (1u << p.lanes_log2) < units)
        p.lanes_log2++;
    p.per_row = (units + ((uint64_t)DEEP << p.lanes_log2) - 1) / ((uint64_t)DEEP << p.lanes_log2);
    p.count = rows * p.per_row;
    return p;
}

/* Kernels loop, so a grid that is cut short still does everything. */
static inline uint64_t blocks_for(uint64_t threads)
{
    uint64_t blocks = (threads + THREADS - 1) / THREADS;

    return blocks < (1u << 30) ? blocks : 1u << 30;
}

static inline uint64_t piece_blocks(const struct pieces &p)
{
    return blocks_for(p.count << p.lanes_log2);
}

/* Calls body(row, first, step): the lane's units are first, first + step, ... below units, DEEP at
 * most.  `blocks`: those of the grid that take part, from 0 on. */
template <class Body>
DEVICE void each_piece(const struct pieces &p, uint64_t blocks, const Body &body)
{
    uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t step = blocks * THREADS >> p.lanes_log2;
    uint32_t lanes = 1u << p.lanes_log2;

    for (uint64_t i = thread >> p.lanes_log2; i < p.count; i += step) {
        uint64_t row = p.per_row == 1 ? i : i / p.per_row;
        uint64_t first = ((i - row * p.per_row) * DEEP << p.lanes_log2) + (thread & (lanes - 1));

        body(row, first, lanes);
    }
}

/* ---- Elements */

DEVICE float widen(float x)
{
    return x;
}
DEVICE float widen(__half x)
{
    return __half2float(x);
}
DEVICE float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <class T> DEVICE T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ __half narrow<__half>(float x)
{
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* N neighbouring elements as they lie in memory: one, or a multiple of 16 bytes at a multiple of
 * 16. */
template <class T, int N> struct pack {
    static constexpr int words = N * (int)sizeof(T) / WIDE_BYTES;
    uint4 word[words];

    DEVICE pack load(const T *from)
    {
        pack p;

#pragma unroll
        for (int w = 0; w < words; w++)
            p.word[w] = reinterpret_cast<const uint4 *>(from)[w];
        return p;
    }
    DEVICE pack of(const float (&values)[N])
    {
        pack p;
        T element[N];

#pragma unroll
        for (int i = 0; i < N; i++)
            element[i] = narrow<T>(values[i]);
        memcpy(p.word, element, sizeof(element));
        return p;
    }
    __device__ __forceinline__ void store(T *to) const
    {
#pragma unroll
        for (int w = 0; w < words; w++)
            reinterpret_cast<uint4 *>(to)[w] = word[w];
    }
    __device__ __forceinline__ void values(float (&to)[N]) const
    {
        T element[N];

        memcpy(element, word, sizeof(element));
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = widen(element[i]);
    }
};

template <class T> struct pack<T, 1> {
    T element;

    DEVICE pack load(const T *from)
    {
        pack p;

        p.element = *from;
        return p;
    }
    DEVICE pack of(const float (&values)[1])
    {
        pack p;

        p.element = narrow<T>(values[0]);
        return p;
    }
    __device__ __forceinline__ void store(T *to) const
    {
        *to = element;
    }
    __device__ __forceinline__ void values(float (&to)[1]) const
    {
        to[0] = widen(element);
    }
};

template <class T, int N> DEVICE void load(const T *from, float (&to)[N])
{
    pack<T, N>::load(from).values(to);
}

template <class T, int N> DEVICE void store(T *to, const float (&values)[N])
{
    pack<T, N>::of(values).store(to);
}

/* Units first, first + step, ... of a row, of which there are `units`.  A kernel loads all of its
 * units before it stores any: no compiler may do that for it where pointers could be equal. */
template <class T, int N, int COUNT>
DEVICE void load_units(const T *row, uint64_t first, uint64_t step, uint64_t units,
                       pack<T, N> (&to)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (first + i * step < units)
            to[i] = pack<T, N>::load(row + (first + i * step) * N);
}

DEVICE float warp_sum(float x)
{
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2)
        x += __shfl_xor_sync(all_lanes, x, lane);
    return x;
}

/* ---- Which instance of a kernel */

/* Elements in 16 bytes of the narrower type. */
static inline uint32_t wide_elements(uint32_t dtype)
{
    return dtype == MOE_F32 ? 4 : 8;
}

static inline bool aligned(const void *memory)
{
    return (uintptr_t)memory % WIDE_BYTES == 0;
}

/* function<element type, elements per access>(...); `wide`: 16 bytes fit everywhere. */
#define BY_TYPE(function, dtype, wide, ...)                                                        \
    ((dtype) == MOE_F32                                                                            \
         ? ((wide) ? function<float, 4>(__VA_ARGS__) : function<float, 1>(__VA_ARGS__))            \
         : ((dtype) == MOE_F16                                                                     \
                ? ((wide) ? function<__half, 8>(__VA_ARGS__) : function<__half, 1>(__VA_ARGS__))   \
                : ((wide) ? function<__nv_bfloat16, 8>(__VA_ARGS__)                                \
                          : function<__nv_bfloat16, 1>(__VA_ARGS__))))

#endif
