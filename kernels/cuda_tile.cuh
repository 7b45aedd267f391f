/* One tile of a matrix product, which a block of threads computes: sums of a(m,k) b(n,k) over k.
 * The kernels of experts without padding use it.
 *
 * Both factors are lines of a matrix, gathered or in order.  They are copied to shared memory in
 * slabs of k, AHEAD slabs before they are multiplied.  A factor has one of two layouts.  ALONG: a
 * line is one m (or n), and k runs along it.  Across: a line is one k.  Without WIDE, rows do not
 * allow accesses of 16 bytes, and elements are copied one by one.  Tensor cores multiply 16-bit
 * numbers; sums are f32. */
#ifndef CUDA_TILE_CUH
#define CUDA_TILE_CUH

#include "cuda_rows.cuh"

/* SLAB_BYTES: of each line in a slab.  SLABS: slabs in shared memory.  ROWS_EACH: rows of a thread.
 */
enum { TILE_ROWS = 128, SLAB_BYTES = 64, AHEAD = 2, SLABS = AHEAD + 1, ROWS_EACH = 8 };

template <class T> struct tile {
    static constexpr int columns = sizeof(T) == sizeof(float) ? 64 : 128;
    static constexpr int depth = SLAB_BYTES / (int)sizeof(T); /* of a slab, in k */
    static constexpr int chunk = WIDE_BYTES / (int)sizeof(T); /* elements of 16 bytes */
    /* Sizes in shared memory, in units of 16 bytes: lines of a, then lines of b. */
    static constexpr int slab_a = TILE_ROWS * SLAB_BYTES / WIDE_BYTES;
    static constexpr int slab_words = (TILE_ROWS + columns) * SLAB_BYTES / WIDE_BYTES;
    static constexpr int words = SLABS * slab_words;
};

/* Where 16 bytes of a line lie in a slab.  The order is permuted, so that lanes that read a column
 * use all banks of shared memory. */
template <class T, bool ALONG, int EXTENT> struct place {
    static constexpr int width = ALONG ? SLAB_BYTES / WIDE_BYTES : EXTENT / tile<T>::chunk;

    DEVICE int of(int line, int chunk)
    {
        return line * width + (chunk ^ (ALONG ? ((line >> 1) ^ (line >> 3)) & 3 : line & 7));
    }
};

/* The lines of a matrix.  Gathered, line i is line choice[i] / top_k in memory; there are fewer
 * than 2^32 choices. */
template <class T> struct lines {
    const T *base;
    uint32_t stride;
    const int64_t *choice;
    uint32_t top_k;
};

/* The part of these lines in a tile: `count` lines from `first` on, and of each `left` elements
 * from `from` on. */
struct window {
    uint64_t first;
    uint32_t count, from, left;
};

template <class T> DEVICE void copy_one_by_one(uint4 *to, const T *from, uint32_t left)
{
    T element[tile<T>::chunk];

#pragma unroll
    for (int i = 0; i < tile<T>::chunk; i++)
        element[i] = (uint32_t)i < left ? from[i] : narrow<T>(0);
    memcpy(to, element, sizeof(element));
}

/* Copies 16 bytes, of which `left` elements exist if the line does.  Elements that do not exist
 * become zero, and are not read. */
template <class T, bool WIDE>
DEVICE void copy_piece(uint4 *to, const T *from, bool is_line, uint32_t left)
{
    if (WIDE)
        copy_async(to, from, is_line);
    else
        copy_one_by_one(to, from, is_line ? left : 0);
}

/* The pieces of 16 bytes that a thread copies of a slab. */
template <class T, bool ALONG, int EXTENT> struct piece {
    typedef place<T, ALONG, EXTENT> at;
    static constexpr int each = EXTENT * SLAB_BYTES / WIDE_BYTES / THREADS;

    DEVICE uint32_t line(int i)
    {
        return (threadIdx.x + i * THREADS) / at::width;
    }
    DEVICE uint32_t column(int i)
    {
        return chunk(i) * tile<T>::chunk;
    }
    DEVICE uint32_t chunk(int i)
    {
        return (threadIdx.x + i * THREADS) % at::width;
    }
    DEVICE int word(int i)
    {
        return at::of((int)line(i), (int)chunk(i));
    }
};

/* Copies one factor to shared memory, slab by slab. */
template <class T, bool WIDE, bool ALONG, bool GATHERED, int EXTENT> struct feed;

