/* Experts without padding on a GPU: the kernels estmm, ess and esfk, for gradients of matrices and
 * of biases. */
#include "cuda_sparse.cuh"

/* ---- estmm: a block computes one tile of an expert's gradient (H,D), `down` by `across` tiles */

template <class T, bool WIDE, bool WEIGHED>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    estmm_kernel(struct estmm m, uint32_t down, uint32_t across)
{
    SHARED(uint4, memory, tile<T>::words);
    uint32_t column0 = blockIdx.x % across * tile<T>::columns;
    uint32_t line0 = blockIdx.x / across % down * TILE_ROWS;
    uint64_t expert = blockIdx.x / across / down, row0 = (uint64_t)m.at.first[expert];
    uint32_t rows = (uint32_t)((uint64_t)m.at.first[expert + 1] - row0);
    uint32_t hidden = m.at.hidden - line0, width = m.at.width - column0;
    T *grad = (T *)m.grad + expert * m.at.expert_stride + line0 * m.at.unit_stride + column0;
    feed<T, WIDE, false, false, TILE_ROWS> a(rows_of<T>(m.rows, m.at.hidden),
                                             { row0, rows, line0, hidden });
    feed<T, WIDE, false, true, tile<T>::columns> b(tokens_of<T>(m.at, m.tokens),
                                                   { row0, rows, column0, width });
    weights<T, WEIGHED> weights(m.at.choice + row0, m.gate, rows);
    sums<T, false, false> sum;

    tile_multiply<T>(a, b, weights, rows, hidden, width, memory, sum);
#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
        uint32_t h = (uint32_t)sum.row(r);

        sum.each_in_row(r, [&](int d, auto &x) {
            T *to = grad + h * m.at.unit_stride + d;
            constexpr int C = sizeof(x) / sizeof(x[0]);
            float kept[C] = {};

            if (h >= hidden || (uint32_t)d >= width)
                return;
            if (m.keep)
                load_some<WIDE>(to, width - d, kept);
#pragma unroll
            for (int i = 0; i < C; i++)
                x[i] += kept[i];
            store_some<WIDE>(to, width - d, x);
        });
    }
}

template <class T, int N>
static cudaError_t estmm_typed(const struct estmm *m, const struct cuda_queue *queue)
{
    uint32_t down = m->at.hidden / TILE_ROWS + (m->at.hidden % TILE_ROWS != 0);
    uint32_t across = tiles_across<T>(m->at.width);
    uint64_t blocks = (uint64_t)m->at.experts * down * across;

    if (!blocks)
        return cudaSuccess;
    return launch(m->gate ? estmm_kernel<T, N != 1, true> : estmm_kernel<T, N != 1, false>, blocks,
                  THREADS, queue->stream, *m, down, across);
}

/* ---- ess: a block adds up an expert's rows in COLUMN_LANES * N columns, ROW_LANES rows at a time
 */

enum { COLUMN_LANES = 8, ROW_LANES = THREADS / COLUMN_LANES };

/* Adds N columns of rows row0, row0 + ROW_LANES, ... below `last` to sum, times
 * their gates; at most DEEP rows. */
template <class T, int N>
DEVICE void add_rows(const struct ess &s, const struct lines<T> &matrix, uint64_t column,
                     uint64_t row0, uint64_t last, float (&sum)[N])
{
    pack<T, N> in[DEEP];
    float weight[DEEP];

#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        uint64_t row = min(row0 + i * ROW_LANES, last - 1);
        uint64_t line = matrix.choice ? (uint64_t)matrix.choice[row] / matrix.top_k : row;

        weight[i] = matrix.choice && s.gate ? s.gate[matrix.choice[row]] : 1;
        in[i] = pack<T, N>::load(matrix.base + line * matrix.stride + column);
    }
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        float x[N];

        in[i].values(x);
#pragma unroll
        for (int n = 0; n < N; n++)
            sum[n] += row0 + i * ROW_LANES < last ? weight[i] * x[n] : 0;
    }
}

