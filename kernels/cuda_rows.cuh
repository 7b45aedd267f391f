/* What all GPU kernels share: rows that are cut into pieces for groups of lanes, and loads and
 * stores of 16 bytes whose elements are computed in f32. */
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

/* DEEP: 16-byte loads that each lane has in flight; the memory reaches its full speed only with
 * several.  BLOCKS: thread blocks that a multiprocessor must hold.  Without this limit the compiler
 * loads one by one, to save registers so that more blocks fit. */
enum { THREADS = 256, BLOCKS = 2, WARP = 32, WARPS = THREADS / WARP, DEEP = 4, WIDE_BYTES = 16 };
static const unsigned all_lanes = 0xffffffffu;

/* ---- Rows in pieces */

/* `rows` rows of `units` units, cut into `count` pieces, `per_row` of each row.  A unit is what one
 * access moves.  2^lanes_log2 neighbouring lanes process one
 * piece, each up to DEEP units of one row.  So several short rows share a warp, and several warps
 * share a long row. */
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

/* The number of blocks for so many threads.  Kernels loop, so a grid that is limited still does all
 * work. */
static inline uint64_t blocks_for(uint64_t threads)
{
    uint64_t blocks = (threads + THREADS - 1) / THREADS;

    return blocks < (1u << 30) ? blocks : 1u << 30;
}

static inline uint64_t piece_blocks(const struct pieces &p)
{
    return blocks_for(p.count << p.lanes_log2);
}

/* Calls body(row, unit0, step) for each of the lane's pieces.  The lane's units of this row are
 * unit0, unit0 + step, ... below units, at most DEEP.  Only the first `blocks` blocks of the grid
 * take part. */
template <class Body>
DEVICE void each_piece(const struct pieces &p, uint64_t blocks, const Body &body)
{
    uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t piece_step = blocks * THREADS >> p.lanes_log2;
    uint32_t lanes = 1u << p.lanes_log2;

    for (uint64_t piece = thread >> p.lanes_log2; piece < p.count; piece += piece_step) {
        uint64_t row = p.per_row == 1 ? piece : piece / p.per_row;
        uint64_t unit0 =
            ((piece - row * p.per_row) * DEEP << p.lanes_log2) + (thread & (lanes - 1));

        body(row, unit0, lanes);
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

/* Two neighbouring elements, which one instruction rounds together. */
template <class T> struct pair {
    T first, second;
};

template <class T> DEVICE pair<T> narrow_two(float first, float second)
{
    return { narrow<T>(first), narrow<T>(second) };
}
template <> __device__ __forceinline__ pair<__half> narrow_two<__half>(float first, float second)
{
    __half2 two = __floats2half2_rn(first, second);

    return { __low2half(two), __high2half(two) };
}
template <>
__device__ __forceinline__ pair<__nv_bfloat16> narrow_two<__nv_bfloat16>(float first, float second)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(first, second);

    return { __low2bfloat16(two), __high2bfloat16(two) };
}

/* N neighbouring elements as in memory: one element, or a multiple of 16 bytes at an address that
 * is a multiple of 16. */
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
        pair<T> two[N / 2];

#pragma unroll
        for (int i = 0; i < N / 2; i++)
            two[i] = narrow_two<T>(values[2 * i], values[2 * i + 1]);
        memcpy(p.word, two, sizeof(two));
        return p;
    }
    /* Uses a call that stores 16 bytes.  The compiler splits a plain assignment into four stores
     * where the parts are in four places. */
    __device__ __forceinline__ void store(T *to) const
    {
#pragma unroll
        for (int w = 0; w < words; w++)
            __stcg(reinterpret_cast<uint4 *>(to) + w, word[w]);
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

/* Loads units unit0, unit0 + step, ... of a row with at least one unit.  Past the end it loads the
 * last unit again, which the caller ignores: the compiler keeps loads together only without
 * conditions.  A kernel loads all its units before it stores any; the compiler cannot reorder them
 * where pointers could be equal. */
template <class T, int N, int COUNT>
DEVICE void load_units(const T *row, uint64_t unit0, uint64_t step, uint64_t units,
                       pack<T, N> (&to)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        uint64_t unit = unit0 + i * step;

        to[i] = pack<T, N>::load(row + min(unit, units - 1) * N);
    }
}

/* Adds scale times the units that load_units() loads to sum; the sums past the end are not stored.
 */
template <class T, int N, int COUNT>
DEVICE void add_units(const T *row, uint64_t unit0, uint64_t step, uint64_t units, float scale,
                      float (&sum)[COUNT][N])
{
    pack<T, N> in[COUNT];

    load_units(row, unit0, step, units, in);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float x[N];

        in[i].values(x);
#pragma unroll
        for (int n = 0; n < N; n++)
            sum[i][n] += scale * x[n];
    }
}

/* ---- Owners of rows */

/* Finds the owner (expert) of a row: the last of `count` whose rows begin at or before it.  Owner i
 * begins at row starts[i]; starts NULL: at row i * rows. */
DEVICE uint64_t owner_of(const uint64_t *starts, uint64_t count, uint64_t rows, uint64_t row)
{
    uint64_t low = 0, high = count;

    if (!starts)
        return row / rows;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;

        if (starts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

DEVICE uint64_t first_row_of(const uint64_t *starts, uint64_t rows, uint64_t owner)
{
    return starts ? starts[owner] : owner * rows;
}

DEVICE float warp_sum(float x)
{
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2)
        x += __shfl_xor_sync(all_lanes, x, lane);
    return x;
}

/* The sum over this lane and the lanes before it. */
template <class T> DEVICE T warp_running_sum(T x)
{
#pragma unroll
    for (uint32_t by = 1; by < WARP; by *= 2) {
        T lower = __shfl_up_sync(all_lanes, x, by);

        x += threadIdx.x % WARP >= by ? lower : 0;
    }
    return x;
}

/* ---- Choosing an instance of a kernel */

/* Number of elements in a wide access: 16 bytes of this type. */
static inline uint32_t wide_elements(uint32_t dtype)
{
    return dtype == MOE_F32 ? 4 : 8;
}

static inline bool aligned(const void *memory)
{
    return (uintptr_t)memory % WIDE_BYTES == 0;
}

/* Calls function<element type, elements per access>(...).  `wide`: all rows allow accesses of 16
 * bytes. */
#define BY_TYPE(function, dtype, wide, ...)                                                        \
    ((dtype) == MOE_F32                                                                            \
         ? ((wide) ? function<float, 4>(__VA_ARGS__) : function<float, 1>(__VA_ARGS__))            \
         : ((dtype) == MOE_F16                                                                     \
                ? ((wide) ? function<__half, 8>(__VA_ARGS__) : function<__half, 1>(__VA_ARGS__))   \
                : ((wide) ? function<__nv_bfloat16, 8>(__VA_ARGS__)                                \
                          : function<__nv_bfloat16, 1>(__VA_ARGS__))))

#endif