/* ALONG: all slabs have the same lines. */
template <class T, bool WIDE, bool GATHERED, int EXTENT>
struct feed<T, WIDE, true, GATHERED, EXTENT> {
    typedef piece<T, true, EXTENT> mine;
    const T *start[mine::each];
    uint32_t count, left;

    __device__ __forceinline__ feed(const struct lines<T> &matrix, const struct window &w)
        : count(w.count), left(w.left)
    {
#pragma unroll
        for (int i = 0; i < mine::each; i++) {
            uint64_t line = w.first + (mine::line(i) < count ? mine::line(i) : 0);

            if (GATHERED)
                line = (uint32_t)matrix.choice[line] / matrix.top_k;
            start[i] = matrix.base + line * matrix.stride + w.from + mine::column(i);
        }
    }
    __device__ __forceinline__ void fetch(uint32_t slab, uint4 *to)
    {
#pragma unroll
        for (int i = 0; i < mine::each; i++) {
            uint32_t slab_first = slab * tile<T>::depth, column = slab_first + mine::column(i);

            copy_piece<T, WIDE>(to + mine::word(i), start[i] + slab_first,
                                mine::line(i) < count && column < left, left - column);
        }
    }
};

/* Across, in order: each slab has other lines. */
template <class T, bool WIDE, int EXTENT> struct feed<T, WIDE, false, false, EXTENT> {
    typedef piece<T, false, EXTENT> mine;
    const T *start;
    uint32_t stride, count, left;

    __device__ __forceinline__ feed(const struct lines<T> &matrix, const struct window &w)
        : start(matrix.base + w.first * matrix.stride + w.from), stride(matrix.stride),
          count(w.count), left(w.left)
    {
    }
    __device__ __forceinline__ void fetch(uint32_t slab, uint4 *to)
    {
#pragma unroll
        for (int i = 0; i < mine::each; i++) {
            uint32_t line = slab * tile<T>::depth + mine::line(i), column = mine::column(i);

            copy_piece<T, WIDE>(to + mine::word(i), start + (uint64_t)line * stride + column,
                                line < count && column < left, left - column);
        }
    }
};

/* Across, gathered: it reads the line numbers of a slab one slab before. */
template <class T, bool WIDE, int EXTENT> struct feed<T, WIDE, false, true, EXTENT> {
    typedef piece<T, false, EXTENT> mine;
    const T *start;
    const int64_t *choice;
    uint32_t stride, top_k, count, left;
    uint32_t next[mine::each];

    __device__ __forceinline__ feed(const struct lines<T> &matrix, const struct window &w)
        : start(matrix.base + w.from), choice(matrix.choice + w.first), stride(matrix.stride),
          top_k(matrix.top_k), count(w.count), left(w.left)
    {
        read_choices(0);
    }
    __device__ __forceinline__ void read_choices(uint32_t slab)
    {
#pragma unroll
        for (int i = 0; i < mine::each; i++) {
            uint32_t line = slab * tile<T>::depth + mine::line(i);

            next[i] = count ? (uint32_t)choice[min(line, count - 1)] : 0;
        }
    }
    __device__ __forceinline__ void fetch(uint32_t slab, uint4 *to)
    {
#pragma unroll
        for (int i = 0; i < mine::each; i++) {
            uint32_t line = slab * tile<T>::depth + mine::line(i), column = mine::column(i);
            const T *from = start + (uint64_t)(next[i] / top_k) * stride + column;

            copy_piece<T, WIDE>(to + mine::word(i), from, line < count && column < left,
                                left - column);
        }
        read_choices(slab + 1);
    }
};

/* The gates by which lines of k are multiplied, one in each lane.  It reads them two slabs before
 * they are used, because the address of a gate must be read first. */
template <class T, bool WEIGHED> struct weights {
    const int64_t *choice;
    const float *gate;
    uint32_t count, next_choice;
    float now, next;

    __device__ __forceinline__ weights(const int64_t *choices, const float *gates, uint32_t n)
        : choice(choices), gate(gates), count(n), next_choice(0), now(1), next(1)
    {
        if (!WEIGHED || !count)
            return;
        read_choices(0);
        step(1);
        step(2);
    }
    __device__ __forceinline__ void read_choices(uint32_t slab)
    {
        next_choice = (uint32_t)choice[min(slab * tile<T>::depth + threadIdx.x % WARP, count - 1)];
    }
    /* From now on of() gives the gates of slab `read` - 2; reads the choices of slab `read`. */
    __device__ __forceinline__ void step(uint32_t read)
    {
        if (!WEIGHED)
            return;
        now = next;
        next = gate[next_choice];
        read_choices(read);
    }
    __device__ __forceinline__ float of(int k) const
    {
        return WEIGHED ? __shfl_sync(all_lanes, now, k) : 1;
    }
};