template <class T, int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    ess_kernel(struct ess s, uint64_t width, uint64_t across)
{
    /* shares[n * THREADS + t]: thread t's sum of its n-th column */
    SHARED(float, shares, THREADS *N);
    uint64_t expert = blockIdx.x / across, column0 = blockIdx.x % across * COLUMN_LANES * N;
    uint64_t column = column0 + threadIdx.x % COLUMN_LANES * N;
    uint64_t row = (uint64_t)s.at.first[expert] + threadIdx.x / COLUMN_LANES;
    uint64_t last = (uint64_t)s.at.first[expert + 1];
    struct lines<T> matrix = tokens_of<T>(s.at, s.tokens);
    float sum[N] = {};

    if (s.rows)
        matrix = rows_of<T>(s.rows, s.at.hidden);
    if (column < width)
        for (; row < last; row += DEEP * ROW_LANES)
            add_rows(s, matrix, column, row, last, sum);
#pragma unroll
    for (int n = 0; n < N; n++)
        shares[n * THREADS + threadIdx.x] = sum[n];
    __syncthreads();
    if (threadIdx.x < COLUMN_LANES * N && column0 + threadIdx.x < s.stride) {
        float block_sum = 0;

        for (uint32_t lane = 0; lane < ROW_LANES; lane++)
            block_sum += shares[threadIdx.x % N * THREADS + lane * COLUMN_LANES + threadIdx.x / N];
        T *to = (T *)s.grad + expert * s.stride + column0 + threadIdx.x;

        if (s.keep)
            block_sum += widen(*to);
        *to = narrow<T>(block_sum);
    }
}

template <class T, int N>
static cudaError_t ess_typed(const struct ess *s, const struct cuda_queue *queue)
{
    uint64_t across = (s->stride + COLUMN_LANES * N - 1) / (COLUMN_LANES * N);
    uint64_t blocks = s->at.experts * across;

    if (!blocks)
        return cudaSuccess;
    return launch(ess_kernel<T, N>, blocks, THREADS, queue->stream, *s,
                  (uint64_t)(s->rows ? s->at.hidden : s->at.width), across);
}

/* ---- The kernels */

extern "C" int cuda_estmm(const struct estmm *args, const struct cuda_queue *queue)
{
    struct estmm m = *args;
    bool wide = aligned(m.tokens) && aligned(m.rows) && aligned(m.grad);
    int status;

    m.at = strided(m.at);
    status = check_rows(m.at);
    if (status)
        return status;
    return cuda_check(BY_TYPE(estmm_typed, m.at.dtype, wide && wide_rows(m.at), &m, queue),
                      "estmm");
}

extern "C" int cuda_ess(const struct ess *s, const struct cuda_queue *queue)
{
    bool wide = wide_rows(s->at) && aligned(s->rows ? s->rows : s->tokens);
    int status = check_rows(s->at);

    if (status)
        return status;
    return cuda_check(BY_TYPE(ess_typed, s->at.dtype, wide, s, queue), "ess");
}

/* Makes three calls, because a block has no room for the sums of two products.  In this order, rows
 * are read before their gradients overwrite them. */
extern "C" int cuda_esfk(const struct esfk *f, const struct cuda_queue *queue)
{
    const struct esmm *m = &f->product;
    bool tokens = m->form == ESMM_TOKENS;
    struct estmm matrix = {}; /* zeroed, because its padding is copied to the kernel, too */
    struct ess bias = {};
    int status;

    matrix.at = bias.at = m->at;
    matrix.tokens = bias.tokens = m->tokens;
    matrix.gate = bias.gate = m->gate;
    matrix.rows = tokens ? m->rows : m->post;
    bias.rows = tokens ? m->rows : NULL;
    matrix.grad = f->grad;
    bias.grad = f->grad_bias;
    bias.stride = f->grad_stride;
    matrix.keep = bias.keep = f->keep;
    status = cuda_estmm(&matrix, queue);
    if (!status && f->grad_bias)
        status = cuda_ess(&bias, queue);
    return status ? status : cuda_esmm(m, queue);
}