/* ---- The sums of a thread: ROWS_EACH rows of a tile, and of each row some columns.  each_in_row()
 * calls body(first column, values) with neighbouring columns. */

/* Sums by tensor cores: a warp has 64 rows and 32 columns. */
template <class T, bool A_ALONG, bool B_ALONG> struct sums {
    static constexpr int lanes = 4, column_warps = 4; /* lanes and warps that share a row */
    typedef place<T, A_ALONG, TILE_ROWS> at_a;
    typedef place<T, B_ALONG, tile<T>::columns> at_b;
    float c[4][4][4] = {}; /* (16 rows, 8 columns): the 4 numbers that mma() gives a lane */

    DEVICE int lane()
    {
        return threadIdx.x % WARP;
    }
    DEVICE int column_warp()
    {
        return threadIdx.x / WARP % column_warps;
    }
    DEVICE int first_row()
    {
        return (int)threadIdx.x / WARP / column_warps * 64;
    }
    DEVICE int row(int r)
    {
        return first_row() + r * 8 + lane() / 4;
    }
    /* True where the warp has some of the rows and columns that exist. */
    DEVICE bool used(uint32_t rows, uint32_t columns)
    {
        return (uint32_t)first_row() < rows && (uint32_t)column_warp() * 32 < columns;
    }
    /* Loads 16 rows; each lane gives the address of 8 elements. */
    DEVICE void load_a(const uint4 *a, int i, int k, uint32_t (&to)[4])
    {
        int row0 = first_row() + i * 16;
        int upper = lane() / 8 % 2, half = lane() / 16;

        if (A_ALONG)
            load_matrices<false>(to, a + at_a::of(row0 + upper * 8 + lane() % 8, k / 8 + half));
        else
            load_matrices<true>(to, a + at_a::of(k + half * 8 + lane() % 8, row0 / 8 + upper));
    }
    /* Loads columns 2 j and 2 j + 1 of the tensor cores.  ALONG permutes columns, so that a thread
     * ends with eight neighbouring ones. */
    DEVICE void load_b(const uint4 *b, int j, int k, uint32_t (&to)[4])
    {
        int half = lane() / 8 % 2, r = lane() % 8;

        j = 2 * j + lane() / 16;
        if (B_ALONG)
            load_matrices<false>(
                to, b + at_b::of(column_warp() * 32 + r / 2 * 8 + j * 2 + r % 2, k / 8 + half));
        else
            load_matrices<true>(to, b + at_b::of(k + half * 8 + r, column_warp() * 4 + j));
    }
    DEVICE void weigh(uint32_t &two, float first, float second)
    {
        T x[2];
        pair<T> y;

        memcpy((void *)x, &two, sizeof(x));
        y = narrow_two<T>(widen(x[0]) * first, widen(x[1]) * second);
        memcpy(&two, &y, sizeof(y));
    }
    template <bool WEIGHED>
    DEVICE void weigh_b(const weights<T, WEIGHED> &w, int k, uint32_t (&b)[2][4])
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int lane_k = k + half * 8 + lane() % 4 * 2;
            float first = w.of(lane_k), second = w.of(lane_k + 1);

#pragma unroll
            for (int j = 0; j < 4; j++)
                weigh(b[j / 2][j % 2 * 2 + half], first, second);
        }
    }
    template <bool WEIGHED>
    __device__ __forceinline__ void add(const uint4 *slab, const weights<T, WEIGHED> &w)
    {
#pragma unroll
        for (int k = 0; k < tile<T>::depth; k += 16) {
            uint32_t a[4][4], b[2][4];

#pragma unroll
            for (int i = 0; i < 4; i++)
                load_a(slab, i, k, a[i]);
#pragma unroll
            for (int j = 0; j < 2; j++)
                load_b(slab + tile<T>::slab_a, j, k, b[j]);
            if constexpr (WEIGHED)
                weigh_b(w, k, b);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    mma(T(), c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
    template <class Body> __device__ __forceinline__ void each_in_row(int r, const Body &body)
    {
        constexpr int count = B_ALONG ? 8 : 2; /* neighbouring columns of a lane */
        int column0 = column_warp() * 32 + lane() % 4 * count;

#pragma unroll
        for (int from = 0; from < 8; from += count) {
            float x[count];

#pragma unroll
            for (int n = 0; n < count; n++)
                x[n] = c[r / 2][(from + n) / 2][r % 2 * 2 + n % 2];
            body(column0 + from * 4, x);
        }
    }
};

/* Sums in f32 by 16 times 16 threads, each with 8 rows and 4 columns. */
template <bool A_ALONG, bool B_ALONG> struct sums<float, A_ALONG, B_ALONG> {
    static constexpr int lanes = 16, column_warps = 1;
    typedef place<float, A_ALONG, TILE_ROWS> at_a;
    typedef place<float, B_ALONG, tile<float>::columns> at_b;
    float c[ROWS_EACH][4] = {};

    DEVICE int column_warp()
    {
        return 0;
    }
    DEVICE int across()
    {
        return threadIdx.x % 16;
    }
    DEVICE int down()
    {
        return threadIdx.x / 16;
    }
    DEVICE int row(int r)
    {
        return A_ALONG ? down() + 16 * r : (down() + r / 4 * 16) * 4 + r % 4;
    }
    DEVICE bool used(uint32_t, uint32_t)
    {
        return true;
    }
    DEVICE float4 four(const uint4 *at)
    {
        return *reinterpret_cast<const float4 *>(at);
    }
    /* Loads four k of COUNT lines: lines (or chunks) `mine`, mine + 16, ... */
    template <class AT, bool ALONG, int COUNT>
    DEVICE void load(const uint4 *from, int mine, int k, float (&to)[4][COUNT])
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            float4 x = four(from + (ALONG ? AT::of(mine + 16 * i, k / 4)
                                          : AT::of(k + i % 4, mine + i / 4 * 16)));
            float values[4] = { x.x, x.y, x.z, x.w };

#pragma unroll
            for (int n = 0; n < 4; n++)
                if (ALONG)
                    to[n][i] = values[n];
                else
                    to[i % 4][i / 4 * 4 + n] = values[n];
        }
    }
    template <bool WEIGHED>
    __device__ __forceinline__ void add(const uint4 *slab, const weights<float, WEIGHED> &w)
    {
#pragma unroll 1
        for (int k = 0; k < tile<float>::depth; k += 4) {
            float a[4][ROWS_EACH], b[4][4];

            load<at_a, A_ALONG>(slab, down(), k, a);
            load<at_b, B_ALONG>(slab + tile<float>::slab_a, across(), k, b);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                float weight = w.of(k + n);

#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float x = WEIGHED ? weight * b[n][j] : b[n][j];

#pragma unroll
                    for (int i = 0; i < ROWS_EACH; i++)
                        c[i][j] += a[n][i] * x;
                }
            }
        }
    }
    template <class Body> __device__ __forceinline__ void each_in_row(int r, const Body &body)
    {
        if (B_ALONG) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float x[1] = { c[r][j] };

                body(across() + 16 * j, x);
            }
        } else {
            body(across() * 4, c[r]);
        }
    }
};

/* Adds the product over `depth` values of k to sum, for a tile of which so many rows and columns
 * exist.  Afterwards shared memory may be used again. */
template <class T, class Feed_a, class Feed_b, class Weights, class Sums>
DEVICE void tile_multiply(Feed_a &a, Feed_b &b, Weights &w, uint32_t depth, uint32_t rows,
                          uint32_t columns, uint4 *memory, Sums &sum)
{
    bool used = Sums::used(rows, columns);
    uint32_t slabs = (depth + tile<T>::depth - 1) / tile<T>::depth;
    auto fetch = [&](uint32_t slab) {
        uint4 *to = memory + slab % SLABS * tile<T>::slab_words;

        if (slab < slabs) {
            a.fetch(slab, to);
            b.fetch(slab, to + tile<T>::slab_a);
        }
        copies_commit();
    };

    for (uint32_t slab = 0; slab < AHEAD; slab++)
        fetch(slab);
#pragma unroll 1
    for (uint32_t slab = 0; slab < slabs; slab++) {
        copies_wait<AHEAD - 1>();
        __syncthreads();
        fetch(slab + AHEAD);
        if (used)
            sum.add(memory + slab % SLABS * tile<T>::slab_words, w);
        w.step(slab + 3); /* weights are read ahead, see struct weights */
    }
    __syncthreads();
}

#endif
